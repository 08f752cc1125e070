"""Columns in npz files that may come from a stranger: no pickle, bounded, checked."""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from llmprof.core.system.archive import PackError, opened
from llmprof.core.system.text import clean

NAME_LENGTH = 4_000
LONGEST_NS = 2**61  # nanoseconds: the sum of two such times is still an int64


@dataclass(frozen=True)
class Limits:
    """The most that a file may hold."""

    rows: int
    names: int


def save_arrays(path: Path, columns: Mapping[str, NDArray[Any] | bytes]) -> None:
    """Write columns and byte strings as a compressed npz file. Raises OSError."""
    arrays = {
        name: np.frombuffer(value, np.uint8) if isinstance(value, bytes) else value
        for name, value in columns.items()
    }
    with path.open("wb") as file:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]


def load_arrays(
    path: Path, dtypes: Mapping[str, type[np.generic]], limits: Limits
) -> tuple[dict[str, NDArray[Any]], tuple[str, ...]]:
    """The columns named in dtypes, all of one length, and the list called names.

    Raises OSError, and ValueError for a file that is damaged, too large or of another form.
    """
    try:
        with opened(path) as archive:
            columns = {
                name: _column(archive, name, dtype, limits.rows) for name, dtype in dtypes.items()
            }
            text = _column(archive, "names", np.uint8, limits.names * 200).tobytes()
    except (PackError, KeyError) as error:
        raise ValueError(f"{path.name}: not such a file ({error})") from error
    if len({len(column) for column in columns.values()}) > 1:
        raise ValueError(f"{path.name}: columns differ in length")
    try:
        names = msgspec.json.decode(text, type=tuple[str, ...])
    except msgspec.DecodeError as error:
        raise ValueError(f"{path.name}: {error}") from error
    if len(names) > limits.names:
        raise ValueError(f"{path.name}: more than {limits.names:,} names")
    return columns, tuple(clean(name, NAME_LENGTH) for name in names)


def check_times(path: Path, start: NDArray[np.int64], duration: NDArray[np.int64]) -> None:
    """Raises ValueError unless durations are 0 or more and no time is beyond reckoning."""
    if not len(start):
        return
    if int(duration.min()) < 0:
        raise ValueError(f"{path.name}: a duration is below 0")
    if max(-int(start.min()), int(start.max()), int(duration.max())) > LONGEST_NS:
        raise ValueError(f"{path.name}: a time is beyond all bounds")


def _column(
    archive: zipfile.ZipFile, name: str, dtype: type[np.generic], most: int
) -> NDArray[Any]:
    """One member, its size checked before it is unpacked."""
    member = archive.getinfo(f"{name}.npy")
    limit = most * np.dtype(dtype).itemsize + 4_096
    if member.file_size > limit:
        raise ValueError(f"column {name} is too large")
    with archive.open(member) as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise ValueError(f"column {name} is too large")
    array = _array(name, data)
    if array.ndim != 1 or array.dtype != np.dtype(dtype):
        raise ValueError(f"column {name} has another form")
    return array


def _array(name: str, data: bytes) -> NDArray[Any]:
    """An array whose header says as many bytes as there are, so that none are reserved for more."""
    file = io.BytesIO(data)
    version = np.lib.format.read_magic(file)
    if version != (1, 0):
        raise ValueError(f"column {name} has another form")
    shape, _, dtype = np.lib.format.read_array_header_1_0(file)
    if dtype.hasobject or math.prod(shape) * dtype.itemsize != len(data) - file.tell():
        raise ValueError(f"column {name} is not of the size it says")
    return np.frombuffer(data, dtype, offset=file.tell()).reshape(shape)
