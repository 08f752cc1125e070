"""The timeline of one step as a file: the device's lanes over the CPU's launches."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from llmprof.core.events.kernel_rows import CLASSES, StripInfo
from llmprof.core.kernels.attribution import Activities
from llmprof.core.kernels.column_files import Limits, check_times, load_arrays, save_arrays
from llmprof.core.kernels.columns import Int32, Int64
from llmprof.core.kernels.nesting import union
from llmprof.core.system.atomic import whole_file

STRIP_LIMITS = Limits(rows=5_000_000, names=200_000)
MOST_PHASES = 64
_MS = 1e-6


@dataclass(frozen=True, eq=False)
class Strip:
    """Activities of one step in order of start, one array a field.

    Times are nanoseconds from the step's start. name, op, module and phase are positions in
    names (-1: unknown), group in classes.CLASSES, lane is the stream or thread. A launch of -1
    means that there was none.
    """

    names: tuple[str, ...]
    start: Int64
    duration: Int64
    launch_start: Int64
    launch_duration: Int64
    name: Int32
    op: Int32
    module: Int32
    phase: Int32
    group: Int32
    lane: Int64

    def __len__(self) -> int:
        return len(self.start)

    @property
    def has_launches(self) -> bool:
        """Whether the CPU launched any of it: not where the CPU's own ops are the activities."""
        return bool((self.launch_start >= 0).any())

    def text(self, position: int) -> str | None:
        """The name at a position of a column, None for -1."""
        return self.names[position] if position >= 0 else None

    def save(self, path: Path) -> None:
        """Write it as a compressed npz file without pickle. Raises OSError."""
        arrays = {name: getattr(self, name) for name in STRIP_DTYPES}
        save_arrays(path, {**arrays, "names": msgspec.json.encode(self.names)})

    @classmethod
    def load(cls, path: Path) -> Strip:
        """Read what save() wrote. Raises OSError, ValueError for anything else."""
        arrays, names = load_arrays(path, STRIP_DTYPES, STRIP_LIMITS)
        for column in ("name", "op", "module", "phase"):
            _check(path, column, arrays[column], len(names), allow_none=column != "name")
        _check(path, "group", arrays["group"], len(CLASSES), allow_none=False)
        check_times(path, arrays["start"], arrays["duration"])
        launched = arrays["launch_start"] >= 0
        check_times(path, arrays["launch_start"], np.where(launched, arrays["launch_duration"], 0))
        if len(np.unique(arrays["phase"])) > MOST_PHASES:
            raise ValueError(f"{path.name}: more than {MOST_PHASES} phases")
        return cls(names=names, **arrays)


STRIP_DTYPES: dict[str, type[np.generic]] = {
    "start": np.int64,
    "duration": np.int64,
    "launch_start": np.int64,
    "launch_duration": np.int64,
    "name": np.int32,
    "op": np.int32,
    "module": np.int32,
    "phase": np.int32,
    "group": np.int32,
    "lane": np.int64,
}


@dataclass(frozen=True)
class Lane:
    """What lies in each of the columns of a stretch of time.

    shares: 0 to 1, how much of the column is covered; labels: the phase's position in the
    strip's names that covers most of it, -1 for none.
    """

    shares: tuple[float, ...]
    labels: tuple[int, ...]


def device_lane(strip: Strip, begin: float, end: float, columns: int) -> Lane:
    """The device between two times (nanoseconds from the step's start), in equal columns."""
    return _lane(strip.start, strip.duration, strip.phase, np.linspace(begin, end, columns + 1))


def launch_lane(strip: Strip, begin: float, end: float, columns: int) -> Lane:
    """The CPU's launching calls between two times, in equal columns."""
    known = strip.launch_start >= 0
    edges = np.linspace(begin, end, columns + 1)
    starts, durations = strip.launch_start[known], strip.launch_duration[known]
    return _lane(starts, durations, strip.phase[known], edges)


def _lane(start: Int64, duration: Int64, label: Int32, edges: NDArray[np.float64]) -> Lane:
    width = np.diff(edges)
    labels = np.unique(label)
    if not len(labels):
        return Lane((0.0,) * len(width), (-1,) * len(width))
    covered = np.stack(
        [
            np.diff(_covered_until(start[label == each], duration[label == each], edges))
            for each in labels
        ]
    )
    most = labels[np.argmax(covered, axis=0)]
    total = covered.sum(axis=0)
    shares = np.clip(total / np.maximum(width, 1e-9), 0.0, 1.0)
    return Lane(tuple(shares.tolist()), tuple(np.where(total > 0, most, -1).tolist()))


def _covered_until(start: Int64, duration: Int64, times: NDArray[np.float64]) -> Any:
    """Time that at least one interval covers before each of the times."""
    starts, ends = union(start, start + duration)
    whole = np.concatenate([[0], np.cumsum(ends - starts)])
    before = np.searchsorted(starts, times, side="right")
    over = np.where(before > 0, ends[np.maximum(before, 1) - 1] - times, 0) if len(ends) else 0
    return whole[before] - np.maximum(over, 0)


def open_strip(folder: Path, info: StripInfo) -> Strip:
    """The strip that a journal names, from the run's artifacts and nowhere else.

    Raises OSError, ValueError for a name that is a path, a file of another form or one of
    another number of activities than the journal says.
    """
    if Path(info.file).name != info.file:
        raise ValueError(f"not a file of the run: {info.file}")
    strip = Strip.load(folder / info.file)
    if len(strip) != info.activities:
        raise ValueError(f"{info.file}: {len(strip):,} activities, not {info.activities:,}")
    return strip


def build_strip(activities: Activities, classes: Int64) -> tuple[int, Strip] | None:
    """The step whose wall time is the median, as its index and its strip; None without steps."""
    windows = activities.windows
    if not windows.steps:
        return None
    step = int(np.argsort(windows.wall_ns, kind="stable")[(windows.steps - 1) // 2])
    rows = np.flatnonzero(activities.step == step)
    begin = windows.step_spans[step, 0]
    names: dict[str, int] = {}
    columns, tree = activities.columns, activities.tree
    launch = activities.launch[rows]
    known = launch >= 0
    safe = np.maximum(launch, 0)
    place = activities.of_op(tree.place)[rows]
    return step, Strip(
        start=activities.start[rows] - begin,
        duration=columns.duration[activities.event[rows]],
        launch_start=np.where(known, columns.start[safe] - begin, -1),
        launch_duration=np.where(known, columns.duration[safe], -1),
        name=_renamed(names, columns.names, activities.name[rows]),
        op=_renamed(names, columns.names, activities.op_name[rows]),
        module=_renamed(names, tree.places, place),
        phase=_renamed(names, windows.phases, activities.phase[rows]),
        group=classes[rows].astype(np.int32),
        lane=columns.place[activities.event[rows]],
        names=tuple(names),
    )


def save_strip(activities: Activities, classes: Int64, folder: Path, file: str) -> StripInfo | None:
    """Write the median step's strip into the artifacts; where it lies. Raises OSError."""
    built = build_strip(activities, classes)
    if built is None:
        return None
    step, strip = built
    with whole_file(folder / file) as draft:
        strip.save(draft)
    wall_ms = float(activities.windows.wall_ns[step]) * _MS
    return StripInfo(file=file, step=step, wall_ms=wall_ms, activities=len(strip))


def _renamed(names: dict[str, int], texts: tuple[str, ...], ids: NDArray[np.integer]) -> Int32:
    """Positions in one common list of names, to which new ones are added; -1 stays."""
    used = np.unique(ids[ids >= 0])
    table = np.full(len(texts) + 1, -1, np.int32)
    for position in used.tolist():
        table[position] = names.setdefault(texts[position], len(names))
    return np.asarray(table[ids])


def _check(
    path: Path, column: str, values: NDArray[np.integer], size: int, *, allow_none: bool
) -> None:
    lowest = -1 if allow_none else 0
    if len(values) and not lowest <= values.min() <= values.max() < size:
        raise ValueError(f"{path.name}: column {column} points nowhere")
