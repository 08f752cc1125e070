"""Builds the small libnvidia-ml.so.1 with gcc and runs samplers over it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.waiting import PATIENCE_S

SOURCE = Path(__file__).parent / "fake_nvml" / "nvml.c"


def build(folder: Path, *, old: bool = False) -> Path:
    """The folder that holds the library; old leaves out what newer drivers added."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    library = folder / "libnvidia-ml.so.1"
    flags = ["-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror"]
    subprocess.run(
        [compiler, *flags, *(["-DOLD"] if old else []), "-o", str(library), str(SOURCE)], check=True
    )
    return folder


def environment(folder: Path, kind: str, **more: object) -> dict[str, str]:
    """What makes the real binding load the library and behave."""
    extra = {f"FAKE_NVML_{name.upper()}": str(value) for name, value in more.items()}
    return {**os.environ, "LD_LIBRARY_PATH": str(folder), "FAKE_NVML": kind, **extra}


def run_script(script: str, variables: Mapping[str, str], timeout: float = PATIENCE_S) -> str:
    """Standard output of a Python script in a process of its own; its errors fail the test."""
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=dict(variables),
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
