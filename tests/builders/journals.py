"""Journals of runs that never took place, as an engine would have written them."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path

from llmprof.core import events as ev
from llmprof.core.spec.axes import Mode
from llmprof.core.spec.case import Case
from llmprof.core.spec.experiment import Experiment
from llmprof.core.spec.shape import ModelShape
from llmprof.core.state.reducer import Reducer
from llmprof.core.store.journal import JournalWriter
from llmprof.core.store.run import Run, RunStore

SECOND = 1_000_000_000
GIB = 2**30


def shape(name: str = "small", d_model: int = 768) -> ModelShape:
    return ModelShape(name=name, d_model=d_model, d_ff=4 * d_model, num_layers=12, num_heads=12)


def experiment(
    names: Sequence[str] = ("small", "medium"),
    steps: int = 10,
    modes: tuple[Mode, ...] = ("train",),
) -> Experiment:
    return Experiment(
        name="bench", models=tuple(shape(name) for name in names), modes=modes, measure_steps=steps
    )


class Writer:
    """Writes events with a clock of its own, so that journals are the same every time."""

    def __init__(self, run: Run, seed: int = 1, start_ns: int = 1000 * SECOND) -> None:
        self.run = run
        self.t = start_ns
        self.random = random.Random(seed)
        self.journal = JournalWriter(run.journal)

    def put(self, event: ev.Event) -> None:
        self.journal.append(event)

    def begin(self, plan: Experiment, device_name: str = "NVIDIA H100 80GB HBM3") -> None:
        self.put(ev.Segment(t=self.t, boot_id="b", wall_ns=1_764_000_000 * SECOND, pid=1,
                            version="0"))  # fmt: skip
        self.put(ev.RunStarted(t=self.t, run_id=self.run.id, experiment=plan, cases=plan.cases(),
                               command=("llmprof", "bench")))  # fmt: skip
        self.put(ev.Environment(t=self.t, device="cuda:0", device_name=device_name,
                                device_uuid="GPU-1", torch="2.11.0"))  # fmt: skip
        self.sample(5.0)

    def sample(self, busy: float) -> None:
        self.put(
            ev.DeviceSample(
                t=self.t,
                host=ev.HostSample(cpu_percent=20 + busy / 10, memory_used_bytes=20 * GIB,
                                   memory_total_bytes=128 * GIB),
                cards=(
                    ev.CardSample(
                        index=0,
                        uuid="GPU-1",
                        name="NVIDIA H100",
                        metrics={
                            "utilization": ev.Metric(busy),
                            "memory_used": ev.Metric((4 + busy / 5) * GIB),
                            "memory_total": ev.Metric(80.0 * GIB),
                            "power": ev.Metric(120 + 5 * busy),
                            "power_limit": ev.Metric(700.0),
                            "temperature": ev.Metric(55.0),
                        },
                    ),
                ),
            )
        )  # fmt: skip

    def case(self, index: int, case: Case, mean_ms: float = 100.0, steps: int | None = None,
             finish: bool = True) -> None:  # fmt: skip
        for _ in self.case_steps(index, case, mean_ms, steps, finish):
            pass

    def case_steps(self, index: int, case: Case, mean_ms: float = 100.0, steps: int | None = None,
                   finish: bool = True) -> Iterator[None]:  # fmt: skip
        """A case event by event; yields after each step."""
        self.put(ev.CaseStarted(t=self.t, case=index, pid=2))
        self.t += SECOND
        model = case.reference
        self.put(ev.ModelBuilt(t=self.t, case=index, parameters=model.parameters,
                               parameter_tensors=model.parameter_tensors,
                               parameter_dtypes=("float32",)))  # fmt: skip
        for at in range(case.warmup_steps):
            self.step(index, case, at, True, mean_ms * (3.0 if at == 0 else 1.05))
            yield
        for at in range(case.measure_steps if steps is None else steps):
            slow = 1.6 if at == 17 else 1.0
            self.step(index, case, at, False, slow * self.random.gauss(mean_ms, mean_ms / 120))
            yield
        if finish:
            edge = ev.MemoryEdge(phase="backward", allocated_bytes=GIB, peak_bytes=5 * GIB)
            self.put(ev.MemoryStep(t=self.t, case=index, edges=(edge,), source="cuda allocator"))
            self.put(ev.CaseDone(t=self.t, case=index))

    def step(self, index: int, case: Case, at: int, warmup: bool, total: float) -> None:
        share = {"forward": 0.30, "loss": 0.01, "backward": 0.58, "optimizer": 0.10,
                 "zero_grad": 0.01}  # fmt: skip
        from llmprof.core.spec.case import PHASES

        device = tuple(total * share[p] if p in case.phases else None for p in PHASES)
        start = self.t
        self.t += int(total * 1e6)
        self.put(
            ev.StepDone(t=self.t, case=index, index=at, warmup=warmup, start_ns=start,
                        wall_ms=total * 1.01, total_ms=total, device_ms=device,
                        host_ms=tuple(None if d is None else d / 5 for d in device),
                        loss=9.2, allocated_bytes=3 * GIB)
        )  # fmt: skip
        if at % 3 == 0:
            self.sample(min(100.0, 80 + self.random.random() * 20))

    def fail(
        self, index: int, kind: ev.FailureKind = "oom", message: str = "out of memory"
    ) -> None:
        self.put(ev.CaseStarted(t=self.t, case=index, pid=3))
        failure = ev.Failure(kind=kind, message=message, phase="backward", bytes_asked=3 * GIB)
        self.put(ev.CaseFailed(t=self.t, case=index, failure=failure))

    def end(self, outcome: ev.Outcome = "complete") -> None:
        self.put(ev.RunDone(t=self.t, outcome=outcome))
        self.journal.close()


def finished(store: RunStore, names: Sequence[str] = ("small", "medium"), steps: int = 10) -> Run:
    """A complete run of one case a name, the last of several out of memory."""
    plan = experiment(names, steps)
    run = store.create(plan.name)
    writer = Writer(run)
    writer.begin(plan)
    cases = plan.cases()
    for index, case in enumerate(cases):
        if index and index == len(cases) - 1:
            writer.fail(index)
        else:
            writer.case(index, case, 40.0 * (index + 1))
    writer.end()
    return run


def long_run(path: Path, steps: int) -> Run:
    """One case of many steps; quick to write."""
    run = RunStore(path).create("long")
    writer = Writer(run)
    plan = experiment(("tiny",), steps)
    writer.begin(plan)
    writer.case(0, plan.cases()[0], 5.0)
    writer.end()
    return run


def live_run(root: Path) -> tuple[Run, Writer]:
    """A run of three cases, the second of them half way."""
    plan = experiment(("tiny", "small", "medium"), 30)
    run = RunStore(root).create("bench")
    writer = Writer(run)
    writer.begin(plan)
    writer.case(0, plan.cases()[0], 40.0)
    writer.case(1, plan.cases()[1], 90.0, 20, finish=False)
    return run, writer


def reduced(tmp_path: Path, steps: int = 40) -> Reducer:
    """What a follower knows of a run of one case."""
    plan = experiment(("small",), steps)
    run = RunStore(tmp_path).create("bench")
    writer = Writer(run)
    writer.begin(plan)
    writer.case(0, plan.cases()[0], 100.0)
    writer.journal.close()
    reducer = Reducer()
    for row in run.journal.read_bytes().splitlines():
        reducer.apply(ev.decode(row))
    return reducer
