"""`llmprof monitor`: the cards and the host of this machine, live, once, or as JSON."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterable

from rich.console import Console
from rich.table import Table
from rich.text import Text

from llmprof.cli.exits import OK, UserError
from llmprof.cli.screen import add_look_options, open_screen
from llmprof.core.devices import words
from llmprof.core.devices.gpm import METRIC_IDS
from llmprof.core.devices.matching import Selection
from llmprof.core.devices.process import SamplerProcess
from llmprof.core.devices.sampler import INTERVAL_S, MAX_INTERVAL_S, MIN_INTERVAL_S
from llmprof.core.devices.watch import Watch
from llmprof.core.events import CardProcess, CardSample
from llmprof.core.joined import describe
from llmprof.core.results import RunView

START_S = 30.0  # NVML takes up to 24 s to start with persistence mode off
SETTLE_S = 3.0  # for metrics that need two readings
_COLUMNS = ("GPU", "Name", "Util", "Mem BW", "Memory", "Power", "Temp", "SM clock", "Throttle")


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
    if not (args.once or args.json) and sys.stdout.isatty():
        return _screen(args)
    watch = Watch(SamplerProcess(args.interval, args.gpus, activity=True))
    try:
        if args.follow:
            _follow(watch)
        view = _settled(watch)
    finally:
        watch.close()
    _refuse_missing(view, args.gpus)
    if args.json:
        print(json.dumps(words.as_object(view, time.time_ns()), indent=2))
    else:
        _print_table(view)
    return OK


def _screen(args: argparse.Namespace) -> int:
    from llmprof.tui.monitor import Monitoring
    from llmprof.tui.starter import EngineStarter

    class Cold(EngineStarter):
        """No engine waits with torch loaded: one is started when a run is asked for."""

        def warm(self) -> None:
            """Nothing."""

    return open_screen(
        view="monitor",
        starter=Cold(),
        monitoring=Monitoring(args.interval, args.gpus),
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


def _refuse_missing(view: RunView, gpus: str | None) -> None:
    """Raise UserError where --gpus names no card of this machine."""
    sample = view.last_sample
    reason = None if sample is None or sample.cards else sample.cards_reason
    if gpus is not None and reason is not None and reason.startswith("no GPU"):
        raise UserError(f"--gpus: {reason}")


def _settled(watch: Watch) -> RunView:
    """The first view in which NVML has started, or failed, and slow metrics are there."""
    end = time.monotonic() + START_S
    while not _started(view := watch.view()) and time.monotonic() < end:
        watch.poll(0.25)
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
    """A line a sample until interrupted, or until the reader goes away; none before NVML is up."""
    end = time.monotonic() + START_S
    while True:
        if watch.poll(1.0):
            view = watch.view()
            if view.last_sample is not None and (_started(view) or time.monotonic() > end):
                line = json.dumps(words.as_object(view, time.time_ns()), separators=(",", ":"))
                print(line, flush=True)


def _print_table(view: RunView) -> None:
    width = None if sys.stdout.isatty() else 200
    console = Console(soft_wrap=True, highlight=False)
    sample = view.last_sample
    if sample is not None:
        host = sample.host
        cpu = words.NOT_AVAILABLE if host.cpu_percent is None else f"{host.cpu_percent:.0f} %"
        used, total = words.size(host.memory_used_bytes), words.size(host.memory_total_bytes)
        console.print(Text(f"Host  CPU {cpu}  memory {used} of {total}"))
    if sample is None or sample.cards_reason is not None:
        reason = "the sampler gave no sample" if sample is None else sample.cards_reason
        console.print(Text(f"GPU   {reason}"))
    cards = [card.last for _, card in sorted(view.cards.items()) if card.last is not None]
    if not cards:
        return
    table = Table(*_COLUMNS, box=None, pad_edge=False)
    for card in cards:
        table.add_row(*map(Text, _row(card)))
    Console(highlight=False, width=width).print(table)
    for card in cards:
        console.print(*_details(card), sep="\n")


def _row(card: CardSample) -> tuple[str, ...]:
    memory = words.pair("memory_used", "memory_total", card)
    return (
        str(card.index),
        card.name if card.state == "ok" else f"{card.name} {card.state.upper()}",
        words.amount("utilization", card),
        words.amount("memory_utilization", card),
        f"{memory} unified" if card.unified else memory,
        words.pair("power", "power_limit", card),
        words.amount("temperature", card),
        words.pair("sm_clock", "sm_clock_max", card),
        words.throttle_words(card),
    )


def _details(card: CardSample) -> Iterable[Text]:
    yield Text(f"GPU {card.index}")
    shown = ("memory_clock", "energy", "energy_estimated", "fan", "ecc_errors", "pcie_tx")
    values = ", ".join(
        f"{name} {words.amount(name, card)}"
        for name in (*shown, "pcie_rx", *METRIC_IDS)
        if name in card.metrics and card.metrics[name].value is not None
    )
    yield Text(f"  {values}")
    for instance in card.mig:
        used = words.size(instance.memory_used_bytes)
        yield Text(f"  MIG {instance.name} {instance.uuid}: {used} used")
    for process in card.processes or ():
        yield Text(f"  {_process(process)}")
    for reason, names in words.reasons(card).items():
        yield Text(f"  n/a {', '.join(names)}: {reason}")


def _process(process: CardProcess) -> str:
    share = "" if process.sm_percent is None else f", SM {process.sm_percent:.0f} %"
    return f"{describe(process)}: {words.size(process.memory_bytes)}{share}"
