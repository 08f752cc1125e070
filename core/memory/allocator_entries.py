"""Allocator events as plain entries, from a snapshot of CUDA's allocator or from a tracker."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from llmprof.core.system.text import clean

AUTOGRAD = "autograd"  # backward runs in C++ threads, which have no Python frame
MOST_FRAMES = 40  # of a stack; outer ones are left out
_FOREIGN = ("torch/", "einops/", "python3.", "<")
_PLACE = re.compile(r".*/(?:(?:site|dist)-packages/|(?=(?:torch|einops|python3\.\d+)/))")
PythonStack = tuple[str, ...]  # frames, innermost first: "worker/model.py:12 forward"


@dataclass(frozen=True, slots=True)
class AllocatorEntry:
    """One event: bytes taken (positive) or given back (negative) at an address."""

    t_us: int
    address: int
    size: int
    stack: int = -1  # index into Trace.stacks; -1: no Python frame


@dataclass(frozen=True, slots=True)
class PhaseMark:
    """A phase of a recorded step, in the clock of the entries."""

    step: int
    phase: str
    start_us: int
    end_us: int


@dataclass(slots=True)
class Trace:
    """Entries in order, the stacks that they name, and the phases they fall in."""

    entries: list[AllocatorEntry]
    marks: list[PhaseMark]
    stacks: list[PythonStack] = field(default_factory=list)
    overflow: bool = False  # entries are lost, the oldest where the recorder's ring was full


def read_snapshot(snapshot: Mapping[str, Any], device: int, max_entries: int) -> Trace:
    """The trace of a device from torch.cuda.memory._snapshot().

    Phases are the annotations named "phase STEP NAME". Requested sizes are what entries carry.
    """
    raw: Sequence[Mapping[str, Any]] = snapshot["device_traces"][device]
    stacks = Stacks()
    entries = []
    for each in raw:
        if each["action"] == "alloc":
            stack = stacks.add(places(each.get("frames", ())))
            entries.append(AllocatorEntry(each["time_us"], each["addr"], each["size"], stack))
        elif each["action"] == "free_completed":
            entries.append(AllocatorEntry(each["time_us"], each["addr"], -each["size"]))
    last_us = raw[-1]["time_us"] if raw else 0
    marks = read_marks(snapshot.get("external_annotations", ()), device, last_us)
    return Trace(entries, marks, stacks.known, len(raw) >= max_entries)


def bytes_refused(snapshot: Mapping[str, Any], device: int) -> int | None:
    """What was asked when the allocator last had no room; None where it always had."""
    raw: Sequence[Mapping[str, Any]] = snapshot["device_traces"][device]
    return next((int(each["size"]) for each in reversed(raw) if each["action"] == "oom"), None)


def settle(trace: Trace, first: int, last: int) -> int:
    """Level before a trace's first entry, bytes, from the levels before and after recording.

    Entries that were lost show as a difference between the two: the trace is marked, and the
    phases that ended before its first entry are dropped, since nothing is known of them.
    """
    base = last - sum(entry.size for entry in trace.entries)
    if base != first:
        trace.overflow = True
    if trace.overflow and trace.entries:
        begin = trace.entries[0].t_us
        trace.marks[:] = [mark for mark in trace.marks if mark.end_us >= begin]
    return base


def read_marks(
    annotations: Iterable[Mapping[str, Any]], device: int, last_us: int
) -> list[PhaseMark]:
    """Phases from the annotations of a snapshot; one that was cut short ends at last_us."""
    open_at: dict[str, int] = {}
    marks = []
    for each in annotations:
        name = str(each["name"])
        if each.get("device", device) != device or not name.startswith("phase "):
            continue
        if each["stage"] == "START":
            open_at[name] = each["time_us"]
        elif name in open_at:
            marks.append(_mark(name, open_at.pop(name), each["time_us"]))
    marks += (_mark(name, start, max(start, last_us)) for name, start in open_at.items())
    return marks


def _mark(name: str, start_us: int, end_us: int) -> PhaseMark:
    _, step, phase = name.split(" ", 2)
    return PhaseMark(int(step), phase, start_us, end_us)


Place = tuple[str, int, str]  # file, line, function


class Stacks:
    """Stacks as they are met: each is kept once."""

    def __init__(self) -> None:
        self.known: list[PythonStack] = []
        self._index: dict[tuple[Place, ...], int] = {}
        self._texts: dict[Place, str] = {}

    def add(self, places: Sequence[Place]) -> int:
        """The index of a stack, innermost place first; -1 for one without any place."""
        key = tuple(places[:MOST_FRAMES])
        if not key:
            return -1
        found = self._index.get(key)
        if found is None:
            found = self._index[key] = len(self.known)
            self.known.append(tuple(self._text(place) for place in key))
        return found

    def _text(self, place: Place) -> str:
        text = self._texts.get(place)
        if text is None:
            text = self._texts[place] = frame_text(*place)
        return text


def places(frames: Iterable[Mapping[str, Any]]) -> list[Place]:
    """The frames of an entry or a block, innermost first."""
    return [
        (str(frame["filename"]), int(frame.get("line", 0)), str(frame.get("name", "")))
        for frame in frames
        if frame.get("filename")
    ]


def frame_text(path: str, line: int, name: str) -> str:
    """A frame for people: the path within its package, of other files the last folder."""
    short = _PLACE.sub("", path, count=1)
    if short == path and not path.startswith("<"):
        short = "/".join(path.rsplit("/", 2)[-2:])
    return clean(f"{short}:{line} {name}", 120)


def own_frame(stack: PythonStack) -> int | None:
    """Position of the innermost frame that is not torch's or Python's; None without any."""
    return next((at for at, frame in enumerate(stack) if not frame.startswith(_FOREIGN)), None)


def own_line(stack: PythonStack) -> str | None:
    """That frame without its folder: "model.py:12 forward"."""
    at = own_frame(stack)
    return None if at is None else stack[at].rsplit("/", 1)[-1]
