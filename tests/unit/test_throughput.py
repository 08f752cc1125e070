"""Rates by hand, MFU against the right peak, calibrations kept and read."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from llmprof.core import events as ev
from llmprof.core.figures.throughput import peak_of, throughput
from llmprof.core.report.scaling import throughput_table
from llmprof.core.report.table import format_cell
from llmprof.core.store.calibrations import load_ceilings, save_ceilings
from tests.builders.planted import CPU, GPU, Times, around, case, one, run, view


def test_rates_by_hand() -> None:
    state = one(case(mode="forward"), {"forward": [10.0] * 4})
    rates = throughput(state, GPU)
    assert rates is not None
    assert rates.tokens_per_s == pytest.approx(51_200)
    assert rates.tflops == pytest.approx(0.4292e12 / 0.010 / 1e12, rel=1e-3)
    assert rates.mfu == pytest.approx(42.92 / 66.9, rel=1e-3)
    assert rates.of_ceiling is None


def test_a_training_token_costs_three_forwards() -> None:
    forward = throughput(one(case(mode="forward"), {"forward": [10.0] * 4}), GPU)
    both: Times = {"forward": [4.0] * 4, "backward": [6.0] * 4}
    train = throughput(one(case(mode="train"), both), GPU)
    assert forward is not None
    assert train is not None
    assert forward.tflops is not None
    assert train.tflops == pytest.approx(3 * forward.tflops)


@pytest.mark.parametrize(("precision", "peak"), [("fp32", 66.9), ("tf32", 494.7), ("bf16", 989.4)])
def test_the_peak_is_that_of_the_precision(precision: str, peak: float) -> None:
    found = peak_of(case(precision=precision), GPU, None)
    assert found is not None
    assert found.tflops == peak


def test_an_unknown_card_has_no_mfu_unless_a_peak_is_given() -> None:
    other = msgspec.structs.replace(GPU, device_name="Some Card")
    state = one(case(mode="forward"), {"forward": [10.0] * 4}, environment=other)
    rates = throughput(state, other)
    assert rates is not None
    assert rates.mfu is None
    given = throughput(state, other, 85.84)
    assert given is not None
    assert given.mfu == pytest.approx(0.5, rel=1e-3)


def test_the_table_says_what_mfu_is_a_share_of() -> None:
    cases = [case(mode="forward"), case(mode="forward", precision="bf16")]
    events = [
        *run(0, cases[0], {"forward": around(10.0)}),
        *run(1, cases[1], {"forward": around(5.0)}),
    ]
    table = throughput_table(view(cases, events))
    assert table is not None
    heads = [column.heading for column in table.columns]
    shares = [float(format_cell(row[heads.index("MFU (%)")])) for row in table.rows]
    assert shares == [pytest.approx(64.1, abs=0.3), pytest.approx(8.68, abs=0.05)]
    notes = " ".join(table.notes)
    assert "fp32 66.9 TFLOP/s; bf16 989.4 TFLOP/s" in notes
    assert "6N + 12·n·d·L" in notes


def test_without_a_peak_the_table_has_no_mfu_column() -> None:
    cases = [case(mode="forward")]
    table = throughput_table(view(cases, run(0, cases[0], {"forward": around(10.0)}), CPU))
    assert table is not None
    assert "MFU (%)" not in [column.heading for column in table.columns]
    assert "dense peak of Some CPU is not known" in " ".join(table.notes)


def test_calibrations_are_kept_by_device(tmp_path: Path) -> None:
    path = tmp_path / "state" / "calibrations.json"
    assert load_ceilings(CPU, path) is None
    card = msgspec.structs.replace(GPU, device_uuid="GPU-1")
    save_ceilings(CPU, ev.Ceilings(matmul_tflops={"fp32": 0.1}, copy_gbs=10.0), path)
    save_ceilings(card, ev.Ceilings(matmul_tflops={"fp32": 50.0}), path)
    kept = load_ceilings(CPU, path)
    assert kept is not None
    assert kept.copy_gbs == 10.0
    found = load_ceilings(card, path)
    assert found is not None
    assert found.matmul_tflops == {"fp32": 50.0}
    assert load_ceilings(msgspec.structs.replace(GPU, device_uuid="GPU-2"), path) is None
    path.write_text("not json")
    assert load_ceilings(CPU, path) is None


def test_the_share_of_a_calibration() -> None:
    calibrated = msgspec.structs.replace(CPU, ceilings=ev.Ceilings(matmul_tflops={"fp32": 85.84}))
    state = one(case(mode="forward"), {"forward": [10.0] * 4}, environment=calibrated)
    rates = throughput(state, calibrated)
    assert rates is not None
    assert rates.of_ceiling == pytest.approx(0.5, rel=1e-3)
    assert rates.mfu is None
