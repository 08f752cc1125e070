"""A write-up in one file: a zip with its manifest and each of its runs packed as a run is.

Whatever takes a write-up finds it by writeup_at(), in a folder or in such a file, which is not
trusted.
"""

from __future__ import annotations

import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from llmprof.core.store.files import MANIFEST
from llmprof.core.store.pack import (
    SUFFIX,
    compressed,
    copy_member,
    holds_writeup,
    names_in,
    unpack,
    write_run,
)
from llmprof.core.store.redact import no_day, redacted, redactor_for, write_redacted
from llmprof.core.store.run import Run
from llmprof.core.store.writeup import Manifest, Writeup, WriteupError, decode_manifest
from llmprof.core.system.archive import PackError, member, opened
from llmprof.core.system.atomic import whole_file

MAX_MANIFEST_BYTES = 16 << 20
MAX_BYTES = 8 << 30  # of all runs, packed and unpacked


@contextmanager
def writeup_at(path: Path) -> Iterator[Writeup | None]:
    """The write-up of a folder or a file; None where there is none.

    A file is unpacked into a temporary folder, which goes at the end. Raises PackError or OSError.
    """
    if not holds_writeup(path):
        yield None
    elif path.is_dir():
        yield Writeup(path)
    else:
        with tempfile.TemporaryDirectory(prefix="llmprof-") as folder:
            yield _unpacked(path, Path(folder) / path.stem)


def pack_writeup(writeup: Writeup, target: Path) -> None:
    """Write the runs that have begun into one file, whole or not at all.

    Raises WriteupError where none has, or OSError.
    """
    manifest, runs = _begun(writeup)
    _write(target, manifest, runs, write_run)


def pack_redacted_writeup(writeup: Writeup, target: Path) -> tuple[str, ...]:
    """The same, redacted; returns what was left out, a line each. Raises WriteupError, OSError."""
    manifest, runs = _begun(writeup)
    data = msgspec.json.decode(msgspec.json.encode(manifest))
    redactor = redactor_for(runs)
    redactor.learn(data)
    manifest = decode_manifest(redacted(data, redactor, _is_manifest), str(writeup.folder))
    left_out: list[str] = []

    def write(run: Run, archive: zipfile.ZipFile) -> None:
        left_out.extend(f"{run.id}: {each}" for each in write_redacted(run, archive, redactor))

    _write(target, manifest, runs, write)
    return tuple(left_out)


def _is_manifest(data: bytes) -> bool:
    try:
        decode_manifest(data, "")
    except WriteupError:
        return False
    return True


def _begun(writeup: Writeup) -> tuple[Manifest, tuple[Run, ...]]:
    """The manifest with no other runs than those that have begun, and these."""
    manifest = writeup.load()
    runs = tuple(map(writeup.run_of, manifest.entries))
    entries = tuple(
        msgspec.structs.replace(entry, run="" if run is None else run.id)
        for entry, run in zip(manifest.entries, runs, strict=True)
    )
    begun = tuple(run for run in runs if run is not None)
    if not begun:
        raise WriteupError(f"{writeup.folder}: no run of this write-up has begun")
    return msgspec.structs.replace(manifest, entries=entries), begun


def _write(
    target: Path,
    manifest: Manifest,
    runs: tuple[Run, ...],
    write: Callable[[Run, zipfile.ZipFile], None],
) -> None:
    """The file: each run under the name that the manifest has for it."""
    names = [entry.run for entry in manifest.entries if entry.run]
    with whole_file(target) as draft, zipfile.ZipFile(draft, "w") as archive:
        with archive.open(no_day(MANIFEST), "w") as out:
            out.write(msgspec.json.format(msgspec.json.encode(manifest), indent=1))
        for name, run in zip(names, runs, strict=True):
            with (
                archive.open(f"{name}{SUFFIX}", "w", force_zip64=True) as out,
                compressed(out) as inner,
            ):
                write(run, inner)


def _unpacked(path: Path, folder: Path) -> Writeup:
    """A packed write-up in a folder; only the runs that its manifest names are taken."""
    with opened(path) as archive:
        names_in(archive)  # no more than there may be
        manifest = _manifest(archive)
        names = list(dict.fromkeys(entry.run for entry in manifest.entries if entry.run))
        if not names:
            raise PackError(f"{path}: no run of this write-up has begun")
        writeup = Writeup(folder)
        writeup.save(manifest)
        left = MAX_BYTES
        for name in names:
            left -= _unpack_run(archive, name, folder, left)
            if left < 0:
                raise PackError(f"{path} is over {MAX_BYTES:,} bytes")
    return writeup


def _manifest(archive: zipfile.ZipFile) -> Manifest:
    with member(archive, MANIFEST) as file:
        data = file.read(MAX_MANIFEST_BYTES + 1)
    if len(data) > MAX_MANIFEST_BYTES:
        raise PackError(f"{archive.filename}: {MANIFEST} is over {MAX_MANIFEST_BYTES:,} bytes")
    try:
        return decode_manifest(data, str(archive.filename))
    except WriteupError as error:
        raise PackError(str(error)) from error


def _unpack_run(archive: zipfile.ZipFile, name: str, folder: Path, limit: int) -> int:
    """One run as a folder; the bytes that it took."""
    run, packed = Run(folder / name), folder / f"{name}{SUFFIX}"
    if packed.name not in archive.namelist():
        raise PackError(f"{archive.filename} is damaged: it has no {packed.name}")
    run.artifacts.mkdir(parents=True)
    taken = copy_member(archive, packed.name, packed, limit)
    try:
        taken += unpack(packed, run)
    except PackError as error:  # it names a file that nobody knows of
        raise PackError(f"{archive.filename}: {str(error).replace(f'{folder}/', '')}") from error
    packed.unlink()
    return taken
