"""Rows of the process table: who is on which card."""

from __future__ import annotations

from collections.abc import Sequence

from llmprof.core.events import CardProcess, CardSample
from llmprof.core.monitor import amounts, words
from llmprof.core.system.text import clean, clock
from llmprof.tui.kit.table_cells import TableCell, TableColumn, TableRow

PROCESS_COLUMNS = (
    TableColumn("GPU", 3, "right"),
    TableColumn("PID", 12, "right"),
    TableColumn("User", 10, priority=1),
    TableColumn("SM %", 5, "right", priority=2),
    TableColumn("GPU memory", 10, "right"),
    TableColumn("CPU %", 6, "right", priority=3),
    TableColumn("Host memory", 11, "right", priority=4),
    TableColumn("Running", 9, "right", priority=5),
    TableColumn("Command", 20),
)
CARD_COLUMNS = (
    TableColumn("GPU", 3, "right"),
    TableColumn("Name", 22),
    TableColumn("Util", 6, "right"),
    TableColumn("Memory", 18, "right"),
    TableColumn("Power", 11, "right"),
    TableColumn("Temp", 6, "right", priority=1),
    TableColumn("SM clock", 15, "right", priority=3),
    TableColumn("Throttle", 18, priority=2),
)
PERCENT_UNIT = amounts.AmountUnit("%")


def process_rows(cards: Sequence[CardSample]) -> list[TableRow]:
    """A row a process and card, those of ours set off."""
    listed = [
        (card.index, at, process)
        for card in cards
        for at, process in enumerate(card.processes or ())
    ]
    sizes = amounts.column((process.memory_bytes for _, _, process in listed), "B")
    resident = amounts.column((process.rss_bytes for _, _, process in listed), "B")
    return [_row(*each, *both) for each, *both in zip(listed, sizes, resident, strict=True)]


def why_empty(cards: Sequence[CardSample]) -> str:
    """What an empty table says."""
    for card in cards:
        metric = card.metrics.get("other_processes")
        if metric is not None and metric.reason is not None:
            return f"the processes are not known: {metric.reason}"
    return "no process holds memory on a card" if cards else "no card, no processes"


def card_rows(cards: Sequence[CardSample]) -> list[TableRow]:
    """A row a card."""
    memory = words.pairs("memory_used", "memory_total", cards)
    return [
        TableRow(
            str(card.index),
            (
                TableCell(str(card.index), "text", float(card.index)),
                TableCell(clean(card.name, 60), "title" if card.state == "ok" else "bad"),
                _metric_cell(card, "utilization", words.amount("utilization", card)),
                _metric_cell(card, "memory_used", memory[at]),
                _metric_cell(card, "power", words.pair("power", "power_limit", card)),
                _metric_cell(card, "temperature", words.amount("temperature", card)),
                _metric_cell(card, "sm_clock", words.pair("sm_clock", "sm_clock_max", card)),
                TableCell(words.state(card), "bad")
                if card.state != "ok"
                else TableCell(words.throttle_words(card)),
            ),
        )
        for at, card in enumerate(cards)
    ]


def _row(index: int, at: int, process: CardProcess, size: str, resident: str) -> TableRow:
    pid = "unknown" if process.pid is None else str(process.pid)
    share, cpu, running = process.sm_percent, process.cpu_percent, process.running_s
    name = process.command or ("not in this container" if not process.local else "unknown")
    role = "accent" if process.ours else "text"
    return TableRow(
        f"{index}/{process.pid if process.pid is not None else f'unknown {at}'}",
        (
            TableCell(str(index), "muted", float(index)),
            TableCell(pid if process.local else f"host {pid}", role, float(process.pid or 0)),
            TableCell(clean(process.user or "–", 40)),
            _amount_cell(share, "" if share is None else amounts.figure(share, PERCENT_UNIT)),
            _amount_cell(process.memory_bytes, size),
            _amount_cell(cpu, "" if cpu is None else amounts.figure(cpu, PERCENT_UNIT)),
            _amount_cell(process.rss_bytes, resident),
            _amount_cell(running, "" if running is None else clock(running)),
            TableCell(clean(name, 300), role if process.command else "muted"),
        ),
    )


def _amount_cell(value: float | None, text: str) -> TableCell:
    if value is None:
        return TableCell("–", "text", None)
    return TableCell(text, "text", float(value))


def _metric_cell(card: CardSample, name: str, text: str) -> TableCell:
    metric = card.metrics.get(name)
    value = None if metric is None else metric.value
    return TableCell(text if value is not None else "–", "text", value)
