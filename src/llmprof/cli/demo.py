"""`llmprof demo`: a recorded run of a real card, replayed as if it were live."""

from __future__ import annotations

import argparse
import tempfile
from importlib import resources
from pathlib import Path

from llmprof.cli.exits import UserError
from llmprof.cli.open_screen import open_screen, require_terminal
from llmprof.cli.screen import add_look_options
from llmprof.cli.types import factor
from llmprof.core.events import Environment, RunStarted, Segment
from llmprof.core.store.pack import SUFFIX, unpack
from llmprof.core.store.replay import recorded
from llmprof.core.store.run import Run, RunStore, wait_started
from llmprof.core.system.archive import PackError
from llmprof.core.system.text import moment

RECORDING = "demo.llmprof"
SAMPLE = "demo-"  # demo-kernels.llmprof is what the Kernels view shows, and so on for each view


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `llmprof demo`."""
    parser.add_argument(
        "--speed", type=factor, default=1.0, metavar="X", help="times as fast as recorded (1)"
    )
    parser.add_argument(
        "--recording", type=Path, metavar="FILE", help="another packed run or journal to replay"
    )
    add_look_options(parser)


def run(args: argparse.Namespace) -> int:
    """Replay in a folder of its own that is removed at the end. Raises UserError."""
    require_terminal()
    recording = args.recording or Path(str(resources.files("llmprof.tui") / RECORDING))
    plan, origin = _plan(recording)
    from llmprof.tui.session.monitoring import Monitoring
    from llmprof.tui.session.starter import ReplayStarter

    with tempfile.TemporaryDirectory(prefix="llmprof-demo-") as folder:
        store = RunStore(Path(folder))
        samples = {} if args.recording else samples_in(store)
        starter = ReplayStarter(recording, args.speed)
        the_run = store.create("demo")
        try:
            starter.start(the_run, plan.experiment, plan.command)
            wait_started(the_run, starter.exit_code)
            return open_screen(
                watch=the_run,
                refresh=args.refresh,
                ascii_only=args.ascii,
                theme=args.theme,
                store=store,
                starter=starter,
                demo=True,
                samples=samples,
                monitoring=Monitoring(recorded=origin, of_run=True),
            )
        finally:
            starter.dismiss()


def samples_in(store: RunStore) -> dict[str, Run]:
    """The runs that come with the program for views of which the replayed run has nothing."""
    found = {}
    for each in sorted(resources.files("llmprof.tui").iterdir(), key=lambda file: file.name):
        if each.name.startswith(SAMPLE) and each.name.endswith(SUFFIX):
            view = each.name.removeprefix(SAMPLE).removesuffix(SUFFIX)
            found[view] = store.create(view)
            unpack(Path(str(each)), found[view])
    return found


def _plan(recording: Path) -> tuple[RunStarted, tuple[str, ...]]:
    """The recorded run's plan; the card and the day, as far as they are known."""
    plan: RunStarted | None = None
    day: tuple[str, ...] = ()
    try:
        for event in recorded(recording):
            if isinstance(event, Segment):
                day = (moment(event.wall_ns)[:10],)
            elif isinstance(event, RunStarted):
                plan = event
            elif isinstance(event, Environment) and plan is not None:
                return plan, (event.device_name, *day)
    except PackError as error:
        raise UserError(str(error)) from error
    except Exception as error:  # a foreign file fails in many ways
        raise UserError(f"{recording} cannot be replayed: {error}") from error
    if plan is None:
        raise UserError(f"{recording} holds no run")
    return plan, day
