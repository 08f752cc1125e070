"""Threads, affinity and quota are part of where a run was measured."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from llmprof.core import events as ev
from llmprof.core.store.run import Run
from tests.engine.runs import SMALL, llmprof, newest
from tests.waiting import wait_for

CPUS = sorted(os.sched_getaffinity(0))
CGROUP = Path("/sys/fs/cgroup")


def without_a_cell(run: Run) -> None:
    """As if the run had been killed before its last cell."""
    lines = run.journal.read_bytes().splitlines(keepends=True)
    kept = []
    for line in lines:
        event = ev.decode(line)
        if getattr(event, "case", None) != 1 and not isinstance(event, ev.RunDone):
            kept.append(line)
    run.journal.write_bytes(b"".join(kept))


@pytest.fixture
def unfinished(tmp_path: Path) -> Path:
    done = llmprof(
        tmp_path, "run", *SMALL, "--mode=forward,train", "--measure-steps=2", "--warmup-steps=1"
    )
    assert done.returncode == 0, done.stderr
    without_a_cell(newest(tmp_path))
    return tmp_path


def refused(home: Path, preexec: Callable[[], None] | None = None) -> str:
    done = llmprof(home, "resume", preexec=preexec)
    assert done.returncode == 2, done.stdout
    line = done.stderr.splitlines()[-1]
    assert "not resumed" in line
    assert "--elsewhere goes on all the same" in line
    return line


@pytest.mark.skipif(len(CPUS) < 2, reason="one CPU is all there is")
def test_a_run_is_not_resumed_with_fewer_threads_or_cpus(
    unfinished: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = refused(unfinished, lambda: os.sched_setaffinity(0, CPUS[:1]))
    assert f"usable CPUs {len(CPUS)} against 1" in said
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    said = refused(unfinished)
    assert "against 1" in said
    assert "OMP_NUM_THREADS unset against 1" in said
    done = llmprof(unfinished, "resume", "--elsewhere", f"--export={unfinished / 'r.md'}")
    assert done.returncode == 0, done.stderr
    text = (unfinished / "r.md").read_text("utf-8")
    assert "measured elsewhere: threads" in text.replace("\\_", "_")


def removed(folder: Path) -> bool:
    with contextlib.suppress(OSError):
        folder.rmdir()
    return not folder.exists()


@contextlib.contextmanager
def half_a_cpu() -> Iterator[Path]:
    """A cgroup with a quota, where one may be made."""
    unified = (CGROUP / "cgroup.controllers").exists()
    folder = (CGROUP if unified else CGROUP / "cpu") / f"llmprof-test-{os.getpid()}"
    try:
        folder.mkdir()
        if unified:
            (folder / "cpu.max").write_text("50000 100000")
        else:
            (folder / "cpu.cfs_period_us").write_text("100000")
            (folder / "cpu.cfs_quota_us").write_text("50000")
    except OSError as error:
        with contextlib.suppress(OSError):
            folder.rmdir()
        pytest.skip(f"no cgroup can be made here: {error}")
    try:
        yield folder
    finally:
        wait_for(lambda: removed(folder), "an empty cgroup")


@pytest.mark.timeout(600)
def test_a_quota_that_holds_a_run_back_is_named(tmp_path: Path) -> None:
    with half_a_cpu() as folder:

        def enter() -> None:
            (folder / "cgroup.procs").write_text(str(os.getpid()))

        done = llmprof(
            tmp_path,
            "run",
            "--model-size=tiny",
            "--device=cpu",
            "--mode=forward",
            "--measure-steps=20",
            "--warmup-steps=1",
            f"--export={tmp_path / 'r.json'}",
            preexec=enter,
            timeout=500,  # torch is imported with half a CPU
        )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads((tmp_path / "r.json").read_text("utf-8"))
    assert found["environment"]["cpu_quota"] == 0.5
    (case,) = found["cases"]
    assert case["observed"]["throttled_periods"] > 0
    rules = {verdict["rule"]: verdict["text"] for verdict in case["verdicts"]}
    assert "shared-cpu" not in rules
    assert rules["throttled"].startswith("the quota of 0.5 CPUs held it back for ")
