"""One file to carry home: a run's journal and artifacts in a zip, read back without trust.

A write-up's file is another: see packed_writeup.py.
"""

from __future__ import annotations

import re
import shlex
import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from llmprof.core.state.view import RunView
from llmprof.core.store.files import JOURNAL, MANIFEST, files_of, is_beside
from llmprof.core.store.journal import replay
from llmprof.core.store.run import Run, RunStore
from llmprof.core.system.archive import PackError, is_packed, member, opened
from llmprof.core.system.atomic import whole_file

SUFFIX = ".llmprof"
MAX_JOURNAL_BYTES = 2 << 30
MAX_ARTIFACT_BYTES = 2 << 30  # of all artifacts
MAX_MEMBERS = 10_000
MAX_NAME = 100
COPY_BYTES = 1 << 20
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


class NotOneRun(PackError):
    """A write-up where one run is wanted; its text says what takes a whole write-up."""


def pack(run: Run, target: Path) -> None:
    """Write the run into one file, whole or not at all. Raises OSError."""
    with whole_file(target) as draft, compressed(draft) as archive:
        write_run(run, archive)


def compressed(target: Path | IO[bytes]) -> zipfile.ZipFile:
    """A new zip file for a run."""
    return zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=6)


def write_run(run: Run, archive: zipfile.ZipFile) -> None:
    """What a packed run holds, into its zip file. Raises OSError."""
    for path in files_of(run.journal):
        archive.write(path, path.name)
    for path in sorted(run.artifacts.rglob("*")):
        if path.is_file() and not path.name.startswith("."):  # a draft of what still runs
            archive.write(path, f"artifacts/{path.relative_to(run.artifacts)}")


def unpack(path: Path, run: Run, *, journal: bool = True) -> int:
    """Artifacts and journal of a packed run, into a run's folder; the artifacts alone if told so.

    The file is not trusted: only plain files directly below artifacts/ are taken, of a size that
    is looked at while they are read. How many bytes there were. Raises PackError, OSError.
    """
    with opened(path) as archive:
        taken = _copy_events(archive, run.path) if journal else 0
        left = MAX_ARTIFACT_BYTES
        for name in names_in(archive):
            if (artifact := _artifact(name)) is not None:
                run.artifacts.mkdir(exist_ok=True)
                left -= copy_member(archive, name, run.artifacts / artifact, left)
    return taken + MAX_ARTIFACT_BYTES - left


@contextmanager
def unpacked(path: Path) -> Iterator[Run]:
    """A packed run in a temporary folder, under the file's name; it goes at the end.

    Raises PackError or OSError.
    """
    with tempfile.TemporaryDirectory(prefix="llmprof-") as folder:
        run = Run(Path(folder) / path.stem)
        run.artifacts.mkdir(parents=True)
        unpack(path, run)
        yield run


def adopt(path: Path, store: RunStore) -> Run:
    """The packed run as a run of the store, under its own id; one of that id must not be there.

    A file that holds more than a run is refused. Raises PackError or OSError.
    """
    view = open_view(path)
    if not is_packed(path):
        raise PackError(f"{path} is not a packed run")
    with opened(path) as archive:
        for name in names_in(archive):
            known = name == JOURNAL or is_beside(name) or name.endswith("/")
            if not known and _artifact(name) is None:
                raise PackError(f"{path}: it holds a file that is not a run's: {name!r}")
    name = _UNSAFE.sub("-", view.run_id).strip(".-")[:MAX_NAME] or "packed"
    target = store.root / name
    if target.exists():
        raise PackError(f"run {name} is already here: resume it by its name")
    store.root.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=f".{name}.", dir=store.root))
    try:
        (staging / "artifacts").mkdir()
        unpack(path, Run(staging))
        staging.chmod(store.root.stat().st_mode)  # a temporary folder is its owner's alone
        staging.rename(target)
    except BaseException:
        shutil.rmtree(staging, ignore_errors=True)
        raise
    return Run(target)


def open_view(path: Path) -> RunView:
    """The run in a folder, a journal or a packed file.

    Nothing is executed and nothing is unpacked outside a temporary folder. Raises PackError
    for a file that holds no run (NotOneRun: a write-up), OSError for one that can't be read.
    """
    check_one_run(path)
    if path.is_dir():
        path = path / JOURNAL
    if not path.exists():
        raise PackError(f"{path}: there is no such file")
    view = _from_zip(path) if is_packed(path) else replay(path)
    if not view.events:
        raise PackError(f"{path} holds no run of llmprof")
    return view


def check_one_run(path: Path) -> None:
    """Raise NotOneRun for a folder or file that is a whole write-up; PackError or OSError."""
    if not holds_writeup(path):
        return
    given = shlex.quote(str(path))
    each = "" if path.is_dir() else f", `unzip {given}` makes a file of each"
    raise NotOneRun(
        f"{path} is a write-up of several runs: `llmprof report {given}` writes its document, "
        f"`llmprof screen {given}` shows its runs{each}"
    )


def holds_writeup(path: Path) -> bool:
    """Whether a folder or file is a whole write-up, not one run. Raises PackError or OSError."""
    if path.is_dir():
        return (path / MANIFEST).is_file() and not (path / JOURNAL).exists()
    if not is_packed(path):
        return False
    with opened(path) as archive:
        names = names_in(archive)
        return MANIFEST in names and JOURNAL not in names


def is_path(name: str) -> bool:
    """Whether a word means a file or folder rather than a run's name.

    A folder that only happens to be called like a run, as one of data, is not meant; a label may
    look like a path where nothing lies.
    """
    path = Path(name)
    if path.is_file():
        return True
    if "/" in name or name.endswith(SUFFIX):
        return path.exists() or not RunStore().has_label(name)
    return (path / JOURNAL).is_file() or (path / MANIFEST).is_file()


def _from_zip(path: Path) -> RunView:
    with opened(path) as archive, tempfile.TemporaryDirectory(prefix="llmprof-") as folder:
        _copy_events(archive, Path(folder))
        artifacts = {name for each in names_in(archive) if (name := _artifact(each)) is not None}
        return replay(Path(folder) / JOURNAL, artifacts)


def _copy_events(archive: zipfile.ZipFile, folder: Path) -> int:
    """The journal, and what a tracked loop's other ranks and samplers wrote beside it; bytes."""
    left = MAX_JOURNAL_BYTES
    for name in (JOURNAL, *filter(is_beside, names_in(archive))):
        left -= copy_member(archive, name, folder / name, left)
    return MAX_JOURNAL_BYTES - left


def names_in(archive: zipfile.ZipFile) -> list[str]:
    """Names of its members. Raises PackError where there are too many."""
    names = archive.namelist()
    if len(names) > MAX_MEMBERS:
        raise PackError(f"{archive.filename} holds more than {MAX_MEMBERS:,} files")
    return names


def _artifact(name: str) -> str | None:
    """The file name of a member that is an artifact; None for any other member."""
    folder, _, file = name.rpartition("/")
    return file if folder == "artifacts" and file not in ("", ".", "..") else None


def copy_member(archive: zipfile.ZipFile, name: str, target: Path, limit: int) -> int:
    """A member's bytes as a file; how many there were. Raises PackError over the limit."""
    taken = 0
    with member(archive, name) as source, target.open("wb") as out:
        while block := source.read(COPY_BYTES):
            taken += len(block)
            if taken > limit:
                raise PackError(f"{archive.filename}: {name} is over {limit:,} bytes")
            out.write(block)
    return taken
