"""A run packed for sharing: without host and user names, folders, serial numbers and UUIDs.

Nothing is taken over that is not understood: a line that is no JSON, a file of another form and a
pickle are left out.
"""

from __future__ import annotations

import gzip
import re
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from llmprof.core import events as ev
from llmprof.core.store.run import Run
from llmprof.core.system.atomic import whole_file
from llmprof.core.system.redaction import Redactor

_JSON = re.compile(r"(memory|trace)-\d+\.json\.gz")
_STRIP = re.compile(r"timeline-\d+\.npz")
_DAY = (1980, 1, 1, 0, 0, 0)  # the first that a zip file can name


def pack_redacted(run: Run, target: Path) -> tuple[str, ...]:
    """Write the redacted run into one file, whole or not at all.

    Returns what was left out, a line each. Raises OSError.
    """
    redactor = Redactor()
    redactor.learn_machine()
    run.journal.stat()
    journals = sorted(run.path.glob("*.jsonl"))
    for journal in journals:
        for line in _lines(journal):
            redactor.learn(line)
    files = sorted(each for each in run.artifacts.glob("*") if each.is_file())
    for path in files:
        if _JSON.fullmatch(path.name):
            redactor.learn(_json(path))
    left_out: list[str] = []
    with (
        whole_file(target) as draft,
        zipfile.ZipFile(draft, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive,
    ):
        for journal in journals:
            _write_journal(archive, journal, redactor)
        for path in files:
            data = _redacted_file(path, redactor)
            if data is not None:
                archive.writestr(zipfile.ZipInfo(f"artifacts/{path.name}", _DAY), data)
            elif not path.name.startswith("."):
                left_out.append(f"{path.name} is left out: it cannot be redacted")
    return tuple(left_out)


def _write_journal(archive: zipfile.ZipFile, journal: Path, redactor: Redactor) -> None:
    with archive.open(zipfile.ZipInfo(journal.name, _DAY), "w", force_zip64=True) as out:
        for line in _lines(journal):
            out.write(_redacted_line(line, redactor))


def _lines(journal: Path) -> Iterator[Any]:
    """Every line of a journal that is JSON."""
    with journal.open("rb") as file:
        for line in file:
            try:
                yield msgspec.json.decode(line)
            except (msgspec.DecodeError, RecursionError):
                continue


def _redacted_line(line: Any, redactor: Redactor) -> bytes:
    """One line. A machine that is called like a word of the journal's own keeps that word."""
    made = msgspec.json.encode(redactor.data(line)) + b"\n"
    if _is_event(made) or not _is_event(msgspec.json.encode(line)):
        return made
    return msgspec.json.encode(redactor.data(line, by_name=False)) + b"\n"


def _is_event(line: bytes) -> bool:
    try:
        ev.decode(line)
    except (msgspec.DecodeError, ev.UnknownKind, ValueError, OverflowError):
        return False
    return True


def _redacted_file(path: Path, redactor: Redactor) -> bytes | None:
    """An artifact; None for one that is not understood."""
    if _JSON.fullmatch(path.name):
        found = _json(path)
        if found is None:
            return None
        return gzip.compress(msgspec.json.encode(redactor.data(found)), 6, mtime=0)
    return _redacted_strip(path, redactor) if _STRIP.fullmatch(path.name) else None


def _redacted_strip(path: Path, redactor: Redactor) -> bytes | None:
    from llmprof.core.kernels.timeline_strip import Strip

    try:
        strip = Strip.load(path)
    except (OSError, ValueError):
        return None
    with tempfile.TemporaryDirectory(prefix="llmprof-") as folder:
        made = Path(folder) / path.name
        replace(strip, names=tuple(map(redactor.text, strip.names))).save(made)
        return made.read_bytes()


def _json(path: Path) -> Any:
    """What a compressed JSON file holds; None where it can't be read."""
    try:
        return msgspec.json.decode(gzip.decompress(path.read_bytes()))
    except (OSError, EOFError, ValueError, RecursionError):
        return None
