"""The form, said as a command line."""

from __future__ import annotations

from collections.abc import Sequence

from llmprof.tui.chart.cells import Row
from llmprof.tui.kit.canvas import Canvas, heading
from llmprof.tui.session.choices import Checked, command_line


class Equivalent(Canvas):
    """The command that does the same, or what is wrong with the form."""

    DEFAULT_CSS = """
    Equivalent { height: auto; min-height: 3; }
    """

    def __init__(self, checked: Checked) -> None:
        super().__init__(id="equivalent")
        self.checked = checked

    def get_content_height(self, container: object, viewport: object, width: int) -> int:
        """Heading and command."""
        return max(3, 1 + len(self._wrapped(max(10, width))))

    def draw(self, width: int, height: int) -> Sequence[Row]:
        """Command and number of cases, or the error."""
        look, checked = self.look, self.checked
        copy: Row = [("c", "key"), (" copy", "muted")]
        if checked.experiment is None:
            return [
                heading(look, width, "Command", right=copy), [(look.text(checked.message), "bad")]
            ]  # fmt: skip
        noun = "case" if checked.cases == 1 else "cases"
        runs: Row = [("r", "key"), (f" runs {checked.cases} {noun}  ", "muted")]
        return [
            heading(look, width, "Command", right=[*runs, *copy]),
            *([(line, "text")] for line in self._wrapped(width)),
        ]

    def show(self, checked: Checked) -> None:
        """Take a checked form."""
        lines = len(self._wrapped(max(10, self.size.width)))
        self.checked = checked
        if len(self._wrapped(max(10, self.size.width))) != lines:
            self.refresh(layout=True)
        self.repaint()

    def _wrapped(self, width: int) -> list[str]:
        if self.checked.experiment is None:
            return [""]
        lines = [""]
        line = command_line(self.checked.experiment, smoke=self.checked.smoke)
        head, *options = line.split(" --")
        for word in (head, *(f"--{option}" for option in options)):
            if lines[-1] and len(lines[-1]) + len(word) + 3 > width:
                lines[-1] += " \\"
                lines.append("  " + word)
            else:
                lines[-1] = f"{lines[-1]} {word}".lstrip() if len(lines) == 1 else (
                    f"{lines[-1]} {word}")  # fmt: skip
        return lines
