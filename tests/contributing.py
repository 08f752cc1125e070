"""The examples of CONTRIBUTING.md, applied to a copy of the tree."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCUMENT = ROOT / "CONTRIBUTING.md"
NOT_SOURCE = shutil.ignore_patterns("__pycache__", "*.egg-info")


def sections() -> dict[str, str]:
    """The text of the document by heading."""
    parts = DOCUMENT.read_text("utf-8").split("\n## ")[1:]
    return {heading: text for heading, _, text in (part.partition("\n") for part in parts)}


def blocks(heading: str) -> Iterator[tuple[str, str, list[str]]]:
    """What a section adds: the language of a block, the file, its lines."""
    for part in sections()[heading].split("\n```")[1::2]:
        language, *lines = part.split("\n")
        yield language, lines[0].removeprefix("# "), lines[1:]


def files_of(heading: str) -> set[str]:
    return {name for _, name, _ in blocks(heading)}


def patched(text: str, lines: list[str]) -> str:
    """A file with the lines of a diff block, whose other lines stand in it exactly once."""
    before = "".join(f"{line[1:]}\n" for line in lines if not line.startswith("+"))
    after = "".join(f"{line[1:]}\n" for line in lines if not line.startswith("-"))
    assert text.count(before) == 1, before
    return text.replace(before, after)


def tree_with(heading: str, folder: Path) -> Path:
    """A copy of the tree with what a section adds."""
    tree = folder / "tree"
    for name in ("core", "tui", "presets", "src"):
        shutil.copytree(ROOT / name, tree / name, symlinks=True, ignore=NOT_SOURCE)
    shutil.copy(ROOT / "pyproject.toml", tree)
    for language, name, lines in blocks(heading):
        path = tree / name
        if not path.exists() and (ROOT / name).exists():
            path.parent.mkdir(parents=True)
            shutil.copy(ROOT / name, path)
        there = path.read_text("utf-8") if path.exists() else ""
        if language == "diff":
            path.write_text(patched(there, lines), "utf-8")
            continue
        if not path.parent.exists():
            path.parent.mkdir()
            (path.parent / "__init__.py").touch()
        path.write_text(f"{there}\n" * bool(there) + "\n".join([*lines, ""]), "utf-8")
    return tree


def run_in(tree: Path, *words: str) -> str:
    """What a command of Python prints, with the copy's modules and the tests of this tree."""
    path = os.pathsep.join(map(str, (tree / "src", tree, ROOT)))
    variables = {**os.environ, "PYTHONPATH": path, "LLMPROF_HOME": str(tree.parent / "home")}
    variables.pop("LLMPROF_PRESETS", None)
    done = subprocess.run(
        [sys.executable, "-P", *words], cwd=tree, env=variables, capture_output=True, text=True,
        timeout=280, check=False
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout
