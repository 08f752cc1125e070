"""How soon prediction and verdict follow a change in the set-up pane.

    python benchmarks/predict_form.py [ROUNDS]

The app runs headless at 120x30. Every change is new to the cache. "First" is from the change to
the bar with the verdict of the case that takes most, drawn; "all" until every case that would
run has its verdict. Budget of the first: 100 ms.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import tempfile
import time
from pathlib import Path

from llmprof.core.catalog.models import load_models
from llmprof.core.spec.experiment import Experiment
from llmprof.core.stats.summary import summarize
from llmprof.core.store.run import Run, RunStore
from llmprof.tui.app import LlmprofApp
from llmprof.tui.bench.fits import FitsBar
from llmprof.tui.bench.forecast_line import ForecastLine
from llmprof.tui.bench.setup import SetupPane
from llmprof.tui.session.setting import Setting

CHANGES: tuple[tuple[str, tuple[object, ...]], ...] = (
    ("models", (("tiny",), ("small", "medium"), ("large",), ("xl", "2.7B"), ("10B",))),
    ("modes", (("forward",), ("train",), ("forward", "forward-backward", "train"))),
    ("precisions", (("fp32",), ("fp32", "bf16"), ("fp16",))),
    ("attentions", (("naive",), ("sdpa",), ("naive", "sdpa"))),
    ("optimizers", (("foreach",), ("fused",))),
    ("card", ("T4", "RTX-4090", "H100-80GB")),
)


class NoEngine:
    """Nothing is run here."""

    def warm(self) -> None:
        """Nothing to load."""

    def start(
        self, run: Run, experiment: Experiment, command: tuple[str, ...],
        resume: tuple[int, ...] | None = None,
    ) -> None:  # fmt: skip
        """Nothing to start."""

    def exit_code(self) -> int | None:
        """There is none."""
        return None

    def dismiss(self) -> None:
        """Nothing to end."""


async def follow(pane: SetupPane, field: str, value: object) -> tuple[float, float] | None:
    """Milliseconds to the first and to all verdicts after a change; None when it was none."""
    line = pane.query_one(ForecastLine)
    before = line._prediction
    start = time.perf_counter()
    pane._change(**{field: value})
    forecast = line._prediction
    if forecast is before or forecast is None:
        return None
    await asyncio.sleep(0)  # what was repainted goes out
    assert pane.query_one(FitsBar)._forecast is forecast
    if forecast.largest is None:
        raise RuntimeError("the first slice predicted no case")
    first = time.perf_counter() - start
    while not forecast.done:
        await asyncio.sleep(0.001)
    return 1000 * first, 1000 * (time.perf_counter() - start)


async def main(rounds: int) -> None:
    home = Path(tempfile.mkdtemp(prefix="llmprof-"))
    app = LlmprofApp(Setting(store=RunStore(home), starter=NoEngine(), models=load_models()))
    times: dict[str, list[tuple[float, float]]] = {field: [] for field, _ in CHANGES}
    async with app.run_test(size=(120, 30)) as pilot:
        await pilot.pause(1.0)
        pane = app.screen.query_one(SetupPane)
        for turn in range(rounds):
            pane._change(context=str(16 * (turn + 1)))  # another length: nothing is cached
            for field, values in CHANGES:
                for value in itertools.islice(itertools.cycle(values), turn % len(values),
                                              turn % len(values) + len(values)):  # fmt: skip
                    found = await follow(pane, field, value)
                    if found is not None:
                        times[field].append(found)
                    await asyncio.sleep(0.05)
    print("| Change | n | First, median (ms) | First, worst (ms) | All, median (ms) |")
    print("|---|---:|---:|---:|---:|")
    for field, found_ in times.items():
        first, every = summarize([f for f, _ in found_]), summarize([a for _, a in found_])
        print(f"| {field} | {first.n} | {first.median:.0f} | {first.maximum:.0f} "
              f"| {every.median:.0f} |")  # fmt: skip


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("rounds", nargs="?", type=int, default=5)
    asyncio.run(main(parser.parse_args().rounds))
