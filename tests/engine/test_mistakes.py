"""The ways in which people's timings went wrong, planted: impossible here, or caught."""

from __future__ import annotations

import gc
import os
import weakref
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from llmprof.core import events as ev
from llmprof.core.lint import verdicts
from llmprof.core.report.switches import switches
from llmprof.core.report.table import format_cell
from llmprof.core.report.timing import phase_times
from llmprof.core.spec.case import PHASES, Case
from llmprof.core.spec.shape import ModelShape
from llmprof.core.state.reducer import Reducer
from llmprof.core.state.view import RunView
from llmprof.core.worker import attention, measuring
from llmprof.core.worker.attention import AttentionObserver, AttentionSteps
from llmprof.core.worker.clock import CudaClock, phase_clock
from llmprof.core.worker.compiling import compile_step, use_empty_cache
from llmprof.core.worker.job import Job
from llmprof.core.worker.memory_edges import memory_step
from llmprof.core.worker.model import causal_mask
from llmprof.core.worker.observe import TrainerObserver
from llmprof.core.worker.request import WorkerRequest
from llmprof.core.worker.stepping import StepWriter, run_steps
from llmprof.core.worker.task import TokenBatch
from llmprof.core.worker.trainer import Trainer
from tests.builders import planted
from tests.engine.async_device import MS, AsyncDevice

CPU = torch.device("cpu")
TINY = ModelShape(name="t", d_model=16, d_ff=32, num_layers=1, num_heads=2, vocab_size=32)
WIDTH = ModelShape(name="d=8", d_model=8, d_ff=1, num_layers=1, num_heads=1, vocab_size=1)


class Recorder(Job):
    """A job whose events stay here."""

    def __init__(self, case: Case) -> None:
        request = WorkerRequest(case=case, index=0, device="cpu", run_dir=".")
        super().__init__(request, case, CPU, -1)
        self.events: list[ev.Event] = []

    def emit(self, *events: ev.Event) -> None:
        self.events += events


def tiny(**fields: Any) -> Case:
    return Case(**{"model": TINY, "context_length": 8, "batch_size": 2, **fields})


def errors(case: Case, *seen: ev.Event) -> str:
    """What the lint calls an error in a case with these observations and honest steps."""
    times: planted.Times = {phase: [1.0] * case.measure_steps for phase in case.phases}
    state = planted.one(case, times, *seen, environment=planted.CPU)
    return "; ".join(v.text for v in verdicts(state, planted.CPU) if v.level == "error")


# ------------------------------------------------------------ on an asynchronous device


class AsyncSteps:
    """A step of forward and backward on an asynchronous device."""

    def __init__(self, device: AsyncDevice) -> None:
        self.device = device

    def step(self, edge: Callable[[int], None]) -> None:
        edge(0)
        self.device.launch(20.0)
        edge(1)
        edge(2)
        self.device.launch(40.0)
        edge(3)
        edge(4)


def test_timing_without_a_drain_would_be_wrong_and_ours_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    device = AsyncDevice()
    device.install(monkeypatch)
    start = device.host_ns
    AsyncSteps(device).step(lambda index: None)
    assert (device.host_ns - start) / MS < 0.1  # what a timer without a drain would show

    clock = CudaClock(4, torch.device("cuda"))
    clock.start()
    AsyncSteps(device).step(clock.edge)
    times = clock.stop()
    forward, _, backward, _ = times.device_ms
    assert forward == pytest.approx(20.0, abs=0.02)
    assert backward == pytest.approx(40.0, abs=0.02)  # the forward did not leak into it
    assert times.wall_ms == pytest.approx(60.0, abs=0.05)
    assert sum(times.host_ms) < 0.1  # launching is told from working


def test_work_queued_before_the_first_step_is_no_part_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    device = AsyncDevice()
    device.install(monkeypatch)
    device.launch(500.0)
    clock = CudaClock(4, torch.device("cuda"))
    clock.start()
    AsyncSteps(device).step(clock.edge)
    times = clock.stop()
    assert sum(times.device_ms) == pytest.approx(60.0, abs=0.05)
    assert times.wall_ms == pytest.approx(60.0, abs=0.05)


# ----------------------------------------------------------------------------- warm-up


def test_warm_up_runs_exactly_what_is_measured() -> None:
    case = tiny(precision="bf16", warmup_steps=2, measure_steps=3)
    job, trainer = Recorder(case), Trainer(case, CPU)
    dtypes: list[torch.dtype] = []
    grads: list[bool] = []

    def look(module: torch.nn.Module, inputs: object, logits: Tensor) -> None:
        dtypes.append(logits.dtype)
        grads.append(logits.requires_grad)

    trainer.model.register_forward_hook(look)
    clock, steps = phase_clock(CPU, case.phases), StepWriter(job)
    run_steps(job, trainer, clock, steps, warmup=True)
    run_steps(job, trainer, clock, steps, warmup=False)
    steps.flush()
    done = [event for event in job.events if isinstance(event, ev.StepDone)]
    assert [(step.warmup, step.index) for step in done] == [
        (True, 0),
        (True, 1),
        (False, 0),
        (False, 1),
        (False, 2),
    ]
    for step in done:  # no phase is missing from the warm-up: neither backward nor optimizer
        assert [value is None for value in step.device_ms] == [False] * len(PHASES)
    assert dtypes == [torch.bfloat16] * 5  # autocast is on in every step, not in the warm-up only
    assert grads == [True] * 5


def test_autocast_left_out_of_the_measured_steps_would_be_seen() -> None:
    case = tiny(precision="bf16")
    trainer = Trainer(case, CPU)
    observer = TrainerObserver(trainer)
    trainer.step(lambda index: None)
    assert errors(case, observer.report(0)) == ""
    trainer.case = msgspec.structs.replace(case, precision="fp32")  # the autocast is gone
    assert "bf16 was asked for, but the logits are float32" in errors(case, observer.report(0))


# ------------------------------------------------------------------- what was measured


def test_backward_is_measured_and_never_a_difference() -> None:
    cases = [planted.case(mode=mode) for mode in ("forward", "forward-backward")]
    cold: planted.Times = {"forward": planted.around(58.0)}
    both: planted.Times = {"forward": planted.around(20.0), "backward": planted.around(40.0)}
    events = [*planted.run(0, cases[0], cold), *planted.run(1, cases[1], both)]
    table = phase_times(planted.view(cases, events), "backward")
    assert table is not None
    ((*_, mean, _, _),) = table.rows  # with deviation and interval
    assert float(format_cell(mean)) == pytest.approx(40.0, abs=0.5)  # not 60 - 58


def test_a_tf32_setting_from_elsewhere_does_not_reach_an_fp32_case() -> None:
    torch.set_float32_matmul_precision("high")
    try:
        Trainer(tiny(), CPU)
        assert torch.get_float32_matmul_precision() == "highest"
    finally:
        torch.set_float32_matmul_precision("highest")


def test_two_fp32_runs_with_tf32_on_in_one_are_not_equals() -> None:
    case = tiny()
    assert errors(case, planted.observed(0, case, tf32=False)) == ""
    assert "TF32 was on" in errors(case, planted.observed(0, case, tf32=True))


def test_a_batch_size_that_is_recorded_but_not_used_is_caught() -> None:
    case = tiny(batch_size=4)
    trainer = Trainer(case, CPU)
    observer = TrainerObserver(trainer)
    trainer.step(lambda index: None)
    assert errors(case, observer.report(0)) == ""
    short = TokenBatch(trainer.task.batch.tokens[:1], trainer.task.batch.targets[:1])
    trainer.task = replace(trainer.task, batch=short)
    assert "batch size 1 was used instead of 4" in errors(case, observer.report(0))


def test_an_optimizer_that_changes_nothing_is_caught() -> None:
    case = tiny()
    trainer = Trainer(case, CPU)
    observer = TrainerObserver(trainer)
    assert trainer.optimizer is not None
    for group in trainer.optimizer.param_groups:
        group["lr"] = 0.0
    trainer.step(lambda index: None)
    assert "the optimizer changed no parameter" in errors(case, observer.report(0))


# --------------------------------------------------------------------------- attention


def attention_case(**fields: Any) -> Case:
    defaults = {"probe": "attention", "mode": "forward-backward", "context_length": 16}
    return Case(**{"model": WIDTH, "batch_size": 2, **defaults, **fields})


def look_at(case: Case, steps: AttentionSteps) -> ev.Observed:
    return AttentionObserver(steps).report(0)


def test_a_look_that_fails_costs_no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> ev.Event:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(measuring, "memory_step", fails)
    job = Recorder(attention_case(measure_steps=2, warmup_steps=1))
    attention.run(job)
    assert len([e for e in job.events if isinstance(e, ev.StepDone)]) == 3
    (said,) = [e for e in job.events if isinstance(e, ev.Log)]
    assert said.message.startswith("no memory of a step")
    assert [e for e in job.events if isinstance(e, ev.Observed)]


@pytest.mark.parametrize("kind", ["naive", "sdpa"])
def test_q_k_and_v_have_gradients_and_without_them_it_is_caught(kind: str) -> None:
    case = attention_case(attention=kind)
    steps = AttentionSteps(case, CPU)
    steps.step(lambda index: None)
    assert look_at(case, steps).qkv_gradients is True
    steps.k = steps.k.detach()
    steps.step(lambda index: None)
    assert "Q, K or V has no gradient" in errors(case, look_at(case, steps))


class BoolSquares(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Keeps the ops that made a new bool tensor with as many elements as a mask has."""

    def __init__(self, length: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.length = length
        self.made: list[str] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        if isinstance(out, Tensor) and out.dtype is torch.bool and out.numel() == self.length**2:
            given = {arg.data_ptr() for arg in args if isinstance(arg, Tensor)}
            if out.data_ptr() not in given:
                self.made.append(str(func))
        return out


def test_the_mask_is_not_built_in_a_step() -> None:
    case = attention_case()
    steps = AttentionSteps(case, CPU)
    edges: list[int] = []
    with BoolSquares(case.context_length) as watch:
        causal_mask(case.context_length)
        assert watch.made  # it would be seen
        watch.made.clear()
        steps.step(edges.append)
    assert edges == [0, 1, 2]
    assert watch.made == []


def test_memory_is_read_when_the_last_output_is_gone() -> None:
    case = attention_case()
    steps = AttentionSteps(case, CPU)
    outputs: list[weakref.ref[Tensor]] = []
    call = steps.call

    def remember(*tensors: Tensor) -> Tensor:
        output: Tensor = call(*tensors)
        outputs.append(weakref.ref(output))
        return output

    steps.call = remember
    gc.disable()  # only references count, no collector comes to help
    try:
        steps.step(lambda index: None)
        assert outputs[0]() is None
        edges = memory_step(Recorder(case), steps).edges
    finally:
        gc.enable()
    assert [edge.phase for edge in edges] == ["start", "forward", "backward"]


def test_attention_steps_compute_causal_attention_and_its_gradient() -> None:
    results = []
    for kind in ("naive", "sdpa"):
        steps = AttentionSteps(attention_case(attention=kind), CPU)
        steps.step(lambda index: None)
        gradients = [t.grad for t in (steps.q, steps.k, steps.v)]
        results.append([g.reshape(2, 16, 8) for g in gradients if g is not None])
    naive, fused = results
    for one, other in zip(naive, fused, strict=True):
        torch.testing.assert_close(one, other)


# ----------------------------------------------------------------- cells and their keys


def test_a_cell_holds_the_steps_of_its_last_attempt_alone() -> None:
    case = planted.case(mode="forward", warmup_steps=0, measure_steps=2)
    old: planted.Times = {"forward": [99.0] * 2}
    new: planted.Times = {"forward": [20.0] * 2}
    events = [ev.CaseStarted(case=0, pid=1), *planted.steps(0, old), *planted.run(0, case, new)]
    state = planted.view([case], events).cases[0]
    assert state.measured.total_ms() == [20.0, 20.0]
    assert state.attempt == 2


def test_a_cell_that_lost_a_step_is_caught() -> None:
    case = planted.case(mode="forward", warmup_steps=0, measure_steps=3)
    assert "2 measured steps instead of 3" in errors_of(
        planted.view([case], planted.run(0, case, {"forward": [20.0, 20.1]}))
    )


def errors_of(view: RunView) -> str:
    return "; ".join(
        v.text for v in verdicts(view.cases[0], view.environment) if v.level == "error"
    )


def test_results_with_different_warm_up_are_not_compared() -> None:
    cases = [
        planted.case(mode="forward", warmup_steps=0),
        planted.case(mode="forward", precision="bf16", warmup_steps=5),
        planted.case(mode="forward", precision="bf16", warmup_steps=0),
    ]
    events = []
    for index, case in enumerate(cases):
        events += planted.run(index, case, {"forward": planted.around(20.0)})
    assert switches(planted.view(cases[:2], events[: len(events) * 2 // 3])) == []
    table, _ = switches(planted.view(cases, events))
    assert len(table.rows) == 2


@pytest.mark.parametrize(
    "change",
    [{"warmup_steps": 2}, {"seed": 1}, {"measure_steps": 11}, {"compile": "default"}],
)
def test_the_key_is_the_whole_configuration(change: dict[str, Any]) -> None:
    case = planted.case()
    assert msgspec.structs.replace(case, **change).key != case.key
    assert msgspec.structs.replace(case).key == case.key


def test_an_event_about_no_case_is_counted_and_changes_nothing() -> None:
    reducer = Reducer()
    reducer.apply(ev.CaseDone(case=7))
    assert reducer.view().damaged_lines == 1


# --------------------------------------------------------------------------- compilation


def test_every_cell_compiles_into_an_empty_folder_of_its_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from torch._inductor.runtime.cache_dir_utils import cache_dir

    for name in ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"):
        monkeypatch.setenv(name, "/somewhere/warm")
    folders = []
    for cell in ("one", "two"):
        scratch = tmp_path / cell
        scratch.mkdir()
        use_empty_cache(str(scratch))
        folder = Path(cache_dir())
        assert folder.is_dir()
        assert list(folder.iterdir()) == []
        assert os.environ["TRITON_CACHE_DIR"].startswith(str(folder))
        folders.append(folder)
    assert folders[0] != folders[1]


def test_compiling_is_in_no_step(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._dynamo.utils import counters

    case = tiny(compile="default", warmup_steps=0, measure_steps=3)
    calls: list[str] = []

    class Lazy:
        """The first call compiles."""

        def step(self, edge: Callable[[int], None]) -> None:
            counters["stats"]["unique_graphs"] += not calls
            calls.append("compile" if not calls else "step")
            for index in range(len(case.phases) + 1):
                edge(index)

    job, stepper = Recorder(case), Lazy()
    found = compile_step(job, stepper)
    assert found is not None
    assert found.ms > 0
    steps = StepWriter(job)
    run_steps(job, stepper, phase_clock(CPU, case.phases), steps, warmup=False)
    steps.flush()
    assert calls == ["compile", "step", "step", "step"]
    assert len([e for e in job.events if isinstance(e, ev.StepDone)]) == 3
    assert compile_step(Recorder(tiny()), stepper) is None
