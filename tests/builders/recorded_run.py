"""A run over tests/fixtures/monitor-load.jsonl: made-up steps beside the samples of a real card."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from llmprof.core import events as ev
from llmprof.core.devices.recorded import read_recording
from llmprof.core.spec.case import Case
from llmprof.core.spec.experiment import Experiment
from llmprof.core.spec.shape import ModelShape
from llmprof.core.state.reducer import Reducer
from llmprof.core.state.view import RunView

RECORDING = Path(__file__).parents[1] / "fixtures" / "monitor-load.jsonl"
SAMPLES = [sample for sample in read_recording(RECORDING) if sample.cards]
UUID = "00000000-0000-0000-0000-000000000000"
START = read_recording(RECORDING)[0].t
SHAPE = ModelShape(name="toy", d_model=64, d_ff=128, num_layers=2, num_heads=4)
CASE = Case(model=SHAPE)


def at(second: float) -> int:
    """A second of the recording as a journal time."""
    return START + round(second * 1e9)


def events(first: float, last: float, steps: int) -> Iterator[ev.AnyEvent]:
    """A run of one case whose measured steps fill a stretch of the recording, in order."""
    experiment = Experiment(name="recorded", models=(SHAPE,))
    yield ev.RunStarted(t=START, run_id="r", experiment=experiment, cases=(CASE,), command=())
    yield ev.Environment(t=START, device="cuda:0", device_name="H100", device_uuid=UUID)
    started = ev.CaseStarted(t=at(first - 1), case=0, pid=1)
    done = ev.CaseDone(t=at(last + 1), case=0)
    timeline: list[ev.AnyEvent] = [started, done, *SAMPLES, *_steps(first, last, steps)]
    yield from sorted(timeline, key=lambda event: event.t)


def run(first: float, last: float, steps: int) -> RunView:
    """The same, reduced."""
    reducer = Reducer()
    for event in events(first, last, steps):
        reducer.apply(event)
    return reducer.view()


def _steps(first: float, last: float, steps: int) -> Iterator[ev.StepDone]:
    length = (last - first) / steps
    for index in range(steps):
        start = at(first + index * length)
        yield ev.StepDone(
            t=start + round(length * 1e9),
            case=0,
            index=index,
            warmup=False,
            start_ns=start,
            wall_ms=1e3 * length,
            total_ms=1e3 * length,
            device_ms=(1e3 * length, None, None, None, None),
            host_ms=(1.0, None, None, None, None),
        )
