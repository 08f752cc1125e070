"""Follows the sampler of the Monitor view in a thread of its own."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from llmprof.core.state.view import RunView
from llmprof.tui.session.feed import THREAD_JOIN_S
from llmprof.tui.session.monitoring import Monitoring, Watched

MACHINE_POLL_S = 0.25


@dataclass(frozen=True)
class MonitorSnapshot:
    """The machine at one moment; a new object whenever something came."""

    view: RunView = field(default_factory=RunView)
    error: str | None = None
    recording: str = ""  # how far it has come


class MonitorFeed:
    """Publishes the newest view; reading it never waits.

    The thread is a daemon and ends within a poll of close(); what it raises becomes the
    snapshot's error.
    """

    def __init__(self, monitoring: Monitoring) -> None:
        self._monitoring = monitoring
        self._stop = threading.Event()
        self._activity = False
        self._latest = MonitorSnapshot()
        self._thread = threading.Thread(target=self._run, name="llmprof-monitor", daemon=True)
        self._thread.start()

    @property
    def latest(self) -> MonitorSnapshot:
        """The newest snapshot."""
        return self._latest

    def show_activity(self, on: bool) -> None:
        """Have SM, tensor-core and DRAM activity read while they are in sight."""
        self._activity = on

    def close(self) -> None:
        """End the thread and the sampler; waits at most two seconds."""
        self._stop.set()
        self._thread.join(THREAD_JOIN_S)

    def _run(self) -> None:
        try:
            watch = self._monitoring.open(self._monitoring.interval_s, self._monitoring.gpus)
        except OSError as error:
            self._latest = MonitorSnapshot(error=f"cannot start the sampler: {error}")
            return
        try:
            self._follow(watch)
        except Exception as error:
            self._latest = MonitorSnapshot(self._latest.view, f"the monitor failed: {error}")
        finally:
            watch.close()

    def _follow(self, watch: Watched) -> None:
        told = False
        while not self._stop.is_set():
            if self._activity is not told:
                told = self._activity
                watch.show_activity(told)
            if watch.poll(MACHINE_POLL_S):
                self._latest = MonitorSnapshot(watch.view(), recording=watch.recording)
