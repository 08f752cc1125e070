"""A run that was killed in the middle goes on: only what is missing, in the same journal."""

from __future__ import annotations

import json
import os
import signal
import zipfile
from pathlib import Path

import msgspec
import pytest

from llmprof.core import events as ev
from llmprof.core.figures.outcomes import to_resume
from llmprof.core.store.journal import replay
from llmprof.core.store.pack import adopt, pack
from llmprof.core.store.run import Run, RunStore
from llmprof.core.system.archive import PackError
from tests.engine.runs import llmprof, newest, started, wait_view
from tests.waiting import wait_for

WARMUP = ["run", "warmup", "--smoke", "--device=cpu", "--measure-steps=2"]


def events_of(run: Run) -> list[ev.AnyEvent]:
    return [ev.decode(line) for line in run.journal.read_bytes().splitlines()]


@pytest.fixture(scope="module")
def resumed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, bytes, list[int]]:
    """A run whose engine was killed in its third case, then resumed; the journal as it was killed
    and the cells that were missing."""
    home = tmp_path_factory.mktemp("home")
    with started(home, *WARMUP):
        wait_view(home, lambda v: len(v.cases) == 4 and v.cases[2].status == "running")
        pid = newest(home).engine_pid()
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda: not newest(home).alive())
    run = newest(home)
    killed = run.journal.read_bytes()
    with run.journal.open("ab") as file:
        file.write(b'{"kind":"StepDone","t":1,"case":2,"ind')  # torn by the kill
    missing = list(to_resume(replay(run.journal)))
    done = llmprof(home, "resume", run.id, f"--export={home / 'r.json'}")
    assert done.returncode == 0, done.stderr
    assert f"{len(missing)} of 4 cells to measure" in done.stderr
    return home, killed, missing


def test_only_missing_cells_are_measured(resumed: tuple[Path, bytes, list[int]]) -> None:
    home, _, missing = resumed
    assert missing == [2, 3]
    events = events_of(newest(home))
    segments = [at for at, event in enumerate(events) if isinstance(event, ev.Segment)]
    assert len(segments) == 2
    again = [e.case for e in events[segments[1] :] if isinstance(e, ev.CaseStarted)]
    assert again == missing


def test_what_was_there_is_kept_to_the_byte(resumed: tuple[Path, bytes, list[int]]) -> None:
    home, killed, _ = resumed
    assert newest(home).journal.read_bytes().startswith(killed)


def test_the_resumed_run_is_whole(resumed: tuple[Path, bytes, list[int]]) -> None:
    home, _, _ = resumed
    view = replay(newest(home).journal)
    assert view.outcome == "complete"
    assert view.damaged_lines == 0
    assert [state.status for state in view.cases] == ["ok"] * 4
    assert [len(state.measured) for state in view.cases] == [2] * 4
    assert [len(state.warmup) for state in view.cases] == [0, 1, 2, 5]
    document = json.loads((home / "r.json").read_text("utf-8"))
    assert document["outcome"] == "complete"
    assert len({case["key"] for case in document["cases"]}) == 4


def test_a_whole_run_has_nothing_to_resume(resumed: tuple[Path, bytes, list[int]]) -> None:
    home, _, _ = resumed
    before = newest(home).journal.read_bytes()
    done = llmprof(home, "resume")
    assert done.returncode == 0
    assert "nothing is missing" in done.stderr
    assert "## Effect of warm-up" in done.stdout
    assert newest(home).journal.read_bytes() == before


def test_a_run_that_goes_on_is_not_resumed(resumed: tuple[Path, bytes, list[int]]) -> None:
    home, _, _ = resumed
    run = newest(home)
    with run.lock():
        done = llmprof(home, "resume", run.id)
    assert done.returncode == 2
    assert "still going on" in done.stderr


def packed(resumed: tuple[Path, bytes, list[int]], folder: Path, **environment: str) -> Path:
    """The killed run in one file, its environment changed."""
    killed = resumed[1]
    lines = []
    for line in killed.splitlines():
        event = ev.decode(line)
        if isinstance(event, ev.Environment):
            event = msgspec.structs.replace(event, **environment)
        lines.append(ev.encode(event))
    run = RunStore(folder / "old").create("warmup")
    run.journal.write_bytes(b"".join(lines))
    target = folder / "w.llmprof"
    pack(run, target)
    return target


def test_a_packed_run_is_not_resumed_on_another_machine(
    resumed: tuple[Path, bytes, list[int]], tmp_path: Path
) -> None:
    path = packed(resumed, tmp_path, torch="1.0.0")
    refused = llmprof(tmp_path, "resume", str(path))
    assert refused.returncode == 2
    assert "PyTorch 1.0.0 against" in refused.stderr
    assert "--elsewhere" in refused.stderr
    assert to_resume(replay(newest(tmp_path).journal)) == (2, 3)  # nothing was measured
    done = llmprof(tmp_path, "resume", newest(tmp_path).id, "--elsewhere")
    assert done.returncode == 0, done.stderr
    assert "measured elsewhere: PyTorch 1.0.0 against" in done.stdout
    view = replay(newest(tmp_path).journal)
    assert view.environment is not None
    assert view.environment.torch == "1.0.0"
    assert [state.status for state in view.cases] == ["ok"] * 4


def test_a_packed_run_is_adopted_once_and_under_its_own_name(
    resumed: tuple[Path, bytes, list[int]], tmp_path: Path
) -> None:
    path = packed(resumed, tmp_path)
    store = RunStore(tmp_path / "store")
    run = adopt(path, store)
    assert run.id == newest(resumed[0]).id
    assert [found.id for found in store.list()] == [run.id]
    with pytest.raises(PackError, match="already here"):
        adopt(path, store)


@pytest.mark.parametrize("name", ["../evil", "/etc/evil", "artifacts/../../evil", "other.txt"])
def test_a_pack_that_reaches_outside_is_refused(
    resumed: tuple[Path, bytes, list[int]], tmp_path: Path, name: str
) -> None:
    path = packed(resumed, tmp_path)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(name, "x")
    store = RunStore(tmp_path / "store")
    with pytest.raises(PackError, match="not a run's"):
        adopt(path, store)
    assert not (tmp_path / "store").exists()
    assert not (tmp_path / "evil").exists()
