"""Zip files that may come from a stranger: whatever is wrong with one is one error."""

from __future__ import annotations

import errno
import lzma
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from llmprof.core.system.text import clean

# What reading a zip file raises where it was cut, changed, made to mislead or locked.
DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    EOFError,
    NotImplementedError,
    RuntimeError,
    UnicodeDecodeError,
    OverflowError,
    MemoryError,
)


class PackError(ValueError):
    """A file that is no packed run or a damaged one; its text is one line for the user."""


def is_packed(path: Path) -> bool:
    """Whether a file is a zip file or begins as one. Raises OSError."""
    if zipfile.is_zipfile(path):
        return True
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(4) == b"PK\x03\x04"


@contextmanager
def opened(path: Path) -> Iterator[zipfile.ZipFile]:
    """A zip file. Raises PackError for damage, also while it is read, and OSError."""
    try:
        with zipfile.ZipFile(path) as archive:
            if not _begins(archive):  # the end is of a zip file within one that was cut
                raise PackError(f"{path} is damaged: its end is missing")
            yield archive
    except PackError:
        raise
    except DAMAGE as error:
        raise PackError(f"{path} is damaged: {clean(str(error), 200)}") from error
    except OSError as error:
        if error.errno != errno.EINVAL:  # of an offset that lies outside of the file
            raise
        raise PackError(f"{path} is damaged: an offset in it is wrong") from error


def _begins(archive: zipfile.ZipFile) -> bool:
    """Whether the first of its members lies at the beginning of the file."""
    return min((each.header_offset for each in archive.filelist), default=0) == 0


def member(archive: zipfile.ZipFile, name: str) -> IO[bytes]:
    """A member, unpacked while it is read. Raises PackError where there is none of the name."""
    try:
        return archive.open(name)
    except KeyError:
        raise PackError(f"{archive.filename} is no packed run: it has no {name}") from None
