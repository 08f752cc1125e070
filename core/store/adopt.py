"""Takes a packed run into a store, so that it can be resumed or compared where it is opened."""

from __future__ import annotations

import re
import shutil
import zipfile
from pathlib import Path, PurePosixPath

from llmprof.core.store.pack import MAX_JOURNAL_BYTES, PackError, open_view
from llmprof.core.store.run import JOURNAL, Run, RunStore

MAX_MEMBERS = 10_000
_SAFE = re.compile(r"[^A-Za-z0-9._-]+")


def adopt(path: Path, store: RunStore) -> Run:
    """The packed run as a run of the store, under its own id; one of that id must not be there.

    Members with paths outside the run's folder are refused. Raises PackError or OSError.
    """
    view = open_view(path)
    if not zipfile.is_zipfile(path):
        raise PackError(f"{path} is not a packed run")
    name = _SAFE.sub("-", view.run_id).strip(".-") or "packed"
    target = store.root / name
    if target.exists():
        raise PackError(f"run {name} is already here: resume it by its name")
    staging = store.root / f".{name}.partial"
    shutil.rmtree(staging, ignore_errors=True)
    (staging / "artifacts").mkdir(parents=True)
    try:
        with zipfile.ZipFile(path) as archive:
            _extract(archive, staging, path)
        staging.rename(target)
    except BaseException:
        shutil.rmtree(staging, ignore_errors=True)
        raise
    return Run(target)


def _extract(archive: zipfile.ZipFile, folder: Path, source: Path) -> None:
    members = archive.infolist()
    if len(members) > MAX_MEMBERS or sum(m.file_size for m in members) > MAX_JOURNAL_BYTES:
        raise PackError(f"{source} is too large to take in")
    for member in members:
        inner = PurePosixPath(member.filename)
        if member.is_dir():
            continue
        artifact = inner.parts[:1] == ("artifacts",) and len(inner.parts) > 1
        if inner.is_absolute() or ".." in inner.parts or not (artifact or str(inner) == JOURNAL):
            raise PackError(f"{source}: it holds a file that is not a run's: {member.filename!r}")
        out = folder / inner
        out.parent.mkdir(parents=True, exist_ok=True)
        with archive.open(member) as data, out.open("wb") as file:
            shutil.copyfileobj(data, file)
