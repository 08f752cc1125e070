"""The code of the pages in docs/ runs as it stands there."""

from __future__ import annotations

import importlib
import re
import shlex
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from llmprof.cli.main import COMMANDS, WRITEUP, main
from llmprof.cli.parser import Parser
from llmprof.core.store.run import RunStore
from tests.builders.writeups import recorded_writeup

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
RECORDED = ROOT / "tests" / "fixtures" / "processes-h200.llmprof"
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MEASURING = ("run", "resume")  # their options are read, and nothing is measured


def blocks(page: str, language: str) -> list[str]:
    return [code for kind, code in _BLOCK.findall((DOCS / page).read_text("utf-8"))
            if kind == language]  # fmt: skip


def commands(page: str) -> list[list[str]]:
    lines = [line for code in blocks(page, "sh") for line in code.splitlines() if line.strip()]
    return [shlex.split(line, comments=True) for line in lines]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files that the pages name, and a run of the machine."""
    monkeypatch.setenv("LLMPROF_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    for name in ("run", "switches"):
        shutil.copyfile(RECORDED, tmp_path / f"{name}.llmprof")
    run = RunStore().create("measured")
    with zipfile.ZipFile(RECORDED) as archive:
        run.journal.write_bytes(archive.read("journal.jsonl"))
    assert main(["baseline", "set", "last"]) == 0
    recorded_writeup(tmp_path / "card", RECORDED)
    return tmp_path


@pytest.mark.parametrize("at", range(2))
def test_python_of_the_page_runs(folder: Path, at: int) -> None:
    code = blocks("python-api.md", "python")[at]
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                          check=False, cwd=folder)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout


@pytest.mark.parametrize("page", ["comparing.md", "bringing-a-run-home.md", "doctor.md"])
def test_commands_of_a_page_run(
    folder: Path, page: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = commands(page)
    assert found
    for program, name, *options in found:
        assert program == "llmprof"
        assert name in COMMANDS
        if name in MEASURING:
            whole = [name, *options[:1]] == WRITEUP[0].split()
            called, _ = WRITEUP[1] if whole else COMMANDS[name]
            module = importlib.import_module(f"llmprof.cli.{called}")
            parser = Parser(prog=name)
            module.add_arguments(parser)
            parser.parse(options[whole:])
            continue
        code = main([name, *options])
        captured = capsys.readouterr()
        assert code == 0, (name, options, captured.err)
