"""How runs end: killed workers, killed engines, signals, silence."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
from pathlib import Path

import psutil
import pytest

from llmprof.core.state.view import RunView
from llmprof.core.store.journal import replay
from tests.engine.runs import (
    ENDLESS,
    SMALL,
    alive,
    catches,
    engine_family,
    llmprof,
    measuring,
    newest,
    started,
    wait_view,
    worker_pid,
)
from tests.waiting import PATIENCE_S, wait_for


def second_case_runs(view: RunView) -> bool:
    return len(view.cases) > 1 and view.cases[1].status in ("running", "ok")


def test_a_killed_worker_is_a_row_and_the_next_case_is_measured(tmp_path: Path) -> None:
    arguments = ["run", *SMALL, *ENDLESS, "--batch-size=2,3"]
    with started(tmp_path, *arguments) as process:
        wait_view(tmp_path, measuring)
        os.kill(worker_pid(newest(tmp_path)), signal.SIGKILL)
        view = wait_view(tmp_path, lambda v: second_case_runs(v) and v.cases[1].status == "running")
        wait_view(tmp_path, lambda v: len(v.cases[1].measured) > 0)
        assert view.cases[0].status == "killed"
        assert view.cases[0].failure is not None
        assert "SIGKILL" in view.cases[0].failure.message
        assert len(view.cases[0].measured) > 0
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 130


def test_a_killed_profiler_is_the_kernels_part_of_its_case(tmp_path: Path) -> None:
    target = tmp_path / "r.md"
    profile = [
        "run",
        "kernels",
        *SMALL,
        "--mode=train",
        "--profile-steps=100",
        "--warmup-steps=100",
    ]
    with started(tmp_path, *profile, f"--export={target}") as process:
        wait_view(tmp_path, lambda v: len(v.cases) == 2 and len(v.cases[1].warmup) > 0, 180)
        os.kill(worker_pid(newest(tmp_path)), signal.SIGKILL)
        _, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1
    view = wait_view(tmp_path, lambda v: v.outcome is not None)
    assert [state.status for state in view.cases] == ["ok", "killed"]
    (line,) = [each for each in errors.splitlines() if each.startswith("llmprof: ")]
    assert "kernels · tiny" in line
    assert "killed by SIGKILL" in line
    assert line.endswith("; the timing of the same case (case 1) is kept")
    report = target.read_text("utf-8")
    assert "| done (1) " in report
    assert "| killed (2) " in report
    assert "missing (2)" not in report


@pytest.mark.parametrize("asleep", [False, True], ids=["working", "stopped"])
def test_a_killed_engine_leaves_nothing_alive_and_a_run_that_exports(
    tmp_path: Path, asleep: bool
) -> None:
    with started(tmp_path, "run", *SMALL, *ENDLESS):
        wait_view(tmp_path, measuring)
        run = newest(tmp_path)
        family = engine_family(run)
        assert len(family) >= 4  # engine, forkserver, worker, sampler
        if asleep:
            os.kill(worker_pid(run), signal.SIGSTOP)
        os.kill(family[0].pid, signal.SIGKILL)
        wait_for(lambda: not alive(family))
    assert not run.alive()
    target = tmp_path / "r.json"
    assert llmprof(tmp_path, "show", "last", f"--export={target}").returncode == 0
    document = json.loads(target.read_text("utf-8"))
    assert document["outcome"] == "interrupted"
    assert document["cases"][0]["status"] == "killed"
    assert document["cases"][0]["phases"]["total"]["n"] > 0
    (listed,) = json.loads(llmprof(tmp_path, "runs", "--json").stdout)
    assert listed["status"] == "interrupted"


def forkserver_of(process: subprocess.Popen[str]) -> psutil.Process | None:
    family = psutil.Process(process.pid).children(recursive=True)
    return next((each for each in family if "forkserver" in " ".join(each.cmdline())), None)


def test_an_engine_killed_before_it_measured_is_no_wrong_usage(tmp_path: Path) -> None:
    with started(tmp_path, "run", *SMALL, *ENDLESS) as process:
        wait_for(lambda: forkserver_of(process) is not None)
        (engine,) = psutil.Process(process.pid).children()
        engine.kill()
        _, errors = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, errors) == (1, "llmprof: the engine was killed by SIGKILL\n")
    assert json.loads(llmprof(tmp_path, "runs", "--json").stdout) == []


def test_an_engine_that_fails_before_it_measured_keeps_its_log(tmp_path: Path) -> None:
    with started(tmp_path, "run", *SMALL, "--warmup-steps=1", "--measure-steps=2") as process:
        wait_for(lambda: forkserver_of(process) is not None)
        server = forkserver_of(process)
        assert server is not None
        server.kill()
        _, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1, errors
    (line,) = errors.splitlines()
    log = Path(line.rpartition("; see ")[2])
    assert line.startswith("llmprof: the engine ended with 1: ")
    assert log.read_text("utf-8").splitlines()[-1] in line
    resumed = llmprof(tmp_path, "resume")
    assert resumed.returncode == 0, resumed.stderr


def test_ctrl_c_stops_after_journalling_and_exports(tmp_path: Path) -> None:
    target = tmp_path / "r.md"
    with started(tmp_path, "run", *SMALL, *ENDLESS, f"--export={target}") as process:
        wait_view(tmp_path, measuring)
        family = engine_family(newest(tmp_path))
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 130
        wait_for(lambda: not alive(family))
    view = replay(newest(tmp_path).journal)
    assert view.outcome == "stopped"
    assert view.cases[0].failure is not None
    assert view.cases[0].failure.message == "the run was stopped"
    report = target.read_text("utf-8")
    assert "**stopped**" in report
    assert "| stopped | the run was stopped |" in report
    assert "killed" not in report


def test_sigterm_exits_with_143(tmp_path: Path) -> None:
    with started(tmp_path, "run", *SMALL, *ENDLESS) as process:
        wait_view(tmp_path, measuring)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 143


def test_an_engine_stops_when_its_owner_is_killed(tmp_path: Path) -> None:
    with started(tmp_path, "run", *SMALL, *ENDLESS) as process:
        wait_view(tmp_path, measuring)
        family = engine_family(newest(tmp_path))
        process.kill()
        wait_for(lambda: not alive(family))
    assert replay(newest(tmp_path).journal).outcome == "stopped"


def test_silence_past_the_deadline_is_a_timeout(tmp_path: Path) -> None:
    done = llmprof(
        tmp_path,
        "run",
        "--model-size=small",
        "--device=cpu",
        "--context-length=1024",
        "--mode=forward",
        "--measure-steps=2",
        "--timeout=0.6",
        f"--export={tmp_path / 'r.json'}",
    )
    assert done.returncode == 1
    (case,) = json.loads((tmp_path / "r.json").read_text())["cases"]
    assert case["status"] == "timeout"
    assert "0.6 s" in case["failure"]["message"]


def _files_of_at_most_64_kib() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))


def test_a_full_disk_ends_the_run_with_one_line_and_nothing_alive(tmp_path: Path) -> None:
    done = llmprof(
        tmp_path, "run", *SMALL, "--measure-steps=5000", preexec=_files_of_at_most_64_kib
    )
    assert done.returncode == 1
    (line,) = [each for each in done.stderr.splitlines() if each.startswith("llmprof: ")]
    assert "the disk is full" in line
    run = newest(tmp_path)
    assert not run.alive()
    engine = replay(run.journal).segments[0].pid
    assert not psutil.pid_exists(engine)


def test_a_memory_limit_of_the_shell_is_no_error(tmp_path: Path) -> None:
    limit = 16 << 30
    done = llmprof(
        tmp_path,
        "run",
        *SMALL,
        "--measure-steps=2",
        "--mode=forward",
        preexec=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
    )
    assert done.returncode == 0, done.stdout


def test_detach_attach_stop(tmp_path: Path) -> None:
    detached = llmprof(tmp_path, "run", *SMALL, *ENDLESS, "--detach")
    assert detached.returncode == 0
    name = detached.stdout.strip()
    assert newest(tmp_path).id == name
    wait_view(tmp_path, measuring)
    family = engine_family(newest(tmp_path))
    with started(tmp_path, "attach", name) as watcher:
        wait_for(lambda: catches(watcher.pid, signal.SIGHUP))
        watcher.send_signal(signal.SIGINT)
        assert watcher.wait(PATIENCE_S) == 130
    assert newest(tmp_path).alive()
    with started(tmp_path, "attach", name, f"--export={tmp_path / 'r.json'}") as watcher:
        wait_for(lambda: catches(watcher.pid, signal.SIGHUP))
        assert llmprof(tmp_path, "stop", name).returncode == 0
        assert watcher.wait(PATIENCE_S) == 1
    wait_for(lambda: not alive(family))
    assert json.loads((tmp_path / "r.json").read_text())["outcome"] == "stopped"
    assert llmprof(tmp_path, "stop", name).returncode == 2
