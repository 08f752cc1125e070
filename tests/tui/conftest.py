"""Every test of the screen runs as on a machine without a card."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _no_card(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("llmprof.tui.bench.forecast.NVIDIA_CARDS", tmp_path / "no cards")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
