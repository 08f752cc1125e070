"""The kernels probe: profile a few steps and say where the time went.

The process has had a profiler on and is never used for timing: its steps are journalled as what
they are, steps under the profiler.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from llmprof.core import events as ev
from llmprof.core.kernels import profile as summary
from llmprof.core.kernels.attribution import UNATTRIBUTED, Activities, ActivitySource, attribute
from llmprof.core.kernels.columns import EventColumns, Kind
from llmprof.core.kernels.extract import extract
from llmprof.core.kernels.range_names import RECOMPUTE_RANGE
from llmprof.core.kernels.step_windows import from_marks
from llmprof.core.kernels.tables import Sources, class_ids, launch_sources, with_sources
from llmprof.core.kernels.timeline_strip import save_strip
from llmprof.core.spec.case import Case
from llmprof.core.worker.clock import PhaseClock, StepTimes, phase_clock
from llmprof.core.worker.compiling import compile_step
from llmprof.core.worker.failures import Unsupported
from llmprof.core.worker.job import Job
from llmprof.core.worker.kernel_ranges import (
    PhaseMarks,
    Range,
    SourceMode,
    mark_attention,
    mark_modules,
)
from llmprof.core.worker.kernel_trace import write_trace
from llmprof.core.worker.model import TransformerLM
from llmprof.core.worker.observe import TrainerObserver
from llmprof.core.worker.optional_parts import tried
from llmprof.core.worker.stepping import StepWriter, quiet_gc, run_steps
from llmprof.core.worker.timing import build_trainer
from llmprof.core.worker.trainer import Trainer

LEAD_IN = 1  # steps at a session's start that are not read: CUPTI may drop their kernels
INSTEAD = "the timing of the same case, which needs no profiler"


@dataclass(frozen=True)
class ProfilerSession:
    """What one profiler session recorded."""

    columns: EventColumns
    times: list[StepTimes]
    losses: list[Tensor | None]
    results: Any = None  # kineto's own, where they are kept


def run(job: Job) -> None:
    """Profile the job's case. Raises Unsupported when the profiler cannot.

    What was found is sent before anything is tried that the profile can do without.
    """
    trainer = build_trainer(job)
    case = job.case
    observer = TrainerObserver(trainer)
    observer.compilation = compile_step(job, trainer)
    clock = phase_clock(job.device, case.sequence)
    steps = StepWriter(job)
    layer = _mark(trainer, case)
    probe = Profiler(job, trainer, clock)
    try:
        with quiet_gc(), job.phase_of(clock):
            run_steps(job, trainer, clock, steps, warmup=True)
            steps.flush()
            probe.record(1)  # a process's first session starts CUPTI and is not read
            observer.begin()
            session = probe.record(case.measure_steps, keep=case.trace)
            observer.end()
    except Unsupported:
        job.phase = "profiler"
        raise
    job.phase = "tables"
    for index, (times, loss) in enumerate(zip(session.times, session.losses, strict=True)):
        steps.write(index, times, loss, warmup=False)
    steps.flush()
    table, *others = _events(job, session, layer)
    job.emit(table, *others)
    job.emit(observer.report(job.index))
    job.phase = "extras"
    for more in _extras(job, probe, session, table):
        job.emit(more)


class Profiler:
    """Runs steps of a trainer under sessions of torch's profiler."""

    def __init__(self, job: Job, trainer: Trainer, clock: PhaseClock) -> None:
        self._trainer = trainer
        self._clock = clock
        self._marks = PhaseMarks(clock, job.case.sequence, nvtx=_nvtx(job))
        self._activities = [ProfilerActivity.CPU]
        if job.device.type == "cuda":
            self._activities.append(ProfilerActivity.CUDA)

    def record(self, steps: int, *, keep: bool = False) -> ProfilerSession:
        """One session: a step that is not read, then `steps`. Raises Unsupported.

        keep: with kineto's own results, from which a trace can be written.
        """
        times: list[StepTimes] = []
        losses: list[Tensor | None] = []
        with contextlib.ExitStack() as stack:
            try:
                session = stack.enter_context(profile(activities=self._activities))
            except RuntimeError as error:
                raise Unsupported(f"the profiler cannot start: {error}", INSTEAD) from error
            for _ in range(LEAD_IN + steps):
                self._clock.start()
                self._marks.step.open()
                losses.append(self._trainer.step(self._marks.edge))
                times.append(self._clock.stop())
                self._marks.step.close()
        results = session.profiler.kineto_results if session.profiler else None
        if results is None:
            raise Unsupported("the profiler recorded nothing", INSTEAD)
        columns = extract(results.events())
        return ProfilerSession(
            columns, times[LEAD_IN:], losses[LEAD_IN:], results if keep else None
        )


def read_activities(session: ProfilerSession, case: Case, source: ActivitySource) -> Activities:
    """The session's activities in its measured steps. Raises Unsupported."""
    columns = session.columns
    try:
        windows = from_marks(columns, case.sequence).last(len(session.times))
    except ValueError as error:
        raise Unsupported(f"the profile cannot be read: {error}", INSTEAD) from error
    activities = attribute(columns, windows, source)
    launches = len(columns.of_kind(Kind.RUNTIME))
    on_card = len(columns.of_kind(Kind.KERNEL, Kind.MEMCPY, Kind.MEMSET))
    try:
        summary.check_complete(activities, launches, on_card)
    except summary.ProfileError as error:
        raise Unsupported(str(error), INSTEAD) from error
    return activities


def _events(
    job: Job, session: ProfilerSession, layer: int | None
) -> tuple[ev.KernelTable, ev.TimelineFacts, *tuple[ev.AttentionLens, ...]]:
    activities = read_activities(session, job.case, _source(job))
    classes = class_ids(activities)
    missing: list[str] = []
    strip = tried(
        "timeline on the screen",
        lambda: save_strip(activities, classes, job.artifacts, f"timeline-{job.index}.npz"),
        missing,
    )
    table = summary.kernel_table(
        activities,
        classes,
        index=job.index,
        case=job.case,
        notes=_notes(job, activities),
        missing=tuple(missing),
    )
    facts = summary.timeline_facts(activities, classes, index=job.index, strip=strip)
    if layer is None:
        return table, facts
    seen = summary.attention_lens(activities, index=job.index, case=job.case, layer=layer)
    return (table, facts) if seen is None else (table, facts, seen)


def _extras(
    job: Job, probe: Profiler, session: ProfilerSession, table: ev.KernelTable
) -> Iterator[ev.KernelTable]:
    """The table once more after each part that was asked for, with it or with why it is not."""
    case, missing = job.case, list(table.missing)
    if case.trace:
        name = f"trace-{job.index}.json.gz"
        done = tried(
            "Chrome trace", lambda: write_trace(session.results, job.artifacts / name), missing
        )
        table = replace(table, trace=name if done else None, missing=tuple(missing))
        yield table
    if case.stacks and case.compile is None:
        sources = tried("source lines", lambda: _sources(probe, case), missing)
        rows = with_sources(table.rows, sources or {})
        yield replace(table, rows=rows, missing=tuple(missing))


def _mark(trainer: Trainer, case: Case) -> int | None:
    """Mark modules and the middle layer's attention; the layer, None where it isn't marked."""
    if case.compile is not None:
        return None  # hooks would break the graph that is to be profiled
    nvtx = case.nvtx and trainer.device.type == "cuda"
    mark_modules(trainer.model, nvtx=nvtx)
    if case.shape is None:
        return None
    layer = case.shape.num_layers // 2
    if isinstance(trainer.model, TransformerLM):
        trainer.model.around_recompute(Range(RECOMPUTE_RANGE, nvtx=nvtx).within)
    mark_attention(trainer.model, layer, nvtx=nvtx)
    return layer


def _sources(probe: Profiler, case: Case) -> Sources:
    """Python lines of the launches, from a session of their own, which they slow down."""
    with quiet_gc(), SourceMode():
        session = probe.record(1)
    source: ActivitySource = "cuda" if len(session.columns.of_kind(Kind.KERNEL)) else "cpu"
    return launch_sources(read_activities(session, case, source))


def _notes(job: Job, activities: Activities) -> tuple[str, ...]:
    case, notes = job.case, []
    if activities.tree.crossings:
        notes.append(
            f"Ranges or ops that outlast what they began in: {activities.tree.crossings};"
            f" what ran in them is {UNATTRIBUTED} by module."
        )
    if activities.barren:
        notes.append(f"{activities.barren} kernel launches left no kernel in the profile.")
    if case.compile is not None:
        notes.append("A compiled model has no module ranges: kernels are known by phase and op.")
    if case.compile == "reduce-overhead":
        notes.append("Kernels of a CUDA graph are tied to the graph's launch, not to an op.")
    if case.stacks and case.compile is not None:
        notes.append("--stacks: source lines are not read of a compiled model.")
    if case.nvtx and job.device.type != "cuda":
        notes.append("--nvtx: no ranges were made, since they are for a card.")
    return tuple(notes)


def _nvtx(job: Job) -> bool:
    return job.case.nvtx and job.device.type == "cuda"


def _source(job: Job) -> ActivitySource:
    return "cuda" if job.device.type == "cuda" else "cpu"
