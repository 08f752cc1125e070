"""A document as Markdown; its figures are files beside it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from llmprof.core.document.quotes import Sentence, cell_text, shown
from llmprof.core.document.sections import BESIDE, Document, Section
from llmprof.core.report.markdown_table import escape, escape_text
from llmprof.core.report.table import Cell, Prose, Table


def write_markdown(document: Document, stem: str, beside: Sequence[str] = ()) -> str:
    """The text; figures are linked as STEM-NAME.svg, the files beside are named in one line."""
    count = _Count()
    parts = [f"# {escape(document.title)}"]
    for section in document.sections:
        parts += _section(section, stem, count)
    if beside:
        names = ", ".join(f"`{name}`" for name in beside)
        parts.append(f"{BESIDE}: {names}.")
    if document.appendix:
        parts.append("---")
    for section in document.appendix:
        parts += _section(section, stem, count, appendix=True)
    return "\n\n".join(parts) + "\n"


def write_section(section: Section) -> str:
    """One section alone."""
    return "\n\n".join(_section(section, "", _Count())) + "\n"


class _Count:
    def __init__(self) -> None:
        self.tables = self.figures = 0

    def table(self) -> int:
        self.tables += 1
        return self.tables

    def figure(self) -> int:
        self.figures += 1
        return self.figures


def _section(
    section: Section, stem: str, count: _Count, *, appendix: bool = False
) -> Iterator[str]:
    yield f"## {'Appendix: ' if appendix else ''}{escape(section.title)}"
    yield from map(sentence_text, section.text)
    if section.items:
        yield "\n".join(f"- {sentence_text(item)}" for item in section.items)
    for question, lines in section.answers:
        yield f"**{escape(question)}**"
        yield "\n".join(f"- {sentence_text(line)}" for line in lines)
    yield from map(sentence_text, section.after)
    for figure in section.figures:
        number = count.figure()
        caption = escape(f"Fig. {number}. {figure.caption}")
        yield f"![{caption}]({stem}-{figure.name}.svg)"
        yield f"*{caption}.*"
    for table in section.tables:
        yield f"**Table {count.table()}. {escape(table.title)}**"
        yield grid(table)
        yield from map(escape_text, table.notes)


def sentence_text(sentence: Sentence) -> str:
    """A sentence: our own words may hold `code`, cells are shown character by character."""
    return escape_text("".join(map(shown, sentence)))


def grid(table: Table) -> str:
    """Rows with one blank beside each cell: wide tables stay within a line of an editor."""
    heads = [escape(column.heading) for column in table.columns]
    rule = ["--:" if column.numeric else "---" for column in table.columns]
    rows = [[_cell(cell) for cell in row] for row in table.rows]
    return "\n".join(_line(each) for each in (heads, rule, *rows))


def _cell(cell: Cell) -> str:
    if isinstance(cell, Prose):
        return escape_text(cell)
    text = cell_text(cell)
    return escape(text) if isinstance(cell, str) else text


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
