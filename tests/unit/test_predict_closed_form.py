"""The closed form against peaks measured on a card, and its own consistency."""

from __future__ import annotations

import json
import statistics
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest

from llmprof.core.catalog.models import load_models
from llmprof.core.predict.allocator_replay import replay_allocator
from llmprof.core.predict.closed_form import Unpredictable, predict
from llmprof.core.predict.fits import Room, decide
from llmprof.core.spec.axes import MODES, OPTIMIZERS
from llmprof.core.spec.case import Case
from llmprof.core.spec.shape import ModelShape

FIXTURE = Path(__file__).parent.parent / "fixtures" / "predict-h100.json"
H100 = Room("H100", 81_559 << 20, (9, 0))  # nvidia-smi's total


@cache
def measured() -> list[tuple[Case, list[int] | None, list[int]]]:
    data = json.loads(FIXTURE.read_text())
    models = load_models()
    cells = []
    for values, peaks, *phases in data["cells"]:
        fields: dict[str, Any] = dict(zip(data["fields"], values, strict=True))
        model = fields["model"]
        if isinstance(model, str):
            fields["model"] = msgspec.to_builtins(models[model])
        cells.append((msgspec.convert(fields, Case), peaks, phases[0] if phases else []))
    return cells


def fitting() -> list[tuple[Case, list[int], list[int]]]:
    return [(case, peaks, phases) for case, peaks, phases in measured() if peaks is not None]


def test_requested_peaks_of_a_card_are_met() -> None:
    errors = [abs(predict(case).requested_bytes / peaks[0] - 1) for case, peaks, _ in fitting()]
    assert len(errors) >= 290
    assert statistics.median(errors) <= 0.0001
    assert max(errors) <= 0.001


def test_every_phase_of_a_card_is_met() -> None:
    for case, _, phases in fitting():
        predicted = [each.peak for each in predict(case).phases]
        for mine, theirs in zip(predicted, phases, strict=True):
            assert abs(mine / theirs - 1) <= 0.001, case.label


def test_allocated_lies_in_the_band() -> None:
    inside = [
        (p := predict(case)).allocated_low <= peaks[1] <= p.allocated_high
        for case, peaks, _ in fitting()
    ]
    assert sum(inside) / len(inside) >= 0.95


def test_verdicts_for_the_card_are_right() -> None:
    close = 0
    for case, peaks, _ in measured():
        said = decide(case, predict(case), H100)
        close += said == "too close to say"
        assert said in ("too close to say", "does not fit" if peaks is None else "fits"), case.label
    assert close <= len(measured()) * 0.1


def test_replayed_allocator_meets_allocated_and_reserved() -> None:
    for case, peaks, _ in fitting()[::23]:
        again = replay_allocator(case)
        assert abs(again.allocated_bytes / peaks[1] - 1) <= 0.01, case.label
        assert abs(again.reserved_bytes / peaks[2] - 1) <= 0.05, case.label


SHAPE = ModelShape(name="m", d_model=128, d_ff=352, num_layers=7, num_heads=4, vocab_size=999)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_parts_sum_to_the_peak_and_the_peak_is_a_phase(mode: str, precision: str) -> None:
    case = msgspec.convert(
        {"model": msgspec.to_builtins(SHAPE), "mode": mode, "precision": precision}, Case
    )
    found = predict(case)
    assert sum(found.breakdown.values()) == found.requested_bytes
    peaks = {each.phase: each.peak for each in found.phases}
    assert found.requested_bytes == max(peaks.values()) == peaks[found.peak_phase]
    assert found.allocated_low >= found.requested_bytes
    assert set(peaks) == set(case.phases)


def test_depth_beyond_the_tape_equals_the_tape_at_full_depth(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cases = [
        Case(model=SHAPE, mode=mode, precision=precision, attention=attention)
        for mode in MODES
        for precision in ("fp32", "bf16")
        for attention in ("naive", "sdpa")
    ]
    composed = [predict(case) for case in cases]
    monkeypatch.setattr("llmprof.core.predict.taped_depth.TAPED_LAYERS", 99)
    for case, short in zip(cases, composed, strict=True):
        assert predict(case) == short, case.label


def test_optimizers_differ_by_their_temporaries() -> None:
    needs = {
        kind: {
            each.phase: each.peak
            for each in predict(Case(model=SHAPE, mode="train", optimizer=kind)).phases
        }["optimizer"]
        for kind in OPTIMIZERS
    }
    steps = 4 * SHAPE.parameter_tensors
    assert needs["foreach"] - (needs["fused"] - steps) == 4 * SHAPE.parameters
    assert needs["loop"] - (needs["fused"] - steps) == 4 * 999 * 128


def test_cards_without_hopper_have_smaller_workspaces_and_other_kernels() -> None:
    case = Case(model=SHAPE, mode="train", precision="bf16", attention="sdpa")
    hopper, ampere, turing = (predict(case, c) for c in ((9, 0), (8, 0), (7, 5)))
    assert (hopper.kernel, ampere.kernel, turing.kernel) == ("cudnn", "flash", "efficient")
    assert hopper.breakdown["workspace"] == 64 << 20
    assert ampere.breakdown["workspace"] == 2 * (4096 * 2 + 16 * 8) * 1024


def test_attention_probe_is_refused_with_what_to_do() -> None:
    with pytest.raises(Unpredictable, match="llmprof run attention"):
        predict(Case(model=SHAPE, probe="attention"))
