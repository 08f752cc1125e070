"""M39: activation checkpointing and micro-batches: memory, time, and what was predicted."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from llmprof.core.predict.checkpoints import (
    TIE,
    CheckpointPeaks,
    best_blocks,
    checkpoint_peaks,
)
from llmprof.core.predict.closed_form import HOPPER, predict, workspaces
from llmprof.core.predict.flops import forward_flops, recomputed_flops
from llmprof.core.report.case_groups import axes_of, axis_cells, status_word
from llmprof.core.report.prediction_check import error_percent
from llmprof.core.report.sentences import listing, mib, ref, why_not
from llmprof.core.report.table import Cell, Column, Figure, Table
from llmprof.core.spec.axes import BY_FIELD, neutral
from llmprof.core.state.view import CaseState, RunView
from llmprof.core.system.units import MIB

CHECKPOINT = BY_FIELD["checkpoint"]
ACCUMULATE = BY_FIELD["accumulate"]


@dataclass(frozen=True)
class Measured:
    """One configuration as its processes have measured it: timed, recorded, profiled."""

    timed: CaseState | None
    recorded: CaseState | None
    profiled: CaseState | None

    @property
    def states(self) -> list[CaseState]:
        """All of them."""
        return [state for state in (self.timed, self.recorded, self.profiled) if state is not None]

    @property
    def first(self) -> CaseState:
        """The one that stands for the configuration."""
        return self.states[0]

    def peak(self, phase: str) -> int | None:
        """Highest requested bytes within a phase: by the allocator's count, or as recorded."""
        for state in self.states:
            edges = () if state.memory is None else state.memory.edges
            counted = [e.requested_peak_bytes for e in edges if e.phase == phase]
            if counted and counted[0]:
                return counted[0]
        event = None if self.recorded is None else self.recorded.memory_timeline
        peaks = [p.peak_bytes for p in event.phases if p.phase == phase] if event else []
        return max(peaks, default=None)

    @property
    def step_peak(self) -> int | None:
        """Highest requested bytes of a step."""
        known = [self.peak(phase) for phase in self.first.case.phases]
        return max((each for each in known if each is not None), default=None)

    @property
    def saved(self) -> int | None:
        """Bytes that wait for a step's last backward, beside what lies there between steps."""
        event = None if self.recorded is None else self.recorded.memory_timeline
        if event is not None:
            waiting = [p.after_bytes for p in event.phases if p.phase == "loss"]
            return max(waiting, default=0) - sum(event.before.values()) if waiting else None
        if self.timed is None or self.timed.memory is None or not ran_on_card(self.timed):
            return None
        level = {edge.phase: edge.allocated_bytes for edge in self.timed.memory.edges}
        return level["loss"] - level["start"] if "loss" in level else None

    @property
    def recompute_ms(self) -> float | None:
        """Busy time of what a profiled backward ran again."""
        table = None if self.profiled is None else self.profiled.kernels
        return None if table is None else table.recompute_ms


def ran_on_card(state: CaseState) -> bool:
    """Whether a case ran on a CUDA card."""
    return state.environment is not None and state.environment.device.startswith("cuda")


def checkpoint_groups(view: RunView) -> list[list[Measured]]:
    """Configurations that differ in checkpoints and micro-batches alone, where some do.

    Of the reference model, whose memory is predicted beside.
    """
    known = ("timing", "memory", "kernels")
    states = [
        replace(state, environment=state.environment or view.environment)
        for state in view.cases
        if state.case.probe in known and state.case.shape and "backward" in state.case.phases
    ]
    found = []
    by_work: dict[str, dict[str, dict[str, CaseState]]] = {}
    for state in states:
        case = state.case
        own = f"{case.checkpoint} {case.accumulate}"
        by_work.setdefault(_work(state), {}).setdefault(own, {})[case.probe] = state
    for rows in by_work.values():
        if len(rows) > 1:
            found.append([Measured(*(row.get(probe) for probe in known)) for row in rows.values()])
    return found


def _work(state: CaseState) -> str:
    """What tells configurations apart, whatever their probe: every axis but these two."""
    case = neutral(state.case, (CHECKPOINT, ACCUMULATE, BY_FIELD["warmup_steps"]))
    values = [axis.text(axis.of(case)) for axis in BY_FIELD.values()]
    return " ".join((case.model.name, str(case.model), *values))


def checkpointing(view: RunView) -> Table | None:
    """M39: a row for each number of blocks a checkpoint and of micro-batches."""
    groups = checkpoint_groups(view)
    if not groups:
        return None
    states = [row.first for group in groups for row in group]
    axes = axes_of(states, "checkpoint", "accumulate", "warmup_steps")
    capability = _capability(view)
    columns = (
        Column("Model Size", numeric=False),
        *(column for _, column in axes),
        Column("Blocks a checkpoint", numeric=False),
        Column("Micro-batches"),
        Column("Saved for backward", "MiB"),
        Column("Peak of backward", "MiB"),
        Column("Predicted", "MiB"),
        Column("Peak of step", "MiB"),
        Column("Predicted, step", "MiB"),
        Column("Error", "%"),
        Column("Step", "ms"),
        Column("Time change", "%"),
        Column("Backward", "ms"),
        Column("Recompute", "ms"),
        Column("Recompute is", numeric=False),
    )
    rows = tuple(
        (
            row.first.case.model.name,
            *axis_cells(row.first, axes),
            CHECKPOINT.shown(row.first.case.checkpoint),
            row.first.case.accumulate,
            *_memory_cells(row, capability),
            *_time_cells(row, group[0]),
        )
        for group in groups
        for row in group
    )
    said = (_said(group, _name(group, axes), capability) for group in groups)
    notes = (*_explained(groups), *(line for lines in said for line in lines))
    title = "Activation checkpointing and micro-batches"
    return Table("checkpointing", title, columns, rows, notes, number="M39")


def _name(group: list[Measured], axes: list[tuple[str, Column]]) -> str:
    """large, context 512, bf16: the model, and what tells its group from others."""
    first = group[0].first
    cells = zip(axes, axis_cells(first, axes), strict=True)
    others = [str(cell) for (field, _), cell in cells if field != "context_length"]
    return ", ".join([first.case.model.name, f"context {first.case.context_length}", *others])


def _capability(view: RunView) -> tuple[int, int]:
    return HOPPER if view.environment is None else view.environment.capability or HOPPER


def _memory_cells(row: Measured, capability: tuple[int, int]) -> tuple[Cell, ...]:
    backward, step = row.peak("backward"), row.step_peak
    said_backward, said_step = _predicted(row, capability)
    if step is None:
        measured = any(state.total is not None for state in row.states)
        word = "not recorded" if measured else status_word(row.first)
        return (None, word, _mib(said_backward), word, _mib(said_step), None)
    error = error_percent(said_step, step) if ran_on_card(row.first) else None
    return (
        _mib(row.saved),
        _mib(backward),
        _mib(said_backward),
        _mib(step),
        _mib(said_step),
        Figure(error, 0.001),
    )


def _predicted(row: Measured, capability: tuple[int, int]) -> tuple[int, int]:
    """Requested bytes at the peaks of backward and step; off a card without its workspaces."""
    case = row.first.case
    found = predict(case, capability)
    outside = _outside(row.first, capability)
    backward = next(each.peak for each in found.phases if each.phase == "backward")
    return backward - outside, found.requested_bytes - outside


def _outside(state: CaseState, capability: tuple[int, int]) -> int:
    """Bytes that a prediction has and a CPU has not: cuBLAS's workspaces."""
    return 0 if ran_on_card(state) else sum(workspaces(state.case, capability))


def _time_cells(row: Measured, base: Measured) -> tuple[Cell, ...]:
    state = row.timed
    if state is None or state.total is None:
        word = "not timed" if state is None else status_word(state)
        return (word, None, None, None, "")
    plain = None if base.timed is None else base.timed.total
    change = None if plain is None or row is base else 100 * (state.total.mean / plain.mean - 1)
    backward = state.summaries.get("backward")
    again, how = recompute(row)
    return (
        Figure(state.total.mean, state.total.ci95),
        Figure(change, 1.0),
        None if backward is None else Figure(backward.mean, backward.ci95),
        None if again is None else Figure(again, 0.1 * again),
        how,
    )


def recompute(row: Measured) -> tuple[float | None, str]:
    """Milliseconds of a backward that are a checkpoint's forward again, and how they are known."""
    case = row.first.case
    if case.blocks_a_checkpoint is None:
        return None, ""
    if row.recompute_ms is not None:
        return row.recompute_ms, "measured"
    phases = {} if row.timed is None else row.timed.summaries
    forward, backward = phases.get("forward"), phases.get("backward")
    if forward is None or backward is None:
        return None, "n/a"
    again = forward.mean * recomputed_flops(case) / forward_flops(case)
    if again >= backward.mean:  # what is part of it cannot take longer: these steps scatter
        return None, "n/a: the forward took longer than the backward"
    return again, "estimated"


def _explained(groups: list[list[Measured]]) -> Iterable[str]:
    yield (
        "Peaks are requested bytes. Saved for backward: what waits when the last loss is known, "
        "beside what lies there between steps. Time change: from the first row of the group to "
        "this one, below 0 is less time; shown and not judged."
    )
    yield (
        "Recompute is a part of the backward. Measured: busy time of what ran within ranges around "
        "it, in a process with the profiler. Estimated: the forward's time by the share of its "
        "operations that are done again."
    )
    rows = [row for group in groups for row in group]
    if not all(ran_on_card(row.first) for row in rows):
        followed = any(row.recorded is not None and row.recorded.memory_timeline for row in rows)
        how = (
            "tensors were followed on the CPU, where softmax's backward holds one product less; "
            if followed
            else ""
        )
        yield f"No card: {how}the prediction is for a card without its cuBLAS workspaces."


def _said(group: list[Measured], name: str, capability: tuple[int, int]) -> Iterable[str]:
    """What is predicted to be best, what was measured best, and what the peak then is."""
    case = group[0].first.case
    yield from _predicted_best(group[0].first, name, capability)
    one_batch = [row for row in group if row.first.case.accumulate == case.accumulate]
    for what in ("backward", "step"):
        peaks = ((row.step_peak if what == "step" else row.peak(what), row) for row in one_batch)
        known = [(size, row) for size, row in peaks if size is not None]
        if len(known) < 2:
            continue
        lowest = min(size for size, _ in known)
        best = [row for size, row in known if size <= lowest * (1 + TIE)]
        names = listing(CHECKPOINT.named(row.first.case.checkpoint) for row in best)
        verb = "has" if len(best) == 1 else "have"
        yield (
            f"{name}, measured: {names} {verb} the lowest peak of the {what}, {mib(lowest)} "
            f"{ref(*(row.first for row in best))}."
        )
    yield from why_not([state for row in group for state in row.states if state.failure])


def _predicted_best(state: CaseState, name: str, capability: tuple[int, int]) -> Iterable[str]:
    case, outside = state.case, _outside(state, capability)
    found = checkpoint_peaks(case, capability)
    plain = found[0]
    for of_step, what in ((False, "backward"), (True, "step")):
        best = best_blocks(case, capability, of_step=of_step)
        size = [best[0].backward, best[0].step][of_step]
        before = [plain.backward, plain.step][of_step]
        text = (
            f"{name}, predicted: "
            f"{_blocks(best)} {'tie' if len(best) > 1 else 'is best'} for the peak of the {what}, "
            f"from {mib(before - outside)} without to {mib(size - outside)}"
        )
        if of_step and best[0].top == "optimizer" and case.optimizer == "foreach":
            text += (
                "; the peak is then the optimizer's, whose foreach temporaries "
                f"({mib(4 * case.reference.parameters)}) the fused optimizer does not need"
            )
        elif not of_step:
            text += _neighbours(best[0], found, outside)
        yield f"{text}."


def _blocks(best: tuple[CheckpointPeaks, ...]) -> str:
    return listing(CHECKPOINT.named(each.blocks) for each in best)


def _neighbours(best: CheckpointPeaks, found: tuple[CheckpointPeaks, ...], outside: int) -> str:
    """The peaks with the next fewer and the next more blocks a checkpoint."""
    at = found.index(best)
    beside = [found[near] for near in (at - 1, at + 1) if 0 <= near < len(found)]
    named = listing(
        f"{CHECKPOINT.named(each.blocks)} {mib(each.backward - outside)}" for each in beside
    )
    return f"; beside it {named}"


def _mib(size: int | None) -> Cell:
    return None if size is None else Figure(size / MIB, 0.1)
