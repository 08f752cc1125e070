"""One kernel in full."""

from __future__ import annotations

from collections.abc import Sequence

from llmprof.core.events.kernel_rows import KernelRow
from llmprof.core.system.text import clean
from llmprof.tui.chart.cells import Row
from llmprof.tui.kit.canvas import Canvas, heading, row_length
from llmprof.tui.kit.format import milliseconds_text, percent_text


class KernelDetail(Canvas):
    """The kernel under the cursor in full: name, stream, launching op, module, source."""

    DEFAULT_CSS = """
    KernelDetail { height: 5; }
    """

    def __init__(self) -> None:
        super().__init__(id="kernel-detail")
        self._row: KernelRow | None = None
        self._on_card = True

    def show(self, row: KernelRow | None, *, on_card: bool) -> None:
        """Take a kernel."""
        self._row, self._on_card = row, on_card
        self.repaint()

    def draw(self, width: int, height: int) -> Sequence[Row]:
        """Facts first, then as much of the name as fits."""
        look, row = self.look, self._row
        rows: list[Row] = [heading(look, width, "Kernel" if self._on_card else "CPU op")]
        if row is None:
            return [*rows, [("the row under the cursor, in full", "muted")]]
        place = "stream" if self._on_card else "thread"
        facts = [
            ("class", row.group),
            (place, "unknown" if row.place is None else str(row.place)),
            *((("launched by", row.op or "unattributed"),) if self._on_card else ()),
            ("module", row.module or "unattributed"),
            ("for", f"{percent_text(row.origin_share, 0)} of its time"),
            ("shortest", f"{milliseconds_text(1e3 * row.min_ms)} µs"),
            ("longest", f"{milliseconds_text(1e3 * row.max_ms)} µs"),
        ]
        if row.source:
            facts.insert(-2, ("source", row.source))
        line: Row = []
        for label, value in facts:
            part: Row = [(f"{label} ", "muted"), (clean(value, 200), "text"), ("  ", "")]
            if row_length([*line, *part]) <= width + 2:
                line += part
        rows.append(line)
        name, room = clean(row.full_name, 4_000), max(10, width)
        lines = [name[at : at + room] for at in range(0, len(name), room)]  # few blanks to wrap at
        return [*rows, *([(text, "text")] for text in lines)]
