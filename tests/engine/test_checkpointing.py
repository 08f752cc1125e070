"""Checkpointed and accumulated steps: the same gradients, and memory as it is predicted."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
import torch
from torch import Tensor

from llmprof.core.memory.recompute import copies_in, made_again
from llmprof.core.memory.timeline import Known, Timeline, base_of, build_timeline
from llmprof.core.predict.allocator_replay import replay_allocator
from llmprof.core.predict.byte_levels import COPIES, PARAMETERS
from llmprof.core.predict.closed_form import predict, workspaces
from llmprof.core.predict.traced import trace_cases
from llmprof.core.spec.case import Case
from llmprof.core.spec.own_model import find_own_model
from llmprof.core.spec.shape import ModelShape
from llmprof.core.worker import allocation_recorders
from llmprof.core.worker.allocation_recorders import TensorRecorder, autocast_copies
from llmprof.core.worker.memory import held_tensors, named_tensors
from llmprof.core.worker.storage_tracker import StorageTracker
from llmprof.core.worker.trace import trace
from llmprof.core.worker.trainer import Trainer

SHAPE = ModelShape(
    name="test", d_model=64, d_ff=160, num_layers=5, num_heads=4, kv_heads=2, vocab_size=300
)
CPU = torch.device("cpu")
TOLERANCE = 1e-5  # of the largest gradient of a tensor: sums in another order, fp32


def case_of(**fields: object) -> Case:
    base = {"model": msgspec.to_builtins(SHAPE), "context_length": 48, "batch_size": 4}
    return msgspec.convert({**base, **fields}, Case)


def loss_and_gradients(case: Case) -> tuple[float, dict[str, Tensor]]:
    trainer = Trainer(case, CPU)
    found: dict[str, Tensor] = {}

    def edge(index: int) -> None:
        if index == len(case.sequence) - 1:  # before zero_grad
            found.update(
                (name, p.grad.clone())
                for name, p in trainer.model.named_parameters()
                if p.grad is not None
            )

    loss = trainer.step(edge)
    assert loss is not None
    assert len(found) == SHAPE.parameter_tensors
    return loss.item(), found


@pytest.mark.parametrize(
    "changes",
    [
        {"checkpoint": 1},
        {"checkpoint": 2},
        {"checkpoint": "all"},
        {"accumulate": 2},
        {"accumulate": 4},
        {"checkpoint": 2, "accumulate": 2, "attention": "sdpa"},
    ],
    ids=str,
)
def test_loss_and_gradients_are_those_of_the_plain_step(changes: dict[str, object]) -> None:
    plain_loss, plain = loss_and_gradients(case_of(mode="forward-backward"))
    loss, found = loss_and_gradients(case_of(mode="forward-backward", **changes))
    assert loss == pytest.approx(plain_loss, rel=TOLERANCE)
    for name, gradient in found.items():
        error = (gradient - plain[name]).abs().max() / plain[name].abs().max()
        assert float(error) <= TOLERANCE, name


@pytest.mark.parametrize(
    "changes",
    [
        {"checkpoint": 1},
        {"checkpoint": 2, "precision": "bf16"},
        {"checkpoint": 2, "accumulate": 2, "attention": "sdpa"},
        {"checkpoint": "all", "precision": "bf16", "attention": "sdpa"},
        {"accumulate": 2, "precision": "bf16"},
        {"accumulate": 4, "mode": "forward"},
    ],
    ids=str,
)
def test_traced_and_closed_form_agree_in_every_phase(changes: dict[str, object]) -> None:
    shape = msgspec.structs.replace(SHAPE, num_layers=9)
    case = case_of(model=msgspec.to_builtins(shape), **changes)
    traced = trace(case)
    for phase in predict(case).phases:
        assert traced.phases[phase.phase] == pytest.approx(phase.peak, abs=16), phase


@pytest.mark.parametrize("checkpoint", [1, 2, "all"])
@pytest.mark.parametrize("accumulate", [1, 2])
def test_measured_peaks_are_those_of_the_closed_form(
    checkpoint: int | str, accumulate: int
) -> None:
    """Backward is left to the trace: softmax's holds one product less on the CPU than on a card."""
    case = case_of(checkpoint=checkpoint, accumulate=accumulate)
    trainer = Trainer(case, CPU)
    for _ in range(2):
        trainer.step(lambda index: None)
    recorder = TensorRecorder(trainer)
    held = [*trainer.model.parameters(), *trainer.model.buffers()]
    assert trainer.optimizer is not None
    for state in trainer.optimizer.state.values():
        held += [value for key, value in state.items() if key.startswith("exp_avg")]
    recorder.count(*held, *(tensor for _, tensor in trainer.task.tensors))
    base = recorder.level
    seen: dict[str, int] = {}
    level = base
    recording, _ = recorder.record(1)
    assert [mark.phase for mark in recording.marks] == list(case.sequence)
    for mark in recording.marks:
        within = [e for e in recording.entries if mark.start_us <= e.t_us <= mark.end_us]
        for entry in within:
            level += entry.size
            seen[mark.phase] = max(seen.get(mark.phase, 0), level)
    outside = sum(workspaces(case, (9, 0)))
    for phase in predict(case).phases:
        if phase.phase in ("forward", "loss", "optimizer"):
            assert seen[phase.phase] == pytest.approx(phase.peak - outside, rel=1e-4), phase


def test_a_checkpoint_lowers_what_waits_for_backward_and_the_optimum_has_neighbours() -> None:
    shape = msgspec.structs.replace(SHAPE, num_layers=16)
    peaks = {
        blocks: max(
            phase.peak
            for phase in predict(
                case_of(model=msgspec.to_builtins(shape), checkpoint=blocks)
            ).phases
            if phase.phase == "backward"
        )
        for blocks in (None, 1, 2, 4, 8, "all")
    }
    best = min(peaks, key=lambda blocks: peaks[blocks])
    assert best not in (None, "all")
    assert peaks[best] < peaks["all"] < peaks[None]


@pytest.mark.parametrize("changes", [{"checkpoint": 2}, {"accumulate": 2}], ids=str)
def test_the_replayed_allocator_agrees(changes: dict[str, object]) -> None:
    case = case_of(**changes)
    said = predict(case).allocated_low
    assert replay_allocator(case).allocated_bytes == pytest.approx(said, rel=1e-4)


OWN = Path(__file__).parents[1] / "data" / "own_models" / "checkpointed.py"
OWN_FORMS = ("plain", "nested", "reentrant", "nested_reentrant")
# Of the reentrant way within itself torch says so: its first run is without gradients.
torch_says_so = pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad")
HALF: dict[str, object] = {"mode": "forward-backward", "precision": "bf16"}


def own_case(name: str, **fields: object) -> Case:
    model = find_own_model(f"{OWN}:{name}", {}, ())
    return msgspec.structs.replace(case_of(**HALF, **fields), model=model)


def recorded(case: Case) -> tuple[Timeline, Known]:
    """A warmed-up trainer's steps, tensor by tensor."""
    trainer = Trainer(case, CPU)
    trainer.step(lambda index: None)
    recorder = TensorRecorder(trainer)
    recorder.count(*(tensor for _, tensor, _ in held_tensors(trainer)))
    held, level = list(named_tensors(trainer)), recorder.level
    trace, known = recorder.record(2)
    return build_timeline(trace, base_of(held, level), held, known), known


def copied(timeline: Timeline, phase: str) -> int:
    """Bytes of autocast's copies that a phase of the second step makes."""
    return sum(
        block.size
        for block in timeline.blocks
        if (block.step, block.phase, block.category) == (1, phase, COPIES)
    )


def matrices(timeline: Timeline, but: str = "nothing") -> int:
    """Bytes of weights and biases of products in a half precision."""
    return sum(
        each.size // 2
        for each in timeline.held
        if each.category == PARAMETERS and "norm" not in each.name
        and "embedding" not in each.name and but not in each.name
    )  # fmt: skip


@pytest.mark.parametrize(("checkpoint", "attention"), [(1, "naive"), ("all", "naive"), (2, "sdpa")])
def test_copies_of_weights_are_told_in_a_second_run_too(checkpoint: object, attention: str) -> None:
    timeline, _ = recorded(case_of(**HALF, attention=attention, checkpoint=checkpoint))
    forward, all_weights = copied(timeline, "forward"), matrices(timeline)
    assert forward == all_weights
    if attention == "naive":  # of the CPU's SDPA the peak lies elsewhere
        predicted = predict(case_of(**HALF, attention="naive", checkpoint=checkpoint)).breakdown
        at_peak = timeline.at_peak[COPIES]
        assert at_peak == predicted["autocast copies"]
    again, weights = copied(timeline, "backward"), matrices(timeline, but="head")
    assert again == weights


@torch_says_so
@pytest.mark.parametrize("name", OWN_FORMS)
def test_copies_of_weights_in_checkpoints_of_an_own_model(name: str) -> None:
    timeline, _ = recorded(own_case(name))
    weights = matrices(timeline, but="head")
    forward, all_weights = copied(timeline, "forward"), matrices(timeline)
    assert forward == all_weights
    again = copied(timeline, "backward")
    assert again > weights / 2
    if name.startswith("nested"):  # a block is run by its own checkpoint, and by the one around it
        plain, _ = recorded(own_case(name.replace("nested", "plain").removeprefix("plain_")))
        once = copied(plain, "backward")
        assert again > once


@torch_says_so
@pytest.mark.parametrize(
    ("form", "accumulate"),
    [(None, 1), (1, 1), (2, 2), ("nested", 1), ("reentrant", 1), ("nested_reentrant", 2)],
)
def test_copies_are_learned_as_a_card_would_have_them(
    form: object, accumulate: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By counts of allocations alone, as CUDA's allocator gives them; told from what is known."""
    own = isinstance(form, str) and form in OWN_FORMS
    case = (
        own_case(str(form), accumulate=accumulate)
        if own
        else case_of(**HALF, checkpoint=form, accumulate=accumulate)
    )
    trainer = Trainer(case, CPU)
    trainer.step(lambda index: None)
    counted = StorageTracker()
    counted.count(*(tensor for _, tensor, _ in held_tensors(trainer)))
    made = [0]

    def changed(_: int, size: int) -> None:
        made[0] += size > 0

    counted.changed = changed
    counter = allocation_recorders._CopyCounter
    monkeypatch.setattr(counter, "_count", lambda self: made[0])
    with counted:
        learned = autocast_copies(trainer, CPU)
    recorder = TensorRecorder(trainer)
    recorder.count(*(tensor for _, tensor, _ in held_tensors(trainer)))
    trace, known = recorder.record(2)
    assert known.copies
    missing = known.copies ^ copies_in(trace, learned, made_again(trace))
    assert not missing


@torch_says_so
def test_the_trace_of_an_own_models_checkpoints_is_what_is_recorded() -> None:
    cases = [own_case(name) for name in OWN_FORMS]
    traced = trace_cases(cases, None)
    for case in cases:
        timeline, _ = recorded(case)
        peak = timeline.peak
        assert traced[case.key].requested_bytes == pytest.approx(peak, rel=0.01), case.model.name
