"""`llmprof report` and `llmprof show --section`: what they write, and mistakes in one line."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from llmprof.cli.main import main
from llmprof.cli.types import tokens_type
from llmprof.core.store.files import JOURNAL

FIXTURES = Path(__file__).parents[1] / "fixtures"
OUT_OF_MEMORY = FIXTURES / "attention-oom-h100.llmprof"
SWITCHES, ENDS = FIXTURES / "switches-h200.llmprof", FIXTURES / "end-to-end-h100.llmprof"


def failed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(list(arguments)) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    return lines[0]


def test_a_document_is_printed_or_written(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["report", str(SWITCHES)]) == 0
    text = capsys.readouterr().out
    assert text.startswith("# ")
    assert "![" not in text
    path = tmp_path / "r.html"
    assert main(["report", str(SWITCHES), f"--export={path}", "--price=2.5", "--tokens=1B"]) == 0
    wrote = [line.removeprefix("wrote ") for line in capsys.readouterr().err.splitlines()]
    assert wrote[0] == str(path)
    assert all(Path(each).is_file() for each in wrote)
    assert "Cost (in the price&#x27;s unit)" in path.read_text("utf-8")


def test_sections_can_be_chosen(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(SWITCHES), "--sections=findings,cost"]) == 0
    heads = [line for line in capsys.readouterr().out.splitlines() if line.startswith("## ")]
    assert heads == ["## Findings", "## What it costs"]
    assert main(["show", str(SWITCHES), "--section", "switches"]) == 0
    assert "What each switch changes" in capsys.readouterr().out
    assert main(["show", str(SWITCHES), "--section", "throughput"]) == 0
    assert "tokens/s" in capsys.readouterr().out


def test_a_run_from_before_a_table_was_led_with_has_it_by_name(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["show", str(OUT_OF_MEMORY)]) == 0
    assert "Out of memory:" not in capsys.readouterr().out
    assert main(["show", str(OUT_OF_MEMORY), "--section", "oom-account"]) == 0
    assert "Out of memory: attention · d=64" in capsys.readouterr().out


def test_a_file_that_is_named_twice_is_written_once(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    twice = ("--export=r.md", "--export", str(tmp_path / "r.md"), "--export=./r.md")
    for command in (["show"], ["report"]):
        assert main([*command, str(OUT_OF_MEMORY), *twice]) == 0
        wrote = capsys.readouterr().err.splitlines()
        assert wrote.count("wrote r.md") == 1
        assert len(wrote) == len(set(wrote))


def test_mistakes_are_one_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert "do not compare: device" in failed(capsys, "report", str(SWITCHES), str(ENDS))
    assert main(["report", str(SWITCHES), str(ENDS), "--mixed"]) == 0
    capsys.readouterr()
    assert "must be .md or .html" in failed(
        capsys, "report", str(SWITCHES), f"--export={tmp_path / 'r.pdf'}"
    )
    assert "leave out --sections" in failed(
        capsys, "report", str(SWITCHES), "--questions", "--sections=cost"
    )
    assert "did you mean" in failed(capsys, "show", str(SWITCHES), "--section", "finding")
    assert "no table warmup" in failed(capsys, "show", str(SWITCHES), "--section", "warmup")
    assert "report --sections" in failed(
        capsys, "show", str(SWITCHES), "--section", "cost", "--export=x.md"
    )


def test_a_run_that_is_given_twice_counts_once(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    copy = tmp_path / "copy.llmprof"
    copy.write_bytes(SWITCHES.read_bytes())
    assert main(["report", str(SWITCHES)]) == 0
    once = capsys.readouterr().out
    assert main(["report", str(SWITCHES), str(copy), str(SWITCHES)]) == 0
    said = capsys.readouterr()
    assert said.out == once
    assert said.err.splitlines() == [
        f"{copy} is the run of {SWITCHES}: it counts once",
        f"{SWITCHES} is the run of {SWITCHES}: it counts once",
    ]


def test_a_journal_without_cases_makes_no_document(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with zipfile.ZipFile(SWITCHES) as archive:
        lines = archive.read("journal.jsonl").splitlines()
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / JOURNAL).write_bytes(lines[0] + b"\n")
    assert "holds a run without cases" in failed(capsys, "report", str(folder))


def test_numbers_of_tokens() -> None:
    assert [tokens_type(text) for text in ("300M", "2b", "1e9", "1.5T", "1000")] == [
        300_000_000,
        2_000_000_000,
        1_000_000_000,
        1_500_000_000_000,
        1000,
    ]
