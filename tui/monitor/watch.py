"""What the Monitor view watches: a sampler of its own, followed in a thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from llmprof.core.devices.sampler import INTERVAL_S
from llmprof.core.state.view import RunView

POLL_S = 0.25
JOIN_S = 2.0


class Watched(Protocol):
    """What gives views of the machine; core.devices.watch.Watch, or a stand-in."""

    def poll(self, timeout_s: float = 0.0) -> bool:
        """Take what has come."""

    def view(self) -> RunView:
        """What is known now."""

    @property
    def recording(self) -> str:
        """How far a recording has come; "" for what is live."""

    def show_activity(self, on: bool) -> None:
        """Have the activity counters read, or not."""

    def close(self) -> None:
        """End it."""


def watch_machine(interval_s: float, gpus: str | None) -> Watched:
    """A sampler process of this machine, followed."""
    from llmprof.core.devices.sampler_process import (  # not needed for the first frame
        SamplerProcess,
    )
    from llmprof.core.monitor.watch import Watch

    return Watch(SamplerProcess(interval_s, gpus))


@dataclass(frozen=True)
class Monitoring:
    """Which cards are watched and how often; open makes the watch.

    recorded tells of a recording on which card and when it was made, as far as that is known;
    None for this machine now. With of_run nothing is watched but the run in sight shown.
    """

    interval_s: float = INTERVAL_S
    gpus: str | None = None
    open: Callable[[float, str | None], Watched] = watch_machine
    recorded: tuple[str, ...] | None = None
    of_run: bool = False


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
        self._thread.join(JOIN_S)

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
            if watch.poll(POLL_S):
                self._latest = MonitorSnapshot(watch.view(), recording=watch.recording)
