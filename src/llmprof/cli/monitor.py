"""`llmprof monitor`: the cards and the host of this machine, live, once, or as JSON."""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from llmprof.cli.exits import OK, UserError
from llmprof.cli.machine import print_table
from llmprof.cli.open_screen import open_screen, require_terminal
from llmprof.cli.screen import add_look_options
from llmprof.cli.streams import put
from llmprof.cli.types import factor
from llmprof.core.devices.gpm import METRIC_IDS
from llmprof.core.devices.sampler import INTERVAL_S, MAX_INTERVAL_S, MIN_INTERVAL_S
from llmprof.core.devices.sampler_client import SamplerProcess
from llmprof.core.events.matching import Selection
from llmprof.core.monitor import words
from llmprof.core.monitor.playback import Playback, whole_recording
from llmprof.core.monitor.recordings import Recording, RecordingError
from llmprof.core.monitor.watch import Watch
from llmprof.core.state.view import RunView
from llmprof.core.system.text import duration

SAMPLER_START_S = 30.0  # NVML takes up to 24 s to start with persistence mode off
SETTLE_S = 3.0  # for metrics that need two readings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `llmprof monitor`."""
    parser.add_argument("--once", action="store_true", help="print one table and exit")
    parser.add_argument("--json", action="store_true", help="print one JSON object and exit")
    parser.add_argument("--follow", action="store_true", help="with --json: a line a sample")
    parser.add_argument(
        "--interval", type=float, default=INTERVAL_S, metavar="S", help="seconds between samples"
    )
    parser.add_argument("--gpus", metavar="LIST", help="indices or UUIDs, as 0,2 (all)")
    parser.add_argument(
        "--replay",
        type=Path,
        metavar="FILE",
        help="show what --json --follow wrote, or the samples of a run, instead of this machine",
    )
    parser.add_argument(
        "--speed", type=factor, metavar="X", help="with --replay: times as fast as recorded (1)"
    )
    add_look_options(parser)


def run(args: argparse.Namespace) -> int:
    """Show the machine. Exit code 0; raises UserError for options that make no sense."""
    _check(args)
    if sys.stdout is None:  # nobody reads
        return OK
    live = not (args.once or args.json) and sys.stdout.isatty()
    if args.replay is not None:
        return _replay(args, live=live)
    if live:
        return _watch(args)
    watch = Watch(SamplerProcess(args.interval, args.gpus, activity=True))
    try:
        _await_cards(watch, args.gpus)
        if args.follow:
            _follow(watch)
        view = _settled(watch)
    finally:
        watch.close()
    _print(view, time.time_ns(), as_json=args.json)
    return OK


def _replay(args: argparse.Namespace, *, live: bool) -> int:
    """A recording on the screen, or the machine as it was at the recording's end."""
    try:
        recording = Recording(args.replay)
        if live:
            require_terminal()
            playback = Playback(recording, args.speed or 1.0)
            return _screen(args, {"recorded": recording.origin, "open": lambda *_: playback})
        view = whole_recording(recording)
    except RecordingError as error:
        raise UserError(str(error)) from error
    except OSError as error:
        raise UserError(f"{args.replay}: {error.strerror or error}") from error
    if not args.json:
        length = duration(recording.seconds(view.last_t))
        put(f"Recorded {recording.when}, the end of {length}{recording.unreadable}")
    _print(view, recording.wall(view.last_t), as_json=args.json)
    return OK


def _print(view: RunView, wall_ns: int | None, *, as_json: bool) -> None:
    if as_json:
        put(json.dumps(words.as_object(view, wall_ns), indent=2))
    else:
        print_table(view)


def _watch(args: argparse.Namespace) -> int:
    """This machine on the screen; a card that is not there is refused before one opens."""
    if args.gpus is None:
        return _screen(args, {"interval_s": args.interval})
    require_terminal()
    watch = Watch(SamplerProcess(args.interval, args.gpus))
    try:
        _await_cards(watch, args.gpus)
        return _screen(args, {"interval_s": args.interval, "open": lambda *_: watch})
    finally:
        watch.close()


def _screen(args: argparse.Namespace, monitoring: dict[str, Any]) -> int:
    from llmprof.tui.session.monitoring import Monitoring
    from llmprof.tui.session.starter import EngineStarter

    class Cold(EngineStarter):
        """No engine waits with torch loaded: one is started when a run is asked for."""

        def warm(self) -> None:
            """Nothing."""

    return open_screen(
        view="monitor",
        starter=Cold(),
        monitoring=Monitoring(**monitoring),
        refresh=args.refresh,
        ascii_only=args.ascii,
        theme=args.theme,
    )


def _check(args: argparse.Namespace) -> None:
    if args.follow and not args.json:
        raise UserError("--follow needs --json; without both, llmprof monitor is a live screen")
    if args.follow and args.once:
        raise UserError("--once and --follow exclude each other")
    if args.replay is not None and (args.follow or args.gpus is not None):
        raise UserError("--replay shows the whole of a file: --follow and --gpus have no effect")
    if args.replay is None and args.speed is not None:
        raise UserError("--speed needs --replay")
    if not MIN_INTERVAL_S <= args.interval <= MAX_INTERVAL_S:
        raise UserError(f"--interval must be from {MIN_INTERVAL_S} to {MAX_INTERVAL_S:.0f} seconds")
    try:
        Selection.parse(args.gpus)
    except ValueError as error:
        raise UserError(f"--gpus: {error}") from error


def _await_cards(watch: Watch, asked: str | None) -> None:
    """Wait for NVML to start or fail. Raises UserError where a card asked for is not there."""
    end = time.monotonic() + SAMPLER_START_S
    while not _started(view := watch.view()) and time.monotonic() < end:
        watch.poll(0.25)
    sample = view.last_sample
    if sample is None or not _started(view):
        return
    if sample.cards_absent or (Selection.parse(asked).names and not sample.cards):
        raise UserError(f"--gpus: {sample.cards_reason or 'no card answers'}")


def _settled(watch: Watch) -> RunView:
    """The first view in which slow metrics are there."""
    end = time.monotonic() + SETTLE_S
    while not _complete(view := watch.view()) and time.monotonic() < end:
        watch.poll(0.25)
    return view


def _started(view: RunView) -> bool:
    sample = view.last_sample
    if sample is None:
        return False
    return bool(sample.cards) or "is starting" not in (sample.cards_reason or "")


def _complete(view: RunView) -> bool:
    sample = view.last_sample
    if sample is None or sample.host.cpu_percent is None:
        return False
    cards = [card.last for card in view.cards.values() if card.last is not None]
    return all(
        card.state != "ok" or all(name in card.metrics for name in (*METRIC_IDS, "pcie_rx"))
        for card in cards
    )


def _follow(watch: Watch) -> None:
    """A line a sample until interrupted, or until the reader goes away."""
    while True:
        if watch.poll(1.0) and (view := watch.view()).last_sample is not None:
            line = json.dumps(words.as_object(view, time.time_ns()), separators=(",", ":"))
            put(line)
