"""Make the example of a document from a recorded write-up: `python docs/make_example.py`."""

from __future__ import annotations

from pathlib import Path

from llmprof.core.document.cost import TOKENS, Budget
from llmprof.core.document.files import document_files
from llmprof.core.document.sections import document
from llmprof.core.document.sources import sources_of
from llmprof.core.document.tables import tables_of
from llmprof.core.store.pack import open_view

ROOT = Path(__file__).parents[1]
WRITEUP = ROOT / "tests" / "fixtures" / "writeup-h200"
RUNS = (
    "end-to-end", "warmup", "precision", "switches", "attention", "scaling", "kernels", "memory",
    "compile", "attention-kernels",
)  # fmt: skip
FOLDER = ROOT / "docs" / "example"
KEPT = (".md", ".svg")  # the CSV files beside it are named in it and not kept


def example() -> dict[Path, str]:
    """The files of the example: findings first, and in the order of a hand-out's questions."""
    paths = [WRITEUP / f"{name}.llmprof" for name in RUNS]
    sources = sources_of([(open_view(path), path) for path in paths])
    tables = tables_of(sources, Budget(TOKENS, 2.5))
    made = {
        FOLDER / "example-report.md": document(tables),
        FOLDER / "example-questions.md": document(tables, questions=True),
    }
    return {
        path: text
        for target, each in made.items()
        for path, text in document_files(each, target, "md").items()
        if path.suffix in KEPT
    }


def main() -> None:
    """Write them."""
    for path, text in example().items():
        path.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
