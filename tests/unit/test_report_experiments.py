"""The experiments' tables: from real recordings, and from runs made by hand."""

from __future__ import annotations

import csv
import io
import json
import re
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from markdown_it import MarkdownIt

from llmprof.core import events as ev
from llmprof.core.figures.comparison import compare
from llmprof.core.figures.outcomes import to_resume
from llmprof.core.report.attention import attention, exponents
from llmprof.core.report.compilation import compilation
from llmprof.core.report.coverage import coverage
from llmprof.core.report.formats import render
from llmprof.core.report.markdown import facts, steps_of
from llmprof.core.report.phase_ratios import ratios
from llmprof.core.report.precision import precision
from llmprof.core.report.registry import BUILDERS, tables
from llmprof.core.report.repayment import steps_until_repaid
from llmprof.core.report.scaling import scaling
from llmprof.core.report.sentences import (
    case_numbers,
    is_launch_bound,
    mean_and_spread,
    mean_interval,
)
from llmprof.core.report.subject import subject_of
from llmprof.core.report.switches import switches
from llmprof.core.report.table import Table, format_cell
from llmprof.core.report.warmup import warmup
from llmprof.core.spec.case import Case
from llmprof.core.spec.shape import ModelShape
from llmprof.core.state.view import RunView
from llmprof.core.stats.power_fit import Point, fit_power
from llmprof.core.stats.ratio import Ratio
from llmprof.core.stats.summary import summarize
from llmprof.core.store.files import JOURNAL
from llmprof.core.store.pack import open_view
from tests.builders.planted import (
    CPU,
    SHAPE,
    Times,
    around,
    case,
    failed,
    memory,
    observed,
    one,
    run,
    view,
)

FIXTURES = Path(__file__).parent.parent / "fixtures"
RECORDINGS = (
    "precision-h100",
    "switches-h100",
    "switches-large-h100",
    "attention-h100",
    "attention-oom-h100",
    "warmup-h100",
    "warmup-forward-backward-h100",
    "scaling-h200",
    "interleave-h200",
    "switches-h200",
    "processes-h200",
)
GIB = 1 << 30


def recording(name: str) -> RunView:
    return open_view(FIXTURES / f"{name}.llmprof")


def before_its_last_resume(name: str, folder: Path) -> RunView:
    """The recording as it stood when its engine was last started."""
    with zipfile.ZipFile(FIXTURES / f"{name}.llmprof") as archive:
        lines = archive.read(JOURNAL).splitlines(keepends=True)
    starts = [at for at, line in enumerate(lines) if b'"kind":"Segment"' in line]
    journal = folder / JOURNAL
    journal.write_bytes(b"".join(lines[: starts[-1]]))
    return open_view(journal)


def cells(table: Table, heading: str) -> list[str]:
    at = [column.heading for column in table.columns].index(heading)
    return [format_cell(row[at]) for row in table.rows]


def exponent(text: str) -> float:
    """A figure of a column of exponents."""
    return float(text)


def train(total: float) -> Times:
    return {
        "forward": around(total / 4),
        "backward": around(total / 2),
        "optimizer": around(total / 4),
    }


# ------------------------------------------------------------------ real recordings


def test_precision_on_a_card_has_the_write_ups_columns() -> None:
    table = precision(recording("precision-h100"))
    assert table is not None
    assert [column.heading for column in table.columns] == [
        "Model Size",
        "Mixed precision",
        "Avg Time FP (ms)",
        "Avg Time MP (ms)",
        "Speed-up (×)",
        "95 % interval (×)",
        "Peak allocated FP (MiB)",
        "Peak allocated MP (MiB)",
        "Verdict",
    ]
    assert cells(table, "Model Size") == ["small", "small", "medium", "medium", "large", "large"]
    full, mixed = cells(table, "Avg Time FP (ms)"), cells(table, "Avg Time MP (ms)")
    for top, bottom, shown in zip(full, mixed, cells(table, "Speed-up (×)"), strict=True):
        assert float(shown) == pytest.approx(float(top) / float(bottom), rel=0.01)


def test_a_resident_set_is_not_said_to_grow_by_copies_of_weights() -> None:
    """It grows by whatever a library loads; on a card the allocator counts the copies alone."""
    cases = [case(precision=each) for each in ("fp32", "bf16")]
    levels = [{"forward": size * GIB, "backward": 9 * GIB} for size in (2, 3)]
    for environment, source in ((CPU, "resident set"), (None, "cuda allocator")):
        events = [
            event
            for at, each in enumerate(cases)
            for event in run(at, each, train(40), memory(at, levels[at], source))
        ]
        made = view(cases, events) if environment is None else view(cases, events, environment)
        table = precision(made)
        assert table is not None
        (said,) = [note for note in table.notes if "rises from" in note]
        assert ("since autocast keeps" in said) == (environment is None)


def test_no_interval_of_a_time_begins_below_nothing() -> None:
    assert mean_interval(summarize([1.0, 500.0, 2.0])).startswith("0 to ")
    assert mean_interval(summarize([20.0, 21.0, 22.0])) == "18.5 to 23.5"


@pytest.mark.parametrize("host", [0.3, {"sdpa": 0.95}])
def test_ways_that_are_told_apart_from_none_and_cells_of_the_host(host: Any) -> None:
    """Of three ways two are compared, and of the third nothing is said; of cells some wait."""
    ways: list[dict[str, Any]] = [{"compile": "default"}, {}, {"attention": "sdpa"}]
    cases = [
        case(probe="attention", mode="forward", process=process, **way)
        for way in ways
        for process in range(3)
    ]
    luck = {"compile": (21, 29, 24), "attention": (19, 28, 23), "": (20, 30, 25)}
    events = []
    for at, each in enumerate(cases):
        way = "attention" if each.attention == "sdpa" else "compile" if each.compile else ""
        waits = 0.3 if host == 0.3 or way != "attention" else host["sdpa"]
        times: Times = {"forward": around(luck[way][at % 3])}
        events += run(at, each, times, host=waits)
    (table,) = attention(subject_of(view(cases, events)).as_one)
    notes = [note for note in table.notes if "is not distinguished from" in note]
    paced = [note for note in table.notes if note.startswith("The host sets the pace")]
    if host == 0.3:
        assert notes[0].startswith("At 128 tokens SDPA is not distinguished from raw")
        assert paced == []
    else:
        assert paced[0].startswith("The host sets the pace of 1 of 3 cells up to 128 tokens, ")


def test_attention_on_a_card_obeys_the_arithmetic() -> None:
    table = exponents(recording("attention-h100"))
    assert table is not None
    ways = cells(table, "Way")
    assert ways == ["compiled", "raw", "SDPA"]
    for heading in ("forward exponent", "backward exponent"):
        found = dict(zip(ways, cells(table, heading), strict=True))
        assert exponent(found["raw"]) == pytest.approx(2.0, abs=0.1)
    kept = dict(zip(ways, map(exponent, cells(table, "memory kept exponent")), strict=True))
    assert kept["raw"] == kept["compiled"] == pytest.approx(2.0, abs=0.05)
    assert kept["SDPA"] == pytest.approx(1.0, abs=0.05)


def test_attention_on_a_card_keeps_the_scores_once_and_the_mask() -> None:
    (table,) = attention(recording("attention-h100"))
    lengths = cells(table, "seq_len (tokens)")
    raw = cells(table, "level before backward (raw) (MiB)")
    softmax_and_mask = 8 * 16_384**2 * 4 + 16_384**2  # fp32 weights, a bool mask
    (found,) = (
        float(m.replace(",", "")) for n, m in zip(lengths, raw, strict=True) if n == "16,384"
    )
    assert found * 2**20 == pytest.approx(softmax_and_mask, rel=0.03)


def test_an_attention_beyond_the_card_is_a_cell_and_the_fused_one_runs() -> None:
    (table,) = attention(recording("attention-oom-h100"))
    assert cells(table, "forward (raw) (ms)") == ["OOM"]
    assert cells(table, "level before backward (raw) (MiB)") == ["OOM"]
    kept = float(cells(table, "level before backward (SDPA) (MiB)")[0])
    qkv_output = 4 * 8 * 32_768 * 64 * 4  # fp32
    row_sums = 8 * 32_768 * 4
    assert kept * 2**20 == pytest.approx(qkv_output + row_sums + qkv_output / 4, rel=0.02)
    assert any("out of memory in forward, 32,768 MiB asked" in note for note in table.notes)
    assert any("took 49.9 s a cell" in note for note in table.notes)


def test_warm_up_on_a_card_is_worth_its_first_step() -> None:
    table = warmup(recording("warmup-h100"))
    assert table is not None
    counts = cells(table, "Warm-up (steps)")
    assert counts == ["0", "1", "2", "5"] * 3
    spread = [float(text) for text in cells(table, "Std Dev (ms)")]
    assert all(spread[at] > 5 * spread[at + 3] for at in (0, 4, 8))
    said = [note for note in table.notes if "after one warm-up step" in note]
    assert len(said) == 3
    assert all("one process: not judged" in note for note in said)


def test_switches_on_a_card_that_waits_for_its_host() -> None:
    state = recording("switches-h100")
    assert to_resume(state) == ()
    table, _ = switches(state)
    verdicts = dict(zip(cells(table, "Switch"), cells(table, "Verdict"), strict=True))
    assert set(verdicts.values()) == {
        "baseline",
        "one process: not judged",
        "not judged: failed check warming",
    }
    assert any("the host sets the baseline's pace" in note for note in table.notes)


def test_switches_in_three_processes_each_on_a_card() -> None:
    """small, medium, large at 512 tokens, 45 fresh processes on an H200."""
    table, phases = switches(subject_of(recording("switches-h200")).as_one)
    rows = zip(*(cells(table, each) for each in ("Model Size", "Switch", "Verdict")), strict=True)
    verdicts = {(size, switch): verdict for size, switch, verdict in rows}
    for size in ("small", "medium", "large"):
        assert verdicts[size, "fused AdamW"] == "optimizer faster; step faster"
        assert verdicts[size, "SDPA"] == "forward faster; backward faster; step faster"
    assert verdicts["medium", "TF32"].endswith("(tested together, none of them is)")
    parts = cells(phases, "Part of the step")
    gains = cells(phases, "Speed-up (×)")
    acted = cells(phases, "Acted on")
    fused = [row[1] == "fused AdamW" for row in phases.rows]
    optimizer = [
        float(gain)
        for gain, part, mine in zip(gains, parts, fused, strict=True)
        if mine and part == "optimizer"
    ]
    assert optimizer == pytest.approx([2.8, 2.6, 2.5], abs=0.35)
    assert {part for part, yes, mine in zip(parts, acted, fused, strict=True) if mine and yes} == {
        "optimizer"
    }
    said = " ".join(table.notes)
    assert "small: 2 switches make the step faster, SDPA by the largest ratio" in said
    assert "no switch" not in said


def test_switches_of_large_models_are_all_there() -> None:
    state = recording("switches-large-h100")
    assert to_resume(state) == ()
    table, phases = switches(state)
    assert cells(table, "Switch")[-1] == "bf16 + SDPA + fused AdamW + torch.compile"
    optimizer = [
        row[-6:-3]
        for row in phases.rows
        if row[0] == "large" and row[1] == "fused AdamW" and row[2] == "optimizer"
    ]
    assert [[format_cell(cell) for cell in row] for row in optimizer] == [
        ["34.13", "16.00", "2.13"]
    ]
    assert float(cells(table, "Compile + first step (s)")[-1]) > 60


def test_a_stopped_run_shows_what_is_missing(tmp_path: Path) -> None:
    state = before_its_last_resume("switches-large-h100", tmp_path)
    assert to_resume(state) == (13,)
    table, _ = switches(state)
    assert cells(table, "Verdict")[0] == "baseline"
    assert cells(table, "Verdict")[-1] == "no figure"
    grid = coverage(state)
    assert grid is not None
    assert "14 cells: 13 done, 1" in grid.notes[0]


def test_processes_of_a_configuration_share_a_cell_of_the_coverage() -> None:
    state = recording("switches-h200")
    grid = coverage(state)
    assert grid is not None
    assert cells(grid, "Precision fp32")[0] == "done (1, 10, 14)"
    assert grid.notes[0].startswith("15 cells, 45 processes in all: 45 done.")
    numbers = re.findall(r"\d+", " ".join(str(cell) for row in grid.rows for cell in row[3:]))
    assert sorted(map(int, numbers)) == list(range(1, 46))


def test_every_process_has_its_case_number_in_the_stability_table() -> None:
    (table,) = (t for t in tables(recording("switches-h200")) if t.key == "stability")
    assert sorted(map(int, cells(table, "Case"))) == list(range(1, 46))


def test_the_header_lists_the_cases_with_tf32() -> None:
    said = dict(facts(recording("switches-h200")))["Precision"]
    assert said.endswith("; TF32 on in cases 2, 6, 15, 17, 21, 30, 32, 36, 45, off in the others")
    assert dict(facts(recording("precision-h100")))["Precision"].endswith("; TF32 off")


@pytest.mark.parametrize(
    ("indices", "text"),
    [((3,), "case 4"), ((0, 1), "cases 1, 2"), ((7, 2, 3, 4, 5), "cases 3 to 6, 8")],
)
def test_numbers_of_cases_are_told_in_short(indices: tuple[int, ...], text: str) -> None:
    assert case_numbers(indices) == text


@pytest.mark.parametrize("name", RECORDINGS)
def test_a_recording_is_small_and_anonymous(name: str) -> None:
    path = FIXTURES / f"{name}.llmprof"
    assert path.stat().st_size < 300 * 1024
    environment = recording(name).environment
    assert environment is not None
    assert environment.host == "gpu-box"


@pytest.mark.parametrize("name", RECORDINGS)
def test_every_figure_in_a_sentence_names_cases_that_exist(name: str) -> None:
    state = recording(name)
    numbers = set()
    for table in tables(state):
        for note in table.notes:
            for group in re.findall(r"\(cases? ([\d, ]+)\)", note):
                numbers |= {int(number) for number in group.split(",")}
    assert numbers
    assert max(numbers) <= len(state.cases)


# --------------------------------------------------------------------- made by hand


def warmup_run(slow: float = 1.0) -> RunView:
    """slow: how many times as long the steps after the first one of the cold run take."""
    cases = [case(warmup_steps=count) for count in (0, 1, 2, 5)]
    cold: Times = {
        "forward": [200.0, *around(20.0 * slow, 9)],
        "backward": [90.0, *around(40.0 * slow, 9)],
    }
    warm: Times = {"forward": around(20.0), "backward": around(40.0)}
    events = run(0, cases[0], cold)
    for index in (1, 2, 3):
        count = cases[index].warmup_steps
        first: Times = {
            "forward": [190.0, *[20.0] * (count - 1)],
            "backward": [80.0, *[40.0] * (count - 1)],
        }
        events += run(index, cases[index], warm, warmup=first)
    return view(cases, events)


def test_warmup_names_the_cold_step() -> None:
    table = warmup(warmup_run())
    assert table is not None
    assert cells(table, "Warm-up (steps)") == ["0", "1", "2", "5"]
    assert [float(text) for text in cells(table, "First step (ms)")] == [290, 270, 270, 270]
    assert [float(t) for t in cells(table, "First / steady (×)")] == pytest.approx(
        [4.8, 4.5, 4.5, 4.5], abs=0.1
    )
    ratios = [float(text) for text in cells(table, "Ratio to 5 (×)")]
    assert ratios[0] == pytest.approx(83 / 60, abs=0.05)
    assert ratios[1:] == [1.0, 1.0, 1.0]
    said = " ".join(table.notes)
    assert "without warm-up the mean is 1.38 × that after 5" in said
    assert "the first step took 290.0 ms" in said
    assert "after one warm-up step the mean is 1.00 × that after 5" in said
    assert "one process: not judged" in said


def test_warmups_of_several_contexts_are_told_apart() -> None:
    cases = [case(warmup_steps=w, context_length=c) for c in (32, 64) for w in (0, 5)]
    times: Times = {"forward": around(20.0), "backward": around(40.0)}
    events = [
        event
        for index, each in enumerate(cases)
        for event in run(index, each, times, warmup={"forward": [20.0] * each.warmup_steps,
                                                     "backward": [40.0] * each.warmup_steps})
    ]  # fmt: skip
    table = warmup(view(cases, events))
    assert table is not None
    said = [note.partition(":")[0] for note in table.notes if "without warm-up" in note]
    assert [each.partition("train, ")[2] for each in said] == ["context 32", "context 64"]


def test_a_cold_step_is_no_cause_where_the_others_are_as_slow() -> None:
    table = warmup(warmup_run(slow=2.0))
    assert table is not None
    said = " ".join(table.notes)
    assert re.search(r"without warm-up the mean is 2\.\d+ × that after 5", said)
    assert "since the first step" not in said


def test_recorded_sizes_go_from_waiting_for_the_host_to_keeping_the_card_busy() -> None:
    """At 2.7B the card is 50 ms behind the host by the end of the forward and stays there."""
    recorded = recording("end-to-end-h100")
    waits = {
        state.case.model.name: is_launch_bound(state)
        for state in recorded.cases
        if state.case.mode == "train"
    }
    sizes = ("tiny", "small", "medium", "large", "xl", "2.7B")
    assert waits == dict(zip(sizes, (True, True, True, False, False, False), strict=True))
    busy = recorded.cases[-1].launch_bound
    assert busy is not None
    assert busy.phases == ()


def test_every_kind_of_missing_energy_has_its_reason() -> None:
    """The case of 3.7 s has none either: the shortest ones' reasons say nothing of it."""
    table = next(t for t in tables(recording("end-to-end-h100")) if t.title.startswith("The card"))
    said = [note for note in table.notes if note.startswith("Energy is n/a in")]
    assert len(said) == 2
    assert any("3.7 s of steps are too short" in note for note in said)
    told = sum(int(note.split()[4]) for note in said)
    assert told == cells(table, "Energy (J/step)").count("n/a")


def test_steps_that_were_not_counted_beforehand_are_not_given_as_if_they_were() -> None:
    asked = case(warmup_auto=True, warmup_steps=300, target_percent=2.5, measure_steps=1000)
    counted = case(warmup_auto=True, warmup_steps=300, measure_steps=20)
    plan = view([asked, counted], [])
    assert steps_of(plan.cases) == (
        "warm-up until steady, measured until the mean is known within 2.5 % (95 % interval); "
        "warm-up until steady, 20 measured"
    )


def test_a_run_cut_off_after_its_last_case_is_not_said_to_lack_one() -> None:
    cases = [case(), case(precision="bf16")]
    events = [*run(0, cases[0], train(60.0)), *run(1, cases[1], train(50.0))]
    whole = replace(view(cases, events), outcome=None)
    assert dict(facts(whole))["Outcome"] == "**interrupted**: after its last case"
    half = replace(view(cases, events[: len(events) // 2]), outcome=None)
    assert dict(facts(half))["Outcome"] == "**interrupted**: not every case was measured"


@pytest.mark.parametrize("make", [precision, switches])
def test_a_case_that_was_cut_off_is_said_to_have_fewer_steps(
    make: Callable[[RunView], Table | list[Table] | None],
) -> None:
    cases = [case(precision=each) for each in ("fp32", "bf16")]
    whole = run(1, cases[1], {phase: times[:4] for phase, times in train(20.0).items()})
    cut = ev.CaseFailed(case=1, failure=ev.Failure(kind="stopped", message="the run was stopped"))
    made = make(view(cases, [*run(0, cases[0], train(40.0)), *whole[:-1], cut]))
    tables = [made] if isinstance(made, Table) else made or []
    notes = [note for table in tables for note in table.notes]
    assert len([note for note in notes if "; its figures are of 4 steps (case 2)." in note]) == 1


def test_precision_keeps_a_row_for_what_is_unsupported() -> None:
    cases = [case(), case(precision="bf16")]
    events = run(0, cases[0], train(60.0))
    events += failed(1, kind="unsupported", message="bf16: this card has none", phase="start")
    table = precision(view(cases, events))
    assert table is not None
    assert cells(table, "Avg Time MP (ms)") == ["unsupported"]
    assert cells(table, "Speed-up (×)") == ["n/a"]
    assert any("this card has none (case 2)" in note for note in table.notes)


def test_mixed_precision_says_why_the_forward_peak_rises() -> None:
    cases = [case(), case(precision="bf16")]
    levels = {"start": 4 * GIB, "forward": 6 * GIB, "backward": 7 * GIB, "optimizer": 9 * GIB}
    higher = {**levels, "forward": 7 * GIB}
    events = run(0, cases[0], train(60.0), memory(0, levels))
    events += run(1, cases[1], train(30.0), memory(1, higher), observed(1, cases[1]))
    table = precision(view(cases, events))
    assert table is not None
    assert cells(table, "Speed-up (×)")[0].startswith("2.0")
    (note,) = (note for note in table.notes if "in bf16" in note)
    assert "in bf16: from 60.03 ms to 30.01 ms, 2.00 × as fast" in note
    assert "as fast (one process: not judged)" in note
    assert "(the same); within the forward it rises from 6,144 MiB to 7,168 MiB" in note


@pytest.mark.parametrize("make", [precision, switches, scaling, attention])
def test_no_note_calls_a_cell_launch_bound_that_was_not_profiled(
    make: Callable[[RunView], Table | list[Table] | None],
) -> None:
    folder = FIXTURES / "writeup-h200"
    found = 0
    for path in sorted(folder.glob("*.llmprof")):
        built = make(subject_of(open_view(path)).as_one)
        tables = [built] if isinstance(built, Table) else built or []
        notes = [note for table in tables for note in table.notes]
        assert not [note for note in notes if "launch-bound" in note]
        found += any("the host sets " in note.lower() for note in notes)
    assert found


def switch_run(processes: int = 3) -> RunView:
    """Fused AdamW changes nothing, compiling a third; the last one does not fit."""
    kinds = [
        case(),
        case(optimizer="fused"),
        case(compile="default"),
        case(precision="bf16", attention="sdpa", optimizer="fused", compile="default"),
    ]
    levels = {"start": 4 * GIB, "forward": 10 * GIB}
    less = {"start": 4 * GIB, "forward": 8 * GIB}
    cases: list[Case] = []
    events: list[ev.Event] = []
    for number in range(processes):
        luck = 1 + 0.004 * number
        for kind, total in zip(kinds, (60.0, 60.05, 40.0, None), strict=True):
            at, each = len(cases), msgspec.structs.replace(kind, process=number)
            cases.append(each)
            if total is None:
                oom = {"kind": "oom", "message": "CUDA out of memory", "phase": "backward"}
                events += failed(at, **oom, bytes_asked=GIB)
                continue
            extra: list[ev.Event] = [memory(at, less if each.compile else levels)]
            if each.compile:
                extra.append(observed(at, each, compile_ms=42_000.0))
            events += run(at, each, train(total * luck), *extra)
    return view(cases, events)


def test_switches_are_measured_and_never_asserted() -> None:
    table, phases = switches(subject_of(switch_run()).as_one)
    assert cells(table, "Switch") == [
        "baseline",
        "fused AdamW",
        "torch.compile",
        "bf16 + SDPA + fused AdamW + torch.compile",
    ]
    assert cells(table, "Verdict") == [
        "baseline",
        "optimizer not distinguished; step not distinguished",
        "forward faster; backward faster; step faster",
        "no figure",
    ]
    assert cells(table, "Processes") == ["3", "3", "3", "0"]
    acted = zip(cells(phases, "Part of the step"), cells(phases, "Acted on"), strict=True)
    assert list(acted)[:4] == [
        ("forward", ""),
        ("backward", ""),
        ("optimizer", "yes"),
        ("total", ""),
    ]
    assert cells(table, "Compile + first step (s)") == ["eager", "eager", "42.00", "n/a"]
    assert cells(table, "Memory change (%)") == ["0.0", "0.0", "-20.0", "OOM"]
    said = " ".join(table.notes)
    assert "compiling took 42.0 s, repaid after about 2,100 steps (cases 3, 7, 11)" in said
    assert "out of memory in backward, 1,024 MiB asked (cases 4, 8, 12)" in said
    assert "torch.compile makes the step faster: from 60.27 ms to 40.18 ms" in said
    assert "fused AdamW is not distinguished from the baseline" in said


@pytest.mark.parametrize(
    ("compiled", "processes", "told"),
    [(40.0, 3, "2,100"), (90.0, 3, "never"), (59.99, 3, "not distinguished"),
     (40.0, 1, "not judged")],
)  # fmt: skip
def test_compiling_is_repaid_only_by_a_change_that_is_told_from_equal(
    compiled: float, processes: int, told: str
) -> None:
    cases: list[Case] = []
    events: list[ev.Event] = []
    for number in range(processes):
        for kind, total in ((case(), 60.0), (case(compile="default"), compiled)):
            at, each = len(cases), msgspec.structs.replace(kind, process=number)
            cases.append(each)
            cold = 42_000.0 if each.compile else None
            luck = 1 + 0.004 * number
            events += run(at, each, train(total * luck), observed(at, each, compile_ms=cold))
    table = compilation(subject_of(view(cases, events)).as_one)
    assert table is not None
    assert cells(table, "Steps until repaid") == ["", told]


def test_a_gain_is_repaid_by_the_change_that_was_judged() -> None:
    """Arithmetic means of processes that scatter may be equal where geometric ones are not."""
    eager, compiled = (
        one(case(compile=mode), train(60.0), observed(0, case(), compile_ms=cold))
        for mode, cold in ((None, None), ("default", 6000.0))
    )
    found = compare(eager, compiled)
    assert found is not None
    total = replace(found.total, decision="faster", time=Ratio(0.9, 0.01, 0.001, 3))
    assert steps_until_repaid(replace(found, parts=(*found.parts[:-1], total))) == 1000


def test_a_backward_that_computes_again_is_not_expected_at_twice_the_forward() -> None:
    for checkpoint in (None, 1):
        cases = [case(mode="forward-backward", checkpoint=checkpoint)]
        table = ratios(view(cases, run(0, cases[0], train(40))))
        assert table is not None
        assert ("with checkpoints" in table.notes[0]) == (checkpoint is not None)


def test_a_run_that_was_stopped_before_its_second_case_compares_nothing() -> None:
    """Nothing is said of how differences are judged, or of how many processes there were."""
    cases = [case(precision=each) for each in ("fp32", "bf16")]
    table = precision(view(cases, run(0, cases[0], train(40)), CPU))
    assert table is not None
    assert "Peak resident FP" in [column.header for column in table.columns]  # had it been read
    assert not [note for note in table.notes if "process" in note]
    assert "" not in table.notes


def test_steps_of_one_process_judge_nothing() -> None:
    """However far apart: another process may measure something else."""
    table, phases = switches(switch_run(processes=1))
    verdicts = cells(table, "Verdict")
    assert verdicts[:3] == ["baseline", *["one process: not judged"] * 2]
    assert cells(table, "95 % interval (×)")[1:3] == ["one process"] * 2
    said = " ".join(table.notes)
    assert "One process a cell" in said
    assert "faster" not in said
    assert set(cells(phases, "Verdict")) == {"", "one process: not judged"}


def attention_run() -> RunView:
    shape = ModelShape(name="d=64", d_model=64, d_ff=1, num_layers=1, num_heads=1, vocab_size=1)
    cases: list[Case] = []
    events: list[ev.Event] = []
    for length in (1024, 2048, 4096):
        for compiled in ("default", None):
            asked = case(
                model=shape,
                probe="attention",
                mode="forward-backward",
                context_length=length,
                batch_size=8,
                compile=compiled,
            )
            index = len(cases)
            cases.append(asked)
            if length == 4096 and compiled is None:
                events += failed(index, kind="oom", message="no", phase="forward", bytes_asked=GIB)
                continue
            ms = (2.0 if compiled is None else 1.0) * (length / 1024) ** 2
            levels = {"start": GIB, "forward": GIB + 3 * length**2}
            times: Times = {"forward": around(ms), "backward": around(2 * ms)}
            events += run(index, asked, times, memory(index, levels))
    return view(cases, events)


def test_the_attention_grid_keeps_a_cell_that_says_oom() -> None:
    (table,) = attention(attention_run())
    assert [column.heading for column in table.columns] == [
        "seq_len (tokens)",
        "forward (compiled) (ms)",
        "forward (raw) (ms)",
        "backward (compiled) (ms)",
        "backward (raw) (ms)",
        *(
            f"{name} ({way}) (MiB)"
            for name in ("peak of forward", "level before backward", "overall peak")
            for way in ("compiled", "raw")
        ),
    ]
    assert cells(table, "forward (raw) (ms)")[-1] == "OOM"
    for name in ("peak of forward", "level before backward", "overall peak"):
        assert cells(table, f"{name} (raw) (MiB)")[-1] == "OOM"
    assert any("out of memory in forward" in note for note in table.notes)
    assert any("(2 ×) a step takes 4.00" in note for note in table.notes)


def test_exponents_are_fitted_over_what_ran() -> None:
    table = exponents(attention_run())
    assert table is not None
    assert cells(table, "Way") == ["compiled"]  # two lengths are no range to fit a power over
    assert [exponent(t) for t in cells(table, "forward exponent")] == [2]
    assert [exponent(t) for t in cells(table, "memory kept exponent")] == [2]
    assert cells(table, "forward between neighbours") == ["2.00 to 2.00"]
    assert cells(table, "forward fitted over (tokens)") == ["1,024 to 4,096"]


def test_a_power_is_fitted_over_the_largest_points() -> None:
    points = [Point(16, 100.0), *(Point(x, 0.5 * x**1.5) for x in (64.0, 128.0, 256.0))]
    fit = fit_power(points)
    assert fit is not None
    assert fit.exponent == pytest.approx(1.5)
    assert fit.between == pytest.approx((1.5, 1.5))
    assert (fit.low, fit.high, fit.points) == (64, 256, 3)


@pytest.mark.parametrize(
    "points",
    [
        [(64, 1), (128, 2)],  # two points fit any power
        [(64, 1), (64, 2), (64, 3), (256, 4)],
        [(64, 0), (128, 1), (256, 2)],
        [(64, 1), (96, 2), (128, 3)],  # less than fourfold
    ],
)
def test_a_power_needs_three_points_over_a_range(points: list[tuple[float, float]]) -> None:
    assert fit_power(Point(x, y) for x, y in points) is None


def test_an_exponent_tells_how_far_one_power_describes_its_points() -> None:
    fit = fit_power(Point(x, y) for x, y in ((1, 1), (2, 2), (4, 16)))
    assert fit is not None
    assert fit.exponent == pytest.approx(2.0)
    assert fit.between == pytest.approx((1.0, 3.0))


def test_launch_bound_cells_give_no_exponent_of_time() -> None:
    table = exponents(recording("attention-h100"))
    assert table is not None
    ways = cells(table, "Way")
    ranges = dict(zip(ways, cells(table, "forward fitted over (tokens)"), strict=True))
    assert ranges == {"compiled": "n/a", "raw": "4,096 to 16,384", "SDPA": "n/a"}
    short = subject_of(recording("attention-h100"))
    few = replace(short, cases=tuple(s for s in short.cases if s.case.context_length <= 4096))
    table = exponents(few)
    assert table is not None
    assert set(cells(table, "forward exponent")) == {"n/a"}
    assert set(cells(table, "memory kept fitted over (tokens)")) == {"256 to 4,096"}


def test_attention_shows_why_raw_runs_out_first() -> None:
    (table,) = attention(recording("attention-h100"))
    at = cells(table, "seq_len (tokens)").index("8,192")

    def shown(name: str) -> list[str]:
        return [cells(table, f"{name} ({way}) (MiB)")[at] for way in ("compiled", "raw", "SDPA")]

    assert shown("peak of forward") == ["2,256", "6,352", "80.2"]
    assert shown("level before backward") == ["2,256", "2,256", "80.2"]
    assert shown("overall peak") == ["4,320", "8,416", "144.5"]
    said = " ".join(table.notes)
    assert "Raw and compiled have the same level before backward: both keep the output" in said
    assert (
        "at 16,384 tokens raw needs 25,056 MiB in the forward and 33,280 MiB overall, compiled "
        "8,672 MiB and 16,896 MiB (cases 14, 13)" in said
    )
    assert "compiled and SDPA: the peak of forward is the level before backward" in said
    assert "GiB" not in said


def test_scaling_sets_time_beside_work() -> None:
    cases = [case(mode="forward", batch_size=size) for size in (4, 1)]
    events = run(0, cases[0], {"forward": around(30.0)})
    events += run(1, cases[1], {"forward": around(10.0)})
    table = scaling(view(cases, events))
    assert table is not None
    assert cells(table, "Batch") == ["1", "4"]
    assert cells(table, "Work growth (×)") == ["1.00", "4.00"]
    assert [float(t) for t in cells(table, "Time growth (×)")] == pytest.approx([1, 3], abs=0.01)
    said = " ".join(table.notes)
    assert re.search(r"4\.00 × the work takes 3.00 × the time \(cases 2, 1\)\.", said)
    assert "scatter too much" not in said


def test_growth_of_steps_that_scatter_is_not_claimed() -> None:
    cases = [case(mode="forward", batch_size=size, measure_steps=4) for size in (1, 4)]
    events = run(0, cases[0], {"forward": [10.0, 40.0, 5.0, 60.0]})
    events += run(1, cases[1], {"forward": [60.0, 30.0, 90.0, 27.0]})
    table = scaling(view(cases, events))
    assert table is not None
    assert "scatter too much to say how time grows" in " ".join(table.notes)


def test_coverage_tells_every_kind_of_cell() -> None:
    cases = [case(mode=mode) for mode in ("forward", "forward-grad", "forward-backward", "train")]
    cases += [case(mode=mode, context_length=64) for mode in ("forward", "forward-grad", "train")]
    events = run(0, cases[0], {"forward": around(10.0)})
    events += failed(1, kind="oom", message="no", phase="forward")
    events += failed(2, kind="error", message="ValueError")
    events += failed(3, kind="killed", message="by SIGKILL", exit_code=-9)
    events += failed(4, kind="killed", message="by SIGSEGV", exit_code=-11)
    events += failed(5, kind="stopped", message="the run was stopped", outside=True)
    state = view(cases, events)
    table = coverage(state)
    assert table is not None
    words = [[format_cell(cell) for cell in row] for row in table.rows]
    assert words == [
        ["medium", "128", "done (1)", "OOM (2)", "failed (3)", "killed (4)"],
        ["medium", "64", "failed (5)", "stopped (6)", "", "missing (7)"],
    ]
    assert to_resume(state) == (3, 5, 6)
    assert to_resume(state, failed=True) == (1, 2, 3, 4, 5, 6)


# --------------------------------------------------------------- every format, any name


HOSTILE = [
    "a|b|c",
    "`tick` and ``two``",
    "one ` tick",
    "line\nbreak\r\nand\ttab",
    "naïve 模型 🚀",
    "x" * 200,
    "\x1b[31mred\x1b[0m",
    "<script>alert(1)</script>",
    "__init__ *bold* ~~gone~~ # head",
    "$x$ and $`y`$",
    "&lt;b&gt; AT&T",
    "12. another list",
]


def hostile(name: str, state: RunView) -> RunView:
    """The same run of a model with this name."""
    cases = [
        msgspec.structs.replace(s.case, model=msgspec.structs.replace(s.case.reference, name=name))
        for s in state.cases
    ]
    assert state.experiment is not None
    named = tuple(replace(s, case=c) for s, c in zip(state.cases, cases, strict=True))
    return replace(state, cases=named)


def lint_markdown(text: str) -> None:
    """What a Markdown linter asks of these reports: structure that parses as it was meant."""
    parser = MarkdownIt("commonmark").enable("table").enable("strikethrough")
    tokens = parser.parse(text)
    assert text.endswith("\n")
    assert not text.endswith("\n\n")
    assert not re.search(r"[ \t]+$", text, re.MULTILINE)
    assert "\n\n\n" not in text
    headings = [token for token in tokens if token.type == "heading_open"]
    assert [token.tag for token in headings].count("h1") == 1
    assert {token.tag for token in headings} <= {"h1", "h2"}
    source_tables = sum(bool(re.match(r"^\| -|^\| :?-", line)) for line in text.splitlines())
    assert sum(token.type == "table_open" for token in tokens) == source_tables
    row: list[int] = []
    for token in tokens:
        if token.type == "table_open":
            row = []
        elif token.type == "tr_open":
            row.append(0)
        elif token.type in ("td_open", "th_open"):
            row[-1] += 1
        elif token.type == "table_close":
            assert len(set(row)) == 1
        elif token.type == "inline":
            kinds = {child.type for child in token.children or []}
            assert not kinds & {"em_open", "s_open", "link_open", "image"}, token.content


@pytest.mark.parametrize("build", [warmup_run, switch_run, attention_run])
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_survive_every_format(build: object, name: str) -> None:
    assert callable(build)
    state = hostile(name, build())
    text = render(state, "md")
    assert "\x1b" not in text
    lint_markdown(text)
    document = json.loads(render(state, "json"))
    assert {found["config"]["model"] for found in document["cases"]} == {name}
    rows = list(csv.DictReader(io.StringIO(render(state, "csv"), newline="")))
    assert {row["model"] for row in rows} == {name}
    assert len(rows) == len(document["cases"]) == len(state.cases)


@pytest.mark.parametrize("name", RECORDINGS)
def test_recordings_pass_the_markdown_lint_and_round_trip(name: str) -> None:
    state = recording(name)
    lint_markdown(render(state, "md"))
    document = json.loads(render(state, "json"))
    rows = list(csv.DictReader(io.StringIO(render(state, "csv"), newline="")))
    assert len(rows) == len(document["cases"]) == len(state.cases)
    for row, found, of in zip(rows, document["cases"], state.cases, strict=True):
        assert found["key"] == of.case.key
        total = of.total
        assert row["total_mean_ms"] == ("" if total is None else str(total.mean))
        assert (found["phases"]["total"] or {}).get("mean_ms") == (total and total.mean)


@pytest.mark.parametrize("name", RECORDINGS)
def test_tables_and_rates_are_in_the_data_too(name: str) -> None:
    state = subject_of(recording(name))
    document = json.loads(render(state, "json"))
    shown = [table for table in tables(state) if table.key != "step-log"]
    assert [found["key"] for found in document["tables"]] == [table.key for table in shown]
    for found, table in zip(document["tables"], shown, strict=True):
        assert [column["unit"] for column in found["columns"]] == [c.unit for c in table.columns]
        assert len(found["rows"]) == len(table.rows)
        assert found["notes"] == list(table.notes)
    rows = list(csv.DictReader(io.StringIO(render(state, "csv"), newline="")))
    for row, case_found in zip(rows, document["cases"], strict=True):
        rates = case_found["throughput"]
        assert row["case"] == str(case_found["case"])
        assert row["mfu"] == ("" if rates["mfu"] is None else str(rates["mfu"]))
        if rates["mfu"] is not None:
            assert rates["mfu"] == pytest.approx(rates["tflops"] / rates["peak_tflops"])


def test_the_registry_shows_what_an_experiment_names() -> None:
    state = switch_run()
    assert state.experiment is not None
    named = msgspec.structs.replace(
        state.experiment, tables=("coverage", "switches", "warmup", "?")
    )
    shown = tables(replace(state, experiment=named))
    assert [table.key for table in shown] == ["coverage", "switches", "switch-phases"]
    everything = [table.key for table in tables(state)]
    assert everything[0] == "switches"
    assert {"stability", "failures", "coverage", "throughput"} <= set(everything)
    assert len(BUILDERS) >= len(set(everything))


def test_a_cpu_run_has_no_memory_growth() -> None:
    state = attention_run()
    cases = [s.case for s in state.cases]
    events: list[ev.Event] = []
    for index, asked in enumerate(cases):
        times: Times = {"forward": around(1.0), "backward": around(2.0)}
        resident = memory(index, {"start": GIB, "forward": GIB + 4096}, "process resident set")
        events += run(index, asked, times, resident)
    table = exponents(view(cases, events, CPU))
    assert table is not None
    assert set(cells(table, "memory kept exponent")) == {"n/a"}


def test_the_shape_stands_beside_a_planted_name() -> None:
    assert SHAPE.parameters == 423_183_360


PLUS_MINUS = re.compile(r"[^.;|]*±[^.;|]*")
EXPONENT = re.compile(r"\d[eE][-+]?\d")
ONE_OF_MANY = re.compile(
    r"(?<![\d.,])1 (cases|cells|steps|processes|lines|outliers|launches|warm-up steps|layers|"
    r"measured steps|recorded steps|files|runs|tokens)\b"
)


@pytest.mark.parametrize("name", RECORDINGS)
def test_plus_minus_stands_for_a_standard_deviation_alone(name: str) -> None:
    for sentence in PLUS_MINUS.findall(render(recording(name), "md")):
        words = ("mean ± std", "± standard deviation", "Mean ± ")
        figures = re.search(r"[\d.,]+ ± [\d.,]+( ms, CV|$|\s*$)", sentence)
        assert figures or any(word in sentence for word in words), sentence


@pytest.mark.parametrize("name", RECORDINGS)
def test_an_export_has_no_powers_of_ten_no_one_steps_and_no_spread_of_nothing(name: str) -> None:
    text = render(recording(name), "md")
    assert not EXPONENT.search(re.sub(r"`[^`]*`|kernel[^|]*", "", text))
    assert not ONE_OF_MANY.search(text)
    assert "± 0 ms" not in text


def test_a_mean_has_its_spread_and_its_interval_each_in_a_place_of_its_own() -> None:
    found = summarize([10.0, 11.0, 12.0, 11.0])
    assert mean_and_spread(found) == "11.0 ± 0.8"
    assert mean_interval(found) == "9.7 to 12.3"
    still = summarize([0.00128] * 4)
    assert mean_and_spread(still) == "0.001280"
    for key in ("forward", "backward", "stability"):
        (table,) = (t for t in tables(recording("end-to-end-h100")) if t.key == key)
        headings = [column.header for column in table.columns]
        at = headings.index("Std Dev")
        assert headings[at + 1] == "95 % interval of mean"
        mean = next(n for n, h in enumerate(headings) if h in ("Mean", "Avg Time"))
        for row in table.rows:
            low, high = (float(end.replace(",", "")) for end in str(row[at + 1]).split(" to "))
            assert low <= float(format_cell(row[mean]).replace(",", "")) <= high


def test_the_summary_says_which_modes_its_figures_are_of() -> None:
    for name, mode in (("end-to-end-h100", "forward"), ("interleave-h200", "train")):
        (table,) = (t for t in tables(recording(name)) if t.key == "summary")
        assert f"forward from mode {mode}" in table.notes[0]
        assert "± standard deviation (ddof 1)" in table.notes[0]


def test_growth_on_a_card_is_told_of_busy_cells_alone() -> None:
    table = scaling(recording("scaling-h200"))
    assert table is not None
    said = [note for note in table.notes if note.startswith("small, train")]
    assert said[0] == (
        "small, train, where the card sets the pace: 9.07 × the work takes 7.08 × the time "
        "(cases 6, 24)."
    )
    assert said[1].startswith("small, train: the host sets the pace of 7 of 8 cells up to context ")
    assert len(said) == 2


def test_a_growth_is_not_told_by_a_cell_to_which_a_check_says_no() -> None:
    """The clocks were held down in the largest forward, case 23; case 19 has 1,024 tokens, too."""
    table = scaling(recording("scaling-h200"))
    assert table is not None
    grown, paced = (note for note in table.notes if note.startswith("small, forward"))
    assert "(cases 19, 17)" in grown
    assert "the host sets the pace of 5 of 6 cells up to context 256 × batch 4 (1,024" in paced


def test_a_growth_needs_a_range_of_work() -> None:
    cases = [case(mode="forward", batch_size=size) for size in (1, 3)]
    events = run(0, cases[0], {"forward": around(10.0)})
    events += run(1, cases[1], {"forward": around(30.0)})
    table = scaling(view(cases, events))
    assert table is not None
    assert not any("× the work" in note for note in table.notes)


def test_one_launch_bound_cell_is_named_without_growth() -> None:
    cases = [case(mode="forward", context_length=each) for each in (128, 512, 1024)]
    times = (10.0, 40.0, 80.0)
    events = [
        event
        for at, (each, ms) in enumerate(zip(cases, times, strict=True))
        for event in run(at, each, {"forward": around(ms)}, host=0.3 if at else 0.95)
    ]
    table = scaling(view(cases, events))
    assert table is not None
    (said,) = (note for note in table.notes if "sets the pace up to" in note)
    assert said.startswith(
        "medium, forward: the host sets the pace up to context 128 × batch 4 (512 tokens a step), "
    )
    assert said.endswith("no growth is told (case 1).")
    assert cells(table, "Time growth (×)") == ["n/a"] * 3  # against a step whose time is the host's
    assert cells(table, "Work growth (×)")[0] == "1.00"
