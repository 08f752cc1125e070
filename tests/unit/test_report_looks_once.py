"""An export works out once what its tables share."""

from __future__ import annotations

from pathlib import Path

import pytest

from llmprof.core.report import subject
from llmprof.core.report.formats import FORMATS, render
from llmprof.core.state import view as state
from llmprof.core.store.pack import open_view

RECORDING = Path(__file__).parent.parent / "fixtures" / "scaling-h200.llmprof"


@pytest.mark.parametrize("fmt", FORMATS)
def test_checks_and_launch_bound_are_worked_out_once(
    fmt: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = {"lint": 0, "launch_bound": 0}
    for module, name in ((subject, "lint"), (state, "launch_bound")):
        real = getattr(module, name)

        def counting(of: object, name: str = name, real: object = real) -> object:
            calls[name] += 1
            assert callable(real)
            return real(of)

        monkeypatch.setattr(module, name, counting)
    run = open_view(RECORDING)
    assert render(run, fmt)  # type: ignore[arg-type]
    assert calls["lint"] == 1
    assert 1 <= calls["launch_bound"] <= len(run.cases)
