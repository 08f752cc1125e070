"""The figures of one card: every metric with its unit, n/a with its reason."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from llmprof.core.events import CardSample, throttle
from llmprof.core.monitor import words
from llmprof.core.system.text import clean
from llmprof.tui.chart.cells import Row
from llmprof.tui.kit.canvas import Canvas, heading
from llmprof.tui.monitor.card_panel import VENDOR, CardInSight

_ACTIVE = ("sm_activity", "tensor_activity", "dram_activity")


class CardFigures(Canvas):
    """Every metric of the card: label and value a line, n/a with its reason below."""

    DEFAULT_CSS = """
    CardFigures { width: 34; }
    """

    def __init__(self) -> None:
        super().__init__(id="card-figures")
        self._state: CardInSight | None = None

    def show(self, state: CardInSight | None) -> None:
        """Take a card."""
        self._state = state
        self.repaint()

    def draw(self, width: int, height: int) -> Sequence[Row]:
        """The lines, most wanted first."""
        state, look = self._state, self.look
        if state is None:
            return [heading(look, width, "Figures")]
        narrow = self.screen.has_class("-narrow")  # the chart has no room for the card's name
        name = clean(state.card.name, 60).removeprefix(VENDOR) if narrow else ""
        rows: list[Row] = [heading(look, width, "Figures", look.text(name))]
        lines: list[Row] = []
        for label, value, role in figures(state.card):
            text = look.text(value)
            if len(label) + 1 + len(text) > width:  # the label goes on a line of its own
                lines += [[(label, "muted")], [(text.rjust(width), role)]]
                continue
            pad = " " * (width - len(label) - len(text))
            lines.append([(label, "muted"), (pad, ""), (text, role)])
        reasons = self._reasons(state.card, width)
        if 1 + len(lines) + len(reasons) > height:  # what is not known stands below, with why
            lines = [line for line in lines if line[-1][0].strip() != "n/a"]
        # There may not be room for both; of a card that is gone the reason is worth more.
        rows += [*lines, *reasons] if state.card.state == "ok" else [*reasons, *lines]
        if len(rows) > height > 1:
            more = f"{len(rows) - height + 1} more lines in a taller window"
            rows[height - 1 :] = [[(more, "muted")]]
        return rows

    def _reasons(self, card: CardSample, width: int) -> list[Row]:
        rows: list[Row] = []
        for reason, names in words.reasons(card).items():
            who = ", ".join(names) if len(names) < 5 else "n/a"
            said = self.look.text(clean(f"{who}: {reason}", 300)).replace("_", " ")
            rows += [[(line, "muted")] for line in textwrap.wrap(said, max(10, width))]
        return rows


def figures(card: CardSample) -> list[tuple[str, str, str]]:
    """Label, value and role of a card's metrics."""
    harmful = any(map(throttle.is_harmful, card.throttle))
    memory = words.pair("memory_used", "memory_total", card)
    energy, since = "energy", "energy since driver load"
    if "energy_estimated" in card.metrics:
        energy, since = "energy_estimated", "energy, estimated"
    window = card.metrics.get("utilization_window")
    span = "" if window is None or window.value is None else f", {window.value:.0f} ms"
    values = [
        (f"utilisation{span}", words.amount("utilization", card), "title"),
        ("memory bandwidth", words.amount("memory_utilization", card), "text"),
        ("memory, unified" if card.unified else "memory", memory, "title"),
        ("power", words.pair("power", "power_limit", card), "title"),
        ("temperature", words.pair("temperature", "temperature_slowdown", card), "text"),
        ("SM clock", words.pair("sm_clock", "sm_clock_max", card), "text"),
        ("memory clock", words.pair("memory_clock", "memory_clock_max", card), "text"),
        ("throttle", words.throttle_words(card), "warn" if harmful else "text"),
        ("SM, tensor, DRAM", words.several(_ACTIVE, card), "text"),
        (since, words.amount(energy, card), "text"),
        ("PCIe out, in", words.several(("pcie_tx", "pcie_rx"), card), "text"),
        ("ECC errors", words.amount("ecc_errors", card), "text"),
        ("fan", words.amount("fan", card), "text"),
    ]
    slices = [
        (f"MIG {part.name or part.uuid or ''}"[:20], words.size(part.memory_used_bytes), "text")
        for part in card.mig
    ]
    return [(clean(label), clean(value), role) for label, value, role in (*values, *slices)]
