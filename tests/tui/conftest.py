"""Every test of the screen runs as on a quick machine of 32 GiB without a card, in all colours."""

from __future__ import annotations

from pathlib import Path

import pytest

from llmprof.core.predict.closed_form import HOPPER
from llmprof.core.predict.fits import Room
from llmprof.tui.bench.forecast import THIS_MACHINE, CardChoice

HOST_GIB = 32


@pytest.fixture(autouse=True)
def _this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("llmprof.core.devices.driver_files.NVIDIA_CARDS", tmp_path / "no cards")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLORTERM", "truecolor")
    room = Room(THIS_MACHINE, HOST_GIB << 30, HOPPER, 1 << 30)
    monkeypatch.setattr("llmprof.tui.bench.forecast.machine_here", lambda: CardChoice(room, True))
    monkeypatch.setattr("llmprof.tui.session.machine.CPU_TFLOPS", 100.0)
