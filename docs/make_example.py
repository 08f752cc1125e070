"""Make the example of a document from recordings: `python docs/make_example.py`."""

from __future__ import annotations

from pathlib import Path

from llmprof.core.document.files import document_files
from llmprof.core.document.sections import document
from llmprof.core.document.sources import sources_of
from llmprof.core.document.tables import tables_of
from llmprof.core.store.pack import open_view

ROOT = Path(__file__).parents[1]
TARGET = ROOT / "docs" / "example" / "example-report.md"
RUNS = ("switches", "precision", "checkpointing", "attention-kernels", "scaling")
KEPT = (".md", ".svg")  # the CSV files beside it are named in it and not kept


def example() -> dict[Path, str]:
    """The files of the example."""
    paths = [ROOT / "tests" / "fixtures" / f"{name}-h200.llmprof" for name in RUNS]
    made = document(tables_of(sources_of([(open_view(path), path) for path in paths], mixed=True)))
    return {
        path: text
        for path, text in document_files(made, TARGET, "md").items()
        if path.suffix in KEPT
    }


def main() -> None:
    """Write them."""
    for path, text in example().items():
        path.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
