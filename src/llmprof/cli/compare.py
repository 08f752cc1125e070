"""`llmprof compare`: what changed between two runs, by case and phase; needs no torch."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from llmprof.cli.exits import CRASHED, NOTHING, OK, REGRESSED, UserError
from llmprof.cli.options import add_export_option
from llmprof.cli.output import check_exports
from llmprof.cli.printed import put_page
from llmprof.cli.show import find_view
from llmprof.cli.streams import put, tell
from llmprof.cli.types import percent_type
from llmprof.core.report.formats import ExportError, Format, format_of, write
from llmprof.core.report.loop_comparison import LoopComparison
from llmprof.core.report.loop_comparison import render as render_loops
from llmprof.core.report.run_comparison import RunComparison
from llmprof.core.report.run_comparison_exports import render
from llmprof.core.report.run_comparison_words import regressions
from llmprof.core.report.sentences import reason
from llmprof.core.report.table import Table
from llmprof.core.report.two_runs import TwoRuns
from llmprof.core.state.view import RunView

REGRESSION = "regression="


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `llmprof compare`."""
    what = "a run's name, `last`, a baseline's name, or a file or folder"
    parser.add_argument("a", help=f"{what}; what B is compared with")
    parser.add_argument("b", help="the other run")
    add_export_option(parser)
    parser.add_argument("--json", action="store_true", help="print the comparison as JSON")
    parser.add_argument(
        "--fail-on",
        type=regression_limit,
        metavar="regression=P%",
        help="exit with 4 where a step or a phase of B is called slower, by at least P%%, or a "
        "case of A has no figures in B; with 3 where nothing could be judged",
    )
    parser.add_argument(
        "--force",
        action="store_true",
        help="compare also unlike devices, unequal warm-up and profiled steps; the tables say so",
    )


def run(args: argparse.Namespace) -> int:
    """Compare and print or export. Raises UserError."""
    check_exports(args.export)
    views = find_view(args.a), find_view(args.b)
    if any(view.loops for view in views):
        return _compare_loops(args, views)
    found = RunComparison(TwoRuns(*views), *_names(args, views))
    _refuse(found.runs, force=args.force)
    _deliver(found.tables, partial(render, found), args.export, as_json=args.json)
    return OK if args.fail_on is None else judge(found.runs, args.fail_on)


def _compare_loops(args: argparse.Namespace, views: tuple[RunView, RunView]) -> int:
    if not all(view.loops for view in views):
        raise UserError("not compared: one is a training loop, the other a benchmark")
    if args.fail_on is not None:
        raise UserError("--fail-on judges benchmarks: of two training loops nothing is judged")
    found = LoopComparison(*views, *_names(args, views))
    _deliver(found.tables, partial(render_loops, found), args.export, as_json=args.json)
    return OK


def regression_limit(text: str) -> float:
    """An argparse type: regression=5%, the change from which on a comparison fails."""
    if not text.startswith(REGRESSION):
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form regression=5%")
    return percent_type(text.removeprefix(REGRESSION))


def judge(runs: TwoRuns, limit_percent: float) -> int:
    """The exit code, with a line on standard error for everything that decided it."""
    lines = regressions(runs.comparisons, limit_percent)
    lines += [f"{pair.base.case.label}: {reason(pair.other)}, measured in A" for pair in runs.lost]
    unjudged = [found for found in runs.comparisons if not found.judged]
    for line in lines:
        tell(f"regression: {line}")
    for found in unjudged:
        tell(f"{found.base.case.label}: {found.not_judged}")
    if lines:
        return REGRESSED
    if len(unjudged) == len(runs.comparisons):
        raise UserError("nothing could be judged; measure both with --processes 3 or more", NOTHING)
    return OK


def _names(args: argparse.Namespace, views: tuple[RunView, RunView]) -> tuple[str, str]:
    """How the runs are called: by what was given; `last` by the run's own name."""
    given = args.a, args.b
    first, second = (
        view.run_id if name == "last" and view.run_id else Path(name).name or name
        for name, view in zip(given, views, strict=True)
    )
    return first, second


def _refuse(runs: TwoRuns, *, force: bool) -> None:
    if runs.obstacles and not force:
        raise UserError(f"not compared: {'; '.join(runs.obstacles)} (--force compares and says so)")
    if not runs.comparisons and not runs.one_sided:
        raise UserError(
            "nothing to compare: no case of one run answers one of the other "
            "(equal model, mode, context and batch)",
            NOTHING,
        )


def _deliver(
    tables: Sequence[Table],
    rendered: Callable[[Format], str],
    exports: list[Path],
    *,
    as_json: bool,
) -> None:
    for path in exports:
        try:
            write(path, rendered(format_of(path)))
        except ExportError as error:
            raise UserError(str(error), CRASHED) from error
        tell(f"wrote {path}")
    if as_json:
        put(rendered("json"), end="")
    elif not exports:
        put_page(tables, rendered("md").rstrip("\n"))
