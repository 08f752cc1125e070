"""Makes the README's pictures from the demo's runs: `python docs/make_screens.py [RECORDING]`.

The recorded run is written into a store of its own, once up to the middle of a case and once
whole, and the app is photographed over it; the views of which it has nothing show other recordings.
Writes docs/*.svg.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import tempfile
from collections.abc import Sequence
from importlib import resources
from itertools import chain, repeat
from pathlib import Path

import msgspec
from textual.pilot import Pilot

from llmprof.cli.demo import samples_in
from llmprof.core import events as ev
from llmprof.core.catalog.models import load_models
from llmprof.core.monitor.playback import Playback
from llmprof.core.monitor.recordings import Recording
from llmprof.core.store.journal import JournalWriter
from llmprof.core.store.pack import unpack
from llmprof.core.store.replay import recorded
from llmprof.core.store.run import Run, RunStore
from llmprof.tui.app import LlmprofApp
from llmprof.tui.session.monitoring import Monitoring
from llmprof.tui.session.setting import Setting
from llmprof.tui.session.starter import ReplayStarter

os.environ |= {"COLORTERM": "truecolor", "TERM": "xterm-256color"}  # pictures in all colours
OUT = Path(__file__).resolve().parent
FIXTURES = OUT.parent / "tests" / "fixtures"
SWITCHES, LOOP, LOAD = "switches-h200.llmprof", "own-loop-cpu.llmprof", "monitor-load.jsonl"
WIDE, NARROW = (120, 30), (80, 24)
LOOK_S, LOOKS = 0.7, 60
LOAD_S = 34.0  # of the recorded load, for the picture of the monitor
SHARE = 0.62  # of the recording's steps, for the picture of a run that is going on


def write(store: RunStore, events: Sequence[ev.AnyEvent], steps: int | None = None) -> Run:
    """A run with the events up to some number of steps, by default all."""
    run = store.create("demo")
    journal = JournalWriter(run.journal)
    for event in events:
        if steps is not None and isinstance(event, ev.StepDone):
            steps -= 1
            if steps < 0:
                break
        journal.append(event)
    journal.close()
    return run


def of_precision(events: Sequence[ev.AnyEvent], precision: str) -> list[ev.AnyEvent]:
    """What was recorded of the cases in one precision that vary in nothing else, as a run."""
    plan = next(event for event in events if isinstance(event, ev.RunStarted))
    usual = plan.cases[0]
    kept = [
        at
        for at, case in enumerate(plan.cases)
        if case.precision == precision
        and (case.attention, case.optimizer) == (usual.attention, usual.optimizer)
    ]
    found: list[ev.AnyEvent] = []
    for event in events:
        case = getattr(event, "case", None)
        if event is plan:
            found.append(msgspec.structs.replace(plan, cases=[plan.cases[at] for at in kept]))
        elif not isinstance(case, int):
            found.append(event)
        elif case in kept:
            found.append(msgspec.structs.replace(event, case=kept.index(case)))
    return found


async def still(app: LlmprofApp, pilot: Pilot[None]) -> str:
    """The picture, once the view has all that it is made of and a second look shows the same."""
    before = ""
    for _ in range(LOOKS):
        await pilot.pause(LOOK_S)
        view = app.base_view
        svg = app.export_screenshot(title="llmprof")
        if view is not None and view.complete and svg == before:
            break
        before = svg
    return svg


async def photograph(
    name: str,
    setting: Setting,
    size: tuple[int, int],
    keys: Sequence[str] = (),
    marked: Sequence[Run] = (),
) -> None:
    """Open the app, press keys, write a picture."""
    app = LlmprofApp(setting)
    for run in marked:
        app.session.mark(run)
    async with app.run_test(size=size) as pilot:
        svg = await still(app, pilot)
        for key in keys:
            await pilot.press(key)
            svg = await still(app, pilot)
    (OUT / f"{name}.svg").write_text(svg, "utf-8")
    print(OUT / f"{name}.svg")


async def main(recording: Path) -> None:
    """All pictures."""
    events = list(recorded(recording))
    steps = sum(isinstance(event, ev.StepDone) for event in events)
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as held:
        os.environ["LLMPROF_HOME"] = folder
        os.chdir("/")  # the export dialog shows the folder it would write to
        store = RunStore(Path(folder) / "runs")
        whole = write(store, events)
        whole.rename("first look")
        live = write(store, events, int(SHARE * steps))
        held.enter_context(live.lock())
        models = load_models()

        alone = RunStore(Path(folder) / "alone")  # beside which nothing is going
        finished = write(alone, events)
        finished.rename("first look")

        def setting(
            watch: Run | None, theme: str = "llmprof-dark", view: str = "bench",
            runs: RunStore = store,
        ) -> Setting:  # fmt: skip
            starter = ReplayStarter(recording, 1.0)
            return Setting(runs, starter, models, watch=watch, theme=theme, view=view)

        await photograph("screen-setup", setting(None, runs=alone), WIDE)
        await photograph("screen-live", setting(live), WIDE)
        await photograph("screen-live-narrow", setting(live), NARROW)
        await photograph("screen-results", setting(finished, "llmprof-light", runs=alone), WIDE)
        await photograph("screen-runs", setting(whole), WIDE, ["2", "down"])
        await photograph("screen-export", setting(whole), WIDE, ["e"])
        await photograph("screen-quit", setting(live), NARROW, ["q"])
        for view, run in samples_in(RunStore(Path(folder) / "samples")).items():
            await photograph(f"screen-{view}", setting(run, view=view), WIDE)

        others = RunStore(Path(folder) / "others")
        switches = list(recorded(FIXTURES / SWITCHES))
        pair = [write(others, of_precision(switches, precision)) for precision in ("fp32", "bf16")]
        for run, precision in zip(pair, ("fp32", "bf16"), strict=True):
            run.rename(precision)
        compared = setting(None, view="compare", runs=others)
        await photograph("screen-compare", compared, WIDE, marked=pair)
        loop = others.create("own-loop")
        unpack(FIXTURES / LOOP, loop)
        loop.rename("own-loop")
        await photograph("screen-loop", setting(loop, view="loop", runs=others), WIDE)
        load = Recording(FIXTURES / LOAD)
        times = chain([0.0], repeat(LOAD_S))
        playback = Playback(load, clock=lambda: next(times))
        machine = setting(None, view="monitor", runs=others)
        machine.monitoring = Monitoring(open=lambda *_: playback, recorded=load.origin)
        await photograph("screen-monitor", machine, WIDE)


if __name__ == "__main__":
    default = Path(str(resources.files("llmprof.tui") / "demo.llmprof"))
    asyncio.run(main(Path(sys.argv[1]) if len(sys.argv) > 1 else default))
