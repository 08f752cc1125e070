"""A screen in a pseudo-terminal whose output is counted; shared by the screen's benchmarks."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

from in_turns import HERE, variables_of

from llmprof.core import events as ev
from llmprof.core.spec.case import Case
from llmprof.core.spec.experiment import Experiment
from llmprof.core.spec.shape import ModelShape
from llmprof.core.store.journal import JournalWriter
from llmprof.core.store.run import Run, RunStore

GIB = 2**30
CPU_CLOCK = 2  # of a process's clocks, the one that the scheduler keeps: clock_getcpuclockid(3)


class Screen:
    """A Python module in a terminal of 120 x 30, `llmprof` unless named; close() ends it.

    It runs this tree's llmprof unless another one is named, and keeps compiled bytecode as an
    installed program does, whatever this process was told.
    """

    def __init__(
        self,
        home: Path,
        *arguments: str,
        size: tuple[int, int] = (120, 30),
        program: tuple[str, ...] = ("-m", "llmprof"),
        tree: Path = HERE,
    ) -> None:
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
        variables = {**variables_of(tree), "TERM": "xterm-256color", "COLORTERM": "truecolor",
                     "LANG": "C.UTF-8", "LLMPROF_HOME": str(home)}  # fmt: skip
        self.started = time.perf_counter()
        self.process = subprocess.Popen(
            [sys.executable, *program, *arguments],
            stdin=slave, stdout=slave, stderr=slave, env=variables, start_new_session=True,
        )  # fmt: skip
        os.close(slave)
        self.bytes = 0

    def read_until(self, text: bytes, seconds: float = 60.0) -> float:
        """Seconds from now until a text was sent. Raises TimeoutError."""
        start, seen = time.perf_counter(), b""
        while text not in seen:
            if time.perf_counter() - start > seconds:
                raise TimeoutError(text)
            seen = seen[-200:] + self._take(0.5)
        return time.perf_counter() - start

    def watch(self, seconds: float) -> tuple[float, float]:
        """CPU share in percent of one core and bytes per second over some time."""
        cpu, sent, start = self.cpu_s(), self.bytes, time.perf_counter()
        while (left := start + seconds - time.perf_counter()) > 0:
            self._take(left)
        took = time.perf_counter() - start
        return 100 * (self.cpu_s() - cpu) / took, (self.bytes - sent) / took

    def cpu_s(self) -> float:
        """Processor seconds of the screen's process so far."""
        return time.clock_gettime((~self.process.pid << 3) | CPU_CLOCK)

    def resident_bytes(self) -> int:
        """Resident memory of the screen's process."""
        pages = Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def send(self, keys: bytes) -> None:
        """Type."""
        os.write(self.master, keys)

    def close(self) -> None:
        """End it and what it started."""
        self.process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + 10
        while self.process.poll() is None and time.monotonic() < deadline:
            self._take(0.1)
        self.process.kill()
        self.process.wait()
        os.close(self.master)

    def _take(self, seconds: float) -> bytes:
        if not select.select([self.master], [], [], max(0.0, seconds))[0]:
            return b""
        try:
            data = os.read(self.master, 1 << 16)
        except OSError:
            return b""
        self.bytes += len(data)
        return data


class Stream:
    """A live run: an engine's events, written as fast as asked, with its lock held."""

    def __init__(self, home: Path, steps: int = 1_000_000) -> None:
        self.run: Run = RunStore(home / "runs").create("stream")
        self._lock = self.run.lock()
        self._lock.__enter__()
        self.journal = JournalWriter(self.run.journal)
        model = ModelShape(name="tiny", d_model=512, d_ff=1344, num_layers=4, num_heads=16)
        plan = Experiment(name="stream", models=(model,), measure_steps=steps)
        self.case: Case = plan.cases()[0]
        self.index = 0
        self.put(ev.Segment(boot_id="b", wall_ns=time.time_ns(), pid=os.getpid(), version="0"))
        self.put(ev.RunStarted(run_id=self.run.id, experiment=plan, cases=plan.cases(),
                               command=("llmprof",)))  # fmt: skip
        self.put(ev.Environment(device="cuda:0", device_name="synthetic"))
        self.put(ev.CaseStarted(case=0, pid=1))
        self.put(ev.ModelBuilt(case=0, parameters=model.parameters, parameter_tensors=39,
                               parameter_dtypes=("float32",)))  # fmt: skip

    def put(self, event: ev.Event) -> None:
        """Write one event."""
        self.journal.append(event)

    def step(self, t: int | None = None) -> None:
        """One measured step of about 10 ms; every hundredth is slow."""
        total = 10.0 + (self.index * 7919 % 101) / 100 + (8.0 if self.index % 100 == 99 else 0.0)
        now = time.monotonic_ns() if t is None else t
        phases = (total * 0.3, total * 0.01, total * 0.58, total * 0.1, total * 0.01)
        self.put(ev.StepDone(t=now, case=0, index=self.index, warmup=False, start_ns=now,
                             wall_ms=total * 1.01, total_ms=total, device_ms=phases,
                             host_ms=phases, loss=9.2, allocated_bytes=3 * GIB))  # fmt: skip
        self.index += 1

    def sample(self, t: int | None = None) -> None:
        """One reading of a card and the host."""
        busy = 80.0 + self.index * 31 % 20
        names = {"utilization": busy, "memory_used": 20.0 * GIB, "memory_total": 80.0 * GIB,
                 "power": 400 + busy, "power_limit": 700.0, "temperature": 55.0}  # fmt: skip
        metrics = {name: ev.Metric(value) for name, value in names.items()}
        self.put(ev.DeviceSample(
            t=time.monotonic_ns() if t is None else t,
            host=ev.HostSample(cpu_percent=30.0, memory_used_bytes=9 * GIB,
                               memory_total_bytes=64 * GIB),
            cards=(ev.CardSample(index=0, metrics=metrics),)))  # fmt: skip

    def close(self) -> None:
        """Let go of journal and lock."""
        self.journal.close()
        self._lock.__exit__(None, None, None)
