"""The sampler as a process: ends with whoever listens, is replaced when it hangs."""

from __future__ import annotations

import errno
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from llmprof.core import events as ev
from llmprof.core.devices.sampler_client import SamplerProcess
from tests.engine.nvml_library import build, environment
from tests.waiting import PATIENCE_S, wait_for

# Writes two samples and then is silent, as a driver call that never returns.
SILENT = """
import signal, sys
from llmprof.core import events as ev
card = ev.CardSample(index=3, name="H100", metrics={"power": ev.Metric(5.0)})
for _ in range(2):
    sys.stdout.buffer.write(ev.encode(ev.DeviceSample(host=ev.HostSample(), cards=(card,))))
sys.stdout.buffer.write(b'{"kind":"DeviceSa')
sys.stdout.buffer.flush()
signal.pause()
"""


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def read_events(sampler: SamplerProcess, count: int) -> list[ev.AnyEvent]:
    """At least `count` events, or what came in time."""
    end, lines = time.monotonic() + PATIENCE_S, b""
    while lines.count(b"\n") < count and time.monotonic() < end:
        select.select([sampler.fd], [], [], 0.2)
        lines += sampler.read()
    assert lines.endswith(b"\n")
    return [ev.decode(line) for line in lines.splitlines()]


def open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def next_events(sampler: SamplerProcess) -> list[ev.AnyEvent]:
    """What the next check that finds something tells."""
    found: list[ev.AnyEvent] = []

    def came() -> bool:
        found.extend(sampler.check())
        return bool(found)

    wait_for(came, "an event of the sampler")
    return found


@pytest.fixture
def sampler() -> Iterator[SamplerProcess]:
    process = SamplerProcess(0.05)
    yield process
    process.close()


def test_samples_come_as_whole_lines(sampler: SamplerProcess) -> None:
    events = read_events(sampler, 4)
    assert all(isinstance(event, ev.DeviceSample) for event in events)
    times = [event.t for event in events]
    assert times == sorted(times)
    last = events[-1]
    assert isinstance(last, ev.DeviceSample)
    assert last.host.memory_total_bytes
    assert last.cost_ms is not None
    assert sampler.check() == []


def test_closing_leaves_nothing(sampler: SamplerProcess) -> None:
    read_events(sampler, 1)
    pid, files = sampler.pid, open_files()
    assert pid is not None
    assert os.getpgid(pid) == pid
    sampler.close()
    assert not psutil.pid_exists(pid)
    assert open_files() == files - 4  # both pipes, stdin, lifeline
    sampler.close()
    assert sampler.read() == b""
    assert sampler.check() == []


def test_an_interrupt_from_the_keyboard_does_not_end_it(sampler: SamplerProcess) -> None:
    read_events(sampler, 1)
    assert sampler.pid is not None
    os.kill(sampler.pid, signal.SIGINT)
    assert len(read_events(sampler, 3)) >= 3


def test_a_sampler_that_ends_is_replaced_after_growing_pauses() -> None:
    clock = Clock()
    sampler = SamplerProcess(command=[sys.executable, "-c", "raise SystemExit(7)"], clock=clock)
    pauses = []
    try:
        for _ in range(8):
            log, stale = next_events(sampler)
            assert isinstance(log, ev.Log)
            assert "exit code 7" in log.message
            assert isinstance(stale, ev.DeviceSample)
            pauses.append(int(log.message.split()[-2]))
            assert sampler.pid is None
            assert sampler.check() == []
            clock.now += pauses[-1]
            sampler.check()
            assert sampler.pid is not None
    finally:
        sampler.close()
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60]


def test_a_sampler_that_cannot_be_started_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(*_: object, **__: object) -> None:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    clock, files = Clock(), open_files()
    with monkeypatch.context() as full:
        full.setattr(subprocess, "Popen", refuses)
        sampler = SamplerProcess(0.05, clock=clock)
        for pause in (1, 2, 4):
            log, stale = sampler.check()
            assert isinstance(log, ev.Log)
            assert "could not be started: Resource temporarily unavailable" in log.message
            assert isinstance(stale, ev.DeviceSample)
            assert sampler.check() == []
            clock.now += pause
            assert open_files() == files + 2  # the pipe of samples
    try:
        assert sampler.check() == []
        assert len(read_events(sampler, 2)) >= 2
    finally:
        sampler.close()
    assert open_files() == files


def test_a_silent_sampler_is_killed_marked_and_replaced() -> None:
    clock = Clock()
    sampler = SamplerProcess(command=[sys.executable, "-c", SILENT], clock=clock)
    try:
        assert len(read_events(sampler, 2)) == 2
        first = sampler.pid
        assert first is not None
        clock.now += 9
        assert sampler.check() == []
        clock.now += 2
        log, stale = sampler.check()
        assert isinstance(log, ev.Log)
        assert "silent for 11 s" in log.message
        assert isinstance(stale, ev.DeviceSample)
        card = stale.cards[0]
        assert (card.index, card.state) == (3, "stale")
        assert card.metrics["power"].value is None
        wait_for(lambda: gone(first), "the end of the silent sampler")
        clock.now += 1
        sampler.check()
        assert len(read_events(sampler, 2)) == 2  # the torn line is not glued to the next one
        assert sampler.pid not in (None, first)
    finally:
        sampler.close()


def test_a_call_that_hangs_in_the_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in environment(build(tmp_path), "hang").items():
        monkeypatch.setenv(name, value)
    clock = Clock()
    sampler = SamplerProcess(0.05, clock=clock)
    try:
        events = read_events(sampler, 3)
        assert any(isinstance(event, ev.DeviceSample) and event.cards for event in events)
        end = time.monotonic() + 20
        while time.monotonic() < end and select.select([sampler.fd], [], [], 1.0)[0]:
            sampler.read()
        pid = sampler.pid
        assert pid is not None
        clock.now += 11
        assert "hung in the driver" in str(sampler.check()[0])
        wait_for(lambda: gone(pid), "the end of the sampler")
    finally:
        sampler.close()


OWNER = """
import signal
from llmprof.core.devices.sampler_client import SamplerProcess
sampler = SamplerProcess(0.05)
print(sampler.pid, flush=True)
signal.pause()
"""


def watches_its_lifeline(pid: int) -> bool:
    """Whether a file of the process has O_ASYNC set, as lifeline.die_with does."""
    for entry in Path(f"/proc/{pid}/fdinfo").iterdir():
        try:
            lines = entry.read_text().splitlines()
        except FileNotFoundError:  # closed since it was listed
            continue
        flags = next(line for line in lines if line.startswith("flags:"))
        if int(flags.split()[1], 8) & os.O_ASYNC:
            return True
    return False


@pytest.mark.parametrize("stopped", [False, True])
def test_it_dies_with_an_owner_that_is_killed(stopped: bool) -> None:
    owner = subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    pid = int(owner.stdout.readline())
    wait_for(lambda: watches_its_lifeline(pid), "a watch of the lifeline")
    if stopped:
        os.kill(pid, signal.SIGSTOP)
    owner.kill()
    owner.wait()
    owner.stdout.close()
    wait_for(lambda: gone(pid), "the end of the sampler")


def test_alone_it_ends_with_its_standard_input_and_output() -> None:
    command = [sys.executable, "-m", "llmprof.core.devices", "--interval", "0.05"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    assert isinstance(ev.decode(process.stdout.readline()), ev.DeviceSample)
    process.stdout.close()
    assert process.wait(PATIENCE_S) == 0
    process.stdin.close()
    done = subprocess.run(command, input=b"", capture_output=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0


def test_arguments_that_make_no_sense() -> None:
    command = [sys.executable, "-m", "llmprof.core.devices", "--gpus", "x"]
    done = subprocess.run(command, input=b"", capture_output=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 2
    assert b"neither a GPU index" in done.stderr


def test_files_of_a_program_that_closed_its_pipes_are_left_alone(
    sampler: SamplerProcess, tmp_path: Path
) -> None:
    """As where a watched script closes all that is open and goes on with files of its own."""
    read_events(sampler, 1)
    pid, numbers = sampler.pid, [held.fileno() for held in sampler._held()]
    assert pid is not None
    with (tmp_path / "mine").open("w+b") as mine:
        mine.write(b"mine")
        mine.flush()
        for number in numbers:
            os.dup2(mine.fileno(), number)
        mine.seek(0)
        wait_for(lambda: gone(pid), "the end of the sampler")
        assert sampler.read() == b""
        assert mine.tell() == 0  # nothing was taken from it
        (said,) = sampler.check()
        assert "closed the pipes" in str(said)
        sampler.close()
        for number in numbers:
            os.close(number)  # open still
        assert mine.read() == b"mine"


def test_a_forked_child_lets_go_of_its_own_alone(sampler: SamplerProcess, tmp_path: Path) -> None:
    process, numbers = sampler._process, [held.fileno() for held in sampler._held()]
    assert process is not None
    with (tmp_path / "mine").open("w+b") as mine:
        os.dup2(mine.fileno(), numbers[0])
        sampler.forget()
        os.close(numbers[0])  # open still
    for number in numbers[1:]:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(number)
    process.wait(PATIENCE_S)  # it ends with its last lifeline
