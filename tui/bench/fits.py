"""Whether the form's largest case fits a card: a bar against its memory, and a verdict."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from llmprof.core.system.text import clean
from llmprof.core.system.units import GIB
from llmprof.tui.chart.cells import Row
from llmprof.tui.kit.canvas import Canvas, row_length
from llmprof.tui.kit.chips import LABEL_WIDTH

if TYPE_CHECKING:
    from llmprof.core.predict.fits import FitVerdict
    from llmprof.tui.bench.forecast import Forecast, Need

VERDICT_ROLES: dict[FitVerdict, str] = {
    "fits": "good",
    "too close to say": "warn",
    "does not fit": "bad",
}
_COUNTED_WORDS: tuple[tuple[FitVerdict, str], ...] = (
    ("does not fit", "do not fit"),
    ("too close to say", "too close to say"),
    ("fits", "fit"),
)


LEAST_BAR = 4


class FitsBar(Canvas):
    """One line: the bar, what is needed of how much, what becomes of how many cases."""

    DEFAULT_CSS = """
    FitsBar { height: 2; }
    """

    def __init__(self) -> None:
        super().__init__(id="fits")
        self._forecast: Forecast | None = None
        self._reason = ""

    def show(self, forecast: Forecast | None, reason: str = "") -> None:
        """Take a forecast as far as it has come, or why there is none."""
        self._forecast, self._reason = forecast, reason
        self.repaint()

    def draw(self, width: int, height: int) -> Sequence[Row]:
        """Bar and figures; below them the verdict and whose bar it is."""
        forecast = self._forecast
        need = forecast.largest if forecast is not None else None
        indent = LABEL_WIDTH if height > 1 else 0
        blank: Row = [(" " * indent, "")]
        if forecast is None or need is None:
            reason = self._reason or ("…" if forecast is not None and not forecast.done else "")
            return [[*blank, (self.look.text(reason), "muted")]]
        total = forecast.card.room.total_bytes
        text = f" {_span(need)} of {total / GIB:.1f} GiB"
        if height == 1:
            return [self._line(forecast, need, text, width)]
        bar = self._bar(forecast, need, max(LEAST_BAR, width - indent - len(text)))
        verdicts: Row = [*blank, *_verdicts(forecast)]
        for label in (_largest(forecast, need), context_label(forecast)):
            if row_length(verdicts) + len(label) <= width:
                verdicts.append((label, "muted"))
        return [[*blank, *bar, (text, "text")], verdicts]

    def _line(self, forecast: Forecast, need: Need, text: str, width: int) -> Row:
        """Bar, figures and verdict; where there is no room for all of it the verdict stays."""
        verdict, role = _short(forecast), VERDICT_ROLES[need.verdict]
        room = width - len(text) - len(verdict) - 2
        if room >= LEAST_BAR:
            bar = self._bar(forecast, need, room)
            return [*bar, (text, "text"), (f"  {verdict}", role)]
        said: Row = [(verdict, role)]
        for more in (text, f" {_span(need)} GiB"):
            if len(verdict) + 1 + len(more) <= width:
                return [*said, (f" {more}", "text")]
        return said

    def _bar(self, forecast: Forecast, need: Need, width: int) -> Row:
        """Memory that others hold, the least and the most that is needed, what is left."""
        look, room = self.look, forecast.card.room
        full, line = look.bar
        taken = _columns(room.taken_bytes, room.total_bytes, width)
        low = max(taken + 1, _columns(room.taken_bytes + need.low, room.total_bytes, width))
        high = max(low, _columns(room.taken_bytes + need.high, room.total_bytes, width))
        low, high = min(low, width), min(high, width)
        role = VERDICT_ROLES[need.verdict]
        dots = ":" if look.ascii else "┅"
        return [
            (full * min(taken, width), "axis"),
            (full * max(0, low - taken), role),
            (dots * (high - low), role),
            (line * (width - high), "rule"),
        ]


def _columns(size: int, total: int, width: int) -> int:
    return round(width * min(2.0, size / total)) if total else 0


def _largest(forecast: Forecast, need: Need) -> str:
    """Whose bar it is, where there are several cases."""
    if forecast.ticked == 1:
        return ""
    label = f"   largest {clean(need.case.model.name, 30)} {need.case.mode}"
    return f"{label} ctx {need.case.context_length} batch {need.case.batch_size}"


def context_label(forecast: Forecast) -> str:
    """The part of the need that was measured on this card."""
    measured = forecast.card.room.context_bytes
    return "" if measured is None else f"   with its CUDA context, {measured / 2**20:.0f} MiB"


def _span(need: Need) -> str:
    low, high = need.low / GIB, need.high / GIB
    return f"{low:.1f}–{high:.1f}" if high < 100 else f"{low:.0f}–{high:.0f}"


def _short(forecast: Forecast) -> str:
    """The verdict of one case, or how many of all fit for certain."""
    if forecast.ticked == 1:
        return forecast.needs[0].verdict
    return f"{forecast.count('fits')} of {forecast.ticked} fit"


def _verdicts(forecast: Forecast) -> Row:
    if forecast.ticked == 1 and forecast.needs:
        said = forecast.needs[0].verdict
        return [(said, VERDICT_ROLES[said])]
    if not forecast.counted:
        return [(f"{len(forecast.needs)} of {forecast.ticked} cases predicted so far", "muted")]
    row: Row = []
    for wanted, word in _COUNTED_WORDS:
        number = forecast.count(wanted)
        if number:
            every = number == forecast.ticked
            counted = f"{number} {wanted if number == 1 else word}"
            text = f"all {counted}" if every and wanted == "fits" else counted
            row += [(text, VERDICT_ROLES[wanted]), ("  ", "")]
    if forecast.unknown:
        row.append((f"{forecast.unknown} not predicted", "muted"))
    return row
