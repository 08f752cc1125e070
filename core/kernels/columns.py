"""Raw profiler events as columns, and their file."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from llmprof.core.kernels.column_files import Limits, check_times, load_arrays, save_arrays

Int64 = NDArray[np.int64]
Int32 = NDArray[np.int32]
UInt8 = NDArray[np.uint8]
Bool = NDArray[np.bool_]

COLUMN_LIMITS = Limits(rows=20_000_000, names=1_000_000)
MOST_THREADS = 4_096
NO_SEQUENCE = -1


class Kind(IntEnum):
    """What an event is."""

    OP = 0  # an operator or a range of ours on the CPU
    RUNTIME = 1  # a call of the CUDA runtime or driver
    KERNEL = 2
    MEMCPY = 3
    MEMSET = 4
    OTHER = 5  # annotations on the GPU, synchronisation, the profiler's own overhead
    RANGE = 6  # a user annotation on the CPU, such as torch's Optimizer.step: it does no work


@dataclass(frozen=True, eq=False)
class EventColumns:
    """Events of one profile, one array a field, all of the same length.

    start and duration are nanoseconds of the profiler's clock (epoch). correlation joins a
    runtime call to its GPU activity, and is an op's own id; linked is the id of the op that was
    innermost when a runtime call or activity was launched, 0 for none. sequence and
    forward_thread tie an autograd node to its forward op. place is the thread of an op or the
    stream of a GPU activity; scope is 1 for autograd nodes.
    """

    names: tuple[str, ...]
    name: Int32
    kind: UInt8
    start: Int64
    duration: Int64
    place: Int64
    correlation: Int64
    linked: Int64
    sequence: Int64
    forward_thread: Int64
    scope: UInt8

    def __len__(self) -> int:
        return len(self.start)

    @cached_property
    def end(self) -> Int64:
        """End times, nanoseconds."""
        return self.start + self.duration

    def of_kind(self, *kinds: Kind) -> Int64:
        """Positions of the events of these kinds."""
        return np.flatnonzero(np.isin(self.kind, kinds)).astype(np.int64)

    def named(self, prefix: str) -> Bool:
        """Which events have a name that begins so."""
        return np.array([name.startswith(prefix) for name in self.names], np.bool_)[self.name]

    def save(self, path: Path) -> None:
        """Write them as a compressed npz file without pickle. Raises OSError."""
        arrays = {name: getattr(self, name) for name in COLUMN_DTYPES}
        save_arrays(path, {**arrays, "names": msgspec.json.encode(self.names)})

    @classmethod
    def load(cls, path: Path) -> EventColumns:
        """Read what save() wrote. Raises OSError, ValueError for anything else."""
        arrays, names = load_arrays(path, COLUMN_DTYPES, COLUMN_LIMITS)
        columns = cls(names=names, **arrays)
        if len(columns) and not 0 <= columns.name.min() <= columns.name.max() < len(names):
            raise ValueError(f"{path.name}: an event's name is missing")
        if len(columns) and int(columns.kind.max()) not in set(Kind):
            raise ValueError(f"{path.name}: an event is of no known kind")
        check_times(path, columns.start, columns.duration)
        if len(np.unique(columns.place)) > MOST_THREADS:
            raise ValueError(f"{path.name}: events of more than {MOST_THREADS:,} threads")
        return columns


COLUMN_DTYPES: dict[str, type[np.generic]] = {
    "name": np.int32,
    "kind": np.uint8,
    "start": np.int64,
    "duration": np.int64,
    "place": np.int64,
    "correlation": np.int64,
    "linked": np.int64,
    "sequence": np.int64,
    "forward_thread": np.int64,
    "scope": np.uint8,
}
