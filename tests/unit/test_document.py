"""Documents: every number in prose is a cell, findings hold, caps are kept, files are whole."""

from __future__ import annotations

import csv
import io
import random
import re
import xml.etree.ElementTree as ET
from dataclasses import fields, replace
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace as replace_struct

from llmprof.core import events as ev
from llmprof.core.document.answers import timing
from llmprof.core.document.answers.attention import kernels
from llmprof.core.document.answers.profiles import agree
from llmprof.core.document.changes import Change, change_table, changes_of
from llmprof.core.document.cost import Budget, unsound_training
from llmprof.core.document.files import document_files
from llmprof.core.document.findings import MOST, findings, why_no_change
from llmprof.core.document.gains import MULTIPLIED, products_ms
from llmprof.core.document.html import write_html
from llmprof.core.document.markdown import write_markdown
from llmprof.core.document.next_steps import outlook
from llmprof.core.document.profiles import lens_table
from llmprof.core.document.questions import Question, answered
from llmprof.core.document.quotes import (
    MOST_ROWS,
    KeyedTable,
    Quote,
    Sentence,
    cell_text,
    number,
    plain,
)
from llmprof.core.document.rules.changes import of_changes
from llmprof.core.document.sections import SECTIONS, Document, document
from llmprof.core.document.sources import Source, SourcesDiffer, sources_of
from llmprof.core.document.steps import pace as step_pace
from llmprof.core.document.tables import Tables, tables_of
from llmprof.core.figures.comparison import compare
from llmprof.core.figures.replicates import Replicated
from llmprof.core.report.coverage import coverage
from llmprof.core.report.formats import render
from llmprof.core.report.lean import COMMON
from llmprof.core.report.overhead import overhead_table
from llmprof.core.report.subject import Subject, subject_of
from llmprof.core.report.switches import switch_groups, switches
from llmprof.core.report.table import Column, Table
from llmprof.core.state.view import CaseState, RunView
from llmprof.core.store.pack import open_view
from tests.builders.planted import CPU, GPU, Times, around, case, observed, run, view

ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "tests" / "fixtures"
RECORDINGS = sorted(FIXTURES.glob("*.llmprof")) + sorted((ROOT / "tui").glob("*.llmprof"))
COURSE = ("end-to-end-h100", "precision-h100", "switches-h100", "attention-h100", "warmup-h100")
# Names that hold digits, labels of tables and figures, and the interval's own name.
LABELS = re.compile(
    r"`[^`]*`|fp32|bf16|fp16|TF32|2\.7B|10B|(?:Table|Fig\.) \d+|(?<![\d.])95 %|d=\d+"
    r"|H[12]00|B200|A100"
)
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")


@cache
def tables(*paths: Path) -> Tables:
    return tables_of(sources_of([(open_view(path), path) for path in paths], mixed=True))


@cache
def whole(*paths: Path, questions: bool = False) -> Document:
    return document(tables(*paths), questions=questions)


def course(questions: bool = False) -> Document:
    paths = [FIXTURES / f"{name}.llmprof" for name in COURSE]
    return whole(*paths, ROOT / "tui" / "demo-kernels.llmprof", questions=questions)


DOCUMENTS = [
    *(pytest.param(lambda path=path: whole(path), id=path.stem) for path in RECORDINGS),
    *(
        pytest.param(lambda path=path: whole(path, questions=True), id=f"{path.stem}-questions")
        for path in RECORDINGS
    ),
    pytest.param(course, id="course"),
    pytest.param(lambda: course(questions=True), id="course-questions"),
]


def prose(made: Document) -> list[Sentence]:
    """All sentences of the pages but the machine's lines."""
    return [
        sentence
        for section in made.sections
        if section.name != "machine"
        for sentence in (
            *section.text,
            *section.items,
            *section.after,
            *(line for _, lines in section.answers for line in lines),
        )
    ]


def all_tables(made: Document) -> list[Table]:
    return [table for section in (*made.sections, *made.appendix) for table in section.tables]


def numbers(text: str) -> list[str]:
    return [each.rstrip(",") for each in NUMBER.findall(LABELS.sub(" ", text))]


@pytest.mark.parametrize("make", DOCUMENTS)
def test_every_number_in_prose_is_a_cell(make) -> None:  # type: ignore[no-untyped-def]
    made = make()
    there = {
        number.rstrip(",")
        for table in all_tables(made)
        for text in (
            *(cell_text(cell) for row in table.rows for cell in row),
            *(note for note in table.notes if note.startswith(COMMON)),
        )
        for number in NUMBER.findall(text)
    }
    for sentence in prose(made):
        missing = [each for each in numbers(plain(sentence)) if each not in there]
        assert missing == [], plain(sentence)


@pytest.mark.parametrize("make", DOCUMENTS)
def test_a_quote_is_the_cell_that_it_names(make) -> None:  # type: ignore[no-untyped-def]
    made = make()
    keyed = {each.table.key: each for each in (*made.tables.whole, *made.tables.grids)}
    quotes = [each for sentence in prose(made) for each in sentence if isinstance(each, Quote)]
    for quote in quotes:
        if quote.table != "next-steps":
            assert keyed[quote.table].quote(quote.row, quote.column) == quote


@pytest.mark.parametrize("make", DOCUMENTS)
def test_a_document_keeps_its_caps(make) -> None:  # type: ignore[no-untyped-def]
    made = make()
    words = sum(len(plain(sentence).split()) for sentence in prose(made))
    assert words <= 1200
    shown = [table for section in made.sections for table in section.tables]
    assert len(shown) <= 8
    assert all(len(table.rows) <= MOST_ROWS for table in shown)
    assert len(findings(made.tables)) <= MOST
    assert all(len(figure.document()) < 100_000 for figure in made.figures)


@pytest.mark.parametrize("make", DOCUMENTS)
def test_a_table_that_was_cut_says_so_below_it(make) -> None:  # type: ignore[no-untyped-def]
    made = make()
    rows = {each.table.key: len(each.keys) for each in made.tables.whole}
    appendix = {
        table.key for section in made.appendix for table in section.tables
        if len(table.rows) == rows.get(table.key)
    }  # fmt: skip
    for table in (table for section in made.sections for table in section.tables):
        said = [note for note in table.notes if "left out here" in note]
        left = rows.get(table.key, len(table.rows)) - len(table.rows)
        where = "the appendix" if table.key in appendix else "the CSV file"
        if left:
            (note,) = said
            assert note.startswith(f"{left} of {rows[table.key]} rows")
            assert where in note
        else:
            assert said == []


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_sections_stand_in_their_order(path: Path) -> None:
    made = whole(path)
    of_loops = all(source.subject.loops for source in made.tables.sources)
    there = ["machine", "findings", "steps", "limits"] if of_loops else list(SECTIONS)
    assert [section.name for section in made.sections] == there
    some = document(tables(path), ["cost", "findings"])
    assert [section.name for section in some.sections] == ["findings", "cost"]
    assert some.appendix == ()


# --------------------------------------------------------------------------- findings

BASE: Times = {"forward": around(20.0), "backward": around(40.0), "optimizer": around(10.0)}


def cells(optimizers: tuple[list[float], list[float]], others: float = 60.0) -> RunView:
    """foreach and fused in fresh processes, the optimizer's time of each given."""
    cases = [
        case(optimizer=kind, process=at)
        for kind, times in zip(("foreach", "fused"), optimizers, strict=True)
        for at in range(len(times))
    ]
    luck = random.Random(5)
    events = []
    for index, each in enumerate(cases):
        own = [*optimizers[0], *optimizers[1]][index]
        rest = others * (1 + 0.004 * luck.uniform(-1, 1))
        times: Times = {
            "forward": around(rest / 3),
            "backward": around(2 * rest / 3),
            "optimizer": around(own),
        }
        events += run(index, each, times)
    return view(cases, events)


def said(run_view: RunView) -> list[str]:
    made = tables_of(sources_of([(run_view, None)]))
    return [plain(finding.text) for finding in findings(made) if finding.kind == "change"]


def test_a_planted_change_of_the_optimizer_alone_is_found_and_named() -> None:
    touched = [10.0, 10.1, 9.9, 10.05], [6.2, 6.15, 6.25, 6.2]
    found = said(cells(touched, others=600.0))
    assert len(found) == 1
    assert found[0].startswith(
        "fused AdamW changes the optimizer: medium (128 tokens) optimizer −3"
    )
    assert "the step is not distinguished" in found[0]
    assert "% is excluded" in found[0]


def test_what_moves_the_step_is_named_with_its_share() -> None:
    found = said(cells(([15.9, 16.0, 15.8], [8.7, 8.75, 8.65])))
    assert len(found) == 1
    assert "fused AdamW shortens the step" in found[0]
    assert "3 processes" in found[0]
    assert "the saving in medium: all of it in the optimizer" in found[0]


def test_single_processes_support_no_difference() -> None:
    made = tables_of(sources_of([(cells(([15.9], [8.7])), None)]))
    assert not any(finding.kind == "change" for finding in findings(made))
    assert "measured in one process" in why_no_change(made)


def test_cells_that_fail_a_check_support_no_finding() -> None:
    made = tables(FIXTURES / "switches-h200.llmprof")
    failed = [change for change in made.all_changes if "host-pace" in change.why_not]
    assert failed
    for finding in findings(made):
        for change in failed:
            keys = {change.key(part) for part in change.found.parts}
            assert not keys & {quote.row for quote in finding.evidence}


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_a_difference_has_one_verdict_in_the_report_and_the_run_s_own_tables(path: Path) -> None:
    made = tables(path)
    judged = {
        (change.found.base.case, change.found.other.case): change for change in made.all_changes
    }
    for source in made.sources:
        subject = source.subject.as_one
        for base, *others in switch_groups(subject):
            for found in filter(None, (subject.compare(base, other) for other in others)):
                change = judged.get((base.case, found.other.case))
                if change is not None:
                    assert [change.verdict(part) for part in found.parts] == [
                        found.not_judged or part.decision for part in found.parts
                    ]


def test_the_baseline_is_the_case_without_switches_wherever_it_stands() -> None:
    cases = [case(precision="bf16"), case(), case(optimizer="fused")]
    events = [event for index, each in enumerate(cases) for event in run(index, each, BASE)]
    made = tables_of(sources_of([(view(cases, events), None)]))
    (group,) = switch_groups(made.sources[0].subject)
    assert group[0].case == cases[1]
    assert {change.found.base.case for change in made.all_changes} == {cases[1]}
    overview = switches(made.sources[0].subject)[0]
    assert [row[-1] for row in overview.rows if row[-1] == "baseline"] == ["baseline"]
    assert overview.rows[0][-1] == "baseline"


def test_no_table_nor_sentence_of_a_run_rests_on_cells_that_fail_a_check() -> None:
    made = tables(FIXTURES / "switches-h200.llmprof")
    failed = {
        (change.found.other.case.model.name, change.name)
        for change in made.all_changes
        if "failed check" in change.why_not
    }
    assert failed == {("small", "TF32"), ("small", "bf16"), ("medium", "bf16"), ("large", "TF32")}
    subject = made.sources[0].subject
    overview, by_phase = switches(subject.as_one)
    for table in (overview, by_phase):
        names = [column.header for column in table.columns]
        for row in table.rows:
            cells = {name: str(cell) for name, cell in zip(names, row, strict=True)}
            if (cells["Model Size"], cells["Switch"]) in failed and cells["Verdict"]:
                assert cells["Verdict"] == "not judged: failed check host-pace"
    large = next(
        note for note in overview.notes if note.startswith("large: ") and "the step faster" in note
    )
    assert "large: 3 switches" in large
    exported = render(subject, "md")
    assert "large: 4 switches make the step faster" not in exported


class SoundSubject(Subject):
    """A run in which no check says no."""

    def failed_checks(self, *states: CaseState) -> tuple[str, ...]:
        return ()


class UnsoundSubject(Subject):
    """A run in which one check says no to everything."""

    def failed_checks(self, *states: CaseState) -> tuple[str, ...]:
        return ("host-pace",)


class Sound(Source):
    """A run in which no check says no."""

    def failed_checks(self, state: CaseState) -> tuple[str, ...]:
        return ()


def as_one(states: list[CaseState], optimizer: str) -> Replicated:
    known = {each.name: getattr(states[0], each.name) for each in fields(CaseState)}
    known["case"] = msgspec.structs.replace(states[0].case, process=0, optimizer=optimizer)
    return Replicated(**known, processes=tuple(states))


def test_of_identical_pairs_few_claim_a_change() -> None:
    recorded = open_view(FIXTURES / "processes-h200.llmprof")
    states = [state for state in recorded.cases if state.total is not None]
    source, luck, claims = Sound("pairs", Subject()), random.Random(20_261_128), 0
    for _ in range(1000):
        drawn = luck.sample(states, 6)
        found = compare(as_one(drawn[:3], "foreach"), as_one(drawn[3:], "fused"))
        assert found is not None
        changes = [Change(source, found)]
        claims += any(of_changes(change_table(changes, [source]), changes, [source]))
    assert claims <= 50


def test_a_cause_needs_a_second_measurement() -> None:
    one = [plain(each.text) for each in findings(tables(FIXTURES / "end-to-end-h100.llmprof"))]
    assert any(text.startswith("Consistent with a launch-bound step") for text in one)
    assert not any("is launch-bound" in text for text in one)
    two = [plain(each.text) for each in findings(tables(ROOT / "tui" / "demo-kernels.llmprof"))]
    assert any("is launch-bound, by two measurements" in text for text in two)


def of_two_batches() -> Tables:
    """Launch-bound steps that differ in their batch alone."""
    cases = [case(batch_size=batch) for batch in (1, 4)]
    events = [
        event for index, each in enumerate(cases) for event in run(index, each, BASE, host=1.0)
    ]
    return tables_of(sources_of([(view(cases, events), None)]))


def test_steps_that_differ_in_their_batch_are_named_by_it() -> None:
    made = of_two_batches()
    pace = next(plain(each.text) for each in findings(made) if each.kind == "pace")
    assert "medium (128 tokens, batch 1) and medium (128 tokens, batch 4)" in pace
    assert "at the end of phases that make most of the step" in pace
    assert "medium (128 tokens, batch 4)" in plain(outlook(made).verdict)


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_other_cards_are_predicted_from_cells_whose_pace_the_card_sets(path: Path) -> None:
    for rate in tables(path).rates:
        if not rate.measured:
            assert not step_pace(rate.found[1]).startswith("host")


def test_the_method_says_what_the_columns_of_changes_are() -> None:
    method = next(
        section
        for section in whole(FIXTURES / "switches-h200.llmprof").appendix
        if section.name == "method"
    )
    text = " ".join(plain(item) for item in method.items)
    for words in (
        "geometric means",
        "differ in sign",
        "Gain excluded above:",
        "above 100 %",
        "CV:",
    ):
        assert words in text


def test_result_tables_keep_their_notes_and_verdicts_their_reason() -> None:
    text = write_markdown(whole(FIXTURES / "end-to-end-h100.llmprof", questions=True), "r")
    assert "forward from mode forward" in text
    changes = tables(FIXTURES / "switches-h200.llmprof").changes
    assert changes is not None
    verdicts = {cell_text(row[-1]) for row in changes.table.rows}
    assert "not distinguished (tested together, none of them is)" in verdicts


def test_commands_in_notes_are_code() -> None:
    subject = tables(FIXTURES / "attention-kernels-h200.llmprof").sources[0].subject
    environment = subject.environment
    assert environment is not None
    bare = replace(subject, environment=replace_struct(environment, ceilings=None))
    assert "need `llmprof calibrate`" in render(bare, "md")


def test_sizes_in_a_title_are_ordered() -> None:
    paths = FIXTURES / "switches-large-h100.llmprof", FIXTURES / "end-to-end-h100.llmprof"
    assert whole(*paths).title == "Training steps of tiny, small, medium, large, xl, 2.7B"


def test_where_nothing_holds_it_is_said() -> None:
    made = document(tables_of(sources_of([(view([case()], []), None)])))
    texts = [plain(each) for each in prose(made)]
    assert "Nothing holds that could be called a finding." in texts
    assert any(text.startswith("Not measured: `llmprof run kernels`") for text in texts)


# --------------------------------------------------------------------------- several runs


def other_torch() -> tuple[RunView, RunView]:
    times: Times = {"forward": around(20.0)}
    of = case(mode="forward")
    other = msgspec.structs.replace(GPU, torch="2.12.0", worker_source="b")
    mine = msgspec.structs.replace(GPU, worker_source="a")
    return view([of], run(0, of, times), mine), view([of], run(0, of, times), other)


def test_runs_of_other_software_are_refused_unless_mixed() -> None:
    one, other = other_torch()
    with pytest.raises(SourcesDiffer, match=r"torch 2\.11\.0 and 2\.12\.0; measuring code a and b"):
        sources_of([(one, None), (other, None)])
    mixed = document(tables_of(sources_of([(one, None), (other, None)], mixed=True)))
    assert [source.name for source in mixed.tables.sources] == ["planted", "planted 2"]
    levels = mixed.tables.steps
    assert levels is not None
    assert levels.table.columns[0].header == "Run"
    assert any("Runs are mixed" in plain(each) for each in prose(mixed))


def test_an_earlier_run_without_a_hash_is_no_difference() -> None:
    one, _ = other_torch()
    earlier = replace(one, environment=GPU)
    assert len(sources_of([(one, None), (earlier, None)])) == 2


# --------------------------------------------------------------------------- costs and next steps


def test_costs_follow_from_the_rate_and_the_price() -> None:
    made = tables_of(
        sources_of([(open_view(FIXTURES / "end-to-end-h100.llmprof"), None)]),
        Budget(tokens=2_000_000_000, price=2.5),
    )
    assert made.cost is not None
    rate = next(each for each in made.rates if each.measured)
    hours = 2e9 / rate.low / 3600
    assert number(made.cost.quote(rate.key, "Time")) == pytest.approx(hours, rel=0.01)
    assert number(made.cost.quote(rate.key, "Cost")) == pytest.approx(2.5 * hours, rel=0.01)
    assert "at 2.5 an hour of this card" in made.cost.table.title
    elsewhere = [each for each in made.rates if not each.measured]
    assert elsewhere
    assert all(each.low <= each.high for each in elsewhere)
    assert {"H200", "A100-80GB"} <= {each.card for each in elsewhere}
    assert not any(each.found[1].case.model.name == "small" for each in elsewhere)  # launch-bound


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_next_steps_are_few_and_their_commands_can_be_given(path: Path) -> None:
    from llmprof.cli import run as run_command
    from llmprof.cli.options import experiment_from
    from llmprof.cli.parser import Parser

    look = outlook(tables(path))
    assert len(look.steps) <= 3
    assert plain(look.verdict).endswith(".")
    for step in look.steps:
        assert step.command or "already measured" in step.expected
        parser = Parser()
        run_command.add_arguments(parser)
        args = parser.parse(step.command.split()[2:])
        assert experiment_from(args, args.experiment).cases()
        assert any(isinstance(piece, Quote) for piece in step.evidence)


def test_a_launch_bound_run_with_a_profile_is_told_to_launch_less() -> None:
    look = outlook(tables(ROOT / "tui" / "demo-kernels.llmprof"))
    assert "idles" in plain(look.verdict) or "pace" in plain(look.verdict)


# --------------------------------------------------------------------------- formats


class Reader(HTMLParser):
    """What an HTML file loads, and its unbalanced tags."""

    VOID = frozenset({"meta", "br", "hr", "img", "path", "rect", "circle", "polygon"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.loads: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.loads += [value or "" for name, value in attrs if name in ("src", "href", "srcset")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open.pop() == tag


@pytest.mark.parametrize("make", DOCUMENTS)
def test_html_is_one_whole_file(make) -> None:  # type: ignore[no-untyped-def]
    text = write_html(make())
    reader = Reader()
    reader.feed(text)
    assert reader.open == []
    assert reader.loads == []
    assert "@import" not in text
    assert "url(" not in text
    assert "prefers-color-scheme:dark" in text


def test_markdown_has_no_folds_and_no_method_before_the_appendix() -> None:
    text = write_markdown(course(), "report")
    pages = text.split("\n---\n")[0]
    assert "<details>" not in text
    assert "![Fig. 1." in pages
    assert "Student" not in pages


@pytest.mark.parametrize("make", DOCUMENTS)
def test_figures_are_well_formed_and_name_their_units(make) -> None:  # type: ignore[no-untyped-def]
    for figure in make().figures:
        tree = ET.fromstring(figure.document())
        words = [node.text or "" for node in tree.iter() if node.tag.endswith("text")]
        assert any(re.search(r"\((ms|tokens|MiB|GiB)\)$", each) for each in words)
        assert figure.data.rows


def test_files_lie_beside_a_document_and_are_named_in_it(tmp_path: Path) -> None:
    made = course()
    files = document_files(made, tmp_path / "r.md", "md")
    names = [path.name for path in files]
    assert names[:4] == ["r.md", "r-cases.csv", "r-samples.csv", "r-tables.csv"]
    text = files[tmp_path / "r.md"]
    assert all(name in text for name in names[1:])
    samples = list(csv.DictReader(io.StringIO(files[tmp_path / "r-samples.csv"])))
    steps = sum(
        len(state.warmup) + len(state.measured)
        for source in made.tables.sources
        for state in source.subject.cases
    )
    assert len(samples) == steps
    assert {row["run"] for row in samples} == {*COURSE_RUNS}


COURSE_RUNS = ("end-to-end", "precision", "switches", "attention", "warmup", "kernels")


def test_questions_name_what_was_not_measured() -> None:
    made = whole(FIXTURES / "end-to-end-h100.llmprof", questions=True)
    asked = [question for section in made.sections for question, _ in section.answers]
    assert asked[0].startswith("How long are forward, backward")
    texts = [plain(sentence) for sentence in prose(made)]
    assert any("`llmprof run kernels` would" in text for text in texts)
    assert all(lines for section in made.sections for _, lines in section.answers)
    full = [plain(sentence) for sentence in prose(course(questions=True))]
    assert not any("`llmprof run kernels` would" in text for text in full)


def test_changes_are_against_the_plain_case() -> None:
    changes = changes_of(tables(FIXTURES / "attention-h100.llmprof").sources)
    assert {change.name for change in changes} == {"SDPA", "torch.compile"}


def answers(question: str, *paths: Path) -> list[str]:
    """The lines under the question that begins so."""
    sections = whole(*paths, questions=True).sections
    return next(
        [plain(line) for line in lines]
        for section in sections
        for asked, lines in section.answers
        if asked.startswith(question)
    )


def test_a_question_without_an_answer_names_the_command() -> None:
    made = tables(FIXTURES / "end-to-end-h100.llmprof")
    question = Question("?", lambda given: (), "end-to-end")
    assert [plain(line) for line in answered(question, made)] == [
        "Not measured: `llmprof run end-to-end` would."
    ]
    elsewhere = replace(question, experiment="", instead="Said plainly.")
    assert [plain(line) for line in answered(elsewhere, made)] == ["Said plainly."]


def test_a_recording_of_memory_alone_answers_what_it_holds() -> None:
    path = ROOT / "tui" / "demo-memory.llmprof"
    assert answers("How large is a tensor", path)[0].startswith("residual stream, one activation")
    assert answers("Which allocations", path)[0].startswith("At the peak of ")


def test_attention_profiled_on_a_cpu_has_no_gpu_time() -> None:
    made = tables(ROOT / "tui" / "demo-kernels.llmprof")
    source, state = next(each for each, _ in made.lenses)
    assert state.lens is not None
    lens = replace_struct(state.lens, source="cpu")
    for told, header in ((state.lens, "GPU time"), (lens, "Op time")):
        shown = lens_table((source, replace(state, lens=told)))
        assert shown is not None
        assert header in [column.header for column in shown.table.columns]


def test_a_question_answered_in_part_names_what_is_missing() -> None:
    peaks = answers("What are the peaks of inference", FIXTURES / "precision-h200.llmprof")
    assert peaks[-1].startswith("Not measured: inference; `llmprof run memory --model-size small ")
    assert " --mode forward " in peaks[-1]
    mixed = answers("What are the times with and without", FIXTURES / "switches-h200.llmprof")
    assert mixed[-1].startswith("Not measured: fp16; `llmprof run --model-size large ")
    assert "--precision fp32,fp16 --processes 3` measures it." in mixed[-1]
    times: Times = {"forward": around(20.0)}
    made = tables_of(
        sources_of([(view([case(mode="forward")], run(0, case(mode="forward"), times)), None)])
    )
    lines = document(made, questions=True).sections[1].answers[0][1]
    assert "ms; backward and optimizer not measured (`llmprof run " in plain(lines[0])
    assert "--mode train" in plain(lines[0])


def test_a_run_that_was_cut_off_says_what_measures_the_rest() -> None:
    cases = [case(), case(precision="bf16")]
    made = document(tables_of(sources_of([(view(cases, run(0, cases[0], BASE)), None)])))
    machine = [plain(line) for line in made.sections[0].items]
    told = "interrupted: 1 of 2 cases not measured, `llmprof resume planted` measures them"
    assert any(told in line for line in machine)


def test_a_run_in_a_file_is_resumed_by_that_file() -> None:
    """Its id names nothing on a machine to which it was brought."""
    path = FIXTURES / "checkpointing-h200.llmprof"
    made = document(tables_of(sources_of([(open_view(path), path)])))
    machine = " ".join(plain(line) for line in made.sections[0].items)
    assert "`llmprof resume checkpointing-h200.llmprof` measures them" in machine
    table = coverage(open_view(path))
    assert table is not None
    assert table.notes[0].endswith("of a run in a file, llmprof resume FILE.")


@pytest.mark.parametrize("make", DOCUMENTS)
def test_what_was_not_measured_is_named_with_a_command(make) -> None:  # type: ignore[no-untyped-def]
    for sentence in prose(make()):
        text = plain(sentence)
        if "ot measured" in text and "not measured apart" not in text:
            assert "`llmprof run" in text, text


def test_what_was_measured_and_does_not_stand_is_not_called_unmeasured() -> None:
    of = case(measure_steps=10)
    seen = observed(0, of, context_length=64)
    made = document(tables_of(sources_of([(view([of], run(0, of, BASE, seen)), None)])))
    cost = next(section for section in made.sections if section.name == "cost")
    assert plain(cost.text[0]).startswith("Measured, but checks do not let it stand: requested")
    assert any("A training step was measured, but" in plain(each) for each in prose(made))


class WarmingToo(Subject):
    """A run in which two checks say no to everything."""

    def failed_checks(self, *states: CaseState) -> tuple[str, ...]:
        return ("host-pace", "warming")


def test_a_check_that_says_no_to_several_runs_is_named_once() -> None:
    (source,) = tables_of(sources_of([(view([case()], run(0, case(), BASE)), None)])).sources
    known = {each.name: getattr(source.subject, each.name) for each in fields(Subject)}
    unsound = [Source("one", UnsoundSubject(**known)), Source("other", WarmingToo(**known))]
    assert unsound_training(unsound) == "host-pace, warming"


def test_an_answer_says_which_of_its_cells_a_check_has_failed() -> None:
    of = case(measure_steps=10)
    wrong = view([of], run(0, of, BASE, observed(0, of, context_length=64)))
    made = tables_of(sources_of([(wrong, None)]))
    for answer in (timing.phases, timing.spread):
        (line,) = map(plain, answer(made))
        assert line.endswith(" (failed check requested-observed).")


def test_what_a_cpu_cannot_tell_is_said_of_the_cpu() -> None:
    of = case(probe="attention", mode="forward-backward")
    ran = view([of], run(0, of, BASE), CPU, name="attention")
    made = tables_of(sources_of([(ran, None)]))
    question = Question("?", lambda given: (), "attention")
    assert [plain(line) for line in answered(question, made)] == [
        "Not measured on a CPU: `llmprof run attention` does on a card."
    ]


def test_an_answer_that_is_cut_says_so() -> None:
    made = tables(FIXTURES / "end-to-end-h100.llmprof")
    question = Question("?", lambda given: ((f"line {at}",) for at in range(9)), "end-to-end")
    lines = [plain(line) for line in answered(question, made)]
    assert lines[:8] == [f"line {at}" for at in range(8)]
    assert lines[8].startswith("Further lines are in the tables")


def test_data_types_are_those_under_autocast_whichever_run_comes_first() -> None:
    question = "Which data type"
    paths = FIXTURES / "end-to-end-h100.llmprof", FIXTURES / "precision-h200.llmprof"
    found = answers(question, *paths)
    assert [line.split(":")[0] for line in found] == [
        "With autocast to bf16", "With autocast to fp16"
    ]  # fmt: skip
    assert "bfloat16 for linear output, attention scores" in found[0]
    assert answers(question, paths[0]) == ["Not measured: `llmprof run precision` would."]


def test_kernels_are_compared_at_the_longest_context_a_sentence_each() -> None:
    found = answers("How does one's own kernel", FIXTURES / "attention-kernels-h200.llmprof")
    assert len(found) == 2
    assert found[0].startswith("d=64 in bf16, at 16,384 tokens: flash takes 0.9269 ms")
    assert "left out, since a check says no to them: SDPA, 0.569 ms (warming); cudnn" in found[0]
    assert "no kernel of one's own" in found[0]


@pytest.mark.parametrize("wrong", ["output", "query", "key", "value"])
def test_a_kernel_with_wrong_results_is_not_named_the_fastest(wrong: str) -> None:
    kernel = {"probe": "attention", "mode": "forward-backward", "cold_cache": True}
    cases = [case(**kernel), case(**kernel, attention="sdpa", sdpa_backend="flash")]
    right = ev.AttentionErrors(reference="fp64", output=1e-7, query=1e-7, key=1e-7, value=1e-7)
    seen = [
        observed(0, cases[0], errors=right),
        observed(1, cases[1], errors=replace_struct(right, **{wrong: 0.5})),
    ]
    events = [
        event
        for at, (of, ms) in enumerate(zip(cases, (20.0, 2.0), strict=True))
        for event in run(at, of, {"forward": around(ms), "backward": around(ms)}, seen[at])
    ]
    made = tables_of(sources_of([(view(cases, events), None)]))
    (line,) = map(plain, kernels(made))
    assert "tokens: naive takes" in line
    assert "since a check says no to them: flash" in line
    table = next(each.table for each in made.grids_named("attention-kernels"))
    assert any("tokens naive takes least" in note for note in table.notes)


def test_compiling_is_answered_in_a_sentence() -> None:
    found = answers("What does compiling the whole", FIXTURES / "switches-h100.llmprof")
    assert len(found) == 1
    assert found[0].startswith("small, train")
    assert " a step from 51.4 ms eager to 19.89 ms, a speed-up of 2.58 ×; " in found[0]
    assert found[0].endswith("; one process: not judged.")
    assert "repaid" not in found[0]  # the verdict has the reason


@pytest.mark.parametrize(
    ("profiled", "words"),
    [
        (around(150.0), ": longer under the profiler."),
        (around(60.0), ": the plain step, in a process of its own, took longer."),
        ([60.0, 220.0, 100.0] * 3, ": not distinguished."),
        ([150.0], "."),
    ],
)
def test_a_profile_is_longer_only_where_the_table_of_its_cost_says_so(
    profiled: list[float], words: str
) -> None:
    cases = [case(mode="forward"), case(mode="forward", probe="kernels")]
    events = [*run(0, cases[0], {"forward": around(100.0)}),
              *run(1, cases[1], {"forward": profiled})]  # fmt: skip
    subject = subject_of(view(cases, events))
    silent = replace_subject(subject, SoundSubject)
    assert agree(Source("kernels", silent), silent.cases[1]) == words
    table = overhead_table(subject)
    assert table is not None
    verdict = table.rows[0][[each.header for each in table.columns].index("Verdict")]
    assert ("longer under" in words) == (verdict == "slower")


def test_a_profile_that_a_check_says_no_to_is_compared_with_nothing() -> None:
    found = tables(ROOT / "tui" / "demo-kernels.llmprof")
    _, state = found.profiled[0]
    unsound = Source("kernels", UnsoundSubject())
    assert "not compared, failed check host-pace" in agree(unsound, state)


def replace_subject(subject: Subject, kind: type[Subject]) -> Subject:
    return kind(**{each.name: getattr(subject, each.name) for each in fields(Subject)})


@pytest.mark.parametrize("make", [lambda: course(questions=True), lambda: whole(
    FIXTURES / "end-to-end-h100.llmprof", FIXTURES / "precision-h100.llmprof",
    FIXTURES / "checkpointing-h200.llmprof", ROOT / "tui" / "demo-kernels.llmprof",
    questions=True)])  # fmt: skip
def test_no_two_lines_of_an_answer_are_of_the_same_name(make) -> None:  # type: ignore[no-untyped-def]
    for section in make().sections:
        for _, lines in section.answers:
            names = [plain(line).split("): ")[0] for line in lines if "): " in plain(line)]
            assert len(set(names)) == len(names), names


def test_columns_of_one_name_are_told_apart_by_their_units() -> None:
    columns = (Column("Forward", "ms"), Column("Forward", "GB/s"))
    table = KeyedTable(Table("t", "T", columns, ((1, 2),)), ("row",))
    assert table.quote("row", "Forward (GB/s)").text == "2"
    assert table.quote("row", "Forward").text == "1"
    with pytest.raises(KeyError):
        table.quote("row", "Backward")


def test_switches_that_come_to_the_same_peak_are_named_together() -> None:
    made = tables(FIXTURES / "checkpointing-h200.llmprof")
    lines = [plain(each.text) for each in findings(made) if each.kind == "memory"]
    assert len(lines) == 1
    assert lines[0].startswith(
        "1 block a checkpoint, 2 blocks a checkpoint and 3 blocks a checkpoint lower the peak"
    )


def test_what_a_lower_precision_may_bring_is_bounded_by_the_products_of_a_profile() -> None:
    profiled = tables(FIXTURES / "checkpointing-h200.llmprof")
    assert "the time of matrix products" in outlook(profiled).steps[0].expected
    bare = tables(FIXTURES / "end-to-end-h100.llmprof")
    assert "were both matrix products alone" in outlook(bare).steps[-1].expected
    for made, is_less in ((profiled, True), (bare, False)):
        found = next(each for each in made.step_cells if "backward" in each[1].summaries)
        whole = sum(found[1].summaries[phase].mean for phase in MULTIPLIED)
        assert (products_ms(made, found).ms < 0.95 * whole) is is_less


def test_a_document_says_how_far_the_same_step_came_out_from_run_to_run() -> None:
    said = [plain(line) for line in prose(course())]
    assert any("took 48.7 ms in run end-to-end and 69.2 ms in run warmup" in each for each in said)


def test_cells_beyond_those_that_are_named_are_told_of() -> None:
    cases = [case(batch_size=batch) for batch in (1, 2, 3, 4, 5)]
    events = [
        event for index, each in enumerate(cases) for event in run(index, each, BASE, host=1.0)
    ]
    made = tables_of(sources_of([(view(cases, events), None)]))
    pace = [plain(each.text) for each in findings(made) if each.kind == "pace"]
    assert any("medium (128 tokens, batch 4) and others the card has" in line for line in pace)


def test_what_is_predicted_elsewhere_stands_beside_what_was_measured_here() -> None:
    cost = next(table for section in course().sections for table in section.tables
                if table.key == "cost")  # fmt: skip
    names = [column.header for column in cost.columns]
    size, basis = names.index("Size"), names.index("Basis")
    sizes = {word: {row[size] for row in cost.rows if row[basis] == word}
             for word in ("measured", "predicted")}  # fmt: skip
    assert sizes["predicted"]
    assert sizes["predicted"] <= sizes["measured"]


def test_predicted_training_steps_are_shown_before_other_modes() -> None:
    page = next(table for section in course().sections for table in section.tables
                if table.key == "predicted")  # fmt: skip
    assert any("Mode train" in note for note in page.notes)
