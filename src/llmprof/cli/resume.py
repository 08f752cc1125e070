"""`llmprof resume`: measure the cells that a run still lacks."""

from __future__ import annotations

import argparse
import shlex
import time
from pathlib import Path

from llmprof.cli.exits import OK, USAGE, UserError
from llmprof.cli.options import add_export_option
from llmprof.cli.output import check_exports, deliver
from llmprof.cli.pack import add_pack_option, check_target
from llmprof.cli.run import detach, finish, measure_run, require_device, require_torch
from llmprof.cli.streams import tell
from llmprof.core.engine.client import Plan
from llmprof.core.figures.outcomes import to_resume
from llmprof.core.figures.same_machine import MOVED
from llmprof.core.store.journal import replay
from llmprof.core.store.pack import adopt, holds_writeup, pack
from llmprof.core.store.run import Run, RunNotFound, RunStore
from llmprof.core.system.archive import PackError
from llmprof.core.system.text import counted

_NOT_OURS = (
    "run {0} is a training loop that llmprof watched: there is nothing of it to measure again; "
    "go on with the training itself"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `llmprof resume`."""
    parser.add_argument("run", nargs="?", help="a run's name, or a packed file (newest run)")
    parser.add_argument(
        "--failed", action="store_true", help="also the cells that crashed or did not fit"
    )
    parser.add_argument(
        "--elsewhere",
        action="store_true",
        help="go on though the device or the software is another; the tables say which is which",
    )
    parser.add_argument("--detach", action="store_true", help="start it, print its name, leave it")
    add_pack_option(parser)
    add_export_option(parser)


def run(args: argparse.Namespace) -> int:
    """Resume; the exit code says whether there are results. Raises UserError."""
    check_exports(args.export)
    packed = check_target(args.pack)
    require_torch()
    the_run = find(args.run)
    if the_run.is_loop:
        raise UserError(_NOT_OURS.format(the_run.id))
    if the_run.alive():
        raise UserError(
            f"run {the_run.id} is still going on{the_run.place}: `llmprof attach {the_run.id}`"
        )
    try:
        view = replay(the_run.journal)
    except FileNotFoundError:
        raise UserError(f"run {the_run.id} has no journal to resume") from None
    if view.loops:
        raise UserError(_NOT_OURS.format(the_run.id))
    if view.experiment is None:
        raise UserError(f"run {the_run.id} has no plan to resume")
    wanted = to_resume(view, failed=args.failed)
    if not wanted:
        tell(f"{the_run.id}: nothing is missing")
        deliver(view, args.export, the_run.path)
        if packed is not None:
            pack(the_run, packed)
            tell(f"packed {packed}")
        return OK
    tell(f"{the_run.id}: {len(wanted)} of {counted(len(view.cases), 'cell')} to measure")
    require_device(view.experiment.device)
    plan = Plan(
        run_dir=str(the_run.path),
        experiment=view.experiment,
        command=view.command,
        lifeline=not args.detach,
        resume=wanted,
        elsewhere=args.elsewhere,
        pack=None if packed is None else str(packed),
    )
    if args.detach:
        return detach(the_run, plan)
    before, start = len(view.segments), time.monotonic_ns()
    view, signal = measure_run(the_run, plan)
    errors = (log.message for log in view.log if log.level == "error" and log.t >= start)
    refused = next(errors, None)
    if refused is not None and to_resume(view, failed=args.failed) == wanted and signal is None:
        hint = " (--elsewhere goes on all the same)" if refused.startswith(MOVED) else ""
        raise UserError(f"{refused}{hint}", USAGE)
    if len(view.segments) == before:
        said = [log.message for log in view.log if log.level == "error" and not log.t]
        raise UserError(said[-1] if said else f"the engine did not start; see {the_run.log}", USAGE)
    return finish(view, signal, args.export, the_run, packed)


def find(name: str | None) -> Run:
    """A run of the store, or a packed file taken into it. Raises UserError."""
    store = RunStore()
    try:
        if name is not None and holds_writeup(Path(name)):
            raise UserError(_whole_writeup(Path(name)))
        if name is not None and Path(name).is_file():
            return adopt(Path(name), store)
        return store.find(name)
    except (RunNotFound, PackError) as error:
        raise UserError(str(error)) from error
    except OSError as error:
        raise UserError(f"{name}: {error.strerror or error}") from error


def _whole_writeup(path: Path) -> str:
    if path.is_dir():
        given = shlex.quote(str(path))
        return f"{path} is a write-up: `llmprof run writeup --into {given}` goes on with it"
    return (
        f"{path} is a packed write-up, which does not go on; its folder does, with "
        "`llmprof run writeup --into DIR`"
    )
