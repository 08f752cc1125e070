"""How far a run is."""

from __future__ import annotations

from pathlib import Path

from llmprof.core.state.reducer import Reducer
from llmprof.tui.bench.progress import progress
from tests.builders.journals import reduced


def test_progress_from_start_to_end(tmp_path: Path) -> None:
    from llmprof.core import events as ev

    reduced(tmp_path)
    reducer = Reducer()
    told: list[str] = []
    shares: list[float] = []
    for row in next(tmp_path.glob("*/journal.jsonl")).read_bytes().splitlines():
        reducer.apply(ev.decode(row))
        state = progress(reducer.view())
        if not told or told[-1] != state.doing:
            told.append(state.doing)
        shares.append(state.run_share or 0.0)
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    assert told[:3] == [
        "starting up",
        "looking at the device",
        "starting the process of the next case",
    ]
    assert "building the model" in told
    assert "warm-up step 3 of 5" in told
    assert "step 40 of 40" not in told
    assert "reading memory" in told
