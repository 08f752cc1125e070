"""Whether a CUDA device can be there, told before torch is loaded."""

from __future__ import annotations

import os
import subprocess
import sys

from llmprof.core.devices.cuda_count import NO_DRIVER
from llmprof.core.system.modules_by_name import CUDA_COUNT
from llmprof.core.system.text import clean

PATIENCE_S = 1.0  # a driver that says nothing for so long is asked by torch


def absent(device: str, patience_s: float = PATIENCE_S) -> str | None:
    """Why a device ("auto", "cpu", "cuda", "cuda:1") is not there; None where it may be."""
    if not device.startswith("cuda"):
        return None
    said = _ask(patience_s)
    if said == NO_DRIVER:
        return f"device {device} isn't there: this machine has no CUDA driver (libcuda.so.1)"
    if not said.isdigit():
        return None
    count, index = int(said), int(device.partition(":")[2] or 0)
    if index < count:
        return None
    if not count:
        return f"device {device} isn't there: the driver shows no card{_hidden()}"
    there = "cuda:0 is" if count == 1 else f"cuda:0 to cuda:{count - 1} are"
    return f"device {device} isn't there: {there}{_hidden()}"


def _ask(patience_s: float) -> str:
    """What the driver says to a process of its own, which may hang in it; "" for nothing."""
    try:
        return subprocess.run(
            [sys.executable, "-P", "-m", CUDA_COUNT],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=patience_s,
            check=False,
            text=True,
        ).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""


def _hidden() -> str:
    shown = os.environ.get("CUDA_VISIBLE_DEVICES")
    return "" if shown is None else f" (CUDA_VISIBLE_DEVICES is {clean(shown, 60)!r})"
