"""The user's own preset files: which there are, and their text as editors write it."""

from __future__ import annotations

from pathlib import Path

from llmprof.core.spec.shape import SpecError


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
