"""Replays a recorded run into a journal at the pace at which it was measured.

`python -m llmprof.core.store.replay RECORDING RUN_DIR SPEED` behaves like an engine: it holds
the run's lock, stops on SIGTERM with a last event, and ends when its standard input closes.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from llmprof.core import events as ev
from llmprof.core.store.files import JOURNAL
from llmprof.core.store.journal import JournalWriter
from llmprof.core.store.pack import check_one_run, unpack
from llmprof.core.store.run import Run
from llmprof.core.store.time_shift import shifted
from llmprof.core.system.archive import PackError, is_packed, member, opened

LONGEST_S = 3.0  # a longer silence of the recording is cut to this


def recorded(path: Path) -> Iterator[ev.AnyEvent]:
    """Events of a packed run or a plain journal, in order; what cannot be read is left out.

    Raises OSError, and PackError for a file that is no packed run, a write-up or damaged.
    """
    check_one_run(path)
    if is_packed(path):
        with opened(path) as archive, member(archive, JOURNAL) as lines:
            yield from _decoded(lines)
    else:
        with path.open("rb") as lines:
            yield from _decoded(lines)


def moved(event: ev.AnyEvent, by_ns: int, run_id: str) -> ev.AnyEvent:
    """The event as if it had happened later, in another run."""
    match event:
        case ev.Segment():
            return ev.Segment(
                t=event.t + by_ns,
                boot_id=event.boot_id,
                wall_ns=time.time_ns(),
                pid=os.getpid(),
                version=event.version,
                schema=event.schema,
            )
        case ev.RunStarted() | ev.LoopStarted():
            return msgspec.structs.replace(event, t=event.t + by_ns, run_id=run_id)
    return shifted(event, by_ns)


def replay_into(run: Run, recording: Path, speed: float, stop: int) -> None:
    """Write the recording's events as time passes, `speed` times as fast as they came.

    `stop` is a file descriptor: as soon as it can be read, the run is stopped.
    """
    if is_packed(recording):
        with contextlib.suppress(PackError, OSError):  # the figures do without
            unpack(recording, run, journal=False)
    journal = JournalWriter(run.journal)
    shift = saved = 0
    start = time.monotonic_ns()
    last: int | None = None
    try:
        for event in recorded(recording):
            if last is None:
                shift = start - event.t
            else:
                saved += max(0, event.t - last - int(LONGEST_S * 1e9))
            last = event.t
            later = moved(event, shift - saved, run.id)
            due = start + int((later.t - start) / speed)
            if _wait(stop, (due - time.monotonic_ns()) / 1e9):
                journal.append(ev.RunDone(t=later.t, outcome="stopped"))
                return
            journal.append(later)
    finally:
        journal.close()


def main(arguments: list[str]) -> int:
    """Replay; exit code 0 at the end or when stopped, 2 when another process has the run."""
    recording, folder, speed = arguments
    run = Run(Path(folder))
    reader, writer = os.pipe()
    for number in (signal.SIGTERM, signal.SIGQUIT):
        signal.signal(number, lambda *_: os.write(writer, b"."))
    try:
        with run.lock():
            replay_into(run, Path(recording), float(speed), reader)
    except BlockingIOError:
        return 2
    return 0


def _decoded(lines: object) -> Iterator[ev.AnyEvent]:
    for line in lines:  # type: ignore[attr-defined]
        try:
            yield ev.decode(line)
        except (ev.UnknownKind, msgspec.DecodeError, ValueError):
            continue


def _wait(stop: int, seconds: float) -> bool:
    """Wait; True when it is time to stop: `stop` can be read or standard input has closed."""
    ready, _, _ = select.select([stop, 0], [], [], max(0.0, seconds))
    return bool(ready)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
