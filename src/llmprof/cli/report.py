"""`llmprof report`: one document from one or several runs; needs no torch."""

from __future__ import annotations

import argparse
from collections.abc import Hashable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from llmprof.cli.exits import CRASHED, OK, UserError
from llmprof.cli.found import found_writeup
from llmprof.cli.show import find_source
from llmprof.cli.streams import put, tell
from llmprof.cli.types import EachFileOnce, listed, one_of, positive, tokens_type
from llmprof.core.document.cost import TOKENS, Budget
from llmprof.core.document.files import FORMATS, DocumentFormat, document_files
from llmprof.core.document.markdown import write_markdown
from llmprof.core.document.sections import SECTIONS, Document, document
from llmprof.core.document.sources import SourcesDiffer, identity, sources_of
from llmprof.core.document.tables import tables_of
from llmprof.core.report.formats import ExportError, check_writable, extension_of, write
from llmprof.core.state.view import RunView
from llmprof.core.store.pack import open_view
from llmprof.core.store.run import RunNotFound
from llmprof.core.store.writeup import Writeup, WriteupError
from llmprof.core.system.archive import PackError


class Place(NamedTuple):
    """Where a run lies, how that is told, and what its write-up left out for time."""

    path: Path
    told: str
    left_out: tuple[str, ...] = ()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `llmprof report`."""
    parser.add_argument(
        "runs",
        nargs="*",
        metavar="RUN",
        help="names of runs, files, folders, or a write-up's folder or file (newest run)",
    )
    parser.add_argument(
        "--export",
        "--output",
        action=EachFileOnce,
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
    with ExitStack() as stack:
        made = make_document(
            find_places(args.runs, stack),
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


def find_places(names: Sequence[str], stack: ExitStack) -> list[Place]:
    """Where runs lie, of a write-up all of its runs; as long as the stack. Raises UserError."""
    found: list[Place] = []
    for name in names or (None,):
        try:
            path = find_source(name)
            writeup = found_writeup(path, stack)
            if writeup is None:
                found.append(Place(path, str(path)))
            else:
                found += places_in(writeup, path)
        except (RunNotFound, WriteupError) as error:
            raise UserError(str(error)) from error
    if not found:
        raise UserError(f"{', '.join(names)}: no run of this write-up has begun")
    return found


def places_in(writeup: Writeup, given: Path) -> list[Place]:
    """Where the runs of a write-up lie, that was given as a folder or a file. Raises WriteupError.

    Nobody knows of the folder into which a file is unpacked.
    """
    left_out = writeup.load().left_out
    return [
        Place(each.path, str(each.path) if given.is_dir() else f"{each.id} in {given}", left_out)
        for each in writeup.runs()
    ]


def make_document(
    places: Sequence[Place],
    budget: Budget,
    *,
    sections: Iterable[str] = (),
    questions: bool = False,
    mixed: bool = False,
) -> Document:
    """The document of the runs that lie there. Raises UserError."""
    try:
        sources = sources_of(_each_once(places), mixed=mixed)
    except SourcesDiffer as error:
        raise UserError(str(error)) from error
    left_out = tuple(dict.fromkeys(name for place in places for name in place.left_out))
    return document(tables_of(sources, budget, left_out), sections, questions=questions)


def write_document(places: Sequence[Place], target: Path, budget: Budget) -> None:
    """Write the whole document of some runs. Raises UserError."""
    _write(make_document(places, budget), target)


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


def _each_once(places: Iterable[Place]) -> list[tuple[RunView, Path]]:
    """The runs that lie there, each once; copies are named in a line. Raises UserError."""
    found: dict[Hashable, tuple[RunView, Place]] = {}
    for place in places:
        view = _opened(place.path)
        if not view.cases and not view.loops:
            raise UserError(f"{place.told} holds a run without cases: there is nothing to report")
        key = identity(view)
        if key in found:
            tell(f"{place.told} is the run of {found[key][1].told}: it counts once")
        else:
            found[key] = view, place
    return [(view, place.path) for view, place in found.values()]


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
