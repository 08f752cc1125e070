"""The form, said as a command line."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import cast

from llmprof.core.system.text import clock
from llmprof.tui.chart.cells import Row
from llmprof.tui.kit.canvas import Canvas, heading
from llmprof.tui.session.choices import Checked


class Equivalent(Canvas):
    """The command that does the same, or what is wrong with the form."""

    DEFAULT_CSS = """
    Equivalent { height: auto; min-height: 3; }
    """

    def __init__(self, checked: Checked) -> None:
        super().__init__(id="equivalent")
        self.checked = checked
        self.count, self.seconds = checked.cases, cast("float | None", None)

    def get_content_height(self, container: object, viewport: object, width: int) -> int:
        """Heading and command."""
        return max(3, 1 + len(self._wrapped(max(10, width))))

    def draw(self, width: int, height: int) -> Sequence[Row]:
        """Command and number of cases, or the error."""
        look, checked = self.look, self.checked
        copy: Row = [("y", "key"), (" copies", "muted")]
        if checked.experiment is None:
            return [
                heading(look, width, "Command", right=copy),
                *([(line, "bad")] for line in self._wrapped(width)),
            ]
        noun = "case" if checked.cases == 1 else "cases"
        some = "" if self.count == checked.cases else f"{self.count:,} of "
        about = "" if self.seconds is None else f", about {clock(self.seconds)}"
        runs: Row = [("r", "key"), (f" runs {some}{checked.cases:,} {noun}{about}  ", "muted")]
        return [
            heading(look, width, "Command", right=[*runs, *copy]),
            *([(line, "text")] for line in self._wrapped(width)),
        ]

    def show(self, checked: Checked, count: int, seconds: float | None) -> None:
        """Take a checked form, how many of its cases would be measured here, and how long."""
        lines = len(self._wrapped(max(10, self.size.width)))
        self.checked, self.count, self.seconds = checked, count, seconds
        if len(self._wrapped(max(10, self.size.width))) != lines:
            self.refresh(layout=True)
        self.repaint()

    def _wrapped(self, width: int) -> list[str]:
        if self.checked.experiment is None:
            return textwrap.wrap(self.look.text(self.checked.message), width)
        head, *options = self.checked.line.split(" --")
        return wrapped((head, *(f"--{option}" for option in options)), width)


def wrapped(words: Sequence[str], width: int) -> list[str]:
    """Words in lines for a shell, each but the last ended with a backslash.

    A list too long for a line goes on in the next one after a comma, whole items only: the shell
    reads a backslash at the end of a line, and what begins the next one, as one word.
    """
    lines: list[str] = []
    for word in words:
        if lines and len(lines[-1]) + len(word) + 3 <= width:
            lines[-1] += f" {word}"
            continue
        if lines:
            lines[-1] += " \\"
        rest = f"  {word}" if lines else word
        while len(rest) > width - 2 and (at := rest.rfind(",", 0, width - 1)) > 0:
            lines.append(rest[: at + 1] + "\\")
            rest = rest[at + 1 :]
        lines.append(rest)
    return lines
