"""A timeline small enough to keep, send and draw: its extremes survive the thinning."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import msgspec

from llmprof.core.memory.timeline import OPEN, Timeline
from llmprof.core.predict.byte_levels import CATEGORIES
from llmprof.core.system.atomic import write_file

MAX_POINTS = 4000
MAX_BYTES = 64 << 20


class Points(msgspec.Struct, frozen=True, kw_only=True):
    """Levels over time: t_us from the first phase, one list of bytes a category."""

    t_us: list[int]
    levels: list[list[int]]
    phases: list[tuple[int, str, int, int]]  # step, phase, start and end in t_us
    peak: int
    peak_t_us: int
    at_peak: list[int]


def thin(timeline: Timeline, limit: int = MAX_POINTS) -> Points:
    """At most about `limit` points; of each stretch the highest and the lowest are kept."""
    entries, marks = timeline.trace.entries, timeline.trace.marks
    zero = marks[0].start_us if marks else (entries[0].t_us if entries else 0)
    levels = timeline.levels()
    chosen = _chosen([sum(level) for level in levels], limit, timeline.peak_at)
    times = [0, *(max(0, entries[i].t_us - zero) for i in chosen)]
    kept = [timeline.base, *(levels[i] for i in chosen)]
    at = timeline.peak_at
    return Points(
        t_us=times,
        levels=[list(column) for column in zip(*kept, strict=True)],
        phases=[(m.step, m.phase, m.start_us - zero, m.end_us - zero) for m in marks],
        peak=timeline.peak,
        peak_t_us=0 if at == OPEN else max(0, entries[at].t_us - zero),
        at_peak=list(timeline.at_peak),
    )


def _chosen(totals: list[int], limit: int, peak_at: int) -> list[int]:
    if len(totals) <= limit:
        return list(range(len(totals)))
    width = -(-2 * len(totals) // limit)
    chosen = {len(totals) - 1}
    for start in range(0, len(totals), width):
        stretch = range(start, min(start + width, len(totals)))
        chosen.add(max(stretch, key=totals.__getitem__))
        chosen.add(min(stretch, key=totals.__getitem__))
    if peak_at != OPEN:
        chosen.add(peak_at)
    return sorted(chosen)


def save(points: Points, path: Path) -> None:
    """Write points as compressed JSON, whole or not at all. Raises OSError."""
    write_file(path, gzip.compress(msgspec.json.encode(points), 6))


def load(path: Path, limit: int = MAX_BYTES) -> Points:
    """Read points from a file. Raises OSError or ValueError."""
    return decode_points(path.read_bytes(), path.name, limit)


def decode_points(packed: bytes, name: str, limit: int = MAX_BYTES) -> Points:
    """Points from compressed JSON, which is untrusted. Raises OSError or ValueError."""
    with gzip.open(io.BytesIO(packed)) as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise ValueError(f"{name} is larger than {limit} bytes")
    try:
        points = msgspec.json.decode(data, type=Points)
    except msgspec.DecodeError as error:
        raise ValueError(f"{name}: {error}") from error
    shape = (len(points.levels), {len(column) for column in points.levels}, len(points.at_peak))
    if shape != (len(CATEGORIES), {len(points.t_us)}, len(CATEGORIES)):
        raise ValueError(f"{name}: levels, times and categories do not match")
    return points
