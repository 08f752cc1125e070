"""What stands around the kernel table: verdict, phase tabs, classes, one kernel in full."""

from __future__ import annotations

from collections.abc import Sequence

from textual import events
from textual.message import Message

from llmprof.core import events as ev
from llmprof.core.events.kernel_rows import KernelRow
from llmprof.core.figures.profile_wholes import work_word
from llmprof.core.state.view import CaseState
from llmprof.core.system.text import clean
from llmprof.tui.chart.cells import Row
from llmprof.tui.kernels.rows import ALL, PHASE_ROLES, phase_names, total_ms
from llmprof.tui.kit.canvas import Canvas, heading, row_length
from llmprof.tui.kit.format import milliseconds, percent

_VERDICT_ROLES = {"GPU-bound": "good", "partly launch-bound": "warn", "launch-bound": "bad"}


class KernelStatus(Canvas):
    """The case in sight, what bounds it, how much of it is accounted for, and what is missing."""

    DEFAULT_CSS = """
    KernelStatus { height: 1; }
    """

    def __init__(self) -> None:
        super().__init__(id="kernel-status")
        self._state: CaseState | None = None
        self._plain: float | None = None
        self._mark = ""

    def show(self, state: CaseState | None, plain: float | None = None, mark: str = "") -> None:
        """Take a case, the wall time of its plain step (milliseconds), and a word before it."""
        self._state, self._plain, self._mark = state, plain, mark
        self.styles.height = 1 + len(self._missing())
        self.repaint()

    def _missing(self) -> list[Row]:
        table = self._state.kernels if self._state else None
        return [[(clean(line, 200), "warn")] for line in (table.missing if table else ())[:2]]

    def draw(self, width: int, height: int) -> Sequence[Row]:
        """A line in which the first fact stays and others are left off from the right; warnings."""
        if self._state is None or self._state.kernels is None:
            return [[]]
        first, *others = self._facts(self._state, self._state.kernels)
        label = self.look.text(clean(self._state.case.label, 120).removeprefix("kernels · "))
        mark: Row = [(f"{self._mark} ", "muted")] if self._mark else []
        room = max(8, width - row_length(first) - row_length(mark) - 2)
        if len(label) > room:
            label = label[: room - len(self.look.ellipsis)] + self.look.ellipsis
        row: Row = [*mark, (label, "title"), ("  ", ""), *first]
        for part in others:
            if row_length(row) + 2 + row_length(part) > width:
                break
            row += [("  ", ""), *part]
        return [row, *self._missing()]

    def _facts(self, state: CaseState, table: ev.KernelTable) -> list[Row]:
        share = table.coverage.to_module
        tied = "no module ranges" if share is None else f"{percent(share, 2)} tied to modules"
        known: Row = [(tied, "muted")]
        if table.source == "cpu":
            return [[("no card: CPU ops by self time", "warn")], known]
        if state.timeline is None:
            return [known]
        step, verdict = state.timeline.parts[0], state.timeline.verdict
        busy = 100 * step.busy_ms / step.wall_ms if step.wall_ms else None
        return [
            [(f"{verdict} by profiled wall", _VERDICT_ROLES.get(verdict, "muted"))],
            [(f"GPU busy {percent(busy, 0)} of it", "muted")],
            *self._of_plain(step.busy_ms),
            known,
        ]

    def _of_plain(self, busy_ms: float) -> list[Row]:
        """The share of the plain step, which has no profiler in it; nothing of a shorter one."""
        if not self._plain or busy_ms > self._plain:
            return []
        return [[(f"{percent(100 * busy_ms / self._plain, 0)} of plain", "muted")]]


class PhaseTabs(Canvas):
    """All and every phase with its time; a click chooses."""

    DEFAULT_CSS = """
    PhaseTabs { height: 1; }
    """

    class Chosen(Message):
        """Another phase was clicked."""

        def __init__(self, phase: str) -> None:
            super().__init__()
            self.phase = phase

    def __init__(self) -> None:
        super().__init__(id="phase-tabs")
        self._state: CaseState | None = None
        self._phase = ALL
        self._places: list[tuple[int, int, str]] = []

    def show(self, state: CaseState | None, phase: str) -> None:
        """Take a case and the phase that is chosen."""
        self._state, self._phase = state, phase
        self.repaint()

    def draw(self, width: int, height: int) -> Sequence[Row]:
        """Name and milliseconds of one step, the chosen one marked."""
        self._places = []
        row: Row = []
        table = self._state.kernels if self._state else None
        for phase in phase_names(table) if table else ():
            assert table is not None
            chosen = phase == self._phase
            mark = self.look.on if chosen else self.look.off
            start = row_length(row)
            role = "chip" if chosen else (phase if phase in PHASE_ROLES else "muted")
            row.append((f"{mark} {clean(phase, 20)}", role))
            if width >= 90:
                row.append((f" {milliseconds(total_ms(table, phase))} ms", "muted"))
            self._places.append((start, row_length(row), phase))
            row.append(("  ", ""))
        return [row]

    def on_click(self, event: events.Click) -> None:
        """Choose what was clicked."""
        for start, end, phase in self._places:
            if start <= event.x < end:
                self.post_message(self.Chosen(phase))


class ClassBars(Canvas):
    """Time by class in the chosen phase, as bars of its share."""

    DEFAULT_CSS = """
    ClassBars { width: 34; }
    """

    def __init__(self) -> None:
        super().__init__(id="class-bars")
        self._state: CaseState | None = None
        self._phase = ALL

    def show(self, state: CaseState | None, phase: str) -> None:
        """Take a case and a phase."""
        self._state, self._phase = state, phase
        self.repaint()

    def draw(self, width: int, height: int) -> Sequence[Row]:
        """Class, bar, share, milliseconds of one step."""
        look, table = self.look, self._state.kernels if self._state else None
        word = "" if table is None else f", of {work_word(table.source)}"
        rows: list[Row] = [heading(look, width, "Classes", f"{self._phase}{word}")]
        if table is None:
            return [*rows, [("time by kind of work", "muted")]]
        times: dict[str, float] = {}
        for each in table.classes:
            if self._phase in (ALL, each.phase):
                times[each.label] = times.get(each.label, 0.0) + each.total_ms / table.steps
        whole = sum(times.values())
        room = max(3, width - 28)
        for label, time in sorted(times.items(), key=lambda pair: -pair[1]):
            share = time / whole if whole else 0.0
            full = round(share * room)
            rows.append(
                [
                    (f"{clean(label, 11):<12}", "text"),
                    (look.bar[0] * full, "accent"),
                    (look.bar[1] * (room - full), "rule"),
                    (f" {100 * share:4.1f} %", "text"),
                    (f" {milliseconds(time):>7}", "muted"),
                ]
            )
        return rows


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
            ("for", f"{percent(row.origin_share, 0)} of its time"),
            ("shortest", f"{milliseconds(1e3 * row.min_ms)} µs"),
            ("longest", f"{milliseconds(1e3 * row.max_ms)} µs"),
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
