"""Follows a journal in a thread of its own and publishes frozen views of the run."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path

from llmprof.core.store.journal import Follower
from llmprof.tui.kit.snapshot import Snapshot
from llmprof.tui.session.curves import total_of

FEED_POLL_S = 0.1
THREAD_JOIN_S = 2.0


class Feed:
    """The newest snapshot of one journal; reading it never waits.

    The thread is a daemon and ends within a poll of close(); what it raises becomes the
    snapshot's error, since a bare thread's exceptions would vanish.
    """

    def __init__(self, path: Path, poll_s: float = FEED_POLL_S) -> None:
        self.path = path
        self._poll_s = poll_s
        self._stop = threading.Event()
        self._latest = Snapshot(loading=True)
        self.reads = 0  # how often all that was there has been read
        self._thread = threading.Thread(target=self._run, name="llmprof-feed", daemon=True)
        self._thread.start()

    @property
    def latest(self) -> Snapshot:
        """The newest snapshot."""
        return self._latest

    def close(self, *, wait: bool = True) -> None:
        """End the thread; waits for it at most two seconds."""
        self._stop.set()
        if wait:
            self._thread.join(THREAD_JOIN_S)

    @property
    def alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    def _run(self) -> None:
        follower = Follower(self.path)
        try:
            while not self._stop.is_set():
                came = self._take(follower)
                self.reads += 1
                self._stop.wait(self._poll_s)
                if not came and self._latest.loading:
                    self._publish(follower, loading=False)
        except Exception as error:
            self._latest = Snapshot(
                self._latest.view,
                self._latest.version + 1,
                error=f"cannot read {self.path}: {error}",
            )
        finally:
            with contextlib.suppress(OSError):
                follower.close()

    def _take(self, follower: Follower) -> bool:
        """Apply everything that is there; publish when something was."""
        came = False
        while not self._stop.is_set() and follower.poll():
            came = True
        if came:
            self._publish(follower, loading=False)
        return came

    def _publish(self, follower: Follower, *, loading: bool) -> None:
        view = follower.view()
        for case in view.cases:
            if case.done:  # worked out here, not on the event loop
                _ = total_of(case), case.host_share
        self._latest = Snapshot(view, self._latest.version + 1, loading)
