"""Events of a profile through the journal to tables."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from llmprof.core import events as ev
from llmprof.core.catalog.experiments import build_experiment
from llmprof.core.events.kernel_rows import Launches, ShareRow
from llmprof.core.figures.profile_wholes import twin
from llmprof.core.kernels.attention_stages import ATTENTION_MODULE
from llmprof.core.kernels.profile import attention_lens, kernel_table, timeline_facts
from llmprof.core.kernels.tables import class_ids, with_sources
from llmprof.core.kernels.timeline_strip import save_strip
from llmprof.core.report.attention_lens import lens_tables
from llmprof.core.report.formats import export, render
from llmprof.core.report.kernel_shares import gemm_table
from llmprof.core.report.kernel_timeline import launch_table, timeline_table, uneven
from llmprof.core.report.kernels import kernel_tables, top_kernels
from llmprof.core.report.markdown import facts
from llmprof.core.report.overhead import overhead_table
from llmprof.core.report.registry import BUILDERS
from llmprof.core.report.stability import steadiness
from llmprof.core.report.table import Cell, Figure, Table
from llmprof.core.spec.experiment import Experiment, Variant
from llmprof.core.spec.shape import SpecError
from llmprof.core.state.view import RunView
from llmprof.core.stats.summary import summarize
from llmprof.core.store.journal import replay
from tests.builders.handmade import measured, opening, write
from tests.builders.kernel_events import PHASES, TINY, Made, recorded


def plan() -> Experiment:
    variants = (Variant(label="plain"), Variant(label="profiled", probe="kernels"))
    return Experiment(name="kernels", models=(TINY.model,), variants=variants, profile_steps=2)


def profile_events(folder: Path, index: int) -> list[ev.Event]:
    activities = recorded()
    classes = class_ids(activities)
    lens = attention_lens(activities, index=index, case=TINY, layer=2)
    assert lens is not None
    strip = save_strip(activities, classes, folder, f"timeline-{index}.npz")
    return [
        kernel_table(activities, classes, index=index, case=TINY),
        timeline_facts(activities, classes, index=index, strip=strip),
        lens,
    ]


@pytest.fixture
def view(tmp_path: Path) -> RunView:
    experiment = plan()
    plain, profiled = experiment.cases()
    events = opening(experiment)
    events[-1] = ev.Environment(t=3, device="cuda:0", device_name="NVIDIA H100 80GB HBM3")
    events += measured(0, plain, [10.0, 10.2])
    events += measured(1, profiled, [20.0, 20.4])
    events[-1:-1] = profile_events(tmp_path, 1)
    return replay(write(tmp_path / "journal.jsonl", events))


def column(table: Table, header: str) -> list[Cell]:
    at = [each.header for each in table.columns].index(header)
    return [row[at] for row in table.rows]


def number(cell: Cell) -> float:
    value = cell.value if isinstance(cell, Figure) else cell
    assert isinstance(value, (int, float))
    return value


def test_the_plain_case_and_the_profiled_one_are_separate_cases(view: RunView) -> None:
    plain, profiled = view.cases
    assert (plain.case.probe, profiled.case.probe) == ("timing", "kernels")
    assert (plain.case.measure_steps, profiled.case.measure_steps) == (10, 2)
    assert plain.case.key != profiled.case.key
    assert plain.kernels is None
    assert twin(view, profiled) is plain


def test_events_come_back_from_the_journal_as_they_were(view: RunView, tmp_path: Path) -> None:
    state = view.cases[1]
    table, timeline, lens = profile_events(tmp_path, 1)
    assert view.damaged_lines == view.unknown_events == 0
    assert state.kernels == msgspec.structs.replace(
        table, t=state.kernels.t if state.kernels else 0
    )
    assert state.timeline is not None
    assert state.timeline.parts == getattr(timeline, "parts", None)
    assert state.lens is not None
    assert state.lens.rows == getattr(lens, "rows", None)


@pytest.mark.parametrize("phase", PHASES[:4])
def test_shares_of_top_kernels_are_of_the_phase_in_the_title(view: RunView, phase: str) -> None:
    state = view.cases[1]
    assert state.kernels is not None
    assert state.timeline is not None
    table = top_kernels(state, state.kernels, phase)
    assert phase in table.title
    for whole in ("GPU time", "GPU-busy"):  # one stream: the sum is the union
        shares = sum(number(cell) for cell in column(table, f"Of {phase} {whole}"))
        assert shares == pytest.approx(100)
    part = next(part for part in state.timeline.parts if part.phase == phase)
    wall = sum(number(cell) for cell in column(table, f"Of {phase} profiled wall"))
    assert wall == pytest.approx(100 * part.busy_ms / part.wall_ms)


def test_calls_times_average_is_the_total_in_every_row(view: RunView) -> None:
    state = view.cases[1]
    assert state.kernels is not None
    rows = 0
    for phase in PHASES[:4]:
        table = top_kernels(state, state.kernels, phase, limit=5)
        for calls, average, total in zip(
            *(column(table, name) for name in ("Calls", "Avg", "Total")), strict=True
        ):
            assert number(calls) * number(average) * 1e-3 == pytest.approx(number(total))
            rows += 1
    assert rows > 12


def test_what_is_beyond_the_limit_stands_in_one_row(view: RunView) -> None:
    state = view.cases[1]
    assert state.kernels is not None
    whole = top_kernels(state, state.kernels, "backward", limit=None)
    short = top_kernels(state, state.kernels, "backward", limit=3)
    assert len(short.rows) == 4
    assert short.rows[3][0] == f"({len(whole.rows) - 3} more)"
    assert sum(map(number, column(short, "Total"))) == pytest.approx(
        sum(map(number, column(whole, "Total")))
    )


def test_class_and_module_tables_have_the_same_total(view: RunView) -> None:
    tables = {table.key: table for table in kernel_tables(view)}
    classes, modules = tables["classes-1"], tables["modules-1"]
    for table in (classes, modules):
        assert sum(map(number, column(table, "Of step GPU time"))) == pytest.approx(100)
    assert sum(map(number, column(classes, "Total"))) == pytest.approx(
        sum(map(number, column(modules, "Total")))
    )
    assert column(classes, "Class")[0] == "GEMM"
    (launches,) = (note for note in classes.notes if "kernel launches" in note)
    (step,) = (row for row in launch_rows(view) if row[1] == "step")
    assert launches.startswith(f"{step[7]:,} kernel launches a step; 0 of the ")
    assert launches.endswith("in 2 profiled steps had no kernel.")


def launch_rows(view: RunView) -> tuple[tuple[Cell, ...], ...]:
    table = launch_table(view)
    assert table is not None
    assert [each.header for each in table.columns].index("Launches") == 7
    return table.rows


def test_gemm_counts(view: RunView) -> None:
    table = gemm_table(view)
    assert table is not None
    assert column(table, "GEMM ops") == column(table, "Expected") == [37, 74]
    assert set(column(table, "Verdict")) == {"as expected"}


def test_timeline_names_both_gemm_shares_and_the_verdict(view: RunView) -> None:
    table = timeline_table(view)
    assert table is not None
    assert column(table, "Part") == ["step", *PHASES]
    busy, wall = (number(column(table, f"GEMM of {of}")[0]) for of in ("GPU-busy", "profiled wall"))
    assert busy > wall > 0
    parts = ("Compute", "Memory ops", "Host to device", "Device to host")
    shares = [number(column(table, f"{name} of GPU time")[0]) for name in parts]
    assert sum(shares) == pytest.approx(100)
    assert "profiled step" in table.title
    assert number(column(table, "Plain wall")[0]) == pytest.approx(50.6)
    assert number(column(table, "Plain wall")[1]) == pytest.approx(10.1)  # forward
    assert number(column(table, "Profiled wall")[0]) == pytest.approx(30.15, abs=0.01)
    assert any("launch-bound by the profiled wall" in note for note in table.notes)
    assert any("against the plain step of 50.60 ms" in note for note in table.notes)
    launches = launch_table(view)
    assert launches is not None
    assert number(column(launches, "Launches")[0]) == sum(
        number(cell) for cell in column(launches, "Launches")[1:]
    )


def test_overhead_is_per_phase(view: RunView) -> None:
    table = overhead_table(view)
    assert table is not None
    assert column(table, "Phase") == [*PHASES, "wall"]
    assert number(column(table, "Overhead")[0]) == pytest.approx(100)
    assert column(table, "Verdict")[0] == "slower"
    timeline = timeline_table(view)
    assert timeline is not None
    for notes in (table.notes, timeline.notes):  # the same step's wall by two clocks
        assert any("host's clock" in note and "own timestamps" in note for note in notes)
    ends = (number(column(table, f"95 % interval {end}")[0]) for end in ("from", "to"))
    assert tuple(ends) == pytest.approx((88, 112), abs=1)


@pytest.mark.parametrize(
    ("plain", "profiled", "verdict"),
    [
        ([10.0, 12.0, 11.0], [11.0, 12.5, 10.5], "not distinguished"),
        ([10.0, 10.1, 10.2], [8.0, 8.1, 8.2], "faster"),
        ([10.0, 10.1], [20.0], "n/a: one step"),
    ],
)
def test_an_overhead_is_only_called_one_beyond_its_interval(
    tmp_path: Path, plain: list[float], profiled: list[float], verdict: str
) -> None:
    experiment = plan()
    cases = experiment.cases()
    events = [*opening(experiment), *measured(0, cases[0], plain), *measured(1, cases[1], profiled)]
    table = overhead_table(replay(write(tmp_path / "journal.jsonl", events)))
    assert table is not None
    assert column(table, "Verdict")[0] == verdict
    low, high = (column(table, f"95 % interval {end}")[0] for end in ("from", "to"))
    assert isinstance(low, Figure)
    assert (low.value is None) == (verdict == "n/a: one step")
    if verdict == "not distinguished":
        assert number(low) < 0 < number(high)
    assert any("no profiler makes a step shorter" in note for note in table.notes)


@pytest.mark.parametrize(
    ("launches", "kernels", "said"),
    [
        ((4, 4), (4, 4), ""),
        ((4, 4), (4, 5), "4 to 5 kernels"),  # the launches are equal: they are not named
        ((9, 7, 8), (9, 9, 9), "7 to 9 launches"),
        ((1, 2), (3, 4), "1 to 2 launches, 3 to 4 kernels"),
    ],
)
def test_only_counts_that_differ_are_called_uneven(
    launches: tuple[int, ...], kernels: tuple[int, ...], said: str
) -> None:
    counts = Launches(phase="forward", launches=launches, kernels=kernels)
    assert uneven(counts) == said
    assert (said == "") == counts.steady


def test_walls_with_and_without_the_profiler_stand_side_by_side(view: RunView) -> None:
    (table,) = [each for each in kernel_tables(view) if each.key == "classes-1"]
    assert "profiled step" in table.title
    (note,) = [each for each in table.notes if each.startswith("Wall time of a step")]
    assert note.endswith(" under the profiler, 50.60 ms without.")


def test_overlapping_streams_are_told_from_busy_time(tmp_path: Path) -> None:
    made = Made()
    made.step(0, [10, 900], 1_000, ("forward",))
    for stream, start in ((7, 100), (9, 150)):
        made.launch("gemm", start, start + 100, 200, op=made.op("aten::mm", start - 5, 20))
        made.rows[-1]["place"] = stream
    experiment = plan()
    events = [*opening(experiment), *measured(1, experiment.cases()[1], [1.0, 1.0])]
    activities = made.activities(("forward",))
    classes = class_ids(activities)
    events[-1:-1] = [
        kernel_table(activities, classes, index=1, case=TINY),
        timeline_facts(activities, classes, index=1, strip=None),
    ]
    again = replay(write(tmp_path / "journal.jsonl", events))
    state = again.cases[1]
    assert state.kernels is not None
    table = top_kernels(state, state.kernels, "forward")
    (of_time,), (of_busy,) = (column(table, f"Of forward GPU{word}") for word in (" time", "-busy"))
    assert number(of_time) == pytest.approx(100)
    assert number(of_busy) == pytest.approx(100 * 400 / 250)
    (classes_table,) = [each for each in kernel_tables(again) if each.key == "classes-1"]
    assert any("add up to 160.0 %" in note for note in classes_table.notes)
    whole = timeline_table(again)
    assert whole is not None
    assert number(column(whole, "GEMM of GPU-busy")[0]) == pytest.approx(100)
    assert number(column(whole, "GEMM of profiled wall")[0]) == pytest.approx(25)


def test_lens_is_held_against_the_card(view: RunView) -> None:
    (table,) = lens_tables(view)
    stages = ["QKᵀ", "scale + mask", "softmax", "AV", "total"]
    assert column(table, "Stage")[:5] == stages
    for rate, share in zip(column(table, "Rate"), column(table, "Of peak"), strict=True):
        assert number(share) == pytest.approx(100 * number(rate) / 66.9)
    assert any("softmax takes" in note for note in table.notes)
    assert any("H100-80GB" in note for note in table.notes)


def test_the_lens_adds_its_stages_up_and_has_the_mean_over_layers(view: RunView) -> None:
    state = view.cases[1]
    assert state.kernels is not None
    bare = replace(state, kernels=msgspec.structs.replace(state.kernels, modules=()))
    (unknown,) = lens_tables(replace(view, cases=(view.cases[0], bare)))
    assert not any("mean of" in str(stage) for stage in column(unknown, "Stage"))
    rows = tuple(
        ShareRow(phase=phase, label=ATTENTION_MODULE, calls=8, total_ms=total)
        for phase, total in (("forward", 0.4), ("backward", 0.8))
    )
    kernels = msgspec.structs.replace(state.kernels, modules=rows)
    (table,) = lens_tables(replace(view, cases=(view.cases[0], replace(state, kernels=kernels))))
    layers, steps = TINY.reference.num_layers, kernels.steps
    for direction, all_ms in (("forward", 0.4), ("backward", 0.8)):
        mine = [
            (stage, number(time), work)
            for way, stage, time, work in zip(
                *(column(table, name) for name in ("Direction", "Stage", "GPU time", "Work")),
                strict=True,
            )
            if way == direction
        ]
        *stages, total, mean = mine
        assert (total[0], mean[0]) == ("total", f"mean of {layers} layers")
        assert total[1] == pytest.approx(sum(stage[1] for stage in stages))
        assert mean[1] == pytest.approx(1e3 * all_ms / steps / layers)
        assert mean[2] == total[2]


def test_a_phase_that_takes_nothing_has_no_overhead(view: RunView) -> None:
    plain, profiled = view.cases
    short = {"zero_grad": summarize([0.001, 0.0012])}
    made = replace(plain)
    object.__setattr__(made, "summaries", {**plain.summaries, **short})
    table = overhead_table(replace(view, cases=(made, profiled)))
    assert table is not None
    assert column(table, "Phase") == [*PHASES[:-1], "wall"]
    assert any("less than 1 % of the plain step" in note for note in table.notes)


def test_a_run_without_profiles_has_none_of_these_tables() -> None:
    empty = RunView()
    assert kernel_tables(empty) == lens_tables(empty) == []
    assert timeline_table(empty) is launch_table(empty) is overhead_table(empty) is None
    assert gemm_table(empty) is None


def test_source_lines_get_a_column_of_their_own(view: RunView) -> None:
    state = view.cases[1]
    assert state.kernels is not None
    row = state.kernels.rows[0]
    lines = {(row.phase, row.full_name, row.op, row.module): "model.py:70 in scores"}
    rows = with_sources(state.kernels.rows, lines)
    table = top_kernels(state, msgspec.structs.replace(state.kernels, rows=rows), row.phase)
    assert column(table, "Source")[0] == "model.py:70 in scores"
    assert set(column(table, "Source")[1:]) == {""}
    assert any("session of their own" in note for note in table.notes)
    plain = top_kernels(state, state.kernels, row.phase)
    assert not any("session of their own" in note for note in plain.notes)


def test_steps_under_the_profiler_are_in_no_timing_table(view: RunView) -> None:
    table = steadiness(view)
    assert table is not None
    assert len(table.rows) == 1
    assert 50 in {round(number(cell)) for cell in column(table, "Mean")}


def test_the_experiments_name_tables_that_exist() -> None:
    for name in ("kernels", "overhead"):
        experiment = build_experiment(name, {})
        assert set(experiment.tables) <= set(BUILDERS)
        assert [case.probe for case in experiment.cases()][:2] == ["timing", "kernels"]


@pytest.mark.parametrize("steps", [0, 101, 10**9])
def test_profile_steps_are_bounded(steps: int) -> None:
    with pytest.raises(SpecError, match=r"^--profile-steps must be between 1 and 100$"):
        build_experiment("kernels", {"profile_steps": steps})


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"steps":2,"rows"', b'"steps":0,"rows"'),
        (b'"calls":', b'"calls":-'),
        (b'"parts":[{', b'"parts":[],"more":[{'),
        (b'"wall_ms":', b'"wall_ms":-'),
    ],
)
def test_figures_that_cannot_be_divided_by_are_damage(
    view: RunView, tmp_path: Path, old: bytes, new: bytes
) -> None:
    lines = (tmp_path / "journal.jsonl").read_bytes().splitlines(keepends=True)
    broken = [
        line.replace(old, new) if b"Table" in line or b"Facts" in line else line for line in lines
    ]
    assert broken != lines
    (tmp_path / "journal.jsonl").write_bytes(b"".join(broken))
    again = replay(tmp_path / "journal.jsonl")
    assert again.damaged_lines >= 1
    assert timeline_table(again) is None or again.cases[1].kernels is None
    kernel_tables(again)


def test_the_csv_beside_a_csv_holds_the_kernel_tables_of_the_json(
    view: RunView, tmp_path: Path
) -> None:
    target = tmp_path / "r.csv"
    assert export(view, target) == (target, tmp_path / "r-kernels.csv")
    tables = {table["key"]: table for table in json.loads(render(view, "json"))["tables"]}
    read: dict[str, dict[tuple[str, str], str]] = {}
    notes: dict[str, list[str]] = {}
    with (tmp_path / "r-kernels.csv").open(encoding="utf-8", newline="") as file:
        for line in csv.DictReader(file):
            assert line["title"] == tables[line["table"]]["title"]
            if line["column"] == "note":
                notes.setdefault(line["table"], []).append(line["value"])
            else:
                place = (line["row"], f"{line['column']}|{line['unit']}")
                read.setdefault(line["table"], {})[place] = line["value"]
    wanted = {
        "timeline",
        "launches",
        "classes-1",
        "kernels-forward-1",
        "kernels-backward-1",
        "gemms",
        "attention-lens-1",
        "overhead",
    }
    assert wanted <= set(read)
    for key, found in read.items():
        columns = [f"{column['name']}|{column['unit']}" for column in tables[key]["columns"]]
        assert len(set(columns)) == len(columns)  # else cells would fall on each other
        assert notes.get(key, []) == tables[key]["notes"]
        assert len(found) == len(columns) * len(tables[key]["rows"])
        for number, row in enumerate(tables[key]["rows"], 1):
            for column, value in zip(columns, row, strict=True):
                text = found[str(number), column]
                assert text == ("" if value is None else str(value))


def test_a_run_without_profiles_has_no_second_csv(tmp_path: Path) -> None:
    experiment = Experiment(name="plain", models=(TINY.model,))
    events = [*opening(experiment), *measured(0, experiment.cases()[0], [1.0, 2.0])]
    timed = replay(write(tmp_path / "journal.jsonl", events))
    assert export(timed, tmp_path / "r.csv") == (tmp_path / "r.csv",)
    assert export(timed, tmp_path / "r.md") == (tmp_path / "r.md",)
    assert {path.name for path in tmp_path.iterdir()} == {"journal.jsonl", "r.csv", "r.md"}


def test_the_header_says_which_steps_are_the_profiles(view: RunView) -> None:
    text = dict(facts(view))["Steps"]
    assert text == ("plain timing: 5 warm-up, 10 measured; kernel profile: 5 warm-up, 2 profiled")
    alone = replace(view, cases=view.cases[:1])
    assert dict(facts(alone))["Steps"] == "5 warm-up, 10 measured"


def test_columns_are_explained_once_a_case_and_nothing_that_did_not_run_is_unknown(
    view: RunView,
) -> None:
    tables = kernel_tables(view)
    tops = [table for table in tables if table.title.startswith("Top kernels")]
    assert len(tops) > 2
    assert [any("Std over calls:" in note for note in table.notes) for table in tops] == [
        True,
        *[False] * (len(tops) - 1),
    ]
    classes = next(table for table in tables if table.title.startswith("Time by class"))
    optimizer = dict(zip(column(classes, "Class"), column(classes, "forward"), strict=True))
    assert number(optimizer["optimizer"]) == 0


def test_counts_of_one_step_are_whole_unless_the_steps_differed(view: RunView) -> None:
    table = launch_table(view)
    assert table is not None
    for heading in ("Gaps", "Launches"):
        for cell in column(table, heading):
            whole = isinstance(cell, int)
            assert whole or not number(cell).is_integer()


def test_what_is_missing_stands_below_the_tables_and_among_the_checks(view: RunView) -> None:
    lines = ("no source lines: CUPTI is taken", "no Chrome trace: No space left on device (ENOSPC)")
    state = view.cases[1]
    assert state.kernels is not None
    table = msgspec.structs.replace(state.kernels, missing=lines)
    lacking = replace(view, cases=(view.cases[0], replace(state, kernels=table)))
    text = render(lacking, "md")
    for line in lines:
        assert f"Missing: {line}." in text
    assert "; ".join(lines) in text  # the check, one row a case
    assert "incomplete" not in render(view, "md")
    document = json.loads(render(lacking, "json"))
    assert document["cases"][1]["kernels"]["missing"] == list(lines)
    said = {verdict["rule"] for verdict in document["cases"][1]["verdicts"]}
    assert "incomplete" in said
    assert "incomplete" not in {v["rule"] for v in document["cases"][0]["verdicts"]}
