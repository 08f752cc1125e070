"""Makes the README's pictures from the demo's runs: `python docs/make_screens.py [RECORDING]`.

The recorded run is written into a store of its own, once up to the middle of a case and once
whole, and the app is photographed over it. Writes docs/*.svg.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import tempfile
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from textual.pilot import Pilot

from llmprof.cli.demo import samples_in
from llmprof.core import events as ev
from llmprof.core.catalog.models import load_models
from llmprof.core.store.journal import JournalWriter
from llmprof.core.store.replay import recorded
from llmprof.core.store.run import Run, RunStore
from llmprof.tui.app import LlmprofApp
from llmprof.tui.session.setting import Setting
from llmprof.tui.session.starter import ReplayStarter

os.environ |= {"COLORTERM": "truecolor", "TERM": "xterm-256color"}  # pictures in all colours
OUT = Path(__file__).resolve().parent
WIDE, NARROW = (120, 30), (80, 24)
LOOK_S, LOOKS = 0.7, 60
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
    name: str, setting: Setting, size: tuple[int, int], keys: Sequence[str] = ()
) -> None:
    """Open the app, press keys, write a picture."""
    app = LlmprofApp(setting)
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


if __name__ == "__main__":
    default = Path(str(resources.files("llmprof.tui") / "demo.llmprof"))
    asyncio.run(main(Path(sys.argv[1]) if len(sys.argv) > 1 else default))
