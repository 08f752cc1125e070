"""Real runs in real processes, small enough for a CPU."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psutil

from llmprof.core.spec.case import Case
from llmprof.core.spec.shape import ModelShape
from llmprof.core.state.view import RunView
from llmprof.core.store.journal import Follower
from llmprof.core.store.run import Run, RunStore
from tests.waiting import PATIENCE_S, wait_for

SMALL = [
    "--model-size=tiny",
    "--d-model=64",
    "--d-ff=128",
    "--num-layers=2",
    "--num-heads=4",
    "--vocab-size=100",
    "--context-length=16",
    "--batch-size=2",
    "--device=cpu",
]
MINI = Case(  # a kernel profile of the smallest model, for a worker in the test's own process
    model=ModelShape(
        name="mini", d_model=32, d_ff=64, num_layers=2, num_heads=2, vocab_size=64, kv_heads=1
    ),
    probe="kernels",
    context_length=8,
    batch_size=1,
    warmup_steps=1,
    measure_steps=1,
    device="cpu",
    mode="forward-backward",
)
ENDLESS = ["--measure-steps", "1000000", "--mode", "train"]


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-P", "-m", "llmprof", *arguments]


def environment(home: Path) -> dict[str, str]:
    return {**os.environ, "LLMPROF_HOME": str(home)}


def llmprof(
    home: Path,
    *arguments: str,
    timeout: float = 2 * PATIENCE_S,
    preexec: Callable[[], None] | None = None,
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments),
        preexec_fn=preexec,
        env=environment(home),
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


@contextmanager
def started(home: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        command(*arguments),
        env=environment(home),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=PATIENCE_S)


def newest(home: Path) -> Run:
    return RunStore(home / "runs").find(None)


def wait_view(
    home: Path, condition: Callable[[RunView], bool], seconds: float = PATIENCE_S
) -> RunView:
    """The newest run's view once a condition holds for it."""
    wait_for(lambda: (home / "runs").is_dir() and RunStore(home / "runs").list(), "a run")
    with closing(Follower(newest(home).journal)) as follower:

        def came() -> bool:
            follower.poll()
            return condition(follower.view())

        wait_for(came, f"what a test waits for in {newest(home).id}", seconds)
        return follower.view()


def catches(pid: int, number: signal.Signals) -> bool:
    """Whether a process has a handler of its own for a signal."""
    status = Path(f"/proc/{pid}/status").read_text()
    caught = next(line for line in status.splitlines() if line.startswith("SigCgt:"))
    return bool(int(caught.split()[1], 16) >> (number - 1) & 1)


def measuring(view: RunView) -> bool:
    return view.current is not None and len(view.current.measured) > 0


def worker_pid(run: Run) -> int:
    from llmprof.core import events as ev

    pid = None
    for line in run.journal.read_bytes().splitlines():
        event = ev.decode(line)
        if isinstance(event, ev.CaseStarted):
            pid = event.pid
    assert pid is not None
    return pid


def engine_family(run: Run) -> list[psutil.Process]:
    pid = run.engine_pid()
    assert pid is not None
    engine = psutil.Process(pid)
    return [engine, *engine.children(recursive=True)]


def alive(processes: list[psutil.Process]) -> list[psutil.Process]:
    return [process for process in processes if _lives(process)]


def _lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
