"""Tables as Markdown that can be pasted into a write-up."""

from __future__ import annotations

import re
import shlex
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from llmprof.core.events import Environment
from llmprof.core.figures.outcomes import to_resume
from llmprof.core.report.lean import lean
from llmprof.core.report.sentences import case_numbers
from llmprof.core.report.table import Cell, Prose, Table, format_cell
from llmprof.core.spec.case import Probe
from llmprof.core.state.view import CaseState, RunView
from llmprof.core.system.numbers import as_given
from llmprof.core.system.processors import quota_text
from llmprof.core.system.text import clean, counted
from llmprof.version import __version__

# An underscore between letters or digits means nothing to Markdown and stays readable, and so do
# an ampersand that begins no entity and a tilde that stands alone. Dollars are mathematics to many
# programs that show Markdown.
_SPECIAL = re.compile(r"([\\|*\[\]<>#$]|~(?=\S)|(?<=\S)~|&(?=#?\w+;)|(?<![^\W_])_|_(?![^\W_]))")
_BEGINS_LIST = re.compile(r"([-+](?= |$)|\d{1,9}(?=[.)](?: |$)))")

WIDEST = 160  # characters of a line outside folds
MOST_SPLIT = 15  # rows of a table that is written in parts beside each other

STEPS_OF_PROBE: dict[Probe, tuple[str, str]] = {  # what a case is, and what is done with its steps
    "timing": ("plain timing", "measured"),
    "kernels": ("kernel profile", "profiled"),
    "memory": ("memory recording", "recorded"),
}


def render(view: RunView, first: str = "") -> str:
    """The whole report: `first`, the tables, then what is long behind folds."""
    from llmprof.core.report.registry import tables  # all tables: of a run alone

    parts = [f"# llmprof: {escape(_title(view))}", header(view)]
    parts += filter(None, (first,))
    written = [section(lean(table)) for table in tables(view)]
    parts += sorted(written, key=lambda text: text.startswith("<details>"))
    return "\n\n".join(parts) + "\n"


def header(view: RunView) -> str:
    """What was measured on what: a bullet list."""
    lines = [wrapped(f"- **{name}:** {text}", "  ") for name, text in facts(view)]
    return "\n".join(lines)


def facts(view: RunView) -> Iterable[tuple[str, str]]:
    """Name and escaped text of each fact of the header."""
    environment = view.environment
    if environment is not None:
        memory_gib = (environment.memory_total_bytes or 0) / 2**30
        size = f", {memory_gib:.1f} GiB" if memory_gib else ""
        yield "Device", escape(f"{environment.device_name} ({environment.device}{size})")
        if environment.driver:
            yield "Driver", escape(f"{environment.driver}, CUDA {environment.cuda}")
        yield "PyTorch", escape(f"{environment.torch}, Python {environment.python}")
        yield "Host", escape(", ".join(_host(environment)))
        if environment.variables:
            set_to = (f"{name}={value}" for name, value in environment.variables.items())
            yield "Variables", ", ".join(map(code, set_to))
    cases = view.cases
    if cases:
        precisions = dict.fromkeys(state.case.precision for state in cases)
        yield "Precision", escape(", ".join(precisions) + _tf32(view))
        yield "Steps", steps_of(cases)
        contexts = ", ".join(str(c) for c in dict.fromkeys(s.case.context_length for s in cases))
        batches = ", ".join(str(b) for b in dict.fromkeys(s.case.batch_size for s in cases))
        yield "Context", f"{contexts} tokens, batch {batches}"
    if view.segments:
        moment = datetime.fromtimestamp(view.segments[0].wall_ns / 1e9, UTC)
        yield "Date", f"{moment:%Y-%m-%d %H:%M} UTC"
        yield "Version", f"llmprof {escape(view.segments[-1].version)}"
    else:
        yield "Version", f"llmprof {__version__}"
    if view.command:
        yield "Command", code(shlex.join(view.command))
    if view.damaged_lines or view.unknown_events:
        yield (
            "Journal",
            f"{counted(view.damaged_lines, 'line')} could not be read, {view.unknown_events:,} of "
            "kinds that this version does not know",
        )
    if view.outcome != "complete":
        all_there = bool(view.cases) and not to_resume(view)
        when = "after its last case" if all_there else "not every case was measured"
        what = "" if view.loops or view.going else f": {when}"
        yield "Outcome", f"**{view.state_words}**{what}"


def _host(environment: Environment) -> Iterable[str]:
    """The processor, and how much of it and of the memory may be used."""
    count, usable, quota = environment.cpu_count, environment.cpus_usable, environment.cpu_quota
    yield environment.cpu_name
    yield f"{count or 'unknown'} CPUs"
    if usable is not None and usable != count:
        yield f"{usable} of them usable ({environment.affinity})"
    if quota is not None:
        yield quota_text(quota)
    if environment.threads:
        yield f"{environment.threads} threads"
    if environment.memory_limit_bytes is not None:
        yield f"memory limit {environment.memory_limit_bytes / 2**30:.1f} GiB"


def steps_of(cases: Sequence[CaseState]) -> str:
    """How many steps the cases have, said of what where they are not of one kind."""
    kinds: dict[Probe, dict[str, None]] = {}
    for case in (state.case for state in cases):
        verb = STEPS_OF_PROBE.get(case.probe, ("", "measured"))[1]
        warm = "warm-up until steady" if case.warmup_auto else f"{case.warmup_steps} warm-up"
        target = case.target_percent
        until = f"{case.measure_steps} {verb}"
        if target is not None:
            until = f"{verb} until the mean is known within {as_given(target)} % (95 % interval)"
        text = f"{warm}, {until}"
        kinds.setdefault(case.probe, {}).setdefault(text)
    if len(kinds) == 1:
        return "; ".join(text for texts in kinds.values() for text in texts)
    return "; ".join(
        f"{STEPS_OF_PROBE.get(probe, (probe, ''))[0]}: {' or '.join(texts)}"
        for probe, texts in kinds.items()
    )


def section(table: Table, *, any_width: bool = False) -> str:
    """A titled table, folded when it is long; one wider than a line is written in parts."""
    if any_width:
        grids = [grid(table)]
    else:
        grids = [grid(table, aligned=False)] if table.folded else _within_a_line(table)
    body = "\n\n".join([*(grids or [grid(table, aligned=False)]), *_notes(table.notes)])
    if grids and not table.folded:
        return f"## {escape(table.title)}\n\n{body}"
    title = _html(table.title)
    return f"<details>\n<summary>{title}</summary>\n\n{body}\n\n</details>"


def _within_a_line(table: Table) -> list[str]:
    """The table as one grid, or a short one as several, none wider than a line; else nothing."""
    whole = _narrowest(table)
    if _width(whole) <= WIDEST:
        return [whole]
    if len(table.rows) > MOST_SPLIT:
        return []
    labels = next((at for at, each in enumerate(table.columns) if each.numeric), 0) or 1
    parts: list[list[int]] = []
    for at in range(labels, len(table.columns)):
        if parts and _width(_narrowest(_part(table, [*parts[-1], at]))) <= WIDEST:
            parts[-1].append(at)
        else:
            parts.append([*range(labels), at])
    grids = [_narrowest(_part(table, part)) for part in parts]
    return grids if all(_width(text) <= WIDEST for text in grids) else []


def _narrowest(table: Table) -> str:
    """Aligned where that fits into a line."""
    text = grid(table)
    return text if _width(text) <= WIDEST else grid(table, aligned=False)


def _width(text: str) -> int:
    return max(map(len, text.split("\n")))


def _part(table: Table, columns: Sequence[int]) -> Table:
    return replace(
        table,
        columns=tuple(table.columns[at] for at in columns),
        rows=tuple(tuple(row[at] for at in columns) for row in table.rows),
    )


def grid(table: Table, *, aligned: bool = True) -> str:
    """The table itself; aligned so that it also reads well as plain text."""
    heads = [escape(column.heading) for column in table.columns]
    rows = [[escape_cell(cell) for cell in row] for row in table.rows]
    widths = [
        max(3, len(head), *(len(row[i]) for row in rows)) if rows else max(3, len(head))
        for i, head in enumerate(heads)
    ]
    if not aligned:
        widths = [3] * len(heads)
    numeric = [column.numeric for column in table.columns]
    rule = [("-" * (w - 1) + ":") if n else "-" * w for w, n in zip(widths, numeric, strict=True)]
    lines = [_line(heads, widths, numeric), "| " + " | ".join(rule) + " |"]
    lines += [_line(row, widths, numeric) for row in rows]
    return "\n".join(lines)


def escape(text: str) -> str:
    """Text from outside as one line that Markdown shows as it is."""
    return _SPECIAL.sub(r"\\\1", clean(text)).replace("`", "\\`")


def escape_text(text: str) -> str:
    """A sentence that may hold `code`: spans stay, all else is escaped, bars never end a cell."""
    pieces = clean(text, 2000).split("`")
    if len(pieces) % 2 == 0:  # an odd backtick: no spans
        return escape(text)
    return "`".join(
        _SPECIAL.sub(r"\\\1", piece) if i % 2 == 0 else piece.replace("|", "\\|")
        for i, piece in enumerate(pieces)
    )


def escape_cell(cell: Cell) -> str:
    """A cell as Markdown."""
    text = format_cell(cell)
    if isinstance(cell, Prose):
        return escape_text(text)
    return escape(text) if isinstance(cell, str) else text


def wrapped(text: str, indent: str = "") -> str:
    """Markdown text in lines of at most WIDEST characters, none of which begins a list."""
    lines = textwrap.wrap(
        text, WIDEST, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    return "\n".join([*lines[:1], *(indent + _no_list(line[len(indent) :]) for line in lines[1:])])


def _notes(notes: Sequence[str]) -> list[str]:
    """One note as a paragraph, several as a list; a name that begins one begins no other list."""
    texts = [_no_list(escape_cell(note)) for note in notes]
    if len(texts) > 1:
        return ["\n".join(wrapped(f"- {text}", "  ") for text in texts)]
    return [wrapped(text) for text in texts]


def _no_list(text: str) -> str:
    found = _BEGINS_LIST.match(text)
    if found is None:
        return text
    at = 0 if found[0] in "-+" else found.end()
    return f"{text[:at]}\\{text[at:]}"


def code(text: str) -> str:
    """Text as a code span, whatever backticks it holds."""
    line = clean(text, 2000)
    longest = max((len(run) for run in re.findall("`+", line)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if "`" in line else ""
    return f"{fence}{pad}{line}{pad}{fence}"


def _line(cells: list[str], widths: list[int], numeric: list[bool]) -> str:
    padded = (
        cell.rjust(width) if right else cell.ljust(width)
        for cell, width, right in zip(cells, widths, numeric, strict=True)
    )
    return "| " + " | ".join(padded) + " |"


def _title(view: RunView) -> str:
    if view.loops:
        return f"{view.loops[0].started.label}, a training loop"
    if view.experiment is None:
        return "an empty run"
    return view.experiment.title or view.experiment.name


def _tf32(view: RunView) -> str:
    seen = {s.index: s.observed.tf32 for s in view.cases if s.observed is not None}
    on = [index for index, tf32 in seen.items() if tf32]
    if not seen:
        return ""
    if len(on) in (0, len(seen)):
        return "; TF32 on" if on else "; TF32 off"
    return f"; TF32 on in {case_numbers(on)}, off in the others"


def _html(text: str) -> str:
    safe = clean(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return safe.replace("$", "&#36;")
