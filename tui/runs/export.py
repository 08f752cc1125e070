"""Export of a run's results: format, path, and a preview of what will be written."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.widgets import Input, Static
from textual.worker import Worker, WorkerState

from llmprof.core.state.view import RunView
from llmprof.core.store.journal import replay
from llmprof.core.store.run import Run
from llmprof.core.system.text import cause, clean
from llmprof.tui.chart.cells import Row
from llmprof.tui.kit.canvas import Canvas
from llmprof.tui.kit.chips import Chips
from llmprof.tui.kit.dialog import Dialog
from llmprof.tui.kit.field import Field, FormInput

if TYPE_CHECKING:
    from llmprof.core.document.sections import Document

ExportFormat = Literal["md", "csv", "json", "html"]
READING = "the run is still being read"
EXPORT_FORMATS: tuple[ExportFormat, ...] = ("md", "csv", "json", "html")  # html: the document


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
        self.lines: list[str] = ["reading the run…"]
        self._top = self._left = 0

    def show(self, text: str) -> None:
        """Take a text."""
        self.lines = text.splitlines() or ["(empty)"]
        self._top = self._left = 0
        self.repaint()

    def draw(self, width: int, height: int) -> Sequence[Row]:
        """The lines in sight."""
        shown = self.lines[self._top : self._top + height]
        return [
            [(self.look.text(clean_line(line))[self._left : self._left + width], "text")]
            for line in shown
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

    def __init__(self, run: Run) -> None:
        super().__init__()
        self._run = run
        self._view: RunView | None = None
        self.format: ExportFormat = "md"
        self.text = ""
        self._document: Document | None = None
        self._missing = READING  # why there is no text

    def compose(self) -> ComposeResult:
        """Format, path, preview."""
        with Vertical(classes="box wide"):
            yield Static(f"Export {self._run.label}", markup=False, classes="dialog-title")
            yield Chips("Format", EXPORT_FORMATS, ("md",), id="format")
            yield Field("Path", str(self._default_path()), "path of the file", id="path")
            yield Static("", markup=False, id="export-problem")
            yield Preview()
            with Horizontal(classes="dialog-note"):
                yield Static("^s writes, esc cancels", markup=False)

    def on_mount(self) -> None:
        """Read the run in a thread: a long one takes a second."""
        path = self.query_one("#path", FormInput)
        path.max_length = 0
        path.styles.max_width = "100%"
        path.focus()
        self._render_text()

    def on_chips_changed(self, message: Chips.Changed) -> None:
        """Another format: one at a time, and the path follows."""
        message.stop()
        added = [f for f in EXPORT_FORMATS if f in message.chips.chosen and f != self.format]
        if not added:
            message.chips.choose((self.format,))
            return
        self.format = added[0]
        message.chips.choose((self.format,))
        field = self.query_one("#path", Input)
        path = Path(field.value or self._default_path())
        if path.suffix[1:].lower() in EXPORT_FORMATS:
            field.value = str(path.with_suffix(f".{self.format}"))
        self._render_text()

    def on_input_changed(self, message: Input.Changed) -> None:
        """Another path: its extension picks the format, and what was wrong with it is past."""
        message.stop()
        self._asked = ()
        self._problem("")
        found = next((f for f in EXPORT_FORMATS if Path(message.value).suffix.lower() == f".{f}"),
                     self.format)  # fmt: skip
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
                self._problem(f"end the path in {', '.join(f'.{f}' for f in EXPORT_FORMATS)}")
                return
            files = self._files(path)
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
            self._work, thread=True, group="export", exclusive=True, exit_on_error=False
        )

    def _work(self) -> str:
        if self._view is None or self._view.outcome is None:
            self._view = replay(self._run.journal)
        if self.format == "html":
            from llmprof.core.document.files import document_of_run
            from llmprof.core.document.markdown import write_markdown

            self._document = document_of_run(self._view, self._run.path)
            return write_markdown(self._document, self._run.id)  # what a preview can show
        from llmprof.core.report import formats  # not needed for the first frame

        if self.format != "md":
            return formats.render(self._view, self.format)
        from llmprof.core.document.results import findings_text

        return formats.render(self._view, "md", findings_text(self._view, self._run.path))

    def _files(self, path: Path) -> dict[Path, str]:
        """What is written: the file and what belongs beside it."""
        if self.format == "html":
            from llmprof.core.document.files import document_files

            return {} if self._document is None else document_files(self._document, path, "html")
        from llmprof.core.report import formats

        beside = {} if self._view is None else formats.beside(self._view, path, self.format)
        return {path: self.text, **beside}

    def _default_path(self) -> Path:
        try:
            folder = Path.cwd()
        except OSError:  # it was removed
            folder = Path("~")
        return folder / f"{self._run.id}.{self.format}"

    def _problem(self, text: str) -> None:
        self.query_one("#export-problem", Static).update(self.host.look.text(text))


def _asking(there: tuple[Path, ...]) -> str:
    names = " and ".join(clean(path.name, 60) for path in there)  # of the folder in the field
    one = len(there) == 1
    return f"{names} {'exists' if one else 'exist'}; once more overwrites {'it' if one else 'them'}"


def _write(files: dict[Path, str]) -> None:
    from llmprof.core.report import formats

    for path, text in files.items():
        formats.write(path, text)


def clean_line(line: str) -> str:
    """A preview line without control characters, blanks kept."""
    return "".join(char if char.isprintable() else " " for char in line)
