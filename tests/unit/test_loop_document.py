"""Documents of training loops: they say what was found of them, and nothing of cases."""

from __future__ import annotations

from pathlib import Path

import pytest

from llmprof.core.document.files import document_files
from llmprof.core.document.markdown import write_markdown
from llmprof.core.document.sections import SECTIONS, document
from llmprof.core.document.sources import Source, sources_of
from llmprof.core.document.tables import tables_of
from llmprof.core.report.markdown_table import WIDEST, section
from llmprof.core.report.table import Column, Prose, Table
from llmprof.core.store import lock
from llmprof.core.store.pack import open_view
from tests.builders.tracked_rows import USUAL, write_loop

FIXTURES = Path(__file__).parent.parent / "fixtures"
WAITING = (("input", 12.0), *USUAL[1:])
OF_CASES = (
    "Not measured",
    "switch",
    "Random tokens",
    "not every case",
    "fresh process",
    "called a",
)


def sources(*paths: Path, mixed: bool = False) -> tuple[Source, ...]:
    return sources_of([(open_view(path), path) for path in paths], mixed=mixed)


def text_of(*paths: Path, wanted: tuple[str, ...] = (), mixed: bool = False) -> str:
    return write_markdown(document(tables_of(sources(*paths, mixed=mixed)), wanted), "r")


def test_a_loop_is_told_by_its_findings_and_parts(tmp_path: Path) -> None:
    text = text_of(write_loop(tmp_path, 60, (WAITING,)).path)
    for words in ("# Training loop my-run", "- input-bound: 40 % of the time", "num_workers",
                  "Parts of a step", "| input wait | 12.00 |", "Logged values"):  # fmt: skip
        assert words in text, words
    assert [words for words in OF_CASES if words in text] == []


def test_a_loop_in_good_health_and_one_too_young_to_judge(tmp_path: Path) -> None:
    assert "Nothing was found that holds" in text_of(write_loop(tmp_path / "a", 60).path)
    assert "Too few steps were seen" in text_of(write_loop(tmp_path / "b", 6).path)


def test_a_loop_that_goes_on_or_was_cut_off_says_so(tmp_path: Path) -> None:
    run = write_loop(tmp_path, 60, done=False)
    held = lock.hold_as_loop(run.lock_file)
    assert "my-run running" in text_of(run.path)
    held.close()
    assert "my-run interrupted" in text_of(run.path)


@pytest.mark.parametrize("name", SECTIONS)
def test_every_section_has_an_answer(tmp_path: Path, name: str) -> None:
    made = document(tables_of(sources(write_loop(tmp_path, 60).path)), [name])
    (section,) = made.sections
    assert section.name == name
    assert section.text or section.items or section.tables


def test_its_files_hold_a_row_a_step(tmp_path: Path) -> None:
    run = write_loop(tmp_path, 60, (USUAL, USUAL))
    files = document_files(document(tables_of(sources(run.path))), tmp_path / "r.html", "html")
    assert {path.name for path in files} == {"r.html", "r-rows.csv", "r-tables.csv"}
    assert files[tmp_path / "r-rows.csv"].count("\n") == 121


def test_several_loops_keep_their_names(tmp_path: Path) -> None:
    paths = [write_loop(tmp_path / name, 60, (parts,)).path for name, parts in
             (("a", USUAL), ("b", WAITING))]  # fmt: skip
    text = text_of(*paths)
    assert "my-run: Nothing was found" in text
    assert "my-run 2: input-bound" in text
    assert "Parts of a step (my-run 2)" in text


def test_a_loop_beside_cases_adds_to_their_document(tmp_path: Path) -> None:
    loop, cases = write_loop(tmp_path, 60, (WAITING,)).path, FIXTURES / "scaling-h200.llmprof"
    alone, both = text_of(cases), text_of(cases, loop, mixed=True)
    for words in ("input-bound: 40 % of the time", "Parts of a step", "One run of one script"):
        assert words in both
        assert words not in alone
    assert "Random tokens" in both


def test_a_finding_that_no_line_has_room_for_is_a_list_in_its_place() -> None:
    columns = (Column("Finding", numeric=False), Column("Seen", numeric=False))
    long = "many `words` " * 20
    text = section(Table("t", "Found", columns, (("straggler", Prose(long)),), ("A note.",)))
    heading, finding, seen, *rest = [line for line in text.splitlines() if line]
    assert (heading, finding) == ("## Found", "- Finding: **straggler**")
    assert seen.startswith("  - Seen: many `words` many")
    assert rest[-1] == "A note."
    assert max(map(len, rest)) <= WIDEST
    assert "<details>" not in text
    reasons = Column("Reason", numeric=False, sentences=True)
    told = section(Table("t", "Found", (columns[0], reasons), (("case", "no room " * 30),)))
    assert "- Finding: **case**\n  - Reason: no room no room" in told
