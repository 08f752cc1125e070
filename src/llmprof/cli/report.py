"""`llmprof report`: one document from one or several runs; needs no torch."""

from __future__ import annotations

import argparse
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from llmprof.cli.exits import CRASHED, OK, UserError
from llmprof.cli.show import find_source
from llmprof.cli.streams import put, tell
from llmprof.cli.types import listed, one_of, positive, tokens_type
from llmprof.core.document.cost import TOKENS, Budget
from llmprof.core.document.files import FORMATS, DocumentFormat, document_files
from llmprof.core.document.markdown import write_markdown
from llmprof.core.document.sections import SECTIONS, Document, document
from llmprof.core.document.sources import SourcesDiffer, identity, sources_of
from llmprof.core.document.tables import tables_of
from llmprof.core.engine.writeup import Writeup, WriteupError
from llmprof.core.report.formats import ExportError, check_writable, extension_of, write
from llmprof.core.state.view import RunView
from llmprof.core.store.pack import open_view
from llmprof.core.store.run import RunNotFound
from llmprof.core.system.archive import PackError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `llmprof report`."""
    parser.add_argument(
        "runs",
        nargs="*",
        metavar="RUN",
        help="names of runs, files, folders, or the folder of a write-up (newest run)",
    )
    parser.add_argument(
        "--export",
        "--output",
        action="append",
        default=[],
        type=Path,
        metavar="FILE",
        help="write FILE.md or FILE.html, and beside it figures and CSV files; may be repeated",
    )
    parser.add_argument(
        "--sections",
        type=listed(one_of(tuple(SECTIONS))),
        default=[],
        metavar="NAMES",
        help=f"only these: {', '.join(SECTIONS)}",
    )
    parser.add_argument(
        "--questions", action="store_true", help="in the order of a course hand-out's questions"
    )
    parser.add_argument(
        "--mixed",
        action="store_true",
        help="put runs of other devices or software in one document; a column says which is which",
    )
    add_budget_options(parser)


def add_budget_options(parser: argparse.ArgumentParser) -> None:
    """Declare what the costs of training are reckoned with."""
    parser.add_argument(
        "--price", type=positive, metavar="P", help="what an hour of the card costs"
    )
    parser.add_argument(
        "--tokens",
        type=tokens_type,
        default=TOKENS,
        metavar="N",
        help="tokens to train on, as 300M, 2B or 1e9 (1B)",
    )


def budget_of(args: argparse.Namespace) -> Budget:
    """What the options of add_budget_options() say."""
    return Budget(args.tokens, args.price)


def run(args: argparse.Namespace) -> int:
    """Print or write the document. Raises UserError."""
    if args.questions and args.sections:
        raise UserError("--questions has an order of its own: leave out --sections")
    for path in args.export:
        check_document(path)
    made = make_document(
        run_paths(args.runs),
        budget_of(args),
        sections=args.sections,
        questions=args.questions,
        mixed=args.mixed,
    )
    if not args.export:
        put(write_markdown(without_figures(made), "report"), end="")
    for path in args.export:
        _write(made, path)
    return OK


def run_paths(names: Sequence[str]) -> list[Path]:
    """Where runs lie; of a write-up's folder all of its runs. Raises UserError."""
    found: list[Path] = []
    for name in names or (None,):
        try:
            path = find_source(name)
            writeup = Writeup(path)
            found += [each.path for each in writeup.runs()] if writeup.there else [path]
        except (RunNotFound, WriteupError) as error:
            raise UserError(str(error)) from error
    if not found:
        raise UserError(f"{', '.join(names)}: no run of this write-up has begun")
    return found


def make_document(
    paths: Iterable[Path],
    budget: Budget,
    *,
    sections: Iterable[str] = (),
    questions: bool = False,
    mixed: bool = False,
) -> Document:
    """The document of the runs that lie there. Raises UserError."""
    try:
        sources = sources_of(_each_once(paths), mixed=mixed)
    except SourcesDiffer as error:
        raise UserError(str(error)) from error
    return document(tables_of(sources, budget), sections, questions=questions)


def write_document(paths: Iterable[Path], target: Path, budget: Budget) -> None:
    """Write the whole document of some runs. Raises UserError."""
    _write(make_document(paths, budget), target)


def check_document(path: Path, *, to_come: Path | None = None) -> None:
    """Raise UserError for a path to which no document could be written.

    to_come: a folder that is made before anything is written.
    """
    folder = path.absolute().parent
    if to_come is not None and folder == to_come.absolute():
        above = next(each for each in (folder, *folder.parents) if each.exists())
        path = above / path.name
    try:
        check_writable(path, FORMATS)
    except ExportError as error:
        raise UserError(str(error)) from error


def without_figures(made: Document) -> Document:
    """A document for a terminal, which has no files beside it."""
    return replace(made, sections=tuple(replace(each, figures=()) for each in made.sections))


def _each_once(paths: Iterable[Path]) -> list[tuple[RunView, Path]]:
    """The runs that lie there, each once; copies are named in a line. Raises UserError."""
    found: dict[Hashable, tuple[RunView, Path]] = {}
    for path in paths:
        view = _opened(path)
        if not view.cases and not view.loops:
            raise UserError(f"{path} holds a run without cases: there is nothing to report")
        key = identity(view)
        if key in found:
            tell(f"{path} is the run of {found[key][1]}: it counts once")
        else:
            found[key] = view, path
    return list(found.values())


def _opened(path: Path) -> RunView:
    try:
        return open_view(path)
    except PackError as error:
        raise UserError(str(error)) from error
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}") from error


def _write(made: Document, path: Path) -> None:
    fmt: DocumentFormat = "html" if extension_of(path, FORMATS) == "html" else "md"
    try:
        for each, text in document_files(made, path, fmt).items():
            write(each, text)
            tell(f"wrote {each}")
    except ExportError as error:
        raise UserError(str(error), CRASHED) from error
