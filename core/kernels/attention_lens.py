"""One layer's attention, stage by stage: device time beside FLOPs and bytes."""

from __future__ import annotations

import numpy as np

from llmprof.core.events.kernel_rows import LensRow
from llmprof.core.kernels import range_names
from llmprof.core.kernels.attention_stages import (
    DIRECTIONS,
    QK,
    SCALE_MASK,
    SCORES,
    STAGES,
    stage_work,
)
from llmprof.core.kernels.attribution import Activities
from llmprof.core.kernels.columns import Bool, Int64, Kind
from llmprof.core.kernels.nesting import nearest
from llmprof.core.spec.case import Case

SCALING_OPS = ("aten::div", "aten::mul")  # within the range of the scores: not the product
_US = 1e-3


def lens_rows(activities: Activities, case: Case) -> tuple[LensRow, ...]:
    """Every stage that was marked, forward and backward; empty when none was."""
    steps = activities.windows.steps
    if not steps or not activities.tree.lenses:
        return ()
    stage, backward = _stages(activities)
    cpu = _cpu_us(activities, steps)
    rows = []
    for direction in DIRECTIONS:
        going_back = direction == "backward"
        for name in STAGES.values():
            mine = (stage == _position(name)) & (backward == going_back)
            if not mine.any():
                continue
            flops, moved = stage_work(case, name, direction)
            rows.append(
                LensRow(
                    direction=direction,
                    stage=name,
                    cpu_us=None if going_back else cpu.get(name),
                    device_us=float(activities.busy[mine].sum()) / steps * _US,
                    kernels=float(_kernels(activities, mine)) / steps,
                    flops=flops,
                    bytes=moved,
                )
            )
    return tuple(rows)


def _stages(activities: Activities) -> tuple[Int64, Bool]:
    """Stage of each activity (a position in STAGES' names, -1: none), and whether backward."""
    tree = activities.tree
    label = activities.of_op(tree.lens)
    of_label = np.array([_position(STAGES[text]) for text in tree.lenses], np.int64)
    stage = np.where(label >= 0, of_label[np.maximum(label, 0)], -1)
    scaling = (stage == _position(QK)) & (activities.of_op(_scaled(activities)) >= 0)
    stage[scaling] = _position(SCALE_MASK)
    return stage, activities.of_op(tree.node) >= 0


def _scaled(activities: Activities) -> Int64:
    """For each op, or the forward op of its node: the scaling of scores that it is part of."""
    tree, columns = activities.tree, activities.columns
    scaling = np.array([name in SCALING_OPS for name in columns.names], np.bool_)
    root = nearest(tree.parent, tree.depth, scaling[columns.name[tree.rows]], itself=True)
    origin = np.where(tree.forward_op >= 0, tree.forward_op, np.arange(len(tree.rows)))
    found: Int64 = root[origin]
    return found


def _kernels(activities: Activities, mine: Bool) -> int:
    kind = Kind.OP if activities.source == "cpu" else Kind.KERNEL
    return int((mine & (activities.kind == kind)).sum())


def _cpu_us(activities: Activities, steps: int) -> dict[str, float]:
    """Duration of each stage's range on the CPU, microseconds a step."""
    tree, columns = activities.tree, activities.columns
    step, _ = activities.windows.place(columns.start[tree.rows])
    total = dict.fromkeys(STAGES.values(), 0.0)
    for label in tree.lenses:
        ranges = np.flatnonzero(
            (columns.name[tree.rows] == columns.names.index(range_names.LENS_RANGE + label))
            & (step >= 0)
        )
        whole = float(columns.duration[tree.rows[ranges]].sum())
        scaling = _scaling_ns(activities, ranges) if label == SCORES else 0.0
        total[STAGES[label]] += (whole - scaling) / steps * _US
        total[SCALE_MASK] += scaling / steps * _US
    return total


def _scaling_ns(activities: Activities, ranges: Int64) -> float:
    """Time within the scores' ranges of the ops that scale."""
    tree, columns = activities.tree, activities.columns
    inside = np.flatnonzero(np.isin(tree.parent, ranges))
    names = [columns.names[name] for name in columns.name[tree.rows[inside]]]
    scaling = np.array([name in SCALING_OPS for name in names], np.bool_)
    return float(columns.duration[tree.rows[inside[scaling]]].sum())


def _position(stage: str) -> int:
    return list(STAGES.values()).index(stage)
