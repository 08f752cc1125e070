"""A run's results as what the export dialog writes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from llmprof.core.state.view import RunView
from llmprof.core.store.journal import replay
from llmprof.core.store.run import Run
from llmprof.tui.host import ExportFormat

if TYPE_CHECKING:
    from llmprof.core.document.sections import Document


class RunExport:
    """Tables as Markdown, CSV or JSON, or the document as HTML; the run is read when asked."""

    formats: Sequence[ExportFormat] = ("md", "csv", "json", "html")  # html: the document

    def __init__(self, run: Run) -> None:
        self._run = run
        self._view: RunView | None = None
        self._document: Document | None = None
        self.title, self.stem = run.label, run.id

    def text(self, fmt: ExportFormat) -> str:
        """What a preview shows; reads the run, which takes a second where it is long."""
        if self._view is None or self._view.outcome is None:
            self._view = replay(self._run.journal)
        if fmt == "html":
            from llmprof.core.document.files import document_of_run
            from llmprof.core.document.markdown import write_markdown

            self._document = document_of_run(self._view, self._run.path)
            return write_markdown(self._document, self._run.id)  # what a preview can show
        from llmprof.core.report import formats  # not needed for the first frame

        if fmt != "md":
            return formats.render(self._view, fmt)
        from llmprof.core.document.results import findings_text

        return formats.render(self._view, "md", findings_text(self._view, self._run.path))

    def files(self, path: Path, fmt: ExportFormat, text: str) -> dict[Path, str]:
        """What is written: the file and what belongs beside it."""
        if fmt == "html":
            from llmprof.core.document.files import document_files

            return {} if self._document is None else document_files(self._document, path, "html")
        from llmprof.core.report import formats

        beside = {} if self._view is None else formats.beside(self._view, path, fmt)
        return {path: text, **beside}
