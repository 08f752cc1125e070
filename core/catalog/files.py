"""Preset files: which of the user's own there are, their text, and the tables that they hold."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from llmprof.core.spec.shape import SpecError
from llmprof.core.system.text import clean

Preset = TypeVar("Preset", bound=msgspec.Struct)


def preset_files(folder: Path) -> list[Path]:
    """TOML files in a folder, by name; not what editors and other systems leave beside them."""
    found = folder.glob("*.toml")
    return sorted(path for path in found if not path.name.startswith(".") and path.is_file())


def preset_text(path: Path, what: str) -> str:
    """A file's text, with or without a byte-order mark. Raises SpecError that names the file."""
    try:
        return path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError(f"{what} file {path}: {error}") from error


def preset_tables(text: str, source: str) -> dict[str, dict[str, Any]]:
    """The tables of a TOML file by name. Raises SpecError for anything else in it."""
    try:
        tables = msgspec.toml.decode(text)
    except msgspec.DecodeError as error:
        raise SpecError(f"{source}: {error}") from error
    for name, table in tables.items():
        if not isinstance(table, dict):
            raise SpecError(f"{source}: {clean(name, 60)!r} is not a table")
    found: dict[str, dict[str, Any]] = tables
    return found


def check_fields(table: dict[str, Any], known: Collection[str], source: str) -> None:
    """Raises SpecError for a field that is none of the known ones."""
    if unknown := table.keys() - known:
        raise SpecError(f"{source}: unknown field {clean(min(unknown), 60)!r}")


def preset(table: dict[str, Any], kind: type[Preset], source: str) -> Preset:
    """A table as a struct. Raises SpecError that names the field which does not fit."""
    check_fields(table, kind.__struct_fields__, source)
    try:
        return msgspec.convert(table, kind)
    except (msgspec.ValidationError, SpecError) as error:
        raise SpecError(f"{source}: {error}") from error
