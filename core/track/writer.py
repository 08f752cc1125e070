"""The thread that writes a loop's file: it never touches the card, and nobody waits for it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from shlex import quote

import msgspec

from llmprof.core import events as ev
from llmprof.core.store import lock
from llmprof.core.store.files import exit_file, loop_file
from llmprof.core.store.journal import JournalWriter
from llmprof.core.store.run import Run, RunStore
from llmprof.core.system.boot import boot_id, host_name
from llmprof.core.system.descriptors import Held
from llmprof.core.system.text import cause, clean
from llmprof.core.track.allocator import AllocatorFigures
from llmprof.core.track.batches import Batches
from llmprof.core.track.environment import environment
from llmprof.core.track.exits import code_follows
from llmprof.core.track.identity import Identity, find_run
from llmprof.core.track.parts import current
from llmprof.core.track.readings import Looks, compiled, rss_bytes
from llmprof.core.track.samples import Samples
from llmprof.core.track.tracker import MOST_STEPS, Tracker, say
from llmprof.version import __version__

TICK_S = 0.25
FLUSH_S = 0.5  # of steps
BEAT_NS = 2_000_000_000
ROLLED_FLUSH_S = 4.0  # once a row stands for a second's steps
MOST_LINES = 4096  # that wait while the disk takes none
RETRY_S = 5.0


@dataclass(frozen=True)
class Plan:
    """What a writer is told at the start."""

    label: str
    identity: Identity
    turn: int
    total_steps: int | None
    model: bool
    sample: bool
    announce: bool


class Writer:
    """Opens the run, writes what the tracker's rows say, and beats; a full disk costs rows."""

    def __init__(self, plan: Plan, tracker: Tracker) -> None:
        self.run: Run | None = None
        self.problem = ""  # why nothing is written
        self.call_us = 0.0
        self.card: ev.LoopDevice | None = None  # of the training thread, once it has one
        self.memory: Callable[[], AllocatorFigures | None] = lambda: None
        self.notes: Callable[[], None] = lambda: None  # asked for what is to be said
        self.logs: list[ev.Log] = []
        self.refusals: list[ev.LoopOutOfMemory] = []  # of the allocator
        self._looks = Looks()
        self._plan = plan
        self._tracker = tracker
        self._rank, self._restart = plan.identity.rank, plan.identity.restart
        self._batches = Batches(self._rank, self._restart)
        self._stop = threading.Event()
        self._opened = threading.Event()  # the run is there, or never will be
        self._file: _Lines | None = None
        self._run_lock: Held | None = None
        self._samples: Samples | None = None
        self._last_beat: tuple[str, int] | None = None
        self._beat_ns = self._steps = 0
        self._said_card: ev.LoopDevice | None = None
        self._done: ev.LoopDone | None = None
        self._follows = False  # how it ended, in a file of its own
        self._thread = threading.Thread(target=self._write, name="llmprof-track", daemon=True)

    def start(self) -> None:
        """Begin; the training thread waits for nothing."""
        self._thread.start()

    def finish(self, done: ev.LoopDone, patience_s: float, *, unseen: bool = False) -> None:
        """Write what is left and the end; give up on a disk that hangs.

        Of an end that is unseen so far, the process's exit code is written later if it can be.
        """
        self._done = msgspec.structs.replace(done, rank=self._rank, restart=self._restart)
        until = time.monotonic() + patience_s
        if unseen:
            self._opened.wait(patience_s)  # a short program may end before its run is there
        if unseen and self.run is not None and self._file is not None:
            self._follows = code_follows(self.run.path / exit_file(self._rank, self._restart))
        self._stop.set()
        self._thread.join(max(0.0, until - time.monotonic()))

    def forget(self) -> None:
        """In a forked child: let go of files and locks, which are the parent's."""
        with contextlib.suppress(OSError):
            if self._samples is not None:
                self._samples.forget()
        for held in (self._file, self._run_lock):
            if held is not None:
                held.close()
        self._samples = self._file = self._run_lock = None

    def _write(self) -> None:
        try:
            self._open()
            self._opened.set()
            flushed = 0.0
            while not self._stop.wait(TICK_S):
                now = time.monotonic()
                period = ROLLED_FLUSH_S if self._batches.rolled_up else FLUSH_S
                steps = now - flushed >= period - TICK_S / 2
                flushed = now if steps else flushed
                if self.card is not None:
                    self._looks.look(self._tracker.thread)
                self._flush(steps=steps)
            self._flush(steps=True, last=True)
        except Exception as error:
            self.problem = cause(error)
            self._tracker.fail(error)
            more = "" if self.run is None else " any more"
            say(f"{self._plan.label} is not watched{more}: {self.problem}")
        finally:
            self._opened.set()
            self._let_go()

    def _let_go(self) -> None:
        with contextlib.suppress(OSError):
            if self._samples is not None:
                self._samples.close()
        for held in (self._file, self._run_lock):
            with contextlib.suppress(OSError):
                if held is not None and self._follows:
                    os.dup(held.fileno())  # locked until the process is gone
            if held is not None:
                held.close()

    def _open(self) -> None:
        plan, identity = self._plan, self._plan.identity
        run = find_run(RunStore(), identity, plan.label, plan.turn)
        lines = _Lines(run, identity)
        if identity.leads:
            with contextlib.suppress(OSError):  # another machine's, or no locks there
                self._run_lock = lock.hold_as_loop(run.lock_file)
        if identity.leads and plan.sample:
            try:
                self._samples = Samples(run, identity)
            except OSError as error:
                said = f"the devices are not sampled: {cause(error)}"
                self.logs.append(ev.Log(level="warning", message=said))
        self.run, self._file = run, lines
        lines.put(
            ev.Segment(
                boot_id=boot_id(), wall_ns=time.time_ns(), pid=os.getpid(), version=__version__
            )
        )
        lines.put(
            ev.LoopStarted(
                run_id=run.id,
                label=clean(plan.label, 200),
                rank=identity.rank,
                restart=identity.restart,
                world_size=identity.world_size,
                local_rank=identity.local_rank,
                node=host_name(),
                pid=os.getpid(),
                command=tuple(clean(word, 500) for word in (sys.executable, *sys.argv)[:100]),
                total_steps=plan.total_steps,
                own_calls_us=round(self.call_us, 3),
                model=plan.model,
            )
        )
        if identity.rank == 0:
            lines.put(environment(None))
        if plan.announce and identity.rank == 0:
            say(f"watching this loop as {run.id}: `llmprof attach {quote(run.called)}`")

    def _flush(self, *, steps: bool, last: bool = False) -> None:
        lines = self._file
        assert lines is not None
        lines.fileno()  # where a program has closed all that is open nothing comes any more
        if self._tracker.problem:
            said = f"tracking ended: {self._tracker.problem}"
            self.logs.append(ev.Log(level="error", message=said))
            self._tracker.problem = ""
        self.notes()
        while self.logs:
            lines.put(self.logs.pop(0))
        while self.refusals:
            own = {"rank": self._rank, "restart": self._restart}
            lines.put(msgspec.structs.replace(self.refusals.pop(0), **own))
        if self.card is not None and self.card != self._said_card:
            self._said_card = self.card
            lines.put(self.card)
            if self._rank == 0:
                lines.put(environment(self.card))
        if steps or last:
            rows = self._tracker.rows
            taken = [rows.popleft() for _ in range(len(rows))]
            for event in self._batches.events(taken, last=last):
                lines.put(event)
            of_rank = f"rank {self._rank}: " if self._plan.identity.world_size > 1 else ""
            while self._batches.said:
                said = of_rank + self._batches.said.pop(0)
                lines.put(ev.Log(level="warning", message=said))
        self._beat()
        if last and self._done is not None and not self._follows:
            lines.put(self._done)
        lines.flush()
        if self._samples is not None:
            self._samples.poll()

    def _beat(self) -> None:
        """Say where the training is: every two seconds, and soon where a step takes long."""
        tracker = self._tracker
        marks, place, now = tracker.marks, tracker.place, time.monotonic_ns()
        here = current([part for _, part, _ in marks]), marks[-1][0]
        endless = place.length is not None and place.length > MOST_STEPS  # as range(sys.maxsize)
        idle = tracker.steps == self._steps
        self._steps = tracker.steps
        new = idle and here != self._last_beat and not self._batches.rolled_up
        if not new and now - self._beat_ns < BEAT_NS and self._done is None:
            return
        self._beat_ns, self._last_beat = now, here
        memory = self.memory()
        compiles, compile_s = compiled()
        assert self._file is not None
        self._file.put(
            ev.LoopBeat(
                t=now,
                rank=self._rank,
                restart=self._restart,
                part=here[0],
                since_ns=min(now, here[1]),
                index=place.step,
                epoch=place.epoch,
                position=place.position,
                length=None if endless else place.length,
                dropped=tracker.dropped + self._file.lost,
                own_us=round(tracker.own_us(self.call_us), 1),
                updates_skipped=tracker.updates_skipped,
                allocated_bytes=None if memory is None else memory.allocated,
                peak_bytes=None if memory is None else memory.peak,
                reserved_bytes=None if memory is None else memory.reserved,
                alloc_retries=None if memory is None else memory.retries,
                rss_bytes=rss_bytes(),
                compiles=compiles,
                compile_s=round(compile_s, 3),
                looks=self._looks.count,
                blocked=self._looks.blocked.total(),
                blocked_at=self._looks.most,
            )
        )


class _Lines:
    """A rank's file, locked while it is written; lines wait while the disk takes none."""

    def __init__(self, run: Run, identity: Identity) -> None:
        path = run.path / loop_file(identity.rank, identity.restart)
        self.lost = 0  # steps of lines that the disk never took
        self._journal = JournalWriter(path)
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(self._journal.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._waiting: list[tuple[bytes, int]] = []
        self._retry_at = 0.0

    def put(self, event: ev.Event) -> None:
        """Take an event; the oldest steps give way where the disk takes none for long."""
        steps = 0
        if isinstance(event, ev.LoopSteps):
            steps = sum(event.counts) or len(next(iter(event.parts.values())))
        self._waiting.append((ev.encode(event), steps))
        if len(self._waiting) > MOST_LINES:
            self.lost += self._waiting.pop(MOST_LINES // 2)[1]

    def flush(self) -> None:
        """Write what waits; a disk that is full is asked again after a while."""
        if not self._waiting or time.monotonic() < self._retry_at:
            return
        try:
            self._journal.append_whole(b"".join(line for line, _ in self._waiting))
        except OSError:
            self._retry_at = time.monotonic() + RETRY_S
        else:
            self._waiting.clear()

    def fileno(self) -> int:
        """Of the file that holds the lock."""
        return self._journal.fileno()

    def close(self) -> None:
        """Let go of the file and its lock."""
        self._journal.let_go()
