"""The export dialog: format, path, and a preview of what will be written."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.widgets import Input, Static
from textual.worker import Worker, WorkerState

from llmprof.core.system.text import cause, clean
from llmprof.tui.chart.cells import Row
from llmprof.tui.host import Exportable, ExportFormat
from llmprof.tui.kit.canvas import Canvas, heading
from llmprof.tui.kit.chips import Chips
from llmprof.tui.kit.dialog import Dialog
from llmprof.tui.kit.field import Field, FormInput

READING = "it is still being read"


class Preview(Canvas, can_focus=True):
    """The beginning of the text, scrolled with the arrow keys."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Up", show=False, id="preview.up", tooltip="line above"),
        Binding("down,j", "move(1)", "Down", show=False, id="preview.down", tooltip="line below"),
        Binding("left,h", "shift(-8)", "Left", show=False, id="preview.left", tooltip="left"),
        Binding("right,l", "shift(8)", "Right", show=False, id="preview.right", tooltip="right"),
    ]
    DEFAULT_CSS = """
    Preview { height: 1fr; background: $surface; padding: 0 1; }
    """

    def __init__(self) -> None:
        super().__init__(id="preview")
        self.lines: list[str] = ["reading…"]
        self._top = self._left = 0

    def show(self, text: str) -> None:
        """Take a text."""
        self.lines = text.splitlines() or ["(empty)"]
        self._top = self._left = 0
        self.repaint()

    def draw(self, width: int, height: int) -> Sequence[Row]:
        """Which lines are in sight, and these."""
        shown = self.lines[self._top : self._top + height - 1]
        place = f"line {self._top + 1:,} of {len(self.lines):,}"
        return [
            heading(self.look, width, "Preview", right=[(place, "muted")], focused=self.has_focus),
            *(
                [(self.look.text(clean_line(line))[self._left : self._left + width], "text")]
                for line in shown
            ),
        ]

    def action_move(self, by: int) -> None:
        """Scroll by lines."""
        self._top = min(max(0, self._top + by), max(0, len(self.lines) - 1))
        self.repaint()

    def action_shift(self, by: int) -> None:
        """Scroll sideways."""
        self._left = max(0, self._left + by)
        self.repaint()

    def on_mouse_scroll_down(self) -> None:
        """Three lines down."""
        self.action_move(3)

    def on_mouse_scroll_up(self) -> None:
        """Three lines up."""
        self.action_move(-3)


class ExportDialog(Dialog[str]):
    """Returns the path written, None when cancelled."""

    DEFAULT_CSS = """
    ExportDialog #export-problem { color: $text-error; height: 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s", "save", "Write", id="export.save", tooltip="write the file"),
        Binding("enter", "save", "Write", show=False, id="export.enter",
                tooltip="write the file"),
    ]  # fmt: skip

    def __init__(self, what: Exportable) -> None:
        super().__init__()
        self._what = what
        self.format: ExportFormat = "md"
        self.text = ""
        self._missing = READING  # why there is no text

    def compose(self) -> ComposeResult:
        """Format, path, preview."""
        with Vertical(classes="box wide"):
            yield Static(f"Export {self._what.title}", markup=False, classes="dialog-title")
            yield Chips("Format", tuple(self._what.formats), ("md",), id="format")
            yield Field("Path", str(self._default_path()), "path of the file", id="path")
            yield Static("", markup=False, id="export-problem")
            yield Preview()
            with Horizontal(classes="dialog-note"):
                yield Static("^s writes, esc cancels", markup=False)

    def on_mount(self) -> None:
        """Work the text out in a thread: that of a long run takes a second."""
        path = self.query_one("#path", FormInput)
        path.max_length = 0
        path.styles.max_width = "100%"
        path.focus()
        self._render_text()

    def on_chips_changed(self, message: Chips.Changed) -> None:
        """Another format: one at a time, and the path follows."""
        message.stop()
        added = [f for f in self._what.formats if f in message.chips.chosen and f != self.format]
        if not added:
            message.chips.choose((self.format,))
            return
        self.format = added[0]
        message.chips.choose((self.format,))
        field = self.query_one("#path", Input)
        path = Path(field.value or self._default_path())
        if path.suffix[1:].lower() in self._what.formats:
            field.value = str(path.with_suffix(f".{self.format}"))
        self._render_text()

    def on_input_changed(self, message: Input.Changed) -> None:
        """Another path: its extension picks the format, and what was wrong with it is past."""
        message.stop()
        self._asked = ()
        self._problem("")
        extension = Path(message.value).suffix.lower()
        found = next((f for f in self._what.formats if extension == f".{f}"), self.format)
        if found != self.format:
            self.format = found
            self.query_one(Chips).put((found,))
            self._render_text()

    def on_input_submitted(self, message: Input.Submitted) -> None:
        """Enter in the path writes."""
        message.stop()
        self.action_save()

    def action_save(self) -> None:
        """Write the file and what belongs beside it; none that is there goes in silence."""
        if not self.text:
            self._problem(self._missing)
            return
        try:
            path = Path(self.query_one("#path", Input).value.strip()).expanduser()
            if path.suffix.lower() != f".{self.format}":
                self._problem(f"end the path in {', '.join(f'.{f}' for f in self._what.formats)}")
                return
            files = self._what.files(path, self.format, self.text)
            there = tuple(each for each in files if each.exists())
            if there and not self._confirmed(there):
                self._problem(_asking(there))
                return
            _write(files)
        except (OSError, ValueError, RuntimeError) as error:  # the last: ~ of nobody
            self._problem(cause(error))
            return
        self.dismiss(str(path.absolute()))

    def on_worker_state_changed(self, message: Worker.StateChanged) -> None:
        """The text is there, or why it is not."""
        if message.worker.group != "export":
            return
        if message.state is WorkerState.SUCCESS:
            self.text = str(message.worker.result)
            self.query_one(Preview).show(self.text)
        elif message.state is WorkerState.ERROR:
            self._missing = f"cannot export: {cause(message.worker.error or ValueError())}"
            self._problem(self._missing)
            self.query_one(Preview).show("")

    _asked: tuple[Path, ...] = ()

    def _confirmed(self, there: tuple[Path, ...]) -> bool:
        again, self._asked = self._asked == there, there
        return again

    def _render_text(self) -> None:
        self.text, self._missing = "", READING
        self.run_worker(
            partial(self._what.text, self.format),
            thread=True,
            group="export",
            exclusive=True,
            exit_on_error=False,
        )

    def _default_path(self) -> Path:
        try:
            folder = Path.cwd()
        except OSError:  # it was removed
            folder = Path("~")
        return folder / f"{self._what.stem}.{self.format}"

    def _problem(self, text: str) -> None:
        self.query_one("#export-problem", Static).update(self.host.look.text(text))


def _asking(there: tuple[Path, ...]) -> str:
    names = " and ".join(clean(path.name, 60) for path in there)  # of the folder in the field
    one = len(there) == 1
    return f"{names} {'exists' if one else 'exist'}; ^s again overwrites {'it' if one else 'them'}"


def _write(files: dict[Path, str]) -> None:
    from llmprof.core.report import formats

    for path, text in files.items():
        formats.write(path, text)


def clean_line(line: str) -> str:
    """A preview line without control characters, blanks kept."""
    return "".join(char if char.isprintable() else " " for char in line)
