"""Advice and verdicts."""

from __future__ import annotations

import shlex

import msgspec
import pytest

from llmprof.cli.main import Parser
from llmprof.cli.options import add_case_options, experiment_from
from llmprof.core.catalog.models import load_models
from llmprof.core.events import Environment
from llmprof.core.predict.advice import advise, command_of
from llmprof.core.predict.as_event import free_for_a_process, predicted, predicted_here
from llmprof.core.predict.closed_form import predict
from llmprof.core.predict.fits import (
    CONTEXT_HIGH,
    CONTEXT_LOW,
    Room,
    context_span,
    decide,
    fit_verdict,
    needed_bytes,
)
from llmprof.core.spec.case import Case
from llmprof.core.spec.shape import ModelShape

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
        model = msgspec.structs.replace(case.model, name="", edition="")
        return msgspec.structs.replace(case, model=model)

    return plain(one) == plain(other)


@pytest.mark.parametrize("budget", [12, 24, 48, 80])
def test_every_advice_is_a_command_that_fits(budget: int) -> None:
    case = Case(model=load_models()["2.7B"], context_length=1024)
    advice = advise(case, budget * GIB)
    assert (len(advice) > 0) == (budget > 12)
    for each in advice:
        assert each.needed_bytes <= budget * GIB
        assert fit_verdict(predict(each.case), budget * GIB) == "fits"
        assert same(parsed(each.command), each.case)


def test_advised_batch_and_context_are_the_largest() -> None:
    case = Case(model=load_models()["medium"], context_length=1024, batch_size=32)
    advice = {each.change: each.case for each in advise(case, 40 * GIB)}
    more = msgspec.structs.replace(case, batch_size=advice["batch"].batch_size + 1)
    longer = msgspec.structs.replace(case, context_length=advice["context"].context_length + 64)
    for over in (more, longer):
        assert needed_bytes(predict(over))[1] > 40 * GIB


def test_what_saves_nothing_is_not_advised() -> None:
    case = Case(model=load_models()["xl"], mode="train", optimizer="fused", attention="sdpa")
    changes = {each.change for each in advise(case, 24 * GIB)}
    assert "optimizer" not in changes
    assert "attention" not in changes


def test_when_no_single_change_keeps_training_all_are_taken_together() -> None:
    case = Case(model=load_models()["small"], batch_size=64, context_length=2048)
    (together, *_) = [e for e in advise(case, int(5.5 * GIB)) if e.change == "together"]
    assert together.case.mode == "train"
    assert together.case.optimizer == "fused"


def test_command_spells_a_shape_that_is_not_a_preset() -> None:
    shape = ModelShape(
        name="mine", d_model=96, d_ff=200, num_layers=3, num_heads=6, kv_heads=2, vocab_size=77
    )
    case = Case(model=shape, mode="forward", precision="bf16", attention="sdpa", batch_size=3)
    assert same(parsed(command_of(case)), case)


def test_command_of_a_recorded_case_records_it() -> None:
    case = Case(model=load_models()["tiny"], probe="memory")
    assert command_of(case).startswith("llmprof run memory --model-size tiny ")


def test_verdict_between_the_bounds_is_settled_by_replaying() -> None:
    case = Case(model=load_models()["medium"], mode="train", context_length=512)
    prediction = predict(case)
    low, high = needed_bytes(prediction)
    assert fit_verdict(prediction, high) == "fits"
    assert fit_verdict(prediction, low - 1) == "does not fit"
    assert fit_verdict(prediction, high - 1) == "too close to say"
    assert decide(case, prediction, Room("r", high - 1, (9, 0))) == "fits"
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
