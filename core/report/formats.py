"""A run as Markdown, CSV or JSON, from tables that are each defined once."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

from llmprof.core.system.atomic import write_file

if TYPE_CHECKING:
    from llmprof.core.state.view import RunView

Format = Literal["md", "csv", "json"]
FORMATS: tuple[Format, ...] = ("md", "csv", "json")


class ExportError(ValueError):
    """An export that cannot be written; its text is one line for the user."""


def render(view: RunView, fmt: Format, first: str = "") -> str:
    """The run in a format; `first` is what stands before the tables of a Markdown file."""
    # Loaded here: every table comes with them, and most commands show none.
    from llmprof.core.report import case_csv, exports, markdown
    from llmprof.core.report.subject import subject_of

    view = subject_of(view)
    if fmt == "md":
        return markdown.render(view, first)
    return case_csv.to_csv(view) if fmt == "csv" else exports.to_json(view)


def beside(view: RunView, path: Path, fmt: Format) -> dict[Path, str]:
    """Files that belong to an export of a format and lie beside it, with their text.

    A CSV has one row a case. What its kernel profiles found has rows and columns of its own and
    is in NAME-kernels.csv.
    """
    if fmt != "csv":
        return {}
    from llmprof.core.report.long_csv import to_cells
    from llmprof.core.report.registry import KERNEL_TABLES, tables
    from llmprof.core.report.subject import subject_of

    found = tables(subject_of(view), KERNEL_TABLES)
    if not found:
        return {}
    return {path.with_name(f"{path.stem}-kernels.csv"): to_cells(found)}


def format_of(path: Path) -> Format:
    """The format that a path's extension names. Raises ExportError."""
    return cast(Format, extension_of(path, FORMATS))


def extension_of(path: Path, known: Sequence[str]) -> str:
    """A path's extension, one of those that are known. Raises ExportError."""
    extension = path.suffix.lower().lstrip(".")
    if extension in known:
        return extension
    *first, last = (f".{each}" for each in known)
    raise ExportError(f"{path}: the extension must be {', '.join(first)} or {last}")


def check_writable(path: Path, formats: Sequence[str] = FORMATS) -> None:
    """Raises ExportError when the path's format is unknown or it could not be written now."""
    extension_of(path, formats)
    folder = _folder(path)
    if path.is_dir():
        raise ExportError(f"{path} is a folder")
    if not folder.is_dir():
        raise ExportError(f"{path}: there is no folder {folder}")
    if path.exists() and not os.access(path, os.W_OK):
        raise ExportError(f"{path} cannot be written: permission denied")
    if path.exists() and not path.is_file():
        return  # a device or a pipe
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass  # the export is written beside its target first
    except OSError as error:
        raise ExportError(f"{path} cannot be written: {error.strerror or error}") from error


def export(view: RunView, path: Path, more: str = "", first: str = "") -> tuple[Path, ...]:
    """Write the run and `more` to a path and what belongs beside it, each file whole or not at all.

    `first` stands before the tables of a Markdown file. Returns the paths written, the given one
    first. Raises ExportError.
    """
    fmt = format_of(path)
    files = {path: render(view, fmt, first) + more, **beside(view, path, fmt)}
    for each, text in files.items():
        write(each, text)
    return tuple(files)


def write(path: Path, text: str) -> None:
    """Write a text to a path, whole or not at all. Raises ExportError."""
    try:
        _folder(path).stat()  # no folder is made
        write_file(path, text)
    except OSError as error:
        raise ExportError(f"{path} cannot be written: {error.strerror or error}") from error


def _folder(path: Path) -> Path:
    """The folder of what a path stands for, which may be a link."""
    return Path(os.path.realpath(path)).parent
