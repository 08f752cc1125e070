"""A document: its sections in order, what goes to the appendix, and the files beside it."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace

from llmprof.core.document import cost as cost_rows
from llmprof.core.document import levels as level_rows
from llmprof.core.document import steps as step_rows
from llmprof.core.document.closing import EXPLAINED, METHOD, left_out, limits, method_items
from llmprof.core.document.commands import SWITCHES, TRAIN
from llmprof.core.document.configurations import parameters
from llmprof.core.document.figures.svg import Figure
from llmprof.core.document.finding import Finding
from llmprof.core.document.findings import evidence_rows, findings, why_no_change
from llmprof.core.document.loops import LIMITS as LOOP_LIMITS
from llmprof.core.document.loops import METHOD as LOOP_METHOD
from llmprof.core.document.loops import (
    NOT_OF_A_LOOP,
    loop_findings,
    loop_tables,
    loop_title,
    with_loops,
)
from llmprof.core.document.machine import machine_lines
from llmprof.core.document.next_steps import Outlook, outlook
from llmprof.core.document.pictures import class_bars, growth_picture, peak_picture, step_bars
from llmprof.core.document.questions import GROUPS, answered
from llmprof.core.document.quotes import (
    IN_APPENDIX,
    IN_CSV,
    KeyedTable,
    Quote,
    Sentence,
    condensed,
    page_table,
    rows_left_out,
)
from llmprof.core.document.sources import Source
from llmprof.core.document.tables import PHASES, Tables
from llmprof.core.report.table import Column, Prose, Table

ELSEWHERE = "In the file of tables beside this one alone, for their length"
BESIDE = "Whole tables, logs and the figures' data"  # what the CSV files beside a document hold
DECIDED = ("faster", "slower")
WHOLE = ", whole"  # ends the title of a table of which a page shows a part
LONG = 24  # rows of a table in the appendix; a longer one is in the CSV file
FEW_COLUMNS = 2  # more than a page shows: a table is not repeated for them
MOST_PROFILES = 3  # whose classes and top kernels stand in the appendix
# What a narrow page shows without scrolling: what a row is of, what came out, what may be said.
FIRST = {
    "steps": (
        "Size",
        "Context",
        "Step",
        "95 % interval",
        "n",
        "Pace set by",
        "Failed check",
        "Of dense peak",
    ),
    "changes": ("Size", "Switch", "Part", "Change", "Verdict", "95 % interval", "Context"),
    "levels": ("Size", "Variant", "Context", "Requested", "Allocated", "At the step's start"),
    "growth": ("What", "Variant", "Exponent", "Between neighbours"),
    "predicted": ("Size", "Variant", "Context", "Predicted", "Measured", "Error"),
    "profiles": ("Part", "GPU busy", "Plain", "Idle of plain"),
}
LAST = "Run"
LESS = frozenset(
    {
        step_rows.FORWARD_ALONE,
        "Std Dev of steps",
        *(f"{phase.capitalize()} std" for phase in step_rows.SHOWN),
        "Optimizer moves",
        "Of bandwidth",
        "Reserved",
        "Profiled",
        "Prediction",
    }
)


@dataclass(frozen=True)
class Section:
    """A part of a document under a name; items are the lines of a list."""

    name: str
    title: str
    text: tuple[Sentence, ...] = ()
    items: tuple[Sentence, ...] = ()
    after: tuple[Sentence, ...] = ()  # below the list
    answers: tuple[tuple[str, tuple[Sentence, ...]], ...] = ()  # questions, each with its lines
    tables: tuple[Table, ...] = ()
    figures: tuple[Figure, ...] = ()


@dataclass(frozen=True)
class Document:
    """What is written: the sections of the pages, those of the appendix, and its tables' source."""

    title: str
    sections: tuple[Section, ...]
    appendix: tuple[Section, ...]
    tables: Tables

    @property
    def figures(self) -> tuple[Figure, ...]:
        """All figures in order."""
        return tuple(figure for section in self.sections for figure in section.figures)


SECTIONS: dict[str, str] = {
    "machine": "Machine and command",
    "findings": "Findings",
    "steps": "The step by phase",
    "switches": "Switches by phase",
    "kernels": "Kernels",
    "memory": "Memory",
    "growth": "Attention and scaling",
    "predicted": "Predicted against measured",
    "cost": "What it costs",
    "limits": "Limits",
}
MISSING: dict[str, str] = {
    "steps": "`llmprof run` measures it",
    "switches": f"`{SWITCHES}` measures it",
    "kernels": "`llmprof run kernels` measures it",
    "memory": "`llmprof run memory` measures it",
    "growth": "`llmprof run attention` and `llmprof run scaling` measure it",
    "predicted": "`llmprof run memory` on a card measures it",
    "cost": f"`{TRAIN}` measures it",
}


def document(tables: Tables, wanted: Iterable[str] = (), *, questions: bool = False) -> Document:
    """The document of some runs: whole, some of its sections, or by a hand-out's questions."""
    trained = with_loops(tables.sources)
    if len(trained) == len(tables.sources) and not questions:
        return _of_loops(tables, wanted)
    found, look = findings(tables), outlook(tables)
    rows = evidence_rows(found)
    quoted: dict[str, list[str]] = {}
    for quote in (*_quotes(found), *_step_quotes(look)):
        rows.setdefault(quote.table, []).append(quote.row)
        quoted.setdefault(quote.table, []).append(quote.column)
    page = _Page(tables, rows, quoted, appendix=not list(wanted))
    if questions:
        return _by_questions(tables, page, look)
    every = {
        "machine": Section("machine", SECTIONS["machine"], items=machine_lines(tables.sources)),
        "findings": _findings(tables, found, look),
        **page.measured(),
        "limits": Section("limits", SECTIONS["limits"], items=limits(tables)),
    }
    if trained:
        every |= _beside(every, trained)
    names = list(wanted) or list(SECTIONS)
    chosen = tuple(every[name] for name in SECTIONS if name in names)
    return Document(
        _title(tables), chosen, (*page.whole(look), _method(tables)) if not wanted else (), tables
    )


def _of_loops(tables: Tables, wanted: Iterable[str]) -> Document:
    """The document of training loops alone: sections that are about cases are left out."""
    every = {
        "machine": Section("machine", SECTIONS["machine"], items=machine_lines(tables.sources)),
        "findings": Section("findings", SECTIONS["findings"], items=loop_findings(tables.sources)),
        "steps": Section("steps", "The training loop", tables=loop_tables(tables.sources)),
        "limits": Section("limits", SECTIONS["limits"], items=LOOP_LIMITS),
    }
    names = list(wanted)
    for name in names:
        every.setdefault(name, Section(name, SECTIONS[name], text=((NOT_OF_A_LOOP,),)))
    chosen = tuple(every[name] for name in SECTIONS if name in (names or every))
    method = () if names else (_method(tables),)
    return Document(loop_title(tables.sources), chosen, method, tables)


def _beside(every: dict[str, Section], trained: Sequence[Source]) -> dict[str, Section]:
    """The sections that training loops add to, where the document is of cases as well."""
    found, steps, limits = every["findings"], every["steps"], every["limits"]
    return {
        "findings": replace(found, items=(*found.items, *loop_findings(trained))),
        "steps": replace(steps, tables=(*steps.tables, *loop_tables(trained))),
        "limits": replace(limits, items=(*limits.items, *LOOP_LIMITS)),
    }


def _by_questions(tables: Tables, page: _Page, look: Outlook) -> Document:
    """Sections by the hand-out's groups, each answer quoting cells; the tables whole below."""
    sections = [
        Section(
            "machine",
            SECTIONS["machine"],
            items=(*machine_lines(tables.sources), *left_out(tables)),
        ),
        *_training_loops(with_loops(tables.sources)),
    ]
    pictures: dict[str, Figure | None] = {
        "Timing": step_bars(tables.step_cells),
        "Kernel profile": class_bars(tables),
        "Memory": peak_picture(tables),
        "Attention": growth_picture(tables.growths),
    }
    for group in GROUPS:
        answers = tuple(
            (question.text, tuple(answered(question, tables))) for question in group.questions
        )
        picture = pictures.get(group.title)
        figures = () if picture is None else (picture,)
        name = group.title.lower().replace(" ", "-")
        sections.append(Section(name, group.title, answers=answers, figures=figures))
    page.keep(tables.whole)
    page.keep(tables.grids)
    lines = [line for each in sections for _, lines in each.answers for line in lines]
    for quote in (piece for line in lines for piece in line if isinstance(piece, Quote)):
        page.rows.setdefault(quote.table, []).append(quote.row)
    return Document(_title(tables), tuple(sections), (*page.whole(look), _method(tables)), tables)


def _training_loops(trained: Sequence[Source]) -> tuple[Section, ...]:
    """What was seen of loops of one's own, of which a hand-out asks nothing."""
    if not trained:
        return ()
    found, shown = loop_findings(trained), loop_tables(trained)
    return (Section("loops", "The training loop", items=found, tables=shown),)


def _quotes(found: Sequence[Finding]) -> list[Quote]:
    return [quote for finding in found for quote in finding.evidence]


def _step_quotes(look: Outlook) -> list[Quote]:
    sentences = (look.verdict, *(step.evidence for step in look.steps))
    return [each for sentence in sentences for each in sentence if isinstance(each, Quote)]


def _title(tables: Tables) -> str:
    if all(source.subject.loops for source in tables.sources):
        return loop_title(tables.sources)
    names = [source.subject.experiment for source in tables.sources]
    if len(names) == 1 and names[0] is not None:
        return names[0].title or names[0].name
    sizes: dict[str, int] = {}
    for source in tables.sources:
        for state in source.cases:
            if state.case.probe != "attention":
                name = state.case.model.name
                sizes[name] = max(sizes.get(name, 0), parameters(state))
    models = sorted(sizes, key=lambda name: sizes[name])
    return f"Training steps of {', '.join(models)}" if models else "Measurements"


def _findings(tables: Tables, found: Sequence[Finding], look: Outlook) -> Section:
    nothing = why_no_change(tables)
    text: list[Sentence] = []
    if not found:
        text.append(("Nothing holds that could be called a finding.",))
    if nothing:
        text.append((nothing,))
    return Section(
        "findings",
        SECTIONS["findings"],
        text=tuple(text),
        items=tuple(finding.text for finding in found),
        after=look.lines,
    )


class _Page:
    """The sections of what was measured, and the whole tables of which pages show a part."""

    def __init__(
        self,
        tables: Tables,
        rows: dict[str, list[Hashable]],
        quoted: dict[str, list[str]],
        *,
        appendix: bool,
    ) -> None:
        self.tables, self.rows, self.quoted = tables, rows, quoted
        self.appendix = appendix  # whether there is one
        self.cut: list[KeyedTable] = []
        self.shown: set[str] = set()  # keys of tables whose quoted rows stand on a page

    def measured(self) -> dict[str, Section]:
        """Sections three to nine."""
        t = self.tables
        classes = t.classes[:1]
        self.keep(t.tops[:MOST_PROFILES])
        self.keep(t.classes[1:MOST_PROFILES])
        lenses = [lens for _, lens in t.lenses]
        self.keep(lens for at, lens in enumerate(lenses) if not at or lens.table.key in self.rows)
        self.keep([t.same, t.warmups, *t.beside])
        self.keep([grid for grid in t.grids if grid.table.key.split(" ")[0] != PHASES])
        return {
            "steps": self._section("steps", [t.steps], step_bars(t.step_cells)),
            "switches": self._section("switches", [t.changes]),
            "kernels": self._section("kernels", [*classes, t.profiles], class_bars(t)),
            "memory": self._section("memory", [t.levels], peak_picture(t)),
            "growth": self._section("growth", [t.growth], growth_picture(t.growths)),
            "predicted": self._section("predicted", [t.predicted]),
            "cost": self._section("cost", [t.cost]),
        }

    def _section(
        self, name: str, tables: Sequence[KeyedTable | None], figure: Figure | None = None
    ) -> Section:
        shown = tuple(self._shown(each) for each in tables if each is not None)
        figures = () if figure is None else (figure,)
        missing = not shown and not figures
        text: tuple[Sentence, ...] = ((self._missing(name),),) if missing else ()
        return Section(name, SECTIONS[name], text=text, tables=shown, figures=figures)

    def _missing(self, name: str) -> str:
        unsound = cost_rows.unsound_training(self.tables.sources) if name == "cost" else ""
        if unsound:
            return f"Measured, but {cost_rows.NOT_STANDING}: {unsound}."
        return f"Not measured: {MISSING[name]}."

    def _shown(self, whole: KeyedTable) -> Table:
        key = whole.table.key
        rows = self.rows.get(key, [])
        rows = [*rows, *_first(whole, self.tables)]
        page = page_table(in_order(whole), rows, self.quoted.get(key, ()), LESS)
        self.shown.add(key)
        shared = "".join(page.table.notes)
        lost = [
            column
            for column in whole.table.columns
            if column not in page.table.columns and f"{column.header} " not in shared
        ]
        if len(page.keys) < len(whole.keys) or len(lost) > FEW_COLUMNS:
            own = replace(whole.table, title=f"{whole.table.title}{WHOLE}", notes=())
            self.cut.append(replace(whole, table=own))
        where = IN_APPENDIX if self.appendix and len(whole.keys) <= LONG else IN_CSV
        return _noted(page.table, len(whole.keys), where)

    def keep(self, found: Iterable[KeyedTable | None]) -> None:
        """Tables for the appendix."""
        self.cut += [each for each in found if each is not None and each.table.rows]

    def whole(self, look: Outlook) -> tuple[Section, ...]:
        """Tables that no page shows whole, then the grids of the field; long ones are named."""
        cut = [self._of_appendix(in_order(each)) for each in self.cut]
        kept = [(own, each) for own, each in zip(self.cut, cut, strict=True) if each is not None]
        whole = (
            *(_noted(_condensed(each.table), len(own.keys), IN_CSV) for own, each in kept),
            *map(_condensed, _tried(look)),
        )
        long = [own.table for own, each in zip(self.cut, cut, strict=True) if each is None]
        named = "; ".join(
            f"{each.title.removesuffix(WHOLE)} ({len(each.rows):,} rows)" for each in long
        )
        text = ((f"{ELSEWHERE}: {named}.",),) if named else ()
        return (Section("whole", "Whole tables", text=text, tables=whole),) if whole else ()

    def _of_appendix(self, own: KeyedTable) -> KeyedTable | None:
        """A table, of a long one the rows that are quoted and some more; None without such."""
        if len(own.keys) <= LONG:
            return own
        rows = () if own.table.key in self.shown else self.rows.get(own.table.key, ())
        if not rows:
            return None
        return own.shortened(rows, max(LONG, len(set(rows))))


def _condensed(table: Table) -> Table:
    return condensed(replace(table, notes=()) if table.key in EXPLAINED else table)


def _noted(table: Table, rows: int, where: str) -> Table:
    """A table, below which stands how many of its rows are left out, and where they are."""
    return replace(table, notes=(*table.notes, *rows_left_out(len(table.rows), rows, where)))


def in_order(whole: KeyedTable) -> KeyedTable:
    """A table with what matters first, and the run's name last."""
    first = FIRST.get(whole.table.key, ())
    headers = [column.header for column in whole.table.columns]
    rank = {header: at for at, header in enumerate(first)} | {LAST: len(headers)}
    order = sorted(range(len(headers)), key=lambda at: rank.get(headers[at], len(first)))
    table = replace(
        whole.table,
        columns=tuple(whole.table.columns[at] for at in order),
        rows=tuple(tuple(row[at] for at in order) for row in whole.table.rows),
    )
    return replace(whole, table=table)


def _first(whole: KeyedTable, tables: Tables) -> list[Hashable]:
    """The rows that a page shows before others, where it can't show all."""
    match whole.table.key:
        case "cost":
            return cost_rows.before_the_appendix(tables.rates)
        case "changes":
            steps = [change.key(change.found.total) for change in tables.all_changes]
            judged = [key for key in whole.keys if _reads(whole, key, "Verdict", *DECIDED)]
            return [*(key for key in steps if key in judged), *_parts_of_largest(tables, judged),
                    *steps, *judged]  # fmt: skip
        case "levels":
            peaks = [key for key in whole.keys if _reads(whole, key, "Kind", level_rows.PEAK)]
            trained = [key for key in peaks if _reads(whole, key, "Mode", "train")]
            return [key for key in trained if _reads(whole, key, "Variant", "fp32", "bf16")][:8]
        case "predicted":
            return [key for key in whole.keys if _reads(whole, key, "Mode", "train")]
        case "growth":
            return [each.key for each in tables.growths if each.fit is not None]
    return []


def _parts_of_largest(tables: Tables, judged: Sequence[Hashable]) -> list[Hashable]:
    """The phases of the step that changed most, of those that are told from equal."""
    decided = [each for each in tables.all_changes if each.key(each.found.total) in judged]
    if not decided:
        return []
    largest = max(decided, key=lambda each: abs(math.log(each.found.total.time.value)))
    return [largest.key(part) for part in largest.found.parts]


def _reads(table: KeyedTable, key: Hashable, header: str, *words: str) -> bool:
    return table.known(key, header) and table.quote(key, header).text in words


def _tried(look: Outlook) -> list[Table]:
    """What may be tried and what it may bring: the cells that the verdict's lines quote."""
    if not look.steps:
        return []
    columns = (
        Column("Command", numeric=False),
        Column("Off the step that is named, about", "%"),
        Column("Expected", numeric=False),
    )
    rows = tuple(
        (
            Prose(f"`{step.command}`") if step.command else "none: measured",
            None if step.bound is None else round(100 * step.bound),
            step.expected,
        )
        for step in look.steps
    )
    return [Table("next-steps", "What may be tried", columns, rows)]


def _method(tables: Tables) -> Section:
    """One page: how it was measured and what the columns mean."""
    trained = with_loops(tables.sources)
    of_loops = LOOP_METHOD if trained else ()
    if len(trained) == len(tables.sources):
        return Section("method", "Method", text=LOOP_METHOD)
    return Section(
        "method",
        "Method",
        text=(*((line,) for line in METHOD), *of_loops),
        items=method_items(tables),
    )
