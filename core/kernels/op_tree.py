"""Ops and ranges of the CPU: what encloses them and where in the model they belong."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from llmprof.core.kernels import range_names
from llmprof.core.kernels.columns import Bool, EventColumns, Int32, Int64, Kind
from llmprof.core.kernels.nesting import NONE, crossing, nearest, parents
from llmprof.core.kernels.step_windows import Windows

ACCUMULATE = "(gradient accumulation)"
GEMM_OPS = frozenset(
    {
        "aten::mm",
        "aten::bmm",
        "aten::addmm",
        "aten::baddbmm",
        "aten::addbmm",
        "aten::_scaled_mm",
        "aten::_addmm_activation",
        "aten::mv",
        "aten::addmv",
        "mkldnn::_linear_pointwise",
    }
)


@dataclass(frozen=True, eq=False)
class OpTree:
    """Ops and ranges of the CPU: events, their enclosers and where in the model they belong.

    rows are positions in the columns; every other array is indexed like rows and holds
    positions in rows (-1: none). place is the module's label, lens the attention step's.
    is_mark tells ranges from ops, recomputed what backward ran again of a checkpoint. What lies
    in a range that does not nest has neither place, lens nor source: crossings is the number of
    such ranges and ops.
    """

    rows: Int64
    parent: Int64
    depth: Int64
    node: Int64
    forward_op: Int64
    place: Int32
    lens: Int32
    source: Int32
    places: tuple[str, ...]
    lenses: tuple[str, ...]
    sources: tuple[str, ...]
    gemm: Int64
    is_mark: Bool
    recomputed: Bool
    crossings: int


@dataclass(frozen=True, eq=False)
class Nest:
    """The CPU's events, nested by thread: parent and depth are indexed like rows."""

    columns: EventColumns
    rows: Int64
    parent: Int64
    depth: Int64

    @classmethod
    def of(cls, columns: EventColumns) -> Nest:
        """All ops and ranges of a profile."""
        rows = columns.of_kind(Kind.OP, Kind.RANGE)
        return cls(
            columns, rows, *parents(columns.start[rows], columns.end[rows], columns.place[rows])
        )

    def nearest(self, wanted: Bool) -> Int64:
        """The event itself or its nearest encloser that is wanted, -1 for none."""
        return nearest(self.parent, self.depth, wanted, itself=True)

    def labels(self, prefix: str, origin: Int64) -> tuple[Int32, tuple[str, ...]]:
        """The innermost range with this prefix around each origin, as a label without it."""
        encloser = self.nearest(self.columns.named(prefix)[self.rows])
        labels: dict[str, int] = {}
        of_name = np.full(len(self.columns.names), NONE, np.int32)
        for position, name in enumerate(self.columns.names):
            if name.startswith(prefix):
                label = range_names.label_of(name, prefix)
                of_name[position] = labels.setdefault(label, len(labels))
        found = np.full(len(self.rows), NONE, np.int32)
        inside = encloser >= 0
        found[inside] = of_name[self.columns.name[self.rows[encloser[inside]]]]
        return found[origin], tuple(labels)


def build_tree(columns: EventColumns, windows: Windows) -> OpTree:
    """The CPU's ops and ranges, nested and placed in the model."""
    nest = Nest.of(columns)
    rows = nest.rows
    autograd = _autograd(columns, rows)
    node = nest.nearest(autograd)
    forward_op = _forward_ops(columns, rows, autograd, node)
    again = nest.nearest(columns.named(range_names.RECOMPUTE_RANGE)[rows]) >= 0
    origin = np.where((forward_op >= 0) & ~again, forward_op, np.arange(len(rows)))
    place, places = _places(nest, windows, node, origin)
    lens, lenses = nest.labels(range_names.LENS_RANGE, origin)
    source, sources = nest.labels(range_names.SOURCE_RANGE, origin)
    crosses = _crosses(nest, windows)
    if crosses.any():
        lost = (nest.nearest(crosses) >= 0)[origin]
        for labels in (place, lens, source):
            labels[lost] = NONE
    return OpTree(
        rows=rows,
        parent=nest.parent,
        depth=nest.depth,
        node=node,
        forward_op=forward_op,
        place=place,
        lens=lens,
        source=source,
        places=places,
        lenses=lenses,
        sources=sources,
        gemm=nest.nearest(named_in(columns, rows, GEMM_OPS)),
        is_mark=columns.named(range_names.RANGE_PREFIX)[rows] | (columns.kind[rows] == Kind.RANGE),
        recomputed=again,
        crossings=int(crosses.sum()),
    )


def named_in(columns: EventColumns, rows: Int64, wanted: frozenset[str]) -> Bool:
    """Which of these events have one of the names."""
    chosen = np.array([name in wanted for name in columns.names], np.bool_)
    return np.asarray(chosen[columns.name[rows]])


def _crosses(nest: Nest, windows: Windows) -> Bool:
    """Events that outlast what they began in: an op or range, or a module its phase."""
    columns, rows = nest.columns, nest.rows
    found = crossing(nest.parent, columns.end[rows])
    modules = np.flatnonzero(columns.named(range_names.MODULE_RANGE)[rows])
    first, last = columns.start[rows[modules]], columns.end[rows[modules]] - 1
    _, begun = windows.place(first)
    _, ended = windows.place(np.maximum(first, last))
    found[modules[(begun >= 0) & (begun != ended)]] = True
    return found


def _autograd(columns: EventColumns, rows: Int64) -> Bool:
    """Autograd's nodes, and the engine's ranges around them, in which gradients are summed."""
    engine = columns.named("autograd::engine::evaluate_function")[rows]
    return np.asarray(engine | (columns.scope[rows] == 1))


def _forward_ops(columns: EventColumns, rows: Int64, autograd: Bool, node: Int64) -> Int64:
    """For ops within an autograd node: the op that made the node, by number and thread.

    Several ops can carry a number, which is drawn when a node is made: the last one made it.
    """
    found = np.full(len(rows), NONE, np.int64)
    sequence, thread = columns.sequence[rows], columns.place[rows]
    makers = np.flatnonzero((sequence >= 0) & (node < 0) & (columns.forward_thread[rows] == 0))
    nodes = np.flatnonzero(autograd & (columns.forward_thread[rows] > 0))
    if not len(makers) or not len(nodes):
        return found
    order = np.lexsort((columns.start[rows[makers]], sequence[makers], thread[makers]))
    makers = makers[order]
    key = _pair(thread[makers], sequence[makers])
    wanted = _pair(columns.forward_thread[rows[nodes]], sequence[nodes])
    at = np.searchsorted(key, wanted, side="right") - 1
    match = (at >= 0) & (key[np.maximum(at, 0)] == wanted)
    maker_of_node = np.full(len(rows), NONE, np.int64)
    maker_of_node[nodes[match]] = makers[at[match]]
    inside = node >= 0
    found[inside] = maker_of_node[node[inside]]
    return found


def _places(
    nest: Nest, windows: Windows, node: Int64, origin: Int64
) -> tuple[Int32, tuple[str, ...]]:
    """The module of each op, or the part of the step where it has none."""
    columns, rows = nest.columns, nest.rows
    own, modules = nest.labels(range_names.MODULE_RANGE, origin)
    labels = (*modules, *(f"({phase})" for phase in windows.phases), ACCUMULATE)
    _, phase = windows.place(columns.start[rows])
    within = np.where(phase >= 0, phase + len(modules), NONE)[origin]
    place = np.where(own >= 0, own, within)
    if len(rows):
        accumulate = np.array(["AccumulateGrad" in name for name in columns.names], np.bool_)
        sums = (node >= 0) & accumulate[columns.name[rows[np.maximum(node, 0)]]]
        place = np.where(sums, len(labels) - 1, place)
    return place.astype(np.int32), labels


def _pair(high: Int64, low: Int64) -> Int64:
    return (high << 40) | low
