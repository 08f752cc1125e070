"""A file that is there whole or not at all, whatever its name stands for.

A link is kept and its target replaced. A file that has other names too (hard links), or belongs to
another user, keeps them because it is written over in place, from a draft that is complete and with
what it held put by until then. A device or pipe is written to. Modes survive.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO


def write_file(path: Path, data: str | bytes) -> None:
    """Write a file, text as UTF-8. Raises OSError; what was there stays then."""
    with whole_file(path) as draft:
        draft.write_bytes(data.encode() if isinstance(data, str) else data)


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A draft for a path, in a folder that is made; it takes the path's place at the end.

    What was written of it goes when anything fails, so that a full disk has its room again.
    Raises OSError.
    """
    there = _stat(path)
    if there is not None and not stat.S_ISREG(there.st_mode):
        target, folder = path, Path(tempfile.gettempdir())
    else:
        target = Path(os.path.realpath(path))
        folder = target.parent
        folder.mkdir(parents=True, exist_ok=True)
    draft = _draft(folder, target.name)
    try:
        yield draft
        if there is None:
            draft.replace(target)
        elif not stat.S_ISREG(there.st_mode):
            with draft.open("rb") as source, target.open("wb") as out:
                shutil.copyfileobj(source, out)
        elif there.st_nlink > 1 or os.geteuid() not in (0, there.st_uid):
            _write_over(target, draft)
        else:
            _dress(draft, there)
            draft.replace(target)
    finally:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)


def _stat(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except FileNotFoundError:
        return None


def _draft(folder: Path, name: str) -> Path:
    """A new empty file, with the mode that the kernel gives by this process's mask."""
    path = folder / f".{name[:50]}.{os.urandom(4).hex()}.part"
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o666))
    return path


def _dress(draft: Path, like: os.stat_result) -> None:
    """Give a draft the owner, as far as that is allowed, and the mode of what it replaces."""
    with contextlib.suppress(OSError):
        os.chown(draft, like.st_uid, like.st_gid)
    draft.chmod(stat.S_IMODE(like.st_mode))


def _write_over(target: Path, draft: Path) -> None:
    """Write a draft into a file that stays; what the file held comes back when that fails."""
    saved = _draft(target.parent, target.name)
    shutil.copyfile(target, saved)
    with target.open("r+b") as file:
        try:
            _pour(draft, file)
        except BaseException as error:
            try:
                _pour(saved, file)
            except OSError as worse:
                said = f"{error}, and what it held is in {saved}"
                raise OSError(worse.errno, said, str(target)) from error
            saved.unlink()
            raise
    saved.unlink()


def _pour(source: Path, file: BinaryIO) -> None:
    file.seek(0)
    with source.open("rb") as data:
        shutil.copyfileobj(data, file)
    file.truncate()
    file.flush()
    os.fsync(file.fileno())
