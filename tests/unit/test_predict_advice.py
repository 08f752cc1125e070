"""Advice and verdicts."""

from __future__ import annotations

import itertools
import shlex

import msgspec
import pytest

from llmprof.cli.options import add_case_options, experiment_from
from llmprof.cli.parser import Parser
from llmprof.core.catalog.models import load_models
from llmprof.core.events import Environment
from llmprof.core.predict.advice import MOST_ADVICE, Advice, advise
from llmprof.core.predict.as_event import (
    free_for_a_process,
    predicted,
    predicted_here,
    room_here,
)
from llmprof.core.predict.candidates import CANDIDATES, choices, switched
from llmprof.core.predict.closed_form import predict
from llmprof.core.predict.command import command_of
from llmprof.core.predict.fits import (
    CONTEXT_HIGH,
    CONTEXT_LOW,
    Room,
    certainly_fits,
    context_span,
    decide,
    fit_verdict,
    needed_bytes,
)
from llmprof.core.predict.flops import lower_bound_bytes
from llmprof.core.spec.axes import MODES, Mode
from llmprof.core.spec.case import Case, Probe
from llmprof.core.spec.shape import ModelShape, attention_shape

GIB = 1 << 30
MIB = 1 << 20


def parsed(command: str) -> Case:
    words = shlex.split(command)
    assert words[:2] == ["llmprof", "run"]
    parser = Parser(prog="llmprof run")
    add_case_options(parser)
    cases = experiment_from(parser.parse_args(words[2:])).cases()
    assert len(cases) == 1
    return cases[0]


def same(one: Case, other: Case) -> bool:
    def plain(case: Case) -> Case:
        model = msgspec.structs.replace(case.reference, name="", edition="")
        return msgspec.structs.replace(case, model=model, warmup_steps=5)

    return plain(one) == plain(other)


def room(gib: float, capability: tuple[int, int] = (9, 0)) -> Room:
    return Room("r", int(gib * GIB), capability)


def fields(advice: Advice) -> set[str]:
    return {axis.field for axis in advice.axes}


@pytest.mark.parametrize("budget", [12, 24, 48, 80])
def test_every_advice_is_a_command_that_fits(budget: int) -> None:
    case = Case(model=load_models()["2.7B"], context_length=1024)
    advice = advise(case, room(budget))
    assert (len(advice) > 0) == (budget > 12)
    for each in advice:
        prediction = predict(each.case)
        assert each.peak_bytes == prediction.requested_bytes < budget * GIB
        assert decide(each.case, prediction, room(budget)) == "fits"
        assert same(parsed(each.command), each.case)


def test_switches_that_keep_batch_and_context_come_before_a_smaller_batch() -> None:
    """On 24 GiB xl fits whole with bf16 and SDPA: neither alone does."""
    case = Case(model=load_models()["xl"], mode="forward-backward", context_length=512)
    first, *others = advise(case, room(24, (8, 0)))
    assert first.text == "bf16 and SDPA"
    assert fields(first) == {"precision", "attention"}
    assert first.case.tokens == case.tokens
    assert [each.text for each in others] == [
        "4 micro-batches",
        "1 block a checkpoint (computes again: about 25 % more operations a step)",
        "batch 2 instead of 4",
        "context 384 instead of 512",
    ]


def test_the_fused_optimizer_is_advised_where_its_temporaries_are_the_peak() -> None:
    case = Case(model=load_models()["2.7B"])
    assert predict(case).peak_phase == "optimizer"
    first, *_ = advise(case, room(62))
    assert (first.text, fields(first)) == ("fused AdamW", {"optimizer"})
    assert "--optimizer fused" in first.command


@pytest.mark.parametrize("gib", [4, 5, 6, 7, 8, 12, 16])
def test_what_costs_least_comes_first_and_none_does_more_than_another(gib: int) -> None:
    case = Case(model=load_models()["small"], batch_size=8, context_length=1024)
    whole = [each for each in advise(case, room(gib)) if each.case.tokens == case.tokens]
    switched = [each for each in whole if each.case.mode == case.mode]
    cost = list(CANDIDATES)
    order = [(max(map(cost.index, fields(each))), len(each.axes)) for each in switched]
    assert order == sorted(order)
    for one, other in itertools.permutations(switched, 2):
        assert not fields(one) <= fields(other)


def test_what_leaves_results_alone_comes_before_what_is_alone() -> None:
    texts = [" and ".join(axis.field for axis, _ in choice)
             for choice in choices(Case(model=load_models()["tiny"]), (9, 0))]  # fmt: skip
    slower = [text for text in texts if "accumulate" in text or "checkpoint" in text]
    assert texts[len(texts) - len(slower) :] == slower
    assert slower[:2] == ["accumulate", "accumulate"]
    assert texts[: len(texts) - len(slower)] == [
        "attention",
        "optimizer", "attention and optimizer",
        "precision", "attention and precision", "optimizer and precision",
        "attention and optimizer and precision",
    ]  # fmt: skip


@pytest.mark.parametrize("mode", MODES)
def test_what_parameters_alone_rule_out_is_not_taped(
    mode: Mode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No step needs less than the bound that is looked at first."""
    least = Case(model=load_models()["tiny"], mode=mode, context_length=1, batch_size=1)
    fused = msgspec.structs.replace(least, optimizer="fused", attention="sdpa")
    for case in (least, fused):
        assert lower_bound_bytes(case) < predict(case).requested_bytes

    def taped(case: Case, *others: object) -> bool:
        assert lower_bound_bytes(case) < 15 * GIB, case.label
        return False

    monkeypatch.setattr("llmprof.core.predict.advice.certainly_fits", taped)
    assert advise(Case(model=load_models()["10B"], mode=mode, seed=1), room(15)) == ()


@pytest.mark.parametrize(
    ("gib", "batch_size", "context_length"), [(9, 64, 1024), (30, 8, 4096), (3.5, 16, 1024)]
)
def test_advised_batch_and_context_are_the_largest_that_any_switches_allow(
    gib: float, batch_size: int, context_length: int
) -> None:
    case = Case(model=load_models()["small"], batch_size=batch_size, context_length=context_length)
    advice = advise(case, room(gib))
    larger = {"batch_size", "context_length"}
    assert any(fields(each) & larger for each in advice)
    bases = [case, *(switched(case, choice) for choice in choices(case, (9, 0)))]
    if not fields(advice[0]) & larger:
        bases = [case]  # switches alone do: a smaller batch is of the case as it is
    for each in advice:
        for field, step in (("batch_size", 1), ("context_length", 64)):
            if fields(each) & larger == {field}:
                more = getattr(each.case, field) + step
                for base in bases:
                    if field == "batch_size" and more % base.accumulate:
                        continue
                    over = msgspec.structs.replace(base, **{field: more})
                    assert decide(over, predict(over), room(gib)) != "fits"


def test_what_saves_nothing_is_not_advised() -> None:
    case = Case(model=load_models()["xl"], mode="train", optimizer="fused", attention="sdpa")
    for each in advise(case, room(24)):
        assert not fields(each) & {"optimizer", "attention"}


def test_when_neither_batch_nor_context_is_enough_both_are_smaller() -> None:
    small = load_models()["small"]
    case = Case(model=small, mode="forward-grad", batch_size=4096, context_length=4096)
    (both, *_) = advise(case, room(4))
    assert fields(both) >= {"batch_size", "context_length"}
    assert both.case.batch_size == 1
    assert both.text.startswith("context ")
    assert " and batch 1 instead of 4096, with " in both.text


def test_a_precision_that_the_card_lacks_is_never_advised() -> None:
    case = Case(model=load_models()["medium"], context_length=512, batch_size=16)
    assert {each.case.precision for each in advise(case, room(15, (7, 5)))} <= {"fp32", "fp16"}
    asked = msgspec.structs.replace(case, precision="bf16")
    assert {each.case.precision for each in advise(asked, room(15, (7, 5)))} == {"fp32"}


def test_without_autocast_there_are_no_copies_of_the_weights() -> None:
    case = Case(model=load_models()["2.7B"], mode="forward", precision="bf16")
    first, *_ = advise(case, room(17))
    assert first.text == "fp32"


def test_a_narrower_mode_is_named_again_only_with_fewer_switches() -> None:
    case = Case(model=load_models()["xl"], context_length=512)
    assert [each.text for each in advise(case, room(24, (8, 0)))] == [
        "mode forward-backward, with bf16 and SDPA",
        "mode forward-grad, with 2 micro-batches",
        "mode forward",
    ]


def test_advice_is_a_handful() -> None:
    case = Case(model=load_models()["2.7B"], context_length=1024)
    assert len(advise(case, room(79.65))) <= MOST_ADVICE == 5
    assert advise(msgspec.structs.replace(case, probe="attention"), room(1)) == ()


def test_a_further_axis_is_tried_by_an_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever axis has candidates is taken into every combination, mildest value first."""
    halves = dict(CANDIDATES) | {"batch_size": lambda case, _: (case.batch_size // 2, 1)}
    monkeypatch.setattr("llmprof.core.predict.candidates.CANDIDATES", halves)
    case = Case(model=load_models()["tiny"])
    alone = [choice for choice in choices(case, (9, 0)) if len(choice) == 1]
    assert [(axis.field, value) for ((axis, value),) in alone] == [
        ("attention", "sdpa"), ("optimizer", "fused"), ("precision", "bf16"),
        ("accumulate", 2), ("accumulate", 4), ("checkpoint", 1),
        ("batch_size", 2), ("batch_size", 1),
    ]  # fmt: skip
    assert len(list(choices(case, (9, 0)))) == 2 * 2 * 2 * 3 * 2 * 3 - 1


def test_advice_counts_what_others_hold_and_the_context_that_was_measured() -> None:
    case = Case(model=load_models()["xl"], mode="forward-backward", context_length=512)
    free = Room("r", 24 * GIB, (8, 0), context_bytes=300 * MIB)
    assert advise(case, free)[0].text == "bf16 and SDPA"
    taken = Room("r", 24 * GIB, (8, 0), taken_bytes=4 * GIB)
    for less in (taken, Room("r", 24 * GIB, (8, 0), context_bytes=4 * GIB)):
        assert "bf16 and SDPA" not in [each.text for each in advise(case, less)]


def test_command_spells_a_shape_that_is_not_a_preset() -> None:
    shape = ModelShape(
        name="mine", d_model=96, d_ff=200, num_layers=3, num_heads=6, kv_heads=2, vocab_size=77
    )
    case = Case(model=shape, mode="forward", precision="bf16", attention="sdpa", batch_size=3)
    assert same(parsed(command_of(case)), case)


@pytest.mark.parametrize("probe", ["memory", "kernels"])
def test_command_of_a_recorded_or_profiled_case_does_that_again(probe: Probe) -> None:
    case = Case(model=load_models()["tiny"], probe=probe, precision="bf16")
    words = shlex.split(command_of(case))
    assert words[:5] == ["llmprof", "run", probe, "--model-size", "tiny"]
    parser = Parser(prog="llmprof run")
    add_case_options(parser)
    cases = experiment_from(parser.parse_args(words[3:]), probe).cases()
    assert any(same(each.configuration(), case.configuration()) for each in cases)
    assert {each.precision for each in cases} == {"bf16"}


def test_command_of_an_attention_alone_measures_one_alone() -> None:
    case = Case(model=attention_shape(64), probe="attention", mode="forward-backward",
                precision="fp16", batch_size=8, context_length=4096)  # fmt: skip
    words = shlex.split(command_of(case))
    parser = Parser(prog="llmprof run")
    add_case_options(parser)
    assert words[:3] == ["llmprof", "run", "attention"]
    cases = experiment_from(parser.parse_args(words[3:]), "attention").cases()
    assert any(same(each.configuration(), case.configuration()) for each in cases)


def test_verdict_between_the_bounds_is_settled_by_replaying() -> None:
    case = Case(model=load_models()["medium"], mode="train", context_length=512)
    prediction = predict(case)
    low, high = needed_bytes(prediction)
    assert fit_verdict(prediction, high) == "fits"
    assert fit_verdict(prediction, low - 1) == "does not fit"
    assert fit_verdict(prediction, high - 1) == "too close to say"
    assert decide(case, prediction, Room("r", high - 1, (9, 0))) == "fits"
    assert certainly_fits(case, prediction, Room("r", high - 1, (9, 0)))
    assert not certainly_fits(case, prediction, Room("r", low, (9, 0)))
    tight = prediction.requested_bytes + CONTEXT_LOW + (1 << 20)
    assert decide(case, prediction, Room("r", tight, (9, 0))) == "does not fit"


@pytest.mark.parametrize("measured", [200 * MIB, 528 * MIB, 2000 * MIB])
def test_a_measured_context_is_the_least_that_a_case_needs(measured: int) -> None:
    prediction = predict(Case(model=load_models()["medium"], mode="train"))
    low, high = needed_bytes(prediction, measured)
    assert low == prediction.allocated_low + measured
    assert context_span(measured)[1] >= max(CONTEXT_HIGH, measured + 1)
    assert fit_verdict(prediction, low - 1, measured) == "does not fit"
    assert fit_verdict(prediction, low, measured) == "too close to say"
    assert fit_verdict(prediction, high, measured) == "fits"


def test_a_measured_context_settles_what_an_assumed_one_leaves_open() -> None:
    prediction = predict(Case(model=load_models()["medium"], mode="train"))
    free = prediction.allocated_low + CONTEXT_LOW + 100 * MIB
    assert fit_verdict(prediction, free) == "too close to say"
    assert fit_verdict(prediction, free, CONTEXT_LOW + 200 * MIB) == "does not fit"


def test_replaying_counts_the_context_that_was_measured() -> None:
    case = Case(model=load_models()["medium"], mode="train", context_length=512)
    prediction = predict(case)
    room = prediction.requested_bytes + CONTEXT_HIGH + 60 * MIB
    assert fit_verdict(prediction, room) == "too close to say"
    assert decide(case, prediction, Room("r", room, (9, 0))) != "does not fit"
    huge = Room("r", room, (9, 0), context_bytes=CONTEXT_HIGH + 100 * MIB)
    assert decide(case, prediction, huge) == "does not fit"


@pytest.mark.parametrize(("measured", "own"), [(528 * MIB, 528 * MIB), (None, CONTEXT_LOW)])
def test_the_probes_own_context_is_not_taken_from_a_worker(measured: int | None, own: int) -> None:
    """What is free was read beside it: its place is free again when a case runs."""
    case = Case(model=load_models()["medium"], mode="train")
    need = needed_bytes(predict(case), measured)[1]
    here = Environment(device="cuda:0", device_name="card", capability=(9, 0),
                       memory_free_bytes=need - own, context_bytes=measured)  # fmt: skip
    assert free_for_a_process(here) == need
    room = room_here(here)
    assert room is not None
    assert (room.free_bytes, room.context_bytes) == (need, measured)
    assert room_here(msgspec.structs.replace(here, device="cpu")) is None
    fits = predicted_here(0, case, here)
    assert fits is not None
    assert (fits.verdict, fits.context_bytes) == ("fits", measured)
    tighter = msgspec.structs.replace(here, memory_free_bytes=need - own - 1)
    close = predicted_here(0, case, tighter)
    assert close is not None
    assert close.verdict == "too close to say"
    assert predicted_here(0, case, msgspec.structs.replace(here, device="cpu")) is None


def test_memory_that_others_hold_is_not_there() -> None:
    case = Case(model=load_models()["small"], mode="train")
    prediction = predict(case)
    assert decide(case, prediction, Room("r", 24 * GIB, (8, 0))) == "fits"
    assert decide(case, prediction, Room("r", 24 * GIB, (8, 0), 22 * GIB)) == "does not fit"


def test_a_compiled_case_is_never_said_not_to_fit_when_half_would() -> None:
    case = Case(model=load_models()["medium"], mode="train", compile="default")
    prediction = predict(case)
    assert prediction.upper_bound
    assert fit_verdict(prediction, int(0.8 * prediction.allocated_low)) == "too close to say"


def test_event_carries_the_prediction() -> None:
    case = Case(model=load_models()["tiny"], mode="train")
    event = predicted(3, case, free_bytes=8 * GIB)
    assert event is not None
    assert (event.case, event.verdict) == (3, "fits")
    assert sum(event.breakdown.values()) == event.requested_bytes
    assert predicted(0, msgspec.structs.replace(case, probe="attention")) is None
