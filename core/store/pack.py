"""One file to carry home: a run's journal and artifacts in a zip, read back without trust."""

from __future__ import annotations

import tempfile
import zipfile
import zlib
from pathlib import Path

from llmprof.core.state.view import RunView
from llmprof.core.store.journal import replay
from llmprof.core.store.run import JOURNAL, Run

SUFFIX = ".llmprof"
MAX_JOURNAL_BYTES = 2 << 30
MAX_ARTIFACT_BYTES = 2 << 30  # of all artifacts
COPY_BYTES = 1 << 20
PACK_DAMAGE = (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, zlib.error)


class PackError(ValueError):
    """A file that is no packed run; its text is one line for the user."""


def pack(run: Run, target: Path) -> None:
    """Write the run into one file. Raises OSError."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        archive.write(run.journal, JOURNAL)
        for path in sorted(run.artifacts.rglob("*")):
            if path.is_file():
                archive.write(path, f"artifacts/{path.relative_to(run.artifacts)}")


def unpack(path: Path, run: Run, *, journal: bool = True) -> None:
    """Artifacts and journal of a packed run, into a run's folder; the artifacts alone if told so.

    The file is not trusted: only plain files directly below artifacts/ are taken, of a size that
    is looked at while they are read. Raises PackError, OSError.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            if journal:
                _copy(archive, JOURNAL, run.journal, MAX_JOURNAL_BYTES)
            left = MAX_ARTIFACT_BYTES
            for member in archive.namelist():
                folder, _, name = member.rpartition("/")
                if folder == "artifacts" and name not in ("", ".", ".."):
                    run.artifacts.mkdir(exist_ok=True)
                    left -= _copy(archive, member, run.artifacts / name, left)
    except KeyError as error:
        raise PackError(f"{path} is no packed run: it has no {JOURNAL}") from error
    except PACK_DAMAGE as error:
        raise PackError(f"{path} is damaged: {error}") from error


def _copy(archive: zipfile.ZipFile, member: str, target: Path, limit: int) -> int:
    """A member's bytes as a file; how many there were."""
    taken = 0
    with archive.open(member) as source, target.open("wb") as out:
        while block := source.read(COPY_BYTES):
            taken += len(block)
            if taken > limit:
                raise PackError(f"{archive.filename}: {member} is over {limit:,} bytes")
            out.write(block)
    return taken


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
            tempfile.TemporaryDirectory(prefix="llmprof-") as folder,
        ):
            copy = Path(folder) / JOURNAL
            _copy(archive, JOURNAL, copy, MAX_JOURNAL_BYTES)
            return replay(copy)
    except KeyError as error:
        raise PackError(f"{path} is no packed run: it has no {JOURNAL}") from error
    except PACK_DAMAGE as error:
        raise PackError(f"{path} is damaged: {error}") from error


def _starts_like_zip(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"PK\x03\x04"
