"""What a reader finds in a document: from what to what, which phase, which model, in which unit."""

from __future__ import annotations

import re
import runpy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from llmprof.core.document.answers.switches import trends
from llmprof.core.document.closing import limits, method_items
from llmprof.core.document.findings import findings
from llmprof.core.document.growth import COLUMNS as GROWTH_COLUMNS
from llmprof.core.document.markdown import write_markdown
from llmprof.core.document.quotes import cell_text, plain
from llmprof.core.document.sections import document
from llmprof.core.document.sources import sources_of
from llmprof.core.document.tables import Tables, tables_of
from llmprof.core.report.checkpointing import checkpointing
from llmprof.core.report.comparisons import SIGN_UNCLEAR
from llmprof.core.report.data_types import COMPONENTS, data_types
from llmprof.core.report.kernel_timeline import launch_table
from llmprof.core.report.lean import with_unit
from llmprof.core.report.registry import BUILDERS
from llmprof.core.report.run_comparison import FROM_A_TO_B, RunComparison
from llmprof.core.report.subject import subject_of
from llmprof.core.report.table import Figure, Table
from llmprof.core.report.timing import wide
from llmprof.core.report.two_runs import TwoRuns
from llmprof.core.report.warmup import warmup
from llmprof.core.spec.case import Case
from llmprof.core.spec.own_model import OwnModel
from llmprof.core.spec.shape import ModelShape
from llmprof.core.state.view import RunView
from llmprof.core.store.pack import open_view
from tests.builders.planted import CPU, GPU, SHAPE, Times, around, case, observed, run, view
from tests.unit.test_document import FIXTURES, RECORDINGS, all_tables, answers, course, tables

SCATTERED = [10.0, 10.0, 40.0]  # arithmetic mean 20, geometric 15.9
STEADY = [16.0, 16.0, 16.0]


def opened(name: str) -> RunView:
    return open_view(FIXTURES / f"{name}.llmprof")


def processes(means: list[float], first: int = 0, **fields: object) -> tuple[list[Case], list]:  # type: ignore[type-arg]
    cases = [case(process=at, **fields) for at in range(len(means))]
    events = []
    for at, (of, mean) in enumerate(zip(cases, means, strict=True)):
        times: Times = {
            "forward": around(mean),
            "backward": around(2 * mean),
            "optimizer": around(5.0),
        }
        events += run(first + at, of, times)
    return cases, events


def of_precisions(shape: ModelShape, fp32: list[float], bf16: list[float]) -> RunView:
    base, events = processes(fp32, model=shape)
    other, more = processes(bf16, len(base), model=shape, precision="bf16")
    return view([*base, *other], [*events, *more])


def made_of(*views: RunView) -> Tables:
    return tables_of(sources_of([(each, None) for each in views]))


# ------------------------------------------------------------------- from what to what


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_the_sign_of_a_change_follows_its_columns(path: Path) -> None:
    made = tables(path)
    for key in made.changes.keys if made.changes else ():
        assert made.changes is not None
        cells = [made.changes.quote(key, name).text for name in ("Baseline", "With it", "Change")]
        if cells[2] == SIGN_UNCLEAR:
            continue
        before, after, change = (float(text.replace("−", "-").replace(",", "")) for text in cells)
        assert change * (after - before) >= 0, cells


def test_a_change_whose_means_move_opposite_ways_has_no_sign() -> None:
    made = made_of(of_precisions(SHAPE, SCATTERED, STEADY))
    assert made.changes is not None
    (change,) = made.all_changes
    key = change.key(change.found.parts[0])
    assert made.changes.quote(key, "Change").text == SIGN_UNCLEAR
    text = plain(next(iter(answers_of(made, "What are the times with"))))
    assert "forward" not in text.split("(", 2)[2]


def answers_of(made: Tables, question: str) -> list:  # type: ignore[type-arg]
    return next(
        [*lines]
        for section in document(made, questions=True).sections
        for asked, lines in section.answers
        if asked.startswith(question)
    )


def test_two_runs_say_once_from_which_to_which() -> None:
    one, other = processes(SCATTERED), processes(STEADY)
    found = RunComparison(TwoRuns(view(*one), view(*other)), "before", "after")
    assert sum(FROM_A_TO_B in note for table in found.tables for note in table.notes) == 1
    changes = next(table for table in found.tables if table.key == "changes")
    assert "from A to B" in changes.title
    at = [column.header for column in changes.columns].index("Change")
    assert changes.rows[0][at] in (SIGN_UNCLEAR, "~")
    profiled = open_view(Path(__file__).parents[2] / "tui" / "demo-kernels.llmprof")
    tables = RunComparison(TwoRuns(profiled, profiled), "a", "b").tables
    headers = {column.header for table in tables for column in table.columns}
    assert {"Change", "Difference"} <= headers
    for table in tables:
        if {"Change", "Difference"} & {column.header for column in table.columns}:
            assert "from A to B" in table.title


def test_changes_in_answers_go_from_the_baseline_to_the_switch() -> None:
    (line,) = (each for each in answers("What are the times", FIXTURES / "switches-h100.llmprof")
               if "bf16 (" in each)  # fmt: skip
    assert "from 51.4 to 58 ms, +13.2 % (forward +7.6 %, backward +19.0 %; one process" in line
    titles = [table.title for table in all_tables(course()) if table.key == "changes"]
    assert titles
    assert all("from Baseline to With it" in title for title in titles)


def test_attention_alone_has_no_step() -> None:
    made = tables(FIXTURES / "attention-h100.llmprof")
    assert made.changes is not None
    parts = {made.changes.quote(key, "Part").text for key in made.changes.keys}
    assert parts == {"forward", "backward", "forward + backward"}


SMALL = ModelShape(name="small", d_model=768, d_ff=3072, num_layers=12, num_heads=12)


@pytest.mark.parametrize(
    ("small", "medium", "said"),
    [
        ([9.4, 9.5, 9.3], [15.0, 15.3, 14.7], "the larger the model, the more time it saves"),
        ([5.0, 5.1, 4.9], [28.2, 28.5, 27.9], "the larger the model, the less time it saves"),
        ([5.0, 5.1, 4.9], [16.4, 16.7, 16.1], "no trend beyond the intervals"),
        ([5.0], [15.0], "no trend: not judged"),
    ],
)
def test_a_trend_with_size_is_told_where_intervals_tell_it(
    small: list[float], medium: list[float], said: str
) -> None:
    cases: list[Case] = []
    events = []
    for shape, plainly, half in ((SMALL, 10.0, small), (SHAPE, 30.0, medium)):
        base = [plainly * luck for luck in (1.0, 1.01, 0.99)][: len(half)]
        for precision, means in (("fp32", base), ("bf16", half)):
            more, told = processes(means, len(cases), model=shape, precision=precision)
            cases += more
            events += told
    (line,) = map(plain, trends(made_of(view(cases, events)), "bf16"))
    assert line.startswith("bf16 by size (128 tokens): −")
    assert line.endswith(f"; {said}.")


# ------------------------------------------------------------------- data types


def test_data_types_stand_after_the_times_and_once_a_document() -> None:
    order = list(BUILDERS)
    assert order.index("data-types") > order.index("phases")
    names = ("checkpointing-h200", "switches-h200", "precision-h200", "scaling-h200")
    made = tables(*(FIXTURES / f"{name}.llmprof" for name in names))
    titles = [table.title for table in all_tables(document(made)) if "Data types" in table.title]
    assert titles == ["Data types seen (precision)"]


def test_runs_that_saw_other_data_types_are_both_shown() -> None:
    of = case()
    seen = [observed(0, of, dtypes={"logits": dtype}) for dtype in ("float32", "bfloat16")]
    times: Times = {"forward": around(10.0), "backward": around(20.0), "optimizer": around(5.0)}
    made = made_of(*(view([of], run(0, of, times, each)) for each in seen))
    assert len(made.grids_named("data-types")) == 2


def test_data_types_that_are_all_alike_are_one_row() -> None:
    (table,) = data_types(opened("checkpointing-h200"))
    assert table.rows == (("every one", "float32"),)
    assert all(component in table.notes[0] for component in COMPONENTS)
    mixed, _ = data_types(opened("precision-h200"))
    assert len(mixed.rows) == len(COMPONENTS)


def test_sums_and_norms_are_answered_from_what_was_seen() -> None:
    found = answers("Why do sums in half", FIXTURES / "precision-h200.llmprof")
    assert found[0].startswith("bfloat16 summed in bfloat16: 4.000 where 10.00 is exact")
    assert [line for line in found if line.startswith("norm statistics: float32 under bf16")]
    assert sum("stops growing" in line for line in found) == 1


# ------------------------------------------------------------------- timing


def test_warm_up_names_the_phases_that_it_is_about() -> None:
    found = answers("What changes without warm-up", FIXTURES / "warmup-h100.llmprof")
    assert "(cold: forward 317.4 ms, 23.57 ms warm; optimizer 83.82 ms, 6.25 ms warm)" in found[0]
    later = "longer after little warm-up (one process: not judged): forward 63.0 ms after 1, 64.4"
    assert later in found[2]
    assert found[-1].startswith("Cold phases are consistent with")
    table = warmup(opened("warmup-h100"))
    assert table is not None
    assert any("one (forward 317.4 ms for 23.57 ms, optimizer" in note for note in table.notes)
    (said,) = (plain(each.text) for each in findings(tables(FIXTURES / "warmup-h100.llmprof"))
               if each.kind == "warm-up")  # fmt: skip
    assert "cold: forward 317.4 ms" in said


def test_no_phase_is_cold_that_was_not() -> None:
    cases = [case(warmup_steps=count) for count in (0, 5)]
    times: Times = {"forward": around(10.0), "backward": around(20.0), "optimizer": around(5.0)}
    made = made_of(
        view(cases, [event for at, of in enumerate(cases) for event in run(at, of, times)])
    )
    (line,) = map(plain, answers_of(made, "What changes without warm-up"))
    assert "cold" not in line
    assert "longer" not in line


def test_phases_have_their_deviation_and_a_forward_what_it_takes_alone() -> None:
    path = FIXTURES / "end-to-end-h100.llmprof"
    assert answers("How long are", path)[1] == (
        "small, train (128 tokens): forward 18.4 ±4.3 ms (10.8 ms alone, failed check warming), "
        "backward 24.3 ±4.1 ms, optimizer 5.87 ±0.26 ms."
    )
    assert answers("How much do they vary", path)[1] == (
        "small (128 tokens): step 48.7 ±5.8 ms, CV 12.0 %."
    )


def writeup(*names: str) -> list[Path]:
    return [FIXTURES / "writeup-h200" / f"{name}.llmprof" for name in names]


def test_steps_vary_between_processes_and_runs_too() -> None:
    found = answers("How much do they vary", *writeup("precision", "warmup"))
    assert found[1] == (
        "medium (128 tokens): step 103 ±9 ms, CV 8.5 %, between 3 processes ±27 ms; all runs "
        "91.10 to 111.5 ms."
    )


@pytest.mark.parametrize(
    ("forwards", "said"),
    [
        ((90.0, 40.0, 31.0, 30.0), "longer after little warm-up (one process: not judged): for"),
        ((90.0, 31.0, 40.0, 30.0), "no later effect is told: processes differ by more"),
        ((90.0, 30.0, 31.0, 40.0), "no later effect is told: processes differ by more"),
        ((90.0, 30.0, 30.5, 30.0), ""),
    ],
)
def test_little_warm_up_is_told_where_it_goes_one_way(
    forwards: tuple[float, ...], said: str
) -> None:
    cases = [case(warmup_steps=count) for count in (0, 1, 2, 5)]
    events = []
    for at, (of, ms) in enumerate(zip(cases, forwards, strict=True)):
        times: Times = {"forward": around(ms), "backward": around(20.0), "optimizer": around(5.0)}
        events += run(at, of, times)
    (line, *_) = map(plain, answers_of(made_of(view(cases, events)), "What changes without"))
    assert said in line
    assert ("longer" in line, "no later" in line) == ("longer" in said, "no later" in said)


# ------------------------------------------------------------------- profiles


def test_what_matters_beside_products_is_told_of_the_forward_too() -> None:
    (line,) = answers("Which kernels other", *writeup("kernels"))
    assert line.endswith("norm 7.1 %; forward: elementwise 0.469, norm 0.320 ms.")
    (stages,) = answers("Softmax and mask", *writeup("kernels"))
    assert "softmax 13.9 and 1.9, scale + mask 25.6 and 0.4, QKᵀ 26.5 and 48.9" in stages


def test_the_modes_of_phases_are_named_where_they_differ() -> None:
    titles = []
    for path in writeup("end-to-end", "warmup"):
        table = wide(subject_of(open_view(path)).as_one)
        assert table is not None
        titles.append(table.title)
    assert titles == [
        "Forward (mode forward), backward (mode forward-backward), optimizer (mode train)",
        "Forward, backward, optimizer",
    ]


def test_the_longest_gap_is_said_to_be_of_all_profiled_steps() -> None:
    table = launch_table(open_view(*writeup("kernels")))
    assert table is not None
    assert "the longest gap, which are over all of them" in table.notes[0]


# ------------------------------------------------------------------- which model


def test_models_of_one_name_are_told_apart_by_what_differs() -> None:
    times: Times = {"forward": around(10.0), "backward": around(20.0), "optimizer": around(5.0)}

    def of(layers: int) -> RunView:
        shape = ModelShape(name="smoke", d_model=64, d_ff=128, num_layers=layers, num_heads=4)
        return view([case(model=shape)], run(0, case(model=shape), times))

    made = made_of(of(1), of(2))
    assert made.steps is not None
    sizes = {made.steps.quote(key, "Size").text for key in made.steps.keys}
    assert sizes == {"smoke num_layers=1", "smoke num_layers=2"}
    alone = made_of(of(1), of(1))
    assert alone.steps is not None
    assert {alone.steps.quote(key, "Size").text for key in alone.steps.keys} == {"smoke"}


def test_own_models_of_one_name_are_told_apart_by_arguments_and_file() -> None:
    def name(**changes: Any) -> str:
        of = case(
            model=OwnModel("mine", "m.py", "", "m", "build", content="abc")._replace(**changes)
        )
        (source, _) = sources_of(
            [(view([of], run(0, of, {"forward": around(1.0)})), None),
             (view([plain_of], run(0, plain_of, {"forward": around(1.0)})), None)]
        )  # fmt: skip
        return source.cases[0].case.model.name

    plain_of = case(model=OwnModel("mine", "m.py", "", "m", "build", content="abc"))
    assert name(arguments=(("depth", 2),)) == "mine depth=2"
    assert name(content="0123456789") == "mine file=0123456"
    assert name() == "mine"


# ------------------------------------------------------------------- memory and attention


def test_both_peaks_of_a_size_stand_in_one_line_and_no_size_is_left_out() -> None:
    found = answers("What are the peaks", FIXTURES / "end-to-end-h100.llmprof")
    assert found[-1] == (
        "2.7B, fp32 (128 tokens): inference 13,103 MiB, training 65,044 MiB (in optimizer)."
    )
    assert len(found) == 6


def test_what_inference_holds_under_autocast_is_named_by_its_recording() -> None:
    (line,) = (
        each for each in answers("And with mixed", *writeup("memory")) if "Inference" in each
    )
    assert "autocast's half-precision copies of the weights" in line
    assert not any("autocast" in each for each in answers("What are the peaks", *writeup("memory")))
    bare = answers("And with mixed", FIXTURES / "precision-h200.llmprof")
    assert not any("copies" in each for each in bare)


def test_a_line_of_llmprof_s_own_model_is_called_so() -> None:
    found = answers("Which allocations", *writeup("memory"))
    assert "from llmprof's model.py:176 forward." in found[1]
    assert found[-1].endswith("from blocks.*.ffn.gate.weight.")


def test_a_tie_of_checkpoints_is_called_one() -> None:
    found = answers("Which checkpointing block", FIXTURES / "checkpointing-h200.llmprof")
    assert found[0].startswith("large (512 tokens), no checkpoints: peak of backward 23,663 MiB")
    assert "15,179 MiB (lowest), of step 18,554 MiB (lowest, tied)" in found[1]
    assert found[1].endswith("; a step takes 446.7 ms, +26.0 %.")
    assert "15,419 MiB, of step 18,554 MiB (lowest, tied)" in found[2]


def test_predicted_checkpoints_agree_with_their_column_off_a_card() -> None:
    cases = [case(checkpoint=blocks) for blocks in (None, 1)]
    times: Times = {"forward": around(10.0), "backward": around(20.0), "optimizer": around(5.0)}
    events = [event for at, of in enumerate(cases) for event in run(at, of, times)]
    for environment in (CPU, GPU):
        table = checkpointing(view(cases, events, environment))
        assert table is not None
        said = next(note for note in table.notes if "for the peak of the backward, from" in note)
        predicted = table.rows[0][[column.header for column in table.columns].index("Predicted")]
        assert isinstance(predicted, Figure)
        assert f"from {predicted.value:,.0f} MiB without to " in said


def test_what_ran_out_of_memory_is_accounted_for() -> None:
    found = answers("Where does the grid", FIXTURES / "attention-oom-h100.llmprof")
    assert found[0] == "d=64, fp32 (32,768 tokens): out of memory in forward."
    assert found[1].startswith("By formula, at the step's peak: scores 131,072 MiB, causal mask")
    assert "memory of NVIDIA H100 80GB HBM3 81,079 MiB" in found[1]


def test_several_cards_are_said_not_to_be_measured() -> None:
    (line,) = answers("All-reduce", FIXTURES / "end-to-end-h100.llmprof")
    assert line.startswith("llmprof does not measure these: its experiments run on one card.")
    assert "`llmprof watch -- torchrun train.py`" in line


# ------------------------------------------------------------------- units and closing lines


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_a_column_has_one_unit(path: Path) -> None:
    for table in all_tables(document(tables(path))):
        for column in table.columns:
            assert " or " not in column.unit, table.title
    assert all(" or " not in column.unit for column in GROWTH_COLUMNS)


@pytest.mark.parametrize(
    ("text", "unit", "told"),
    [("under 0.001", "%", "under 0.001 %"), ("1", "processes", "1 process"),
     ("−3.2", "%", "−3.2 %"), ("no fit", "ms", "no fit"), ("under way", "%", "under way")],
)  # fmt: skip
def test_a_number_in_a_line_keeps_its_unit(text: str, unit: str, told: str) -> None:
    assert with_unit(text, unit) == told


def test_errors_that_are_all_negligible_have_no_largest() -> None:
    told = [plain(each.text) for each in findings(tables(FIXTURES / "precision-h100.llmprof"))]
    assert "Requested peaks come out as they were predicted: every error is under 0.001 %." in told
    compiled = tables(FIXTURES / "switches-h100.llmprof")
    assert compiled.predicted is not None


def test_limits_are_of_what_is_there_and_checks_are_explained() -> None:
    attention = tables(FIXTURES / "attention-h100.llmprof")
    assert not any("Predicted rates" in plain(line) for line in limits(attention))
    sized = tables(FIXTURES / "end-to-end-h100.llmprof")
    assert any("Predicted rates" in plain(line) for line in limits(sized))
    told = [plain(line) for line in method_items(sized)]
    assert any(
        line.startswith("Check warming: The first measured step was still cold") for line in told
    )


def test_a_picture_without_fits_promises_none() -> None:
    shapes = [case(context_length=length, mode="forward") for length in (128, 256)]
    times: Times = {"forward": around(10.0)}
    made = made_of(view(shapes, [e for at, of in enumerate(shapes) for e in run(at, of, times)]))
    (caption,) = (figure.caption for figure in document(made).figures if figure.name == "growth")
    assert caption == "Time over context; no power is fitted"


def test_a_loop_answers_for_itself_among_a_hand_outs_questions() -> None:
    made = document(tables(FIXTURES / "own-loop-cpu.llmprof"), questions=True)
    text = write_markdown(made, "r")
    assert text.startswith("# Training loop own-loop")
    assert "**Table 1. The training loop**" in text
    assert "Every case ran in a fresh process" not in text


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_no_two_rows_of_a_table_are_alike_in_all_that_names_them(path: Path) -> None:
    for table in all_tables(document(tables(path))):
        if table.key in ("steps", "changes", "levels", "profiles", "predicted", "cost", "warm-up"):
            assert len(set(named(table))) == len(table.rows), table.title


def named(table: Table) -> list[tuple[str, ...]]:
    """The cells of the columns that hold words, and of those that name a case."""
    naming = re.compile("Context|Batch|Warm-up")
    kept = [at for at, column in enumerate(table.columns)
            if not column.numeric or naming.match(column.header)]  # fmt: skip
    return [tuple(cell_text(row[at]) for at in kept) for row in table.rows]


def test_a_step_that_could_not_be_named_is_a_fault_of_the_test() -> None:
    made = tables(FIXTURES / "end-to-end-h100.llmprof")
    assert made.steps is not None
    twice = replace(made.steps.table, rows=made.steps.table.rows * 2)
    assert len(set(named(twice))) < len(twice.rows)


def test_a_kernel_of_sdpa_is_no_switch_beside_the_one_that_torch_picks() -> None:
    found = findings(tables(FIXTURES / "attention-kernels-h200.llmprof"))
    told = [plain(each.text) for each in found if each.kind == "memory"]
    assert told
    assert all(line.startswith("SDPA lowers") for line in told)


def test_the_example_is_what_the_recordings_make() -> None:
    script = runpy.run_path(str(FIXTURES.parents[1] / "docs" / "make_example.py"))
    for path, text in script["example"]().items():
        assert path.read_text("utf-8") == text, "`python docs/make_example.py` makes it anew"
