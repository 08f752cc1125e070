"""Where tables go: files by extension, or Markdown on stdout."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

from llmprof.cli.exits import CRASHED, UserError
from llmprof.cli.printed import on_terminal, put_list
from llmprof.cli.streams import put, tell
from llmprof.cli.terminal_tables import report_text, show_text
from llmprof.core.document.results import findings_text
from llmprof.core.figures.eta import start_s
from llmprof.core.lint.completeness import missing
from llmprof.core.memory.picture_files import links, write_pictures
from llmprof.core.report.case_groups import status_word
from llmprof.core.report.formats import ExportError, check_writable, export, render
from llmprof.core.report.table import Cell, Column, Table
from llmprof.core.state.view import RunView
from llmprof.core.system.text import clean, counted, duration


def check_exports(paths: list[Path]) -> None:
    """Raise UserError for a path that could not be written, before anything is measured."""
    try:
        for path in paths:
            check_writable(path)
    except ExportError as error:
        raise UserError(str(error)) from error


def deliver(view: RunView, exports: list[Path], run: Path | None = None) -> None:
    """Export to every path, or print when there is none: Markdown, rendered on a terminal.

    Raises UserError.

    `run` is where the run lies: pictures made from its artifacts go beside a Markdown file.
    """
    if run is not None:
        _name_kept(view, run)
    _name_missing(view)
    if not exports:
        if on_terminal():
            show_text(partial(report_text, view))
        else:
            put(render(view, "md", findings_text(view, run)), end="")
        return
    for path in exports:
        _export(view, path, run)


def _export(view: RunView, path: Path, run: Path | None) -> None:
    """Write one file and what belongs beside it. Raises UserError once all is tried."""
    pictures: list[tuple[str, Path]] = []
    failed: OSError | None = None
    if run is not None and path.suffix.lower() == ".md":
        try:
            pictures = write_pictures(view, run, path)
        except OSError as error:
            failed = error
    first = findings_text(view, run) if path.suffix.lower() == ".md" else ""
    more = f"\n## Memory timelines\n\n{links(pictures)}\n" if pictures else ""
    try:
        written = export(view, path, more, first)
    except ExportError as error:
        raise UserError(str(error), CRASHED) from error
    for each in (*written, *(picture for _, picture in pictures)):
        tell(f"wrote {each}")
    if failed is not None:
        raise UserError(f"{path}: its pictures: {failed.strerror or failed}", CRASHED)


def _name_kept(view: RunView, run: Path) -> None:
    """Say where the files for other tools are; a packed or redacted run may have none."""
    for state in view.cases:
        names = [found.snapshot for found in (state.memory_timeline,) if found is not None]
        names += [found.trace for found in (state.kernels,) if found is not None]
        for path in (run / "artifacts" / clean(name) for name in names if name):
            if path.is_file():
                tell(f"kept {path}")


def _name_missing(view: RunView) -> None:
    """Say what of a profile or a recording could not be had: the rest is in the tables."""
    for state in view.cases:
        for line in missing(state):
            tell(f"case {state.index + 1}: {line}")


def dry_run_table(view: RunView) -> None:
    """Print the cases of a plan with their estimates."""
    rows: list[tuple[Cell, ...]] = []
    for state in view.cases:
        word = "to run" if state.status == "pending" else status_word(state)
        message = "" if state.failure is None else state.failure.message
        rows.append((state.index + 1, state.case.label, _about(state.estimate_s), word, message))
    columns = (
        Column("Case"),
        Column("Configuration", numeric=False),
        Column("About"),
        Column("Status", numeric=False),
        Column("Reason", numeric=False),
    )
    start = start_s(view)
    total = start + sum(s.estimate_s or 0.0 for s in view.cases if s.status == "pending")
    put_list(
        Table("plan", "Plan", columns, tuple(rows)),
        f"{counted(len(view.cases), 'case')}, about {duration(total)} in all, {duration(start)} "
        f"of it until torch is loaded and the device read{busy_words()}; nothing was measured.",
    )


def busy_words() -> str:
    """What to say beside an estimate on a machine that has other things to do; "" on another."""
    load, processors = os.getloadavg()[0], os.cpu_count() or 1
    if load < processors:
        return ""
    return f" (the machine is busy, load {load:.1f} on {counted(processors, 'CPU')}: rather more)"


def _about(seconds: float | None) -> str:
    return "n/a" if seconds is None else duration(seconds)
