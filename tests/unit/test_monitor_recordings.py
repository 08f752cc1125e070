"""A load going up and down, recorded on an H100 by benchmarks/monitor_load.py, replayed.

Idle, bf16 matmuls (10.4-18.4 s), copies (18.4-24.4 s), idle, matmuls again (28.3 s), from 34 s on
beside another process, which works on alone from 37 s.
"""

from __future__ import annotations

import itertools
import json

import pytest

from llmprof.core.devices.recorded import ReplaySource
from llmprof.core.events.merge import merge
from llmprof.core.figures.case_device import CaseDevice, disturbances, join_case, other_processes
from llmprof.core.monitor.words import as_object
from llmprof.core.report.card_activity import devices
from llmprof.core.report.step_log import step_logs
from llmprof.core.report.table import format_cell
from llmprof.core.state import time_spans as iv
from llmprof.core.state.view import RunView
from tests.builders.recorded_run import RECORDING, SAMPLES, at, run


def joined(first: float, last: float, steps: int = 50) -> CaseDevice:
    view = run(first, last, steps)
    return join_case(view, view.cases[0])


def test_the_recording_names_nobody_and_is_small() -> None:
    assert RECORDING.stat().st_size < 300_000
    processes = {
        (process.pid, process.user, process.command)
        for sample in SAMPLES
        for card in sample.cards
        for process in card.processes or ()
    }
    assert processes == {
        (4001, "user", "python train.py"),
        (4002, "user", "python other.py"),
    }


def test_matmuls_heat_the_card_to_its_power_limit() -> None:
    got = joined(10.6, 18.3)
    assert got.reason is None
    assert got.power is not None
    assert got.power_limit == 700
    assert got.power.mean == pytest.approx(700, rel=0.02)
    assert got.sm_clock is not None
    assert got.sm_clock_max == 1980
    assert got.sm_clock.mean < 1600
    assert got.throttled_s == pytest.approx(7.7, abs=0.3)
    assert set(got.throttle_reasons) == {"power cap"}
    assert got.throttled_steps >= 48
    assert got.others == ()


def test_copies_use_memory_and_are_not_throttled() -> None:
    got = joined(19.4, 24.3)
    assert got.memory_utilization is not None
    assert got.memory_utilization.mean == 100
    assert got.throttled_s == 0
    assert got.marks == ()
    assert got.energy is not None  # from two readings of the counter, 2 s apart
    assert got.energy.error_percent == pytest.approx(5, abs=0.1)
    assert got.energy.mean_w == pytest.approx(472, rel=0.01)


def test_energy_agrees_with_power_integrated() -> None:
    view = run(10.6, 18.3, 77)
    energy = join_case(view, view.cases[0]).energy
    assert energy is not None
    assert energy.source == "energy counter"
    assert energy.joules_per_step == pytest.approx(70, rel=0.03)
    assert energy.joules_per_token == pytest.approx(energy.joules_per_step / 512)
    assert energy.error_percent < 2.6
    times, watts = view.cards[0].series["power"].points()
    counted = view.cards[0].series["energy"].points()
    readings = list(zip(*counted, strict=True))
    total_j = readings[-1][1] - readings[0][1]
    inside = [(t, w) for t, w in zip(times, watts, strict=True) if t <= readings[-1][0]]
    integral_j = iv.trapezoid(*zip(*inside, strict=True))
    assert total_j == pytest.approx(integral_j, rel=0.03)
    assert all(later[1] >= sooner[1] for sooner, later in itertools.pairwise(readings))


def test_another_tenant_is_tied_to_the_steps_beside_it() -> None:
    view = run(29.0, 36.4, 74)
    got = join_case(view, view.cases[0])
    assert [(p.pid, p.command) for p in got.others] == [(4002, "python other.py")]
    shared = [mark.position for mark in got.marks if mark.shared]
    assert shared[-1] == 73
    assert 30 <= shared[0] <= 57  # the reading 2 s before did not see it yet
    assert "python other.py" in disturbances(view, got)[1]
    assert other_processes(view) == got.others


def test_activity_tells_matmuls_from_copies() -> None:
    series = run(1, 2, 2).cards[0].series
    matmul = series["tensor_activity"].between(at(12.5), at(18.2))
    copies = series["tensor_activity"].between(at(20.5), at(24.2))
    assert min(matmul) > 85
    assert max(copies) < 1
    assert min(series["dram_activity"].between(at(20.5), at(24.2))) > 80
    assert min(series["utilization"].between(at(20.5), at(24.2))) > 90  # which says nothing of it


def test_the_replay_ends_in_the_same_state_as_the_recording() -> None:
    now = 0

    def clock() -> int:
        return now

    replay = ReplaySource(SAMPLES, clock)
    state = replay.poll()
    while now < SAMPLES[-1].t - SAMPLES[0].t:
        now += 400_000_000
        state = merge(state, replay.poll())
    expected = SAMPLES[0]
    for sample in SAMPLES[1:]:
        expected = merge(expected, sample)
    assert state.cards == expected.cards


def test_the_state_goes_out_as_json_with_units_and_reasons() -> None:
    found = json.loads(json.dumps(as_object(run(1, 2, 2), 0)))
    (card,) = found["cards"]
    assert card["metrics"]["power_limit"] == {"value": 700.0, "unit": "W"}
    assert card["metrics"]["fan"]["reason"] == "this card does not report it"
    assert card["throttled"] is False
    assert found["time"].startswith("1970-01-01T00:00:00")


def test_the_report_has_the_card_of_each_case_and_marks_its_steps() -> None:
    view = run(10.6, 18.3, 77)
    table = devices(view)
    assert table is not None
    row = dict(zip((column.heading for column in table.columns), table.rows[0], strict=True))
    shown = {heading: format_cell(cell) for heading, cell in row.items()}
    assert shown["Power limit (W)"] == "700"
    assert shown["Throttled (s)"].startswith("7.")
    assert shown["Energy (J/step)"].startswith("69.8")
    assert shown["Shared steps"] == "0"
    assert any(note.startswith("Energy is from the energy counter") for note in table.notes)
    (log,) = step_logs(view)
    assert sum(line[-1] == "throttled" for line in log.rows) >= 70


def test_another_tenant_stands_in_the_report() -> None:
    view = run(29.0, 36.4, 74)
    table = devices(view)
    assert table is not None
    assert "On the card as well: pid 4002, user, python other.py." in table.notes
    (log,) = step_logs(view)
    assert log.rows[-1][-1] == "throttled, shared card"


def test_a_run_without_a_card_has_no_such_table() -> None:
    assert devices(RunView()) is None
