"""What `llmprof monitor --once` prints: the host, a row a card, and what stands behind it."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from rich.console import Console
from rich.table import Table
from rich.text import Text

from llmprof.cli.streams import put
from llmprof.core.devices.gpm import METRIC_IDS
from llmprof.core.events import CardProcess, CardSample
from llmprof.core.figures.case_device import describe_process
from llmprof.core.monitor import amounts, words
from llmprof.core.state.view import RunView

_COLUMNS = ("GPU", "Name", "Util", "Mem BW", "Memory", "Power", "Temp", "SM clock", "Throttle")


def print_table(view: RunView) -> None:
    """Print the machine as it stands; names go out as text, never as markup."""
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 200)
    with console.capture() as drawn:
        _draw(view, console)
    put(drawn.get(), end="")


def _draw(view: RunView, console: Console) -> None:
    sample = view.last_sample
    if sample is not None:
        host = sample.host
        cpu = amounts.text(host.cpu_percent, "%")
        _line(console, f"Host  CPU {cpu}  memory {words.host_memory(host)}")
    if sample is None or sample.cards_reason is not None:
        reason = "the sampler gave no sample" if sample is None else sample.cards_reason
        _line(console, f"GPU   {reason}")
    cards = [card.last for _, card in sorted(view.cards.items()) if card.last is not None]
    if not cards:
        return
    table = Table(*_COLUMNS, box=None, pad_edge=False)
    memory = words.pairs("memory_used", "memory_total", cards)
    for card, held in zip(cards, memory, strict=True):
        table.add_row(*map(Text, _row(card, held)))
    console.print(table)
    for card in cards:
        for line in _details(card):
            _line(console, line)


def _line(console: Console, text: str) -> None:
    """A line that the terminal itself folds, so that it can be copied whole."""
    console.print(Text(text), soft_wrap=True)


def _row(card: CardSample, memory: str) -> tuple[str, ...]:
    return (
        str(card.index),
        f"{card.name} {words.state(card)}".strip(),
        words.amount("utilization", card),
        words.amount("memory_utilization", card),
        f"{memory} unified" if card.unified else memory,
        words.pair("power", "power_limit", card),
        words.amount("temperature", card),
        words.pair("sm_clock", "sm_clock_max", card),
        words.throttle_words(card),
    )


def _details(card: CardSample) -> Iterable[str]:
    yield f"GPU {card.index}"
    shown = ("memory_clock", "energy", "energy_estimated", "fan", "ecc_errors", "pcie_tx")
    values = ", ".join(
        f"{name} {words.amount(name, card)}"
        for name in (*shown, "pcie_rx", *METRIC_IDS)
        if name in card.metrics and card.metrics[name].value is not None
    )
    yield f"  {values}"
    for instance in card.mig:
        used = words.size(instance.memory_used_bytes)
        yield f"  MIG {instance.name} {instance.uuid}: {used} used"
    for process in card.processes or ():
        yield f"  {_process(process)}"
    for reason, names in words.reasons(card).items():
        yield f"  n/a {', '.join(names)}: {reason}"


def _process(process: CardProcess) -> str:
    share = "" if process.sm_percent is None else f", SM {amounts.text(process.sm_percent, '%')}"
    return f"{describe_process(process)}: {words.size(process.memory_bytes)}{share}"
