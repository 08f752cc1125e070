"""Bad input: one clear line and exit code 2, before anything is measured."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from llmprof.cli import screen
from llmprof.cli.main import main
from llmprof.cli.options import add_case_options
from llmprof.core.catalog.models import select_models
from llmprof.core.store.run import RunStore
from tests.builders.journals import finished


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LLMPROF_HOME", str(tmp_path / "home"))
    (tmp_path / "presets").mkdir()
    monkeypatch.setenv("LLMPROF_PRESETS", str(tmp_path / "presets"))
    return tmp_path / "home"


def outcome(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    try:
        code = main(arguments)
    except SystemExit as stop:
        code = int(stop.code or 0)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.mark.parametrize("command", [["run"], ["run", "smal", "--dry-run"], []])
def test_an_experiments_file_that_cannot_be_read_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    (tmp_path / "presets" / "experiments.toml").write_text("[mine")
    code, out, err = outcome(capsys, *(command or ["--export", str(tmp_path / "r.md")]))
    assert (code, out) == (2, "")
    assert err.startswith("llmprof: experiments file")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["bogus"], "unknown command"),
        (["--smoke", "--mode=forward", "--checkpoint=1"], "keeps anything for a backward"),
        (["run", "nope"], "unknown experiment"),
        (["run", "nope"], ", writeup"),
        (["run", "writup"], "did you mean 'writeup'?"),
        (["--smoke", "--d-model", "65"], "smoke+: num_heads 4 does not divide d_model 65"),
        (["run", "--smoke", "writeup"], "its options follow its name: `llmprof run writeup"),
        (["run", "Writeup", "--experiments=nope"], "no experiment of a write-up is called"),
        (["run", "--model-size=nope"], "unknown model 'nope'"),
        (["run", "--model-size="], "empty item"),
        (["run", "--precision=fp8"], "'fp8'"),
        (["run", "--mode=sideways"], "'sideways'"),
        (["run", "--attention=magic"], "'magic'"),
        (["run", "--optimizer=sgd"], "'sgd'"),
        (["run", "--compile=hard"], "'hard'"),
        (["run", "--model-size=tiny", "--num-heads=7"], "does not divide"),
        (["run", "--measure-steps=1e3"], "not a whole number"),
        (["run", "--context-length=128,"], "empty item"),
        (["run", "--device=gpu"], "is not auto, cpu"),
        (["run", "--profile-steps=5"], "--profile-steps has no effect here"),
        (["run", "--stacks"], "end-to-end has no kernel profiles"),
        (["run", "memory", "--chrome-trace"], "`llmprof run kernels --chrome-trace` does"),
        (["run", "kernels", "--variant=plain", "--nvtx"], "--nvtx has no effect here"),
        (["run", "kernels", "--nvtx", "--device=cpu"], "--nvtx has no effect with --device cpu"),
        (["run", "kernels", "--stacks", "--compile"], "--stacks has no effect on compiled"),
        (["run", "--timeout=0"], "seconds above 0"),
        (["run", "--timeout=nan"], "seconds above 0"),
        (["--export", "results.txt"], "extension"),
        (["--export", "results"], "extension"),
        (["--export", "/no/such/folder/r.md"], "no folder"),
        (["run", "--detach", "--export", "r.md"], "--detach"),
        (["run", "--unknown-option"], "unrecognized arguments"),
        (["run", "--context-length=1,024"], "'024' begins with a zero"),
        (["run", "--context-length", "1,024"], "1024, not 1,024"),
        (["run", "--model-size", "small", "medium"], "are joined by commas: small,medium"),
        (["run", "--context-length", "128", "256"], "are joined by commas"),
        (["run", "warmup", "--model-size", "small", "medium", "xl"], "commas: small,medium"),
        (["run", "warmup", "--model-size=small", "medium"], "commas: small,medium"),
        (["run", "--model-sizes", "small"], "did you mean --model-size?"),
        (["run", "--model-sizes=small"], "did you mean --model-size?"),
        (["predict", "--contextlength=128"], "did you mean --context-length?"),
        (["shwo"], "did you mean 'show'?"),
        (["run", "--snapshot"], "`llmprof run memory --snapshot` does"),
        (["show", "nope"], "no runs in"),
        (["show", "/no/such/file"], "no such file"),
        (["pack", "nope"], "no runs in"),
        (["attach", "nope"], "no runs in"),
        (["stop", "nope"], "no runs in"),
    ],
)
def test_bad_input_is_one_line(
    capsys: pytest.CaptureFixture[str], home: Path, arguments: list[str], says: str
) -> None:
    code, out, err = outcome(capsys, *arguments)
    assert code == 2
    assert out == ""
    assert says in err
    assert err.count("\n") == 1
    assert not home.exists()


BOUNDS = {
    "--profile-steps": (1, 100),
    "--measure-steps": (1, 10_000_000),
    "--warmup-steps": (0, 10_000_000),
    "--context-length": (1, 10_000_000),
    "--batch-size": (1, 10_000_000),
    "--processes": (1, 100),
    "--accumulate": (1, 10_000_000),
    "--checkpoint": (1, 10_000_000),
    "--seed": (0, 2**63 - 1),
    "--vocab-size": (1, 10_000_000),
    "--d-model": (1, 10_000_000),
    "--d-ff": (1, 10_000_000),
    "--num-layers": (1, 10_000_000),
    "--num-heads": (1, 10_000_000),
    "--kv-heads": (0, 10_000_000),
}


def test_every_number_has_one_line_for_whatever_lies_outside_its_bounds(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for option, (least, most) in BOUNDS.items():
        says = f"is not a whole number from {least} to {most:,}"
        for text in (str(least - 1), "-1", "-7", str(most + 1), "9" * 30, "1.5", "x"):
            code, out, err = outcome(capsys, "run", "kernels", f"{option}={text}", "--dry-run")
            assert (code, out) == (2, ""), (option, text)
            assert f"{option}" in err
            assert f"'{text}' {says}" in err
            assert err.count("\n") == 1


def test_no_option_with_a_number_is_left_out_of_the_bounds() -> None:
    parser = argparse.ArgumentParser()
    add_case_options(parser)
    numbers = {
        action.option_strings[0]
        for action in parser._actions
        if action.metavar == "N" and action.option_strings
    }
    assert numbers == set(BOUNDS)


def test_files_that_are_no_run(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for name, data in {
        "empty": b"",
        "text": b"hello\nworld\n",
        "binary.llmprof": bytes(range(256)) * 20,
        "zip.llmprof": b"PK\x05\x06" + 18 * b"\0",
        "torn.llmprof": b"PK\x03\x04" + 100 * b"\x07",
    }.items():
        path = tmp_path / name
        path.write_bytes(data)
        code, out, err = outcome(capsys, "show", str(path))
        assert (code, out, err.count("\n")) == (2, "", 1), name


def test_presets_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = outcome(capsys, "presets", "--json")
    assert code == 0
    counted = {model["name"]: model["parameters"] for model in json.loads(out)}
    assert counted["2.7B"] == counted["xl-2026"] == 3_406_809_600


def test_cards_as_a_table_and_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = outcome(capsys, "presets", "--cards")
    assert code == 0
    (line,) = [line for line in out.splitlines() if line.startswith("| A10G ")]
    assert line.count("n/a") == 4
    assert "there is no MFU then" in out
    code, out, _ = outcome(capsys, "presets", "--cards", "--json")
    assert [card["bandwidth_gbs"] for card in json.loads(out) if card["name"] == "A10G"] == [600]


def test_presets_as_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = outcome(capsys, "presets")
    assert code == 0
    assert "12,832,823,808" in out


def test_a_run_without_a_journal_has_one_line(
    capsys: pytest.CaptureFixture[str], home: Path
) -> None:
    (home / "runs" / "20260101-000000-x" / "artifacts").mkdir(parents=True)
    code, out, err = outcome(capsys, "resume")
    assert (code, out) == (2, "")
    assert err == "llmprof: run 20260101-000000-x has no journal to resume\n"


def test_a_name_with_a_line_break_can_be_asked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    text = '["line\\nbreak"]\nd_model = 32\nd_ff = 64\nnum_layers = 1\nnum_heads = 2\n'
    (tmp_path / "own.toml").write_text(text, "utf-8")
    monkeypatch.setenv("LLMPROF_PRESETS", str(tmp_path))
    for name in ("line\nbreak", "line break"):
        assert [model.name for model in select_models([name])] == ["line break"]


def test_no_runs_yet(capsys: pytest.CaptureFixture[str]) -> None:
    assert outcome(capsys, "runs", "--json")[:2] == (0, "[]\n")
    assert "no runs" in outcome(capsys, "runs")[1]


@pytest.mark.parametrize("flag", ["--help", "--version"])
def test_help_and_version(capsys: pytest.CaptureFixture[str], flag: str) -> None:
    code, out, err = outcome(capsys, flag)
    assert (code, err) == (0, "")
    assert "llmprof" in out


def test_the_device_that_is_not_there(capsys: pytest.CaptureFixture[str], home: Path) -> None:
    code, out, err = outcome(capsys, "run", "--model-size=tiny", "--device=cuda:77")
    assert code == 2
    assert out == ""
    assert "cuda:77 isn't there" in err
    assert err.count("\n") == 1
    assert not home.exists()


def test_the_screen_opens_runs_that_lie_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    opened: list[dict[str, object]] = []

    def note(**asked: object) -> int:
        opened.append(asked)
        return 0

    monkeypatch.setattr(screen, "open_screen", note)
    there, here = finished(RunStore(tmp_path / "write-up")), finished(RunStore())
    for asked, run in (
        (str(there.path), there),
        (str(there.path.parent), there),
        (here.id, here),
        ("last", here),
    ):
        assert outcome(capsys, "screen", asked)[0] == 0
        assert opened[-1]["watch"] == run
        store = opened[-1]["store"]
        assert isinstance(store, RunStore)
        assert store.list() == [run]
    code, _, err = outcome(capsys, "screen", str(tmp_path / "presets"))
    assert (code, err) == (2, f"llmprof: no runs in {tmp_path / 'presets'}\n")
