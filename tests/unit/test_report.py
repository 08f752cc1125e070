from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import msgspec
import pytest
from markdown_it import MarkdownIt

from llmprof.core import events as ev
from llmprof.core.report.formats import ExportError, check_writable, export, format_of, render
from llmprof.core.report.long_csv import to_cells
from llmprof.core.report.markdown_table import code, escape, escape_text, grid, section
from llmprof.core.report.table import Column, Figure, Table, format_cell
from llmprof.core.spec.experiment import Experiment
from llmprof.core.state.view import RunView
from llmprof.core.store.journal import replay
from llmprof.core.system.numbers import format_number
from tests.builders.handmade import experiment, measured, opening, step, whole_run, write


@pytest.fixture
def view(tmp_path: Path) -> RunView:
    return replay(whole_run(tmp_path / "j"))


def markdown_tables(text: str) -> list[list[list[str]]]:
    parser = MarkdownIt("commonmark").enable("table")
    tables: list[list[list[str]]] = []
    within = False
    for token in parser.parse(text):
        within = token.type != "table_close" and (within or token.type == "table_open")
        if token.type == "table_open":
            tables.append([])
        elif token.type == "tr_open":
            tables[-1].append([])
        elif token.type == "inline" and within:
            tables[-1][-1].append(token.content)
    return tables


def test_the_three_formats_agree(view: RunView) -> None:
    document = json.loads(render(view, "json"))
    rows = list(csv.DictReader(io.StringIO(render(view, "csv"))))
    assert len(rows) == len(document["cases"]) == 2
    for row, case in zip(rows, document["cases"], strict=True):
        assert row["model"] == case["config"]["model"]
        assert row["mode"] == case["config"]["mode"]
        for phase, values in case["phases"].items():
            for name in ("n", "mean_ms", "std_ms", "ci95_ms"):
                text = row[f"{phase}_{name}"]
                assert (float(text) if text else None) == (values[name] if values else None)
    forward = document["cases"][0]["phases"]["forward"]
    assert f"{forward['mean_ms']:.2f}" in render(view, "md")


def test_json_has_what_was_promised(view: RunView) -> None:
    document = json.loads(render(view, "json"))
    assert {"schema", "environment", "cases"} <= document.keys()
    forward, train = document["cases"]
    assert forward["status"] == "ok"
    assert forward["phases"]["backward"] is None
    assert set(train["phases"]) == {
        "forward", "loss", "backward", "optimizer", "zero_grad", "total",
    }  # fmt: skip
    assert [s["warmup"] for s in train["steps"]] == [True] + 4 * [False]
    assert forward["steps"][0]["backward_ms"] is None


def test_csv_cells_are_bare_numbers(view: RunView) -> None:
    for row in csv.DictReader(io.StringIO(render(view, "csv"))):
        assert float(row["total_mean_ms"]) > 0
        assert row["parameters"] == "22696448"


def test_names_that_a_spreadsheet_would_run_are_text_and_numbers_stay(tmp_path: Path) -> None:
    table = Table(
        "k", "=title", (Column("@c", numeric=False),),
        (("=1+1",), ("-1.5",), ("+2e3",), (-3.5,), ("-inf",), ("- 1 %",), ("plain",)), ("@note",),
    )  # fmt: skip
    rows = list(csv.DictReader(io.StringIO(to_cells([table]))))
    values = [row["value"] for row in rows]
    assert values == ["'=1+1", "-1.5", "+2e3", "-3.5", "-inf", "'- 1 %", "plain", "'@note"]
    assert {(row["title"], row["column"]) for row in rows} == {
        ("'=title", "'@c"), ("'=title", "note"),
    }  # fmt: skip


def test_an_eager_case_is_not_read_as_a_missing_value(view: RunView) -> None:
    rows = list(csv.DictReader(io.StringIO(render(view, "csv"))))
    assert {row["compile"] for row in rows} == {"none"}
    assert json.loads(render(view, "json"))["cases"][0]["config"]["compile"] is None


def test_an_empty_run_renders(tmp_path: Path) -> None:
    for fmt in ("md", "csv", "json"):
        assert render(RunView(), fmt)


def failing_run(path: Path, message: str) -> RunView:
    plan = experiment(("forward", "forward-backward", "train"))
    failure = ev.Failure(kind="oom", message=message, phase="backward", bytes_asked=3 << 30)
    events = [
        *opening(plan),
        *measured(0, plan.cases()[0], [1.0, 1.1]),
        ev.CaseStarted(case=1, pid=1),
        ev.CaseFailed(case=1, failure=failure),
    ]
    return replay(write(path, events))


def test_what_does_not_fit_keeps_its_row(tmp_path: Path) -> None:
    view = failing_run(tmp_path / "j", "CUDA out of memory")
    text = render(view, "md")
    assert "| tiny " in text
    tables = {tuple(table[0]): table[1:] for table in markdown_tables(text)}
    summary = tables["Model", "Params", "Forward mean ± std (ms)", "Backward mean ± std (ms)"]
    assert summary[0][3] == "OOM"
    document = json.loads(render(view, "json"))
    assert [case["status"] for case in document["cases"]] == ["ok", "oom", "skipped"]
    assert document["outcome"] == "interrupted"


def test_a_run_whose_cases_all_failed_says_why_and_no_more(tmp_path: Path) -> None:
    plan = experiment(("forward", "train"))
    failures = [
        ev.CaseFailed(case=at, failure=ev.Failure(kind="error", message="mine.py:2: no weights"))
        for at in range(2)
    ]
    starts = [ev.CaseStarted(case=at, pid=1) for at in range(2)]
    view = replay(write(tmp_path / "j", [*opening(plan), *starts, *failures]))
    text = render(view, "md")
    assert "mine.py:2: no weights" in text
    assert re.findall("^## (.*)", text, re.MULTILINE) == ["Without figures"]
    assert [case["status"] for case in json.loads(render(view, "json"))["cases"]] == ["error"] * 2


HOSTILE = [
    "a|b|c",
    "`tick` and ``two``",
    "line\nbreak\r\nand\ttab",
    "naïve 模型 🚀",
    "x" * 200,
    "\x1b[31mred\x1b[0m",
    "[/] [bold]markup[/bold]",
    "<script>alert(1)</script>",
    '=1+1,"quoted"',
    "__init__ *bold* ~~gone~~ # head",
    "$x$ and $$y$$",
    "$`x`$",
    "&lt;b&gt; AT&T &#36;",
    "- a list",
    "12. another",
    "+1.5",
    "@SUM(A1)",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_survive_every_format(tmp_path: Path, name: str) -> None:
    plan = experiment(("forward",))
    model = msgspec.structs.replace(plan.cases()[0].reference, name=name)
    plan = msgspec.structs.replace(plan, models=(model,))
    view = replay(
        write(tmp_path / "j", [*opening(plan), *measured(0, plan.cases()[0], [1.0, 1.2])])
    )
    text = render(view, "md")
    assert "\x1b" not in text
    for table in markdown_tables(text):
        assert {len(row) for row in table} == {len(table[0])}
    (case,) = json.loads(render(view, "json"))["cases"]
    assert case["config"]["model"] == name
    (row,) = csv.DictReader(io.StringIO(render(view, "csv"), newline=""))
    assert row["model"] == (f"'{name}" if name[0] in "=@-" else name)
    assert lists_below_the_header(text) <= {("bullet_list_open", 0)}  # of notes; none of a name's
    assert not re.search(r"(?<!\\)\$", re.sub(r"(`+)[^`].*?\1", "", text))


def lists_below_the_header(text: str) -> set[tuple[str, int]]:
    """Kinds of lists below the header, which is a list itself, with the depth of each."""
    tokens = MarkdownIt().parse(text.partition("\n## ")[2])
    return {(token.type, token.level) for token in tokens if token.type.endswith("list_open")}


@pytest.mark.parametrize("text", HOSTILE)
def test_escaped_text_reads_as_it_was(text: str) -> None:
    from llmprof.core.system.text import clean

    parser = MarkdownIt("commonmark").enable("table").enable("strikethrough")
    for escaped in (escape(text), escape_text(text)):
        inline = parser.parseInline(escaped)[0].children or []
        shown = "".join(token.content for token in inline if token.type != "html_inline")
        assert shown == clean(text).replace("`" if escaped != escape(text) else "\0", "")


def test_a_command_with_backticks_is_one_code_span() -> None:
    (token,) = MarkdownIt().parseInline(code("echo `date` ``x``"))[0].children or []
    assert token.type == "code_inline"
    assert token.content == "echo `date` ``x``"


@pytest.mark.parametrize(
    ("value", "uncertainty", "expected"),
    [
        (45.895, 0.34, "45.90"),
        (1234.5, 20.0, "1,234"),
        (0.04, 0.0012, "0.0400"),
        (212.4, None, "212.4"),
        (0.0, None, "0"),
        (0.0000000004, 0.5, "0.0000000004"),
        (None, None, "n/a"),
        (float("nan"), None, "n/a"),
        (float("inf"), None, "n/a"),
    ],
)
def test_digits_follow_the_uncertainty(
    value: float | None, uncertainty: float | None, expected: str
) -> None:
    assert format_number(value, uncertainty) == expected


def test_cells() -> None:
    assert format_cell(22_696_448) == "22,696,448"
    assert format_cell(Figure(None)) == "n/a"
    assert format_cell(None) == "n/a"


def test_a_row_of_the_wrong_length_is_refused() -> None:
    with pytest.raises(ValueError, match="row of 2"):
        Table("x", "x", (Column("a"),), ((1, 2),))


def test_a_table_of_no_rows_still_has_a_head() -> None:
    assert grid(Table("x", "x", (Column("a", "ms"),), ())).startswith("| a (ms) |")


def test_warm_up_only_runs_say_not_finished(tmp_path: Path) -> None:
    plan: Experiment = experiment(("forward",))
    events = [*opening(plan), ev.CaseStarted(case=0, pid=1), step(0, 0, "forward", warmup=True)]
    assert "not finished" in render(replay(write(tmp_path / "j", events)), "md")


def test_export_is_whole_or_not_at_all(tmp_path: Path, view: RunView) -> None:
    target = tmp_path / "r.md"
    target.write_text("old")
    export(view, target)
    assert target.read_text("utf-8") == render(view, "md")
    with pytest.raises(ExportError):
        export(view, tmp_path / "none" / "r.md")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["j", "r.md"]


@pytest.mark.parametrize("name", ["r.txt", "r", "r.MDX"])
def test_unknown_extensions_are_refused(name: str) -> None:
    with pytest.raises(ExportError, match="extension"):
        format_of(Path(name))


def test_a_folder_is_no_export_path(tmp_path: Path) -> None:
    (tmp_path / "x.md").mkdir()
    with pytest.raises(ExportError, match="folder"):
        check_writable(tmp_path / "x.md")


def test_every_part_of_a_split_table_says_which_row_is_which() -> None:
    figures = tuple(Column(f"{name} of the matrix products", "ms") for name in "abcdefgh")
    columns = (Column("Context", "tokens"), Column("Kernel", numeric=False), *figures)
    rows = tuple((64, kernel, *range(8)) for kernel in ("naive", "flash"))
    heads = [
        line
        for line in section(Table("kernels", "Kernels", columns, rows)).splitlines()
        if line.startswith("| Context")
    ]
    assert len(heads) > 1
    assert all("| Kernel" in head for head in heads)
