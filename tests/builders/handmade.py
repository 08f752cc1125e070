"""Journals made by hand for tests that need no worker."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from llmprof.core import events as ev
from llmprof.core.catalog.models import select_models
from llmprof.core.spec.axes import Mode
from llmprof.core.spec.case import PHASES, PHASES_OF, Case
from llmprof.core.spec.experiment import Experiment
from llmprof.core.store.journal import JournalWriter

MS = 1_000_000


def experiment(modes: Sequence[Mode] = ("forward", "train")) -> Experiment:
    return Experiment(name="by-hand", models=select_models(["tiny"]), modes=tuple(modes))


def step(
    case: int,
    index: int,
    mode: Mode,
    *,
    ms: float = 10.0,
    warmup: bool = False,
    loss: float | None = 9.0,
    host: float = 0.5,
) -> ev.StepDone:
    times = tuple(ms if phase in PHASES_OF[mode] else None for phase in PHASES)
    total = ms * len(PHASES_OF[mode])
    return ev.StepDone(
        t=(1000 + index) * MS,
        case=case,
        index=index,
        warmup=warmup,
        start_ns=(1000 + index) * MS,
        wall_ms=total + 0.1,
        total_ms=total,
        device_ms=times,
        host_ms=tuple(None if value is None else host * value for value in times),
        loss=loss,
    )


def opening(plan: Experiment) -> list[ev.Event]:
    return [
        ev.Segment(t=1, boot_id="b", wall_ns=1_700_000_000 * 10**9, pid=1, version="0"),
        ev.RunStarted(
            t=2, run_id="by-hand", experiment=plan, cases=plan.cases(), command=("llmprof", "run")
        ),
        ev.Environment(
            t=3, device="cuda:0", device_name="Some Card", torch="2.11", memory_total_bytes=80 << 30
        ),
    ]


def measured(index: int, case: Case, times: Sequence[float]) -> list[ev.Event]:
    events: list[ev.Event] = [
        ev.CaseStarted(t=10, case=index, pid=7),
        ev.ModelBuilt(
            t=11,
            case=index,
            parameters=case.reference.parameters,
            parameter_tensors=case.reference.parameter_tensors,
            parameter_dtypes=("float32",),
        ),
        step(index, 0, case.mode, ms=50.0, warmup=True),
    ]
    events += [step(index, i, case.mode, ms=ms) for i, ms in enumerate(times)]
    events.append(ev.CaseDone(t=10**10, case=index))
    return events


def write(path: Path, events: Sequence[ev.Event]) -> Path:
    writer = JournalWriter(path)
    for event in events:
        writer.append(event)
    writer.close()
    return path


def whole_run(path: Path) -> Path:
    plan = experiment()
    events = opening(plan)
    for index, case in enumerate(plan.cases()):
        events += measured(index, case, [10.0, 10.2, 9.9, 10.1])
    events.append(ev.RunDone(t=10**11, outcome="complete"))
    return write(path, events)
