"""`llmprof stop` without a name: the one run that is going, or which there are."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from llmprof.cli.main import main
from llmprof.core.store.run import Run, RunStore


@pytest.fixture
def stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The runs that are asked to stop; each ends at once."""
    monkeypatch.setenv("LLMPROF_HOME", str(tmp_path))
    asked: list[str] = []

    def stop(run: Run, *, force: bool = False) -> bool:
        asked.append(run.id)
        return True

    monkeypatch.setattr(Run, "stop", stop)
    monkeypatch.setattr(Run, "alive", lambda _: False)
    return asked


def goes(monkeypatch: pytest.MonkeyPatch, runs: Sequence[Run], loops: Sequence[Run] = ()) -> None:
    monkeypatch.setattr(RunStore, "going", lambda _: (*runs, *loops))
    monkeypatch.setattr(Run, "is_loop", property(lambda run: run in loops))


def test_the_only_run_that_is_going_is_stopped(
    stopped: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run, loop = RunStore().create("one"), RunStore().create("train")
    RunStore().create("over")
    goes(monkeypatch, [run], [loop])
    assert main(["stop"]) == 0
    assert stopped == [run.id]
    assert capsys.readouterr().out == f"stopped {run.id}\n"


def test_of_several_it_says_what_to_type(
    stopped: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = [RunStore().create("one"), RunStore().create("two")]
    goes(monkeypatch, runs)
    assert main(["stop"]) == 2
    said = capsys.readouterr().err
    assert all(f"`llmprof stop {run.id}`" in said for run in runs)
    assert said.count("\n") == 1
    assert stopped == []


def test_where_none_is_going_it_says_so(
    stopped: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    loop = RunStore().create("train")
    goes(monkeypatch, [])
    assert main(["stop"]) == 2
    assert "no run is going" in capsys.readouterr().err
    goes(monkeypatch, [], [loop])
    assert main(["stop"]) == 2
    assert "end the training itself" in capsys.readouterr().err
    assert stopped == []
