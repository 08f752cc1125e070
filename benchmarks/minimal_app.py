"""The smallest Textual app there is, to which the screen's first frame is compared."""

from __future__ import annotations

from textual.app import App, ComposeResult
from textual.widgets import Static


class MinimalApp(App[None]):
    """One line of text."""

    def compose(self) -> ComposeResult:
        """The line that the benchmark waits for."""
        yield Static("Commands")


if __name__ == "__main__":
    MinimalApp().run()
