"""Which packages there are, counted from the tree; where they lie is said in pyproject.toml."""

from __future__ import annotations

import tomllib
from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).resolve().parent


def packages(rooms: dict[str, str]) -> list[str]:
    """Every folder of the rooms that holds Python files, as the name of a package.

    Raises SystemExit for a room that is not there, so that nothing is installed without it.
    """
    found: set[str] = set()
    for room, folder in rooms.items():
        files = list((ROOT / folder).rglob("*.py"))
        if ROOT / folder / "__init__.py" not in files:
            raise SystemExit(f"{folder}/ has no __init__.py: {room} cannot be installed")
        inside = {file.parent.relative_to(ROOT / folder).parts for file in files}
        found |= {".".join((room, *parts)) for parts in inside}
    return sorted(found)


table = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"]
setup(packages=packages(table["package-dir"]))
