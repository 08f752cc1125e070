"""A comparison as what the export dialog writes: the same as `llmprof compare --export`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from llmprof.tui.host import ExportFormat

if TYPE_CHECKING:
    from llmprof.core.report.run_comparison import RunComparison


class ComparisonExport:
    """All tables of two runs that were compared."""

    formats: Sequence[ExportFormat] = ("md", "csv", "json")

    def __init__(self, found: RunComparison) -> None:
        self._found = found
        self.title = f"{found.base_name} and {found.other_name} compared"
        ids = [each or "run" for each in (found.runs.base.run_id, found.runs.other.run_id)]
        self.stem = "-and-".join(Path(each).name for each in ids)

    def text(self, fmt: ExportFormat) -> str:
        """The comparison in a format."""
        from llmprof.core.report.run_comparison_exports import render

        assert fmt != "html"
        return render(self._found, fmt)

    def files(self, path: Path, fmt: ExportFormat, text: str) -> dict[Path, str]:
        """One file."""
        return {path: text}
