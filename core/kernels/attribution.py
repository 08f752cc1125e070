"""Every activity of the device with the step, phase, op and module that launched it.

An activity is joined to its launch by correlation id and takes its step and phase from the
launch's time, whichever thread launched it. It is joined to the op that was innermost at the
launch by the linked id. What an autograd node launches belongs to the module of its forward op,
found by sequence number and forward thread. Without a card the ops are the activities and their
self time is what they took.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from llmprof.core.kernels.columns import Bool, EventColumns, Int32, Int64, Kind
from llmprof.core.kernels.nesting import NONE, self_time
from llmprof.core.kernels.op_tree import OpTree, build_tree, named_in
from llmprof.core.kernels.step_windows import Int16, Windows

ActivitySource = Literal["cuda", "cpu"]
UNATTRIBUTED = "unattributed"
LAUNCHES = frozenset(
    {
        "cudaLaunchKernel",
        "cudaLaunchKernelExC",
        "cudaLaunchCooperativeKernel",
        "cudaLaunchCooperativeKernelMultiDevice",
        "cuLaunchKernel",
        "cuLaunchKernelEx",
        "cuLaunchCooperativeKernel",
    }
)
GRAPH_LAUNCHES = frozenset({"cudaGraphLaunch", "cuGraphLaunch"})


@dataclass(frozen=True, eq=False)
class Activities:
    """What the device did in the measured steps, one row an activity, in order of start.

    event and launch are positions in the columns, op in the tree's rows; -1 is none. busy is
    the time that counts, nanoseconds: the duration, or the self time on the CPU.
    """

    source: ActivitySource
    columns: EventColumns
    tree: OpTree
    windows: Windows
    event: Int64
    busy: Int64
    step: Int16
    phase: Int16
    launch: Int64
    op: Int64
    outside: int  # activities of no measured step
    launches: Int64  # kernel launches of the measured steps, positions in the columns
    launch_step: Int16
    launch_phase: Int16
    barren: int  # of these, launches without a kernel

    def __len__(self) -> int:
        return len(self.event)

    @cached_property
    def start(self) -> Int64:
        """Start times, nanoseconds."""
        return self.columns.start[self.event]

    @cached_property
    def end(self) -> Int64:
        """End times, nanoseconds."""
        return self.columns.end[self.event]

    @cached_property
    def name(self) -> Int32:
        """Positions in the columns' names."""
        return self.columns.name[self.event]

    @cached_property
    def kind(self) -> Int64:
        """Kinds of the events."""
        return self.columns.kind[self.event].astype(np.int64)

    @cached_property
    def op_name(self) -> Int32:
        """Position of the launching op's name in the columns' names, -1 for none or a range."""
        known = self.op >= 0
        known[known] = ~self.tree.is_mark[self.op[known]]
        names = np.full(len(self), NONE, np.int32)
        names[known] = self.columns.name[self.tree.rows[self.op[known]]]
        return names

    def of_op(self, values: Int32 | Int64) -> Int64:
        """An array of the tree, looked up for each activity's op; -1 for none."""
        known = self.op >= 0
        found = np.full(len(self), NONE, np.int64)
        found[known] = values[self.op[known]]
        return found


def attribute(columns: EventColumns, windows: Windows, source: ActivitySource) -> Activities:
    """Activities of the windows' steps with all that is known of their origin."""
    tree = build_tree(columns, windows)
    if source == "cpu":
        return _cpu_activities(columns, windows, tree)
    return _gpu_activities(columns, windows, tree)


def _cpu_activities(columns: EventColumns, windows: Windows, tree: OpTree) -> Activities:
    busy = self_time(tree.parent, columns.duration[tree.rows])
    step, phase = windows.place(columns.start[tree.rows])
    ops = np.flatnonzero(~tree.is_mark)
    kept = ops[step[ops] >= 0]
    kept = kept[np.argsort(columns.start[tree.rows[kept]], kind="stable")]
    none = np.zeros(0, np.int64)
    small = np.zeros(0, np.int16)
    return Activities(
        source="cpu",
        columns=columns,
        tree=tree,
        windows=windows,
        event=tree.rows[kept],
        busy=busy[kept],
        step=step[kept],
        phase=phase[kept],
        launch=np.full(len(kept), NONE, np.int64),
        op=kept,
        outside=len(ops) - len(kept),
        launches=none,
        launch_step=small,
        launch_phase=small,
        barren=0,
    )


def _gpu_activities(columns: EventColumns, windows: Windows, tree: OpTree) -> Activities:
    events = columns.of_kind(Kind.KERNEL, Kind.MEMCPY, Kind.MEMSET)
    events = events[np.argsort(columns.start[events], kind="stable")]
    calls = columns.of_kind(Kind.RUNTIME)
    launch = _join(columns.correlation[events], columns.correlation[calls], calls)
    op = _join(columns.linked[events], columns.correlation[tree.rows], np.arange(len(tree.rows)))
    op[columns.linked[events] <= 0] = NONE
    when = np.where(launch >= 0, columns.start[launch], NONE)
    by_op = (launch < 0) & (op >= 0)
    when[by_op] = columns.start[tree.rows[op[by_op]]]
    step, phase = windows.place(when)
    orphans = when < 0
    step[orphans], _ = windows.place(columns.start[events[orphans]])
    kept = step >= 0
    launches, barren = _launches(columns, calls, events)
    launch_step, launch_phase = windows.place(columns.start[launches])
    measured = launch_step >= 0
    return Activities(
        source="cuda",
        columns=columns,
        tree=tree,
        windows=windows,
        event=events[kept],
        busy=columns.duration[events[kept]],
        step=step[kept],
        phase=phase[kept],
        launch=launch[kept],
        op=op[kept],
        outside=int(len(events) - kept.sum()),
        launches=launches[measured],
        launch_step=launch_step[measured],
        launch_phase=launch_phase[measured],
        barren=int(barren[measured].sum()),
    )


def _launches(columns: EventColumns, calls: Int64, events: Int64) -> tuple[Int64, Bool]:
    """Calls that launch kernels, in order of start, and which of them left no activity."""
    names = LAUNCHES | GRAPH_LAUNCHES
    found = calls[named_in(columns, calls, names)]
    found = found[np.argsort(columns.start[found], kind="stable")]
    barren = ~np.isin(columns.correlation[found], columns.correlation[events])
    return found, barren


def _join(wanted: Int64, keys: Int64, values: Int64) -> Int64:
    """The value whose key is wanted, -1 where there is none."""
    found = np.full(len(wanted), NONE, np.int64)
    if not len(keys):
        return found
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    at = np.minimum(np.searchsorted(ordered, wanted), len(keys) - 1)
    match = ordered[at] == wanted
    found[match] = values[order[at[match]]]
    return found
