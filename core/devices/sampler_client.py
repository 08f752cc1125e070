"""The sampler as a child process that can be killed when the driver hangs."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence

import msgspec

from llmprof.core import events as ev
from llmprof.core.devices.sampler import INTERVAL_S
from llmprof.core.system.descriptors import Held, pipe
from llmprof.core.system.modules_by_name import SAMPLER
from llmprof.core.system.text import cause

DEADLINE_S = 10.0  # silence after which a sampler counts as hung
FIRST_RETRY_S = 1.0
LAST_RETRY_S = 60.0
_READ = 1 << 16
_CLOSED = "the devices are not sampled any more: the program closed the pipes to their sampler"


class SamplerProcess:
    """Starts the sampler in a process group of its own and keeps one alive.

    fd stays the same over restarts: select on it, then read(); call check() about once a
    second. Not thread-safe.
    """

    def __init__(
        self,
        interval_s: float = INTERVAL_S,
        gpus: str | None = None,
        *,
        activity: bool = False,
        deadline_s: float = DEADLINE_S,
        command: Sequence[str] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._command = tuple(command or sampler_command(interval_s, gpus))
        self._deadline_s = max(deadline_s, 4 * interval_s)
        self._activity = activity
        self._clock = clock
        self._samples, self._samples_in = pipe()
        self.fd = self._samples.fileno()  # readable when samples wait
        os.set_blocking(self.fd, False)
        self._process: subprocess.Popen[bytes] | None = None
        self._undead: list[subprocess.Popen[bytes]] = []  # killed, not yet gone
        self._rest = b""
        self._last_line = b""
        self._retry_s = FIRST_RETRY_S
        self._start_at: float | None = None
        self._refused = ""  # why the newest could not be started
        self._closed = False
        self._orders: Held | None = None
        self._lifeline: Held | None = None
        self._start()

    @property
    def pid(self) -> int | None:
        """Process id, None between a failure and the next start."""
        return None if self._process is None else self._process.pid

    def read(self) -> bytes:
        """Whole event lines that have come, b"" when none; never blocks."""
        if self._closed:
            return b""
        chunks = [self._rest]
        with contextlib.suppress(OSError):  # none wait, or the pipe is not ours any more
            while chunk := os.read(self._samples.fileno(), _READ):
                chunks.append(chunk)
                self._heard_at = self._clock()
                if len(chunks) > 64:
                    break
        lines, newline, self._rest = b"".join(chunks).rpartition(b"\n")
        if lines:
            self._last_line = lines[lines.rfind(b"\n") + 1 :]
        return lines + newline

    def check(self) -> list[ev.Log | ev.DeviceSample]:
        """Look after the process; what happened to it as events for the journal.

        A sampler that ended or was silent beyond the deadline is killed with its group, its
        cards are marked stale, and a new one starts after a pause that doubles each time; so it
        does after one that could not be started. Call read() first: what it left unread is lost
        when the sampler has to be killed. Sampling ends where the program has closed the pipes,
        whose numbers may be other files' by then.
        """
        self._undead = [process for process in self._undead if process.poll() is None]
        now = self._clock()
        if self._closed:
            return []
        if not all(held.ours for held in self._held()):
            self.close()
            return [ev.Log(message=_CLOSED, level="warning")]
        if self._process is None:
            if self._start_at is not None and now >= self._start_at:
                self._start()
            refused, self._refused = self._refused, ""
            return self._failed(refused) if refused else []
        code = self._process.poll()
        silent_s = now - self._heard_at
        if code is not None:
            return self._failed(f"the device sampler ended with exit code {code}")
        if silent_s > self._deadline_s:
            return self._failed(
                f"the device sampler was silent for {silent_s:.0f} s, probably hung in the "
                "driver, and was killed"
            )
        if now - self._started_at > LAST_RETRY_S:
            self._retry_s = FIRST_RETRY_S
        return []

    def show_activity(self, on: bool) -> None:
        """Have SM, tensor-core and DRAM activity read while a view shows them."""
        self._activity = on
        self._tell("activity on" if on else "activity off")

    def close(self, timeout_s: float = 1.0) -> None:
        """End the process and everything in its group; may be called twice."""
        if self._closed:
            return
        self._closed = True
        if self._process is not None:
            self._end(self._process, timeout_s)
            self._process = None
        for held in self._held():
            held.close()

    def forget(self) -> None:
        """In a forked child: let go of the descriptors; the process is the parent's."""
        if self._closed:
            return
        self._closed = True
        for held in self._held():
            held.close()

    def _held(self) -> list[Held]:
        """What is open of it in this process."""
        every = (self._samples, self._samples_in, self._orders, self._lifeline)
        return [held for held in every if held is not None]

    def _start(self) -> None:
        """Start a process; where the machine gives none, check() says so."""
        self._start_at = None
        self._heard_at = self._started_at = self._clock()
        theirs: list[Held] = []
        try:
            orders, self._orders = pipe()
            theirs.append(orders)
            lifeline, self._lifeline = pipe()
            theirs.append(lifeline)
            self._process = subprocess.Popen(
                [*self._command, "--lifeline", str(lifeline.fileno())],
                stdin=orders.fileno(),
                stdout=self._samples_in.fileno(),
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                pass_fds=(lifeline.fileno(),),
            )
        except OSError as error:
            self._refused = f"the device sampler could not be started: {cause(error)}"
            self._close_orders()
            self._close_lifeline()
        for held in theirs:
            held.close()
        if self._activity:
            self._tell("activity on")

    def _tell(self, line: str) -> None:
        if self._orders is not None:
            with contextlib.suppress(OSError):
                os.write(self._orders.fileno(), line.encode() + b"\n")

    def _failed(self, what: str) -> list[ev.Log | ev.DeviceSample]:
        if self._process is not None:
            self._end(self._process, 0.0)
            self._process = None
        self._drain()
        pause = self._retry_s
        self._retry_s = min(2 * pause, LAST_RETRY_S)
        self._start_at = self._clock() + pause
        message = f"{what}; the next one starts in {pause:.0f} s"
        return [ev.Log(message=message, level="warning"), self._stale_sample(what)]

    def _stale_sample(self, reason: str) -> ev.DeviceSample:
        cards: tuple[ev.CardSample, ...] = ()
        with contextlib.suppress(msgspec.DecodeError, ValueError):
            last = ev.decode(self._last_line)
            if isinstance(last, ev.DeviceSample):
                cards = tuple(_stale(card, reason) for card in last.cards)
        return ev.DeviceSample(host=ev.HostSample(), cards=cards, cards_reason=reason)

    def _drain(self) -> None:
        """Drop a line that the dead sampler left torn."""
        self._rest = b""
        with contextlib.suppress(OSError):
            while os.read(self._samples.fileno(), _READ):
                pass

    def _end(self, process: subprocess.Popen[bytes], timeout_s: float) -> None:
        self._close_orders()
        with contextlib.suppress(subprocess.TimeoutExpired):
            if timeout_s:
                process.wait(timeout_s)
        if process.returncode is None:  # once it is reaped the number may be another's
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
        self._close_lifeline()
        try:
            process.wait(1.0)
        except subprocess.TimeoutExpired:  # stuck in the kernel: looked after by check()
            self._undead.append(process)

    def _close_orders(self) -> None:
        if self._orders is not None:
            self._orders.close()
            self._orders = None

    def _close_lifeline(self) -> None:
        if self._lifeline is not None:
            self._lifeline.close()
            self._lifeline = None


def sampler_command(interval_s: float, gpus: str | None) -> list[str]:
    """The command line of a sampler process."""
    command = [sys.executable, "-P", "-m", SAMPLER, "--interval", str(interval_s)]
    return command if gpus is None else [*command, "--gpus", gpus]


def _stale(card: ev.CardSample, reason: str) -> ev.CardSample:
    metrics = {name: ev.Metric(None, reason) for name in card.metrics}
    return msgspec.structs.replace(
        card, state="stale", metrics=metrics, throttle=(), processes=None
    )
