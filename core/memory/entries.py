"""Allocator events as plain entries, from a snapshot of CUDA's allocator or from a tracker."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from llmprof.core.text import clean

AUTOGRAD = "autograd"  # backward runs in C++ threads, which have no Python frame
_FOREIGN = ("/torch/", "/einops/", "/multiprocessing/", "<")


@dataclass(frozen=True, slots=True)
class Entry:
    """One event: bytes taken (positive) or given back (negative) at an address."""

    t_us: int
    address: int
    size: int
    frame: int = -1  # index into Trace.frames; -1: no Python frame


@dataclass(frozen=True, slots=True)
class Mark:
    """A phase of a recorded step, in the clock of the entries."""

    step: int
    phase: str
    start_us: int
    end_us: int


@dataclass(slots=True)
class Trace:
    """Entries in order, the frames that they name, and the phases they fall in."""

    entries: list[Entry]
    marks: list[Mark]
    frames: list[str] = field(default_factory=list)
    overflow: bool = False  # the recorder's ring was full: older entries are lost


def read_snapshot(snapshot: Mapping[str, Any], device: int, max_entries: int) -> Trace:
    """The trace of a device from torch.cuda.memory._snapshot().

    Phases are the annotations named "phase STEP NAME". Requested sizes are what entries carry.
    """
    raw: Sequence[Mapping[str, Any]] = snapshot["device_traces"][device]
    frames: dict[str, int] = {}
    entries = []
    for each in raw:
        if each["action"] == "alloc":
            frame = _intern(frames, own_frame(each.get("frames", ())))
            entries.append(Entry(each["time_us"], each["addr"], each["size"], frame))
        elif each["action"] == "free_completed":
            entries.append(Entry(each["time_us"], each["addr"], -each["size"]))
    marks = read_marks(snapshot.get("external_annotations", ()), device)
    return Trace(entries, marks, list(frames), len(raw) >= max_entries)


def read_marks(annotations: Iterable[Mapping[str, Any]], device: int) -> list[Mark]:
    """Phases from the annotations of a snapshot."""
    open_at: dict[str, int] = {}
    marks = []
    for each in annotations:
        name = str(each["name"])
        if each.get("device", device) != device or not name.startswith("phase "):
            continue
        if each["stage"] == "START":
            open_at[name] = each["time_us"]
        elif name in open_at:
            _, step, phase = name.split(" ", 2)
            marks.append(Mark(int(step), phase, open_at.pop(name), each["time_us"]))
    return marks


def own_frame(frames: Iterable[Mapping[str, Any]]) -> str | None:
    """The innermost frame that is not torch's: "file.py:12 function"; None without any."""
    for frame in frames:
        path = str(frame.get("filename", ""))
        if path and not any(part in path for part in _FOREIGN):
            return clean(f"{path.rsplit('/', 1)[-1]}:{frame.get('line')} {frame.get('name')}", 120)
    return None


def _intern(frames: dict[str, int], frame: str | None) -> int:
    return -1 if frame is None else frames.setdefault(frame, len(frames))
