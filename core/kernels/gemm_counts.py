"""Matrix products counted by the op that launches them."""

from __future__ import annotations

import numpy as np

from llmprof.core.events.kernel_rows import GemmCount
from llmprof.core.kernels.attribution import Activities
from llmprof.core.kernels.columns import Bool, Int64, Kind
from llmprof.core.spec.case import Case


def expected_gemms(case: Case, phase: str) -> int | None:
    """GEMM ops of one step's phase: 9L + 1 forward (7L + 1 linear, 2L attention), twice that back.

    A backward that runs checkpointed blocks again calls their 9L once more, of which the last of
    each checkpoint launches nothing. All of it once a micro-batch. Holds for the reference model
    run eagerly with naive attention; None elsewhere.
    """
    if case.shape is None or case.compile is not None or case.attention != "naive":
        return None
    blocks = 9 * case.shape.num_layers
    again = 0 if case.blocks_a_checkpoint is None else blocks
    found = {"forward": blocks + 1, "backward": 2 * (blocks + 1) + again}.get(phase, 0)
    return case.accumulate * found


def gemm_counts(activities: Activities, case: Case | None) -> tuple[GemmCount, ...]:
    """GEMM ops of each phase in the measured steps, and the kernels that they launched."""
    tree, windows = activities.tree, activities.windows
    outermost = np.flatnonzero((tree.gemm >= 0) & ~_within_gemm(tree.gemm, tree.parent))
    step, phase = windows.place(activities.columns.start[tree.rows[outermost]])
    launched = activities.of_op(tree.gemm) >= 0
    kernels = launched & (activities.kind == Kind.KERNEL)
    return tuple(
        GemmCount(
            phase=name,
            ops=int(((phase == at) & (step >= 0)).sum()),
            kernels=(
                None
                if activities.source == "cpu"
                else int((kernels & (activities.phase == at)).sum())
            ),
            expected_per_step=None if case is None else expected_gemms(case, name),
            steps=windows.steps,
        )
        for at, name in enumerate(windows.phases)
    )


def _within_gemm(gemm: Int64, parent: Int64) -> Bool:
    inside = np.zeros(len(gemm), np.bool_)
    nested = parent >= 0
    inside[nested] = gemm[parent[nested]] >= 0
    return inside
