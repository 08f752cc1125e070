"""`llmprof monitor`: the cards and the host of this machine, live, once, or as JSON."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import time

from llmprof.cli.exits import OK, UserError
from llmprof.cli.machine import print_table
from llmprof.cli.screen import add_look_options, open_screen
from llmprof.core.devices import words
from llmprof.core.devices.gpm import METRIC_IDS
from llmprof.core.devices.matching import Selection
from llmprof.core.devices.process import SamplerProcess
from llmprof.core.devices.sampler import INTERVAL_S, MAX_INTERVAL_S, MIN_INTERVAL_S
from llmprof.core.devices.watch import Watch
from llmprof.core.results import RunView

START_S = 30.0  # NVML takes up to 24 s to start with persistence mode off
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
    add_look_options(parser)


def run(args: argparse.Namespace) -> int:
    """Show the machine. Exit code 0; raises UserError for options that make no sense."""
    _check(args)
    if sys.stdout is None:  # nobody reads
        return OK
    if not (args.once or args.json) and sys.stdout.isatty():
        return _screen(args)
    watch = Watch(SamplerProcess(args.interval, args.gpus, activity=True))
    try:
        _await_cards(watch)
        if args.follow:
            _follow(watch)
        view = _settled(watch)
    finally:
        watch.close()
    if args.json:
        print(json.dumps(words.as_object(view, time.time_ns()), indent=2))
    else:
        print_table(view)
    return OK


def _screen(args: argparse.Namespace) -> int:
    from llmprof.tui.monitor import Monitoring
    from llmprof.tui.starter import EngineStarter

    class Cold(EngineStarter):
        """No engine waits with torch loaded: one is started when a run is asked for."""

        def warm(self) -> None:
            """Nothing."""

    with contextlib.ExitStack() as held:
        monitoring = Monitoring(args.interval)
        if args.gpus is not None:  # a card that is not there is refused before a screen opens
            watch = Watch(SamplerProcess(args.interval, args.gpus))
            held.callback(watch.close)
            _await_cards(watch)
            monitoring = Monitoring(args.interval, args.gpus, open=lambda *_: watch)
        return open_screen(
            view="monitor",
            starter=Cold(),
            monitoring=monitoring,
            refresh=args.refresh,
            ascii_only=args.ascii,
            theme=args.theme,
        )


def _check(args: argparse.Namespace) -> None:
    if args.follow and not args.json:
        raise UserError("--follow needs --json; without both, llmprof monitor is a live screen")
    if args.follow and args.once:
        raise UserError("--once and --follow exclude each other")
    if not MIN_INTERVAL_S <= args.interval <= MAX_INTERVAL_S:
        raise UserError(f"--interval must be from {MIN_INTERVAL_S} to {MAX_INTERVAL_S:.0f} seconds")
    try:
        Selection.parse(args.gpus)
    except ValueError as error:
        raise UserError(f"--gpus: {error}") from error


def _await_cards(watch: Watch) -> None:
    """Wait for NVML to start or fail. Raises UserError where --gpus names what is not there."""
    end = time.monotonic() + START_S
    while not _started(view := watch.view()) and time.monotonic() < end:
        watch.poll(0.25)
    if view.last_sample is not None and view.last_sample.cards_absent:
        raise UserError(f"--gpus: {view.last_sample.cards_reason}")


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
            print(line, flush=True)
