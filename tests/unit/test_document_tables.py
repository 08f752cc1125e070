"""A document's tables and figures: like beside like, digits, length, what tells series apart."""

from __future__ import annotations

import csv
import io
import re
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

from llmprof.core.document import cost as cost_rows
from llmprof.core.document.answers.timing import phases
from llmprof.core.document.cost import Budget, Rate, training_blocks
from llmprof.core.document.figures.bars import DASHES
from llmprof.core.document.figures.loglog import Reading, Series, loglog
from llmprof.core.document.figures.svg import SHAPES
from llmprof.core.document.files import document_files
from llmprof.core.document.host_floors import HostFloor
from llmprof.core.document.html import write_html
from llmprof.core.document.pictures import step_bars
from llmprof.core.document.quotes import cell_text, plain
from llmprof.core.document.sections import LONG, document, in_order
from llmprof.core.document.sources import sources_of
from llmprof.core.document.steps import between_processes, step_key
from llmprof.core.document.tables import Tables, tables_of
from llmprof.core.report.subject import subject_of
from llmprof.core.report.table import Table
from llmprof.core.spec.case import Case
from llmprof.core.state.view import RunView
from llmprof.core.stats.power_fit import fit_power
from llmprof.core.store.pack import open_view
from tests.builders.planted import Times, around, case, memory, run, view

FIXTURES = Path(__file__).parents[1] / "fixtures"
NAMES = ("switches-h200", "precision-h200", "processes-h200", "scaling-h200", "end-to-end-h100")
CLASS_OF = re.compile(r'class="([a-z-]+)"')
PRICED = Budget(price=2.5)


@cache
def of(*names: str) -> Tables:
    runs = [(open_view(FIXTURES / f"{name}.llmprof"), FIXTURES) for name in names]
    return tables_of(sources_of(runs, mixed=True), PRICED)


@cache
def writeup(*names: str) -> Tables:
    paths = [FIXTURES / "writeup-h200" / f"{name}.llmprof" for name in names]
    return tables_of(sources_of([(open_view(path), path) for path in paths]), PRICED)


def planted(*runs: RunView) -> Tables:
    return tables_of(sources_of([(each, None) for each in runs]), PRICED)


def measured(cases: list[Case], ms: list[float], host: float = 0.3) -> RunView:
    """Training steps of so many milliseconds, a case each."""
    events = []
    for at, (each, took) in enumerate(zip(cases, ms, strict=True)):
        third = around(took / 3)
        times: Times = {"forward": third, "backward": third, "optimizer": third}
        events += run(at, each, times, host=host)
    return view(cases, events)


def column(table: Table, header: str) -> list[str]:
    at = [each.header for each in table.columns].index(header)
    return [cell_text(row[at]) for row in table.rows]


# --------------------------------------------------------------------------- costs


@pytest.mark.parametrize("name", NAMES)
def test_a_block_of_costs_holds_like_work_with_the_plain_step_first(name: str) -> None:
    found = of(name)
    blocks = training_blocks(found.sources)
    for block in blocks:
        first = block[0][1].case
        assert len({source.name for source, _ in block}) == 1
        works = {(s.case.model, s.case.context_length, s.case.batch_size) for _, s in block}
        assert works == {(first.model, first.context_length, first.batch_size)}
        walls = [state.wall.mean for _, state in block[1:] if state.wall is not None]
        assert walls == sorted(walls)
        assert all(source.sound(state) for source, state in block)


def test_switches_without_their_plain_step_are_not_priced_beside_others() -> None:
    cases = [case(), case(optimizer="fused"), case(precision="bf16", context_length=64)]
    found = planted(measured(cases, [300.0, 200.0, 100.0]))
    assert found.cost is not None
    basis = column(found.cost.table, "Basis")
    variants = column(found.cost.table, "Variant")[: basis.count("measured")]
    assert variants == ["fp32", "fp32 + fused AdamW"]


def test_one_process_has_a_cost_and_no_range() -> None:
    found = planted(measured([case()], [300.0]))
    assert found.cost is not None
    assert " to " not in column(found.cost.table, "Cost")[0]
    several = planted(measured([case(process=at) for at in range(3)], [300.0, 310.0, 305.0]))
    assert several.cost is not None
    assert " to " in column(several.cost.table, "Cost")[0]
    assert "in the price's unit" in [each.unit for each in several.cost.table.columns]


def test_no_step_elsewhere_is_quicker_than_this_host_launches_it() -> None:
    launched = measured([case()], [300.0], host=1.0)
    ran = measured([case(context_length=256)], [330.0])
    alone, bounded = planted(ran), planted(ran, launched)
    asked = case(context_length=256)
    assert alone.host_floors.of(asked) == HostFloor()
    assert bounded.host_floors.of(asked).launches_ms == pytest.approx(300.0, rel=0.02)
    tokens = asked.tokens

    def fastest(found: Tables) -> float:
        return max(rate.high for rate in found.rates if not rate.measured)

    assert fastest(alone) > tokens / 0.25
    assert fastest(bounded) == pytest.approx(tokens / 0.3, rel=0.02)


@pytest.mark.parametrize(("ms", "reach"), [([100.0, 110.0, 90.0], 1.0), ([100.0, 400.0], 10.0)])
def test_a_range_of_rates_is_what_the_interval_of_the_step_comes_to(
    ms: list[float], reach: float
) -> None:
    found = planted(measured([case(process=at) for at in range(len(ms))], ms))
    (rate,) = (each for each in found.rates if each.measured)
    wall = rate.found[1].wall
    assert wall is not None
    assert wall.ci95 is not None
    tokens = rate.found[1].case.tokens
    assert tokens / rate.low == pytest.approx((wall.mean + wall.ci95) / 1e3)
    shortest = max(wall.mean - wall.ci95, 0.1 * wall.mean)
    assert tokens / rate.high == pytest.approx(shortest / 1e3)
    assert wall.mean / shortest <= reach * 1.5


def test_a_break_even_price_has_both_ends() -> None:
    found = of("switches-h200")
    assert found.cost is not None
    here = {rate.found[1].index: rate for rate in found.rates if rate.measured}
    for rate in found.rates:
        if not rate.measured and rate.low < rate.high:
            told = found.cost.quote(rate.key, "Break-even price").text
            ends = [float(each.replace(",", "")) for each in told.split(" to ")]
            mine: Rate = here[rate.found[1].index]
            assert ends[0] == pytest.approx(2.5 * rate.low / mine.high, abs=0.06)
            assert ends[-1] == pytest.approx(2.5 * rate.high / mine.low, abs=0.06)


def test_a_page_predicts_few_cards() -> None:
    made = document(of(*NAMES))
    (shown,) = (each for s in made.sections for each in s.tables if each.key == "cost")
    assert column(shown, "Basis").count("predicted") <= len(cost_rows.OF_TODAY)


# --------------------------------------------------------------------------- intervals and digits


def test_the_interval_of_one_process_is_blank_and_drawn_dashed() -> None:
    found = of("scaling-h200", "switches-h200")
    assert found.steps is not None
    for source, state in found.step_cells:
        if state.total is not None:
            several = found.steps.known((source.name, state.index), "95 % interval")
            assert several == between_processes(state)
    figure = step_bars(found.step_cells)
    assert figure is not None
    assert DASHES in figure.drawing
    assert "dashed between the steps of one process" in figure.caption
    assert {"steps of one process", "processes"} >= {
        text for text in column(figure.data, "Interval between") if text
    }


def test_no_cell_of_a_document_s_own_tables_has_five_digits_and_decimals() -> None:
    for table in of(*NAMES).whole:
        for row in table.table.rows:
            for each in map(cell_text, row):
                if each.replace(",", "").replace(".", "").lstrip("−").isdigit() and "." in each:
                    digits = each.lstrip("−").replace(",", "").replace(".", "").lstrip("0")
                    assert len(digits) <= 4, (table.table.title, each)


# --------------------------------------------------------------------------- the same cell


def test_a_cell_of_several_runs_has_its_least_median_and_most() -> None:
    other = measured([case(), case(warmup_steps=5)], [600.0, 330.0])
    found = planted(measured([case()], [300.0]), other)
    assert found.same is not None
    shown = [column(found.same.table, each) for each in ("Least", "Median", "Most")]
    assert [float(each) for (each,) in shown] == pytest.approx([300.0, 330.0, 600.0], rel=0.02)
    assert column(found.same.table, "Runs") == ["planted, planted 2"]
    assert column(found.same.table, "n") == ["3"]
    assert planted(measured([case()], [300.0])).same is None


def test_a_step_that_a_check_says_no_to_is_marked_in_its_table_and_its_figure() -> None:
    found = writeup("precision")
    assert found.steps is not None
    small, medium = found.step_cells
    assert found.steps.quote(step_key(*small), "Failed check").text == "host-pace"
    assert not found.steps.known(step_key(*medium), "Failed check")
    page = next(each for each in document(found).sections if each.name == "steps")
    assert "Failed check" in [each.header for each in page.tables[0].columns]
    (figure,) = page.figures
    assert figure.document().count("* host<") == 1
    assert "*: a check says no to its times" in figure.caption


def test_a_forward_alone_may_be_of_another_run() -> None:
    found = writeup("precision", "end-to-end")
    assert found.steps is not None
    alone = {cell[1].case.model.name: found.steps.quote(step_key(*cell), "Forward alone").text
             for cell in found.step_cells}  # fmt: skip
    assert alone == {"tiny": "6.34", "small": "10.13", "medium": "40.06"}
    lines = {line.split(",")[0]: line for line in map(plain, phases(found))}
    assert "(10.13 ms alone, another run)" in lines["small"]
    assert "(40.06 ms alone, another run, failed check host-pace)" in lines["medium"]


# --------------------------------------------------------------------------- length


def test_long_tables_are_in_the_file_and_named_in_a_line() -> None:
    made = document(of("switches-h200"))
    appendix = [table for section in made.appendix for table in section.tables]
    assert all(len(table.rows) <= LONG for table in appendix)
    long = [each.table for each in made.tables.whole if len(each.table.rows) > LONG]
    assert long
    (whole,) = (each for each in made.appendix if each.name == "whole")
    line = " ".join(map(str, whole.text[0]))
    text = document_files(made, Path("r.md"), "md")[Path("r-tables.csv")]
    rows = list(csv.DictReader(io.StringIO(text)))
    for table in long:
        if table.key in ("changes", "levels", "cost"):
            assert f"({len(table.rows):,} rows)" in line
        numbers = {
            int(r["row"]) for r in rows if r["table"] == f"document/{table.key}" and r["row"]
        }
        assert max(numbers) == len(table.rows)


def test_the_appendix_has_top_kernels_the_profiler_s_cost_and_launches() -> None:
    path = Path(__file__).parents[2] / "tui" / "demo-kernels.llmprof"
    made = document(tables_of(sources_of([(open_view(path), path)])))
    tables = {table.title.split(":")[0]: table for s in made.appendix for table in s.tables}
    top = tables["Top kernels of one profiled step"]
    assert [each.header for each in top.columns][:3] == ["Kernel", "Part", "Calls"]
    totals = [float(each) for each in column(top, "Total")]
    assert totals == sorted(totals, reverse=True)
    assert any(title.startswith("Gaps and launches") for title in tables)
    assert any(title.startswith("Overhead of the kernel profiler") for title in tables)


# --------------------------------------------------------------------------- memory, figures, pages


def test_what_was_there_before_a_step_stands_beside_its_peak() -> None:
    of_attention = case(probe="attention", mode="forward-backward")
    levels = {"start": 240 << 20, "forward": 250 << 20, "backward": 260 << 20}
    times: Times = {"forward": around(1.0), "backward": around(2.0)}
    events = run(0, of_attention, times, memory(0, levels))
    found = planted(view([of_attention], events))
    assert found.levels is not None
    assert set(column(found.levels.table, "At the step's start")) == {"240.0"}


def test_series_of_a_figure_differ_in_shape_and_are_named_at_their_ends() -> None:
    points = tuple(Reading(float(x), float(x) ** 2) for x in (1, 2, 4))
    names = [f"way {at}" for at in range(8)]
    figure = loglog(
        "growth",
        "G",
        [Series(n, points, fit_power(points)) for n in names],
        "context (tokens)",
        "ms",
    )
    assert figure is not None
    assert all(f">{name}: 2.00<" in figure.drawing for name in names)
    drawn = [each.split("/>")[0] for each in figure.drawing.split("<polygon ")[1:]]
    assert len({name for each in drawn for name in CLASS_OF.findall(each)}) == 7  # and circles
    assert len(SHAPES) == len(set(SHAPES)) == 7
    places = [
        float(each.split('y="')[1].split('"')[0])
        for each in figure.drawing.split("<text ")
        if ">way" in each
    ]
    assert all(b - a > 10 for a, b in pairwise(places))


def test_what_a_row_is_and_what_may_be_said_come_first_and_the_run_last() -> None:
    found = of("switches-h200", "precision-h200")
    assert found.changes is not None
    headers = [each.header for each in in_order(found.changes).table.columns]
    assert headers[:5] == ["Size", "Switch", "Part", "Change", "Verdict"]
    assert headers[-1] == "Run"
    assert "min-width:34rem" not in write_html(document(found))


def test_checks_of_clocks_and_of_counts_are_told_apart() -> None:
    subject = subject_of(open_view(FIXTURES / "switches-h200.llmprof"))
    slow = [state for state in subject.cases if subject.failed_checks(state) == ("host-pace",)]
    assert slow
    assert not subject.failed_counts(*slow)


def test_a_point_of_one_process_has_no_whisker() -> None:
    contexts = [128, 256, 512]
    one = planted(
        measured([case(context_length=each) for each in contexts], [300.0, 600.0, 1200.0])
    )
    assert one.growths
    assert all(point.half is None for grown in one.growths for point in grown.points)
