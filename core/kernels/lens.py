"""One layer's attention, stage by stage: device time beside FLOPs and bytes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import numpy as np

from llmprof.core.kernels import marks
from llmprof.core.kernels.attribution import Activities
from llmprof.core.kernels.columns import Bool, Int64, Kind
from llmprof.core.kernels.nesting import nearest
from llmprof.core.kernels.rows import LensRow
from llmprof.core.spec import Case

SCORES, MASK, SOFTMAX, VALUES, FUSED = "scores", "masked", "softmax", "values", "fused"
QK, SCALE_MASK, SOFT, AV, WHOLE = "QKᵀ", "scale + mask", "softmax", "AV", "fused attention"
STAGES = {SCORES: QK, MASK: SCALE_MASK, SOFTMAX: SOFT, VALUES: AV, FUSED: WHOLE}
SCALING_OPS = ("aten::div", "aten::mul")  # within the range of the scores: not the product
SOFTMAX_FLOPS = 5  # an element: maximum, subtraction, exponential, sum, division
SOFTMAX_BACKWARD_FLOPS = 4  # an element: product, sum, subtraction, product
_US = 1e-3
Direction = Literal["forward", "backward"]


def lens_rows(activities: Activities, case: Case) -> tuple[LensRow, ...]:
    """Every stage that was marked, forward and backward; empty when none was."""
    steps = activities.windows.steps
    if not steps or not activities.tree.lenses:
        return ()
    stage, backward = _stages(activities)
    cpu = _cpu_us(activities, steps)
    rows = []
    for direction in ("forward", "backward"):
        going_back = direction == "backward"
        for name in STAGES.values():
            mine = (stage == _position(name)) & (backward == going_back)
            if not mine.any():
                continue
            flops, moved = work(case, name, direction)
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


def work(case: Case, stage: str, direction: Direction) -> tuple[float, float]:
    """FLOPs and least bytes of one layer's stage: operands read once, results written once.

    Matrix products take 2mnk FLOPs, and twice that backward. Under autocast tensors have two
    bytes an element except the softmax's result, which is fp32. A fused kernel is counted as
    causal: half the square, 2.5 times the FLOPs backward (it computes the scores again).
    """
    model, e = case.model, 2 if case.precision in ("bf16", "fp16") else 4
    x = case.batch_size * model.num_heads * case.context_length * model.head_dim
    s = case.batch_size * model.num_heads * case.context_length**2
    product = 2.0 * s * model.head_dim
    back = direction == "backward"
    match stage:
        case "QKᵀ" | "AV":
            return (2 * product, (2 * s + 4 * x) * e) if back else (product, (s + 2 * x) * e)
        case "scale + mask":
            return float(s), 4 * s * e + case.context_length**2
        case "softmax":
            if back:
                return float(SOFTMAX_BACKWARD_FLOPS * s), 3 * s * 4
            return float(SOFTMAX_FLOPS * s), s * (e + 4)
        case "fused attention":
            return (2.5 * product, 8 * x * e) if back else (product, 4 * x * e)
    raise ValueError(f"no such stage: {stage}")


def softmax_ratio(rows: Iterable[LensRow], direction: Direction) -> tuple[float, float] | None:
    """Softmax over matrix products: (time ratio, FLOP ratio); None unless both were seen."""
    mine = {row.stage: row for row in rows if row.direction == direction}
    if not {QK, SOFT, AV} <= set(mine):
        return None
    products = mine[QK].device_us + mine[AV].device_us
    if products <= 0:
        return None
    return (
        mine[SOFT].device_us / products,
        mine[SOFT].flops / (mine[QK].flops + mine[AV].flops),
    )


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
            (columns.name[tree.rows] == columns.names.index(marks.LENS + label)) & (step >= 0)
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
