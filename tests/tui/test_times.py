"""Times on the screen: what is measured in ms, spans as clocks show them, nothing else."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmprof.core.store.pack import unpack
from llmprof.core.store.run import RunStore
from llmprof.core.system.text import clock
from llmprof.tui.chart.ticks import time_label
from tests.tui.apps import make_app
from tests.tui.frames import settle, text_of

ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "tests" / "fixtures"
OTHER_FORM = re.compile(r"(?<![\w.,:])\d[\d.,]* ?(?:s|sec|min|h)(?![\w/])")  # 12 s, 0.5s, 3 min
SHOWN = {
    "bench": (FIXTURES / "end-to-end-h100.llmprof", ("1",)),
    "zoomed": (FIXTURES / "attention-oom-h100.llmprof", ("1", "z", "z")),
    "runs": (FIXTURES / "switches-h200.llmprof", ("2",)),
    "kernels": (ROOT / "tui" / "demo-kernels.llmprof", ("3",)),
    "memory": (ROOT / "tui" / "demo-memory.llmprof", ("4",)),
    "loop": (FIXTURES / "own-loop-cpu.llmprof", ("6",)),
    "setup": (FIXTURES / "end-to-end-h100.llmprof", ("s",)),
}


@pytest.mark.parametrize("shown", SHOWN)
async def test_times_stand_in_one_form(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shown: str
) -> None:
    monkeypatch.setenv("LLMPROF_HOME", str(tmp_path / "home"))
    recording, keys = SHOWN[shown]
    run = RunStore(tmp_path).create("recorded")
    unpack(recording, run)
    app, _ = make_app(tmp_path, watch=run)
    async with app.run_test(size=(200, 50)) as pilot:
        await settle(pilot, lambda: not app.session.snapshot.loading)
        for key in keys:
            await pilot.press(key)
            await settle(pilot)
        assert others_in(text_of(app).splitlines()) == []


def others_in(lines: Sequence[str]) -> list[str]:
    return [found for line in lines for found in OTHER_FORM.findall(line)]


def test_what_reads_as_another_form_is_found() -> None:
    assert others_in(["took 12 s, -60s, 2.4 min", "3 h"]) == ["12 s", "60s", "2.4 min", "3 h"]
    assert others_in(["12 ms 0:12 13.5/s ctx 128  s Set-up 5 steps tokens/s"]) == []


@given(st.floats(0, 10**7))
def test_a_clock_says_how_long_it_was(seconds: float) -> None:
    days, _, time = clock(seconds).rpartition(" d ")
    total = 0
    for part in time.split(":"):
        total = 60 * total + int(part)
    assert abs(total + 86_400 * int(days.replace(",", "") or 0) - seconds) <= 0.5


def test_a_moment_before_now_is_told_from_one_after() -> None:
    assert time_label(-15.0) == "-0:15"
    assert clock(0.44, tenths=True) == "0:00.4"
    assert clock(59.97, tenths=True) == "1:00"
