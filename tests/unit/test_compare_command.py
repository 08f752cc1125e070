"""`llmprof compare` and `llmprof baseline`: what they print, refuse and exit with."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from llmprof.cli.main import main
from llmprof.core import events as ev
from llmprof.core.store.run import RunStore

FIXTURES = Path(__file__).parent.parent / "fixtures"
RECORDED = FIXTURES / "processes-h200.llmprof"
SWITCHES = FIXTURES / "switches-h200.llmprof"
OTHER_CARD = FIXTURES / "switches-h100.llmprof"

Outcome = tuple[int, str, str]


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLMPROF_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


def outcome(capsys: pytest.CaptureFixture[str], *arguments: str) -> Outcome:
    try:
        code = main(arguments)
    except SystemExit as stop:
        code = int(stop.code or 0)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def changed(target: Path, change: Callable[[ev.AnyEvent], ev.AnyEvent | None]) -> str:
    """The recording with other events, packed."""
    with zipfile.ZipFile(RECORDED) as archive:
        lines = archive.read("journal.jsonl").splitlines()
    events = [made for line in lines if (made := change(ev.decode(line))) is not None]
    with zipfile.ZipFile(target, "w") as archive:
        archive.writestr("journal.jsonl", b"".join(map(ev.encode, events)))
    return str(target)


def slower(event: ev.AnyEvent) -> ev.AnyEvent:
    """The same with an optimizer that takes twice as long."""
    if not isinstance(event, ev.StepDone) or event.device_ms[3] is None:
        return event
    device = (*event.device_ms[:3], 2 * event.device_ms[3], event.device_ms[4])
    total = event.total_ms + event.device_ms[3]
    return msgspec.structs.replace(event, device_ms=device, total_ms=total)


def test_equal_runs_pass(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = outcome(
        capsys, "compare", str(RECORDED), str(RECORDED), "--fail-on", "regression=5%"
    )
    assert code == 0, err
    assert "## What is different" in out
    assert "## Step by phase, from A to B: small · train · ctx 512 · fp32" in out
    assert "Nothing is told from equal." in out


def test_a_regression_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    worse = changed(tmp_path / "worse.llmprof", slower)
    arguments = ("compare", str(RECORDED), worse)
    assert outcome(capsys, *arguments)[0] == 0
    code, _, err = outcome(capsys, *arguments, "--fail-on", "regression=5%")
    assert code == 4
    assert "regression: small · train · ctx 512 · fp32, optimizer: 100" in err
    code, _, _ = outcome(capsys, *arguments, "--fail-on=regression=200")
    assert code == 0
    code, _, _ = outcome(capsys, "compare", worse, str(RECORDED), "--fail-on", "regression=5%")
    assert code == 0  # faster is none


def test_what_was_not_judged_does_not_pass(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def one_process(event: ev.AnyEvent) -> ev.AnyEvent | None:
        if isinstance(event, ev.RunStarted):
            return msgspec.structs.replace(event, cases=event.cases[:1])
        return None if getattr(event, "case", 0) not in (0, None) else event

    single = changed(tmp_path / "single.llmprof", one_process)
    code, out, err = outcome(capsys, "compare", single, single, "--fail-on", "regression=5%")
    assert code == 3
    assert "one process: not judged" in out
    assert err.endswith("nothing could be judged; measure both with --processes 3 or more\n")
    assert outcome(capsys, "compare", single, single)[0] == 0


def test_a_case_that_no_longer_runs_is_a_regression(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(event: ev.AnyEvent) -> ev.AnyEvent | None:
        if isinstance(event, ev.CaseDone):
            failure = ev.Failure(kind="oom", message="out of memory", phase="backward")
            return ev.CaseFailed(case=event.case, failure=failure)
        return None if isinstance(event, ev.StepDone) else event

    gone = changed(tmp_path / "gone.llmprof", fails)
    code, out, err = outcome(capsys, "compare", str(RECORDED), gone, "--fail-on", "regression=5%")
    assert code == 4
    assert "no figures in B (out of memory in backward), measured in A" in out
    assert "out of memory in backward, measured in A" in err


def test_another_device_is_refused_unless_forced(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def elsewhere(event: ev.AnyEvent) -> ev.AnyEvent:
        if isinstance(event, ev.Environment):
            return msgspec.structs.replace(event, device_name="NVIDIA B200")
        return event

    other = changed(tmp_path / "other.llmprof", elsewhere)
    code, out, err = outcome(capsys, "compare", str(RECORDED), other)
    assert (code, out) == (2, "")
    assert err == (
        "llmprof: not compared: not the same device (NVIDIA H200 against NVIDIA B200) (--force "
        "compares and says so)\n"
    )
    code, out, _ = outcome(capsys, "compare", str(RECORDED), other, "--force")
    assert code == 0
    assert "Forced: not the same device" in out


def test_runs_without_a_case_in_common(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = outcome(capsys, "compare", str(OTHER_CARD), str(SWITCHES))
    assert code == 3
    assert "nothing to compare" in err


def test_json_and_exports(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["compare", str(RECORDED), str(RECORDED)]
    code, out, _ = outcome(capsys, *arguments, "--json")
    assert code == 0
    said = json.loads(out)
    assert said["cases"][0]["processes"] == 24
    files = [tmp_path / f"compared.{fmt}" for fmt in ("md", "csv", "json")]
    options = [word for path in files for word in ("--export", str(path))]
    code, out, err = outcome(capsys, *arguments, *options)
    assert (code, out) == (0, "")
    assert err.splitlines() == [f"wrote {path}" for path in files]
    assert json.loads(files[2].read_text("utf-8")) == said
    assert outcome(capsys, *arguments, "--export", "x.txt")[0] == 2
    assert outcome(capsys, *arguments, "--fail-on", "5%")[0] == 2
    assert outcome(capsys, *arguments, "--fail-on", "regression=no")[0] == 2
    assert outcome(capsys, "compare", str(RECORDED), "nowhere")[0] == 2


def test_a_baseline_is_kept_and_compared_with(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert outcome(capsys, "baseline", "show")[1].startswith("no baselines")
    code, out, err = outcome(capsys, "baseline", "set", str(RECORDED))
    assert code == 0, err
    assert out.startswith("baseline: processes-h200.llmprof, kept in ")
    run = RunStore().create("later")
    with zipfile.ZipFile(RECORDED) as archive:
        run.journal.write_bytes(archive.read("journal.jsonl"))
    code, out, err = outcome(capsys, "compare", "baseline", "last")
    assert code == 0, err
    assert "A: baseline. B: " in out
    assert outcome(capsys, "baseline", "set", "last", "--name", "good.one")[0] == 0
    run.delete()  # what is kept does not depend on it
    code, out, _ = outcome(capsys, "baseline", "show")
    assert code == 0
    assert [line.split("|")[1].strip() for line in out.splitlines()[2:]] == ["baseline", "good.one"]
    assert "NVIDIA H200" in out
    assert outcome(capsys, "show", "good.one")[0] == 0
    assert outcome(capsys, "baseline", "set", str(RECORDED), "--name", "../x")[0] == 2
    assert outcome(capsys, "baseline", "set", "nowhere")[0] == 2
    assert outcome(capsys, "baseline")[0] == 2
