"""Samples of a machine's devices beside a loop: the sampler's process, and a file of its own."""

from __future__ import annotations

import contextlib
import os
import time

import msgspec

from llmprof.core import events as ev
from llmprof.core.devices.sampler_client import SamplerProcess
from llmprof.core.events.merge import merge
from llmprof.core.store.files import samples_file
from llmprof.core.store.journal import JournalWriter
from llmprof.core.store.run import Run
from llmprof.core.system.boot import boot_id
from llmprof.core.track.identity import Identity
from llmprof.version import __version__

INTERVAL_S = 1.0
CHECK_S = 1.0
WHOLE_S = 3600.0  # all samples of the first hour are kept, later ones thinned
THINNED_S = 10.0


class Samples:
    """Polled by the writer's thread. Raises OSError where the file can't be opened."""

    def __init__(self, run: Run, identity: Identity) -> None:
        self._journal = JournalWriter(run.path / samples_file(identity.rank, identity.restart))
        self._sampler = SamplerProcess(INTERVAL_S)
        self._began = self._checked = time.monotonic()
        self._merged: ev.DeviceSample | None = None
        self._written = 0.0
        segment = ev.Segment(
            boot_id=boot_id(), wall_ns=time.time_ns(), pid=os.getpid(), version=__version__
        )
        self._journal.append(segment)

    def poll(self) -> None:
        """Write what has come; what a full disk does not take is gone."""
        lines = self._sampler.read()
        now = time.monotonic()
        if lines:
            with contextlib.suppress(OSError):
                self._journal.append_whole(self._thinned(lines, now))
        if now - self._checked >= CHECK_S:
            self._checked = now
            for event in self._sampler.check():
                with contextlib.suppress(OSError):
                    self._journal.append_whole(ev.encode(event))

    def close(self) -> None:
        """End the sampler and let go of the file."""
        self._sampler.close()
        self._journal.let_go()

    def forget(self) -> None:
        """In a forked child: let go of what is the parent's."""
        self._sampler.forget()
        self._journal.let_go()

    def _thinned(self, lines: bytes, now: float) -> bytes:
        """All lines of the first hour; then one in a while, with all that was read meanwhile."""
        if now - self._began < WHOLE_S:
            return lines
        for line in lines.splitlines():
            with contextlib.suppress(msgspec.DecodeError, ValueError):
                sample = ev.decode(line)
                if isinstance(sample, ev.DeviceSample):
                    self._merged = sample if self._merged is None else merge(self._merged, sample)
        if self._merged is None or now - self._written < THINNED_S:
            return b""
        self._written = now
        sample, self._merged = self._merged, None
        return ev.encode(sample)
