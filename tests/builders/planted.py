"""Runs made by hand, step by step, to plant what a check must find."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from llmprof.core import events as ev
from llmprof.core.spec.case import PHASES, Case, Phase
from llmprof.core.spec.experiment import Experiment
from llmprof.core.spec.shape import ModelShape
from llmprof.core.state.reducer import Reducer
from llmprof.core.state.view import CaseState, RunView

MS = 1_000_000
H100 = "NVIDIA H100 80GB HBM3"
SHAPE = ModelShape(
    name="medium", d_model=1024, d_ff=4096, num_layers=24, num_heads=16, vocab_size=10_000
)
GPU = ev.Environment(
    t=3,
    device="cuda:0",
    device_name=H100,
    torch="2.11.0",
    driver="580",
    cpu_name="Xeon",
    memory_total_bytes=80 << 30,
)
CPU = ev.Environment(t=3, device="cpu", device_name="Some CPU", torch="2.13.0", cpu_name="Some CPU")

Times = dict[Phase, Sequence[float]]


def case(**fields: Any) -> Case:
    return Case(**{"model": SHAPE, "warmup_steps": 1, "measure_steps": 10, **fields})


def observed(index: int, of: Case, **changes: Any) -> ev.Observed:
    """What an honest run of the case observes."""
    dtype = {"bf16": "bfloat16", "fp16": "float16"}.get(of.precision, "float32")
    seen = ev.Observed(
        case=index,
        logits_dtype=dtype,
        tf32=of.precision == "tf32",
        batch_size=of.batch_size,
        context_length=of.context_length,
        attention_backend="flash" if of.attention == "sdpa" else "naive",
        parameters_changed=True if of.mode == "train" else None,
        qkv_gradients=None if of.mode == "forward" else True,
    )
    return msgspec.structs.replace(seen, **changes)


def steps(
    index: int,
    times: Times,
    *,
    host: float | dict[str, float] = 0.3,
    warmup: bool = False,
    start: int = 0,
) -> list[ev.StepDone]:
    """Steps from the measured times of each phase; host is the share spent on launching, or one
    share a phase."""
    shares = host if isinstance(host, dict) else dict.fromkeys(PHASES, host)
    count = len(next(iter(times.values())))
    found = []
    for at in range(count):
        device = tuple(times[phase][at] if phase in times else None for phase in PHASES)
        total = sum(value for value in device if value is not None)
        found.append(
            ev.StepDone(
                case=index,
                index=start + at,
                warmup=warmup,
                start_ns=(1000 + at) * MS,
                wall_ms=total,
                total_ms=total,
                device_ms=device,
                host_ms=tuple(
                    None if value is None else shares[phase] * value
                    for phase, value in zip(PHASES, device, strict=True)
                ),
            )
        )
    return found


def memory(index: int, levels: dict[str, int], source: str = "cuda allocator") -> ev.MemoryStep:
    edges = tuple(
        ev.MemoryEdge(phase=name, allocated_bytes=level, peak_bytes=level)  # type: ignore[arg-type]
        for name, level in levels.items()
    )
    return ev.MemoryStep(case=index, edges=edges, source=source)


def run(
    index: int,
    of: Case,
    times: Times,
    *extra: ev.Event,
    host: float | dict[str, float] = 0.3,
    warmup: Times | None = None,
) -> list[ev.Event]:
    """A case that ran: warm-up as asked, measured steps, observed unless extra holds its own."""
    warm = warmup or {phase: [values[-1]] * of.warmup_steps for phase, values in times.items()}
    honest = [] if any(isinstance(e, ev.Observed) for e in extra) else [observed(index, of)]
    return [
        ev.CaseStarted(case=index, pid=1),
        *(steps(index, warm, host=host, warmup=True) if of.warmup_steps else ()),
        *steps(index, times, host=host),
        *honest,
        *extra,
        ev.CaseDone(case=index),
    ]


def failed(index: int, **failure: Any) -> list[ev.Event]:
    return [
        ev.CaseStarted(case=index, pid=1),
        ev.CaseFailed(case=index, failure=ev.Failure(**failure)),
    ]


def view(
    cases: Sequence[Case],
    events: Iterable[ev.Event],
    environment: ev.Environment = GPU,
    **experiment: Any,
) -> RunView:
    """The reduced run."""
    plan = Experiment(name="planted", models=tuple({c.model.name: c.model for c in cases}.values()))
    plan = msgspec.structs.replace(plan, **experiment)
    reducer = Reducer()
    started = ev.RunStarted(
        t=2, run_id="planted", experiment=plan, cases=tuple(cases), command=("llmprof",)
    )
    segment = ev.Segment(t=1, boot_id="b", wall_ns=1_700_000_000 * 10**9, pid=1, version="0")
    for event in (segment, started, environment, *events):
        reducer.apply(event)  # type: ignore[arg-type]
    return reducer.view()


def one(of: Case, times: Times, *extra: ev.Event, **how: Any) -> CaseState:
    """The state of a single case."""
    environment = how.pop("environment", GPU)
    return view([of], run(0, of, times, *extra, **how), environment).cases[0]


def around(value: float, count: int = 10, spread: float = 0.01) -> list[float]:
    """Times that scatter a little about a value, without a trend."""
    return [value * (1 + spread * (-1) ** at * (at % 3) / 2) for at in range(count)]
