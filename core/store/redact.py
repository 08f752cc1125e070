"""A run packed for sharing: without host and user names, folders, serial numbers and UUIDs.

Nothing is taken over that is not understood: a line that is no JSON, a file of another form and a
pickle are left out.
"""

from __future__ import annotations

import gzip
import re
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from llmprof.core import events as ev
from llmprof.core.store.exit_codes import read_byte
from llmprof.core.store.files import exit_of, files_of
from llmprof.core.store.pack import compressed
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
    redactor = redactor_for([run])
    with whole_file(target) as draft, compressed(draft) as archive:
        return write_redacted(run, archive, redactor)


def redactor_for(runs: Iterable[Run]) -> Redactor:
    """One that knows the names of this machine and of some runs. Raises OSError."""
    redactor = Redactor()
    redactor.learn_machine()
    for run in runs:
        run.journal.stat()
        for journal in _journals(run):
            for line in _lines(journal):
                redactor.learn(line)
        for path in _artifacts(run):
            if _JSON.fullmatch(path.name):
                redactor.learn(_json(path))
    return redactor


def write_redacted(run: Run, archive: zipfile.ZipFile, redactor: Redactor) -> tuple[str, ...]:
    """What a redacted run holds, into its zip file; what was left out. Raises OSError."""
    left_out: list[str] = []
    for journal in _journals(run):
        with archive.open(no_day(journal.name), "w", force_zip64=True) as out:
            for line in _lines(journal):
                out.write(redacted(line, redactor, _is_event) + b"\n")
    for path in files_of(run.journal):
        if exit_of(path.name) is not None:
            archive.writestr(no_day(path.name), read_byte(path))
    for path in _artifacts(run):
        data = _redacted_file(path, redactor)
        if data is not None:
            archive.writestr(no_day(f"artifacts/{path.name}"), data)
        elif not path.name.startswith("."):
            left_out.append(f"{path.name} is left out: it cannot be redacted")
    return tuple(left_out)


def _journals(run: Run) -> list[Path]:
    return sorted(run.path.glob("*.jsonl"))


def _artifacts(run: Run) -> list[Path]:
    return sorted(each for each in run.artifacts.glob("*") if each.is_file())


def no_day(name: str) -> zipfile.ZipInfo:
    """A compressed member of no particular day."""
    info = zipfile.ZipInfo(name, _DAY)
    info.compress_type = zipfile.ZIP_DEFLATED
    return info


def _lines(journal: Path) -> Iterator[Any]:
    """Every line of a journal that is JSON."""
    with journal.open("rb") as file:
        for line in file:
            try:
                yield msgspec.json.decode(line)
            except (msgspec.DecodeError, RecursionError):
                continue


def redacted(data: Any, redactor: Redactor, is_sound: Callable[[bytes], bool]) -> bytes:
    """JSON data. A machine that is called like a word of the file's own keeps that word."""
    made = msgspec.json.encode(redactor.data(data))
    if is_sound(made) or not is_sound(msgspec.json.encode(data)):
        return made
    return msgspec.json.encode(redactor.data(data, by_name=False))


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
