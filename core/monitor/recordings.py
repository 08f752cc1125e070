"""Recordings of the monitor: what `llmprof monitor --json --follow` wrote, or a run's samples.

A recording may come from anybody: what cannot be read is counted, names are cleaned, and only
metrics that are known are taken.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Literal

import msgspec

from llmprof.core import events as ev
from llmprof.core.devices.metrics import METRICS
from llmprof.core.monitor.printed import Printed, as_sample, nanoseconds
from llmprof.core.store.files import JOURNAL
from llmprof.core.store.pack import check_one_run
from llmprof.core.system.archive import PackError, is_packed, member, opened
from llmprof.core.system.text import clean, counted, moment

LONGEST_LINE = 1 << 20
LOOKED_AT = 200  # samples in which the cards must turn up to be named beforehand
MOST_CARDS_READ = 256
SILENCE_NS = 120_000_000_000  # a longer pause of the recording ...
PAUSE_NS = 3_000_000_000  # ... is cut to this


class RecordingError(ValueError):
    """A file that is no recording; its text is one line for the user."""


class Recording:
    """The device samples of a file, read as they are asked for.

    Raises RecordingError when it holds none, OSError when it can't be read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.bad_lines = 0  # of those read so far
        self.wall_ns: int | None = None  # of the first sample, where the file says
        self.first = self._first()

    def samples(self) -> Iterator[ev.DeviceSample]:
        """All samples in order, on a clock of their own that begins at the first one's time.

        Long silences are cut, and a clock that went back goes on instead.
        """
        self.bad_lines = 0
        at = last = self.first.t
        for sample in self._read():
            passed = max(0, sample.t - last)
            last = sample.t
            at += passed if passed <= SILENCE_NS else PAUSE_NS
            yield msgspec.structs.replace(sample, t=at)

    @property
    def when(self) -> str:
        """Date and time of the first sample, UTC."""
        return moment(self.wall_ns)

    @property
    def origin(self) -> tuple[str, ...]:
        """The cards by name and the day, as far as they are known."""
        names = dict.fromkeys(card.name for card in self.first.cards if card.name)
        return (*names, *(() if self.wall_ns is None else (self.when[:10],)))

    @property
    def unreadable(self) -> str:
        """How many lines could not be read, in words that follow others; "" for none."""
        return f", {counted(self.bad_lines, 'unreadable line')}" if self.bad_lines else ""

    def wall(self, t: int) -> int | None:
        """Wall-clock nanoseconds of a sample's time; None where the file does not tell."""
        return None if self.wall_ns is None else self.wall_ns + t - self.first.t

    def seconds(self, t: int) -> float:
        """Time from the first sample on."""
        return (t - self.first.t) / 1e9

    def _first(self) -> ev.DeviceSample:
        """The first sample with a card, and if there is none the very first."""
        samples = itertools.islice(self._read(), LOOKED_AT)
        first = next(samples, None)
        if first is None:
            raise RecordingError(f"{self.path} holds no sample of a monitor")
        named = next((sample for sample in (first, *samples) if sample.cards), first)
        return msgspec.structs.replace(first, cards=named.cards)

    def _read(self) -> Iterator[ev.DeviceSample]:
        anchor: ev.Segment | None = None
        with _opened(self.path) as file:
            for line in _lines(file):
                found = _parsed(line)
                if isinstance(found, ev.Segment):
                    anchor = found
                elif isinstance(found, Printed):
                    self.wall_ns = self.wall_ns or nanoseconds(found.time)
                    yield _cleaned(as_sample(found))
                elif isinstance(found, ev.DeviceSample):
                    if anchor is not None and self.wall_ns is None:
                        self.wall_ns = anchor.wall_ns + found.t - anchor.t
                    yield _cleaned(found)
                elif found is None:
                    self.bad_lines += 1


@contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    """The lines of a file, or of the journal in a folder or packed run."""
    try:
        check_one_run(path)
        if path.is_dir():
            path = path / JOURNAL
        if not is_packed(path):
            with path.open("rb") as file:
                yield file
            return
        with opened(path) as archive, member(archive, JOURNAL) as file:
            yield file
    except PackError as error:
        raise RecordingError(str(error)) from error


def _lines(file: IO[bytes]) -> Iterator[bytes]:
    """Lines that say something; of one that is too long the beginning, which is bad."""
    while line := file.readline(LONGEST_LINE):
        rest = line
        while len(rest) == LONGEST_LINE and not rest.endswith(b"\n"):
            rest = file.readline(LONGEST_LINE)
        if line.strip():
            yield line


def _parsed(line: bytes) -> ev.AnyEvent | Printed | Literal["other"] | None:
    """An event, a line of `--json`, "other" for what is an event of another kind; None: neither."""
    try:
        return _PRINTED.decode(line)
    except (msgspec.DecodeError, ValueError, OverflowError, RecursionError):
        pass
    try:
        return ev.decode(line)
    except ev.UnknownKind:
        return "other"
    except (msgspec.DecodeError, ValueError, OverflowError, RecursionError):
        return None


_PRINTED = msgspec.json.Decoder(Printed)


def _cleaned(sample: ev.DeviceSample) -> ev.DeviceSample:
    """The sample with every text printable, and nothing that this program has no name for."""
    return msgspec.structs.replace(
        sample,
        cards=tuple(_clean_card(card) for card in sample.cards[:MOST_CARDS_READ]),
        cards_reason=_clean(sample.cards_reason),
    )


def _clean_card(card: ev.CardSample) -> ev.CardSample:
    processes = card.processes
    return msgspec.structs.replace(
        card,
        name=clean(card.name, 100),
        uuid=_clean(card.uuid),
        pci_bus_id=_clean(card.pci_bus_id),
        metrics={
            name: msgspec.structs.replace(metric, reason=_clean(metric.reason))
            for name, metric in card.metrics.items()
            if name in METRICS
        },
        throttle=tuple(clean(name, 40) for name in card.throttle[:64]),
        processes=None if processes is None else tuple(map(_clean_process, processes)),
        mig=tuple(
            msgspec.structs.replace(part, uuid=_clean(part.uuid), name=clean(part.name, 60))
            for part in card.mig
        ),
    )


def _clean_process(process: ev.CardProcess) -> ev.CardProcess:
    return msgspec.structs.replace(
        process, user=_clean(process.user), command=_clean(process.command)
    )


def _clean(text: str | None) -> str | None:
    return None if text is None else clean(text)
