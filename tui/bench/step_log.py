"""The step log: every step of the case in sight, warm-up apart."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType

from llmprof.core.spec.case import PHASES, Phase
from llmprof.core.state.step_columns import StepRow
from llmprof.core.state.view import CaseState
from llmprof.tui.chart.cells import Row
from llmprof.tui.kit.canvas import Canvas, heading
from llmprof.tui.kit.format import milliseconds_text
from llmprof.tui.session.curves import outliers

_SHORT_PHASES: dict[Phase, str] = {
    "forward": "fwd", "loss": "loss", "backward": "bwd", "optimizer": "opt", "zero_grad": "zero",
}  # fmt: skip
_PHASE_ORDER: tuple[Phase, ...] = ("forward", "backward", "optimizer", "loss", "zero_grad")


class StepLog(Canvas, can_focus=True):
    """The newest steps, or those scrolled to; the offset is counted from the newest step."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "scroll_by(1)", "Older", show=False, id="steps.up", tooltip="older step"),
        Binding("down,j", "scroll_by(-1)", "Newer", show=False, id="steps.down",
                tooltip="newer step"),
        Binding("pageup", "page(1)", "Page up", show=False, id="steps.page_up",
                tooltip="a page of older steps"),
        Binding("pagedown", "page(-1)", "Page down", show=False, id="steps.page_down",
                tooltip="a page of newer steps"),
        Binding("home", "scroll_by(1000000000)", "First", show=False, id="steps.first",
                tooltip="first warm-up step"),
        Binding("end", "scroll_by(-1000000000)", "Newest", show=False, id="steps.newest",
                tooltip="newest step, and stay with it"),
    ]  # fmt: skip
    DEFAULT_CSS = """
    StepLog { height: 1fr; }
    """

    def __init__(self) -> None:
        super().__init__(id="step-log")
        self._case: CaseState | None = None
        self._disturbed: Collection[int] = ()
        self._back = 0

    def show(self, case: CaseState | None, disturbed: Collection[int] = ()) -> None:
        """Take a case, and positions of its steps on a slowed-down or shared card.

        Scrolled back, the view stays on the steps it shows.
        """
        old = self._case
        if case is None or old is None or (case.index, case.attempt) != (old.index, old.attempt):
            self._back = 0
        elif self._back:
            self._back += case.steps_done - old.steps_done
        self._case = case
        self._disturbed = disturbed
        self.repaint()

    def draw(self, width: int, height: int) -> Sequence[Row]:
        """Heading, column titles, steps."""
        look, case = self.look, self._case
        note = "ms" + (", scrolled back" if self._back else "")
        title = heading(look, width, "Steps", note, focused=self.has_focus)
        if case is None or not case.steps_done:
            return [title, [("every step, warm-up first", "muted")]]
        phases = [phase for phase in _PHASE_ORDER if phase in case.case.phases][
            : (width - 14) // 8 or 1
        ]
        names = "".join(f"{_SHORT_PHASES[phase]:>8}" for phase in phases)
        rows: list[Row] = [title, [(f"{'step':<6}{'total':>8}{names}", "muted")]]
        room = max(0, height - 2)
        self._back = min(self._back, max(0, case.steps_done - room))
        end = case.steps_done - self._back
        marked = set(outliers(case))
        for at in range(max(0, end - room), end):
            rows.append(self._step(case, at, phases, marked))
        return rows

    def action_scroll_by(self, by: int) -> None:
        """Go back or forth by steps."""
        self._back = max(0, self._back + by)
        self.repaint()

    def action_page(self, by: int) -> None:
        """Go back or forth by a screenful."""
        self.action_scroll_by(by * max(1, self.size.height - 2))

    def on_mouse_scroll_up(self) -> None:
        """Older steps."""
        self.action_scroll_by(3)

    def on_mouse_scroll_down(self) -> None:
        """Newer steps."""
        self.action_scroll_by(-3)

    def _step(self, case: CaseState, at: int, phases: Sequence[Phase], marked: set[int]) -> Row:
        warm = len(case.warmup)
        if at < warm:
            return self._figures(case.warmup.row(at), f"w{at + 1}", phases, "muted", False)
        outlier = at - warm in marked
        disturbed = at - warm in self._disturbed
        role = "mark" if outlier else "warn" if disturbed else "text"
        return self._figures(
            case.measured.row(at - warm), f"{at - warm + 1}", phases, role, outlier or disturbed
        )

    def _figures(
        self, step: StepRow, name: str, phases: Sequence[Phase], role: str, outlier: bool
    ) -> Row:
        values = "".join(
            f"{milliseconds_text(step.device_ms[PHASES.index(phase)]):>8}" for phase in phases
        )
        sign = self.look.chart.mark if outlier else ""
        return [(f"{name:<5}", "muted"), (f"{sign:<1}{milliseconds_text(step.total_ms):>8}", role),
                (self.look.text(values), "muted" if role == "muted" else "text")]  # fmt: skip
