"""One file to carry home: a run's journal and artifacts in a zip, read back without trust."""

from __future__ import annotations

import tempfile
import zipfile
import zlib
from pathlib import Path

from llmprof.core.journal import replay
from llmprof.core.results import RunView
from llmprof.core.runs import JOURNAL, Run

SUFFIX = ".llmprof"
MAX_JOURNAL_BYTES = 2 << 30
CHUNK = 1 << 20


class PackError(ValueError):
    """A file that is no packed run; its text is one line for the user."""


def pack(run: Run, target: Path) -> None:
    """Write the run into one file. Raises OSError."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        archive.write(run.journal, JOURNAL)
        for path in sorted(run.artifacts.rglob("*")):
            if path.is_file():
                archive.write(path, f"artifacts/{path.relative_to(run.artifacts)}")


def open_view(path: Path) -> RunView:
    """The run in a folder, a journal or a packed file.

    Nothing is executed and nothing is unpacked outside a temporary folder. Raises PackError
    for a file that holds no run, OSError for one that can't be read.
    """
    if path.is_dir():
        path = path / JOURNAL
    if not path.exists():
        raise PackError(f"{path}: there is no such file")
    if _starts_like_zip(path) and not zipfile.is_zipfile(path):
        raise PackError(f"{path} is a packed run that was cut or damaged")
    view = _from_zip(path) if zipfile.is_zipfile(path) else replay(path)
    if not view.events:
        raise PackError(f"{path} holds no run of llmprof")
    return view


def _from_zip(path: Path) -> RunView:
    try:
        with (
            zipfile.ZipFile(path) as archive,
            archive.open(JOURNAL) as source,
            tempfile.TemporaryDirectory(prefix="llmprof-") as folder,
        ):
            copy = Path(folder) / JOURNAL
            taken = 0
            with copy.open("wb") as out:
                while block := source.read(CHUNK):
                    taken += len(block)
                    if taken > MAX_JOURNAL_BYTES:
                        raise PackError(f"{path}: its journal is over 2 GiB")
                    out.write(block)
            return replay(copy)
    except KeyError as error:
        raise PackError(f"{path} is no packed run: it has no {JOURNAL}") from error
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, zlib.error) as error:
        raise PackError(f"{path} is damaged: {error}") from error


def _starts_like_zip(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"PK\x03\x04"
