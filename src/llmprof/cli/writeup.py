"""`llmprof run writeup`: measure every experiment that belongs to one, then write its document."""

from __future__ import annotations

import argparse
import shlex
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from types import FrameType

from llmprof.cli.declare import add_device_option
from llmprof.cli.exits import CRASHED, NOTHING, OK, UserError
from llmprof.cli.follow import caught
from llmprof.cli.output import busy_words
from llmprof.cli.pack import add_pack_option, check_target
from llmprof.cli.report import (
    add_budget_options,
    budget_of,
    check_document,
    places_in,
    write_document,
)
from llmprof.cli.run import measure_run, new_run, plan_of, require_device, require_torch
from llmprof.cli.streams import put, tell
from llmprof.cli.types import EachFileOnce, listed, positive
from llmprof.core.catalog.experiments import build_experiment, writeup_names
from llmprof.core.catalog.names import named, unknown
from llmprof.core.engine.client import Plan
from llmprof.core.engine.writeup import left_of, left_s, planned
from llmprof.core.events import Environment
from llmprof.core.report.markdown_table import grid
from llmprof.core.report.table import Column, Table
from llmprof.core.spec.experiment import Experiment
from llmprof.core.spec.shape import SpecError
from llmprof.core.store.packed_writeup import pack_writeup
from llmprof.core.store.run import Run, RunStore
from llmprof.core.store.writeup import Manifest, Writeup, WriteupError
from llmprof.core.system.homes import state_home
from llmprof.core.system.text import cause, duration

DOCUMENT = "report.html"
LETS_GO_S = 30.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `llmprof run writeup`."""
    parser.add_argument(
        "--into",
        type=Path,
        metavar="DIR",
        help="its folder; one that holds a write-up goes on where that was (a new one)",
    )
    parser.add_argument(
        "--experiments",
        type=listed(str),
        metavar="NAMES",
        help="only these of the experiments that belong to a write-up",
    )
    parser.add_argument(
        "--minutes",
        type=positive,
        metavar="M",
        help="leave out the largest sizes, so that it takes about M minutes at most",
    )
    parser.add_argument("--smoke", action="store_true", help="small sizes, for a try on a CPU")
    add_device_option(parser)
    parser.add_argument("--dry-run", action="store_true", help="only say what it would take")
    parser.add_argument(
        "--export",
        action=EachFileOnce,
        default=[],
        type=Path,
        metavar="FILE",
        help=f"write the document to FILE.md or FILE.html ({DOCUMENT} in its folder)",
    )
    add_pack_option(parser, "the whole write-up")
    add_budget_options(parser)


def run(args: argparse.Namespace) -> int:
    """Measure what is missing and write the document. Raises UserError."""
    folder = args.into or _new_folder()
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder} is a file; --into takes the folder of a write-up")
    for path in args.export:
        check_document(path, to_come=folder)
    if args.dry_run and args.pack:
        raise UserError("--pack has no effect with --dry-run: nothing is measured")
    target = check_target(args.pack, to_come=folder)
    require_torch()
    writeup = Writeup(folder)
    try:
        manifest = writeup.load() if writeup.there else _planned(args)
        say(manifest, args.minutes)
        if args.dry_run:
            return OK
        if not writeup.there:
            writeup.save(manifest)
        packed = _measured(writeup, target)
    except WriteupError as error:
        raise UserError(str(error)) from error
    except OSError as error:
        raise UserError(f"{writeup.folder}: {error.strerror or error}") from error
    places = places_in(writeup, writeup.folder)
    if not places:
        raise UserError("nothing was measured", NOTHING)
    for path in args.export or [writeup.folder / DOCUMENT]:
        write_document(places, path, budget_of(args))
    return OK if packed else CRASHED


def _measured(writeup: Writeup, target: Path | None) -> bool:
    """Run what is missing, then pack, however it ends; False where it could not be packed.

    Raises UserError.
    """
    packed = True
    with caught(_ending(writeup)):
        try:
            _all(writeup)
        finally:
            if target is not None and any(writeup.runs()):
                packed = _packed(writeup, target)
    return packed


def _ending(writeup: Writeup) -> Callable[[int, FrameType | None], None]:
    """What a signal does between two runs: it ends the write-up, as one in a run does."""

    def end(number: int, frame: FrameType | None) -> None:
        raise _unfinished(writeup, 128 + number)

    return end


def _unfinished(writeup: Writeup, code: int) -> UserError:
    how = f"`llmprof run writeup --into {shlex.quote(str(writeup.folder))}`"
    return UserError(f"not finished; go on with {how}", code)


def _packed(writeup: Writeup, target: Path) -> bool:
    """Pack, which only Ctrl-C ends early: a machine that is taken away says so more than once."""
    late: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        if number == signal.SIGINT:
            raise _unfinished(writeup, 128 + number)
        late.append(number)

    with caught(note):
        packed = _pack(writeup, target)
    if late:
        raise _unfinished(writeup, 128 + late[0])
    return packed


def _pack(writeup: Writeup, target: Path) -> bool:
    """Put the write-up into a file and say so; False, and why, where that fails."""
    try:
        pack_writeup(writeup, target)
    except OSError as error:
        how = f"`llmprof pack {shlex.quote(str(writeup.folder))}` can"
        tell(f"llmprof: the write-up could not be packed: {cause(error)}; {how}")
        return False
    tell(f"packed {target}")
    return True


def _new_folder() -> Path:
    return state_home() / "writeups" / datetime.now().strftime("%Y%m%d-%H%M%S")


def _planned(args: argparse.Namespace) -> Manifest:
    """What a new write-up measures on the device that is there. Raises UserError."""
    require_device(args.device or "auto")
    known = writeup_names()
    wanted = [_known(name, known) for name in args.experiments or known]
    overrides = {} if args.device is None else {"device": args.device}
    try:
        experiments = [
            build_experiment(name, overrides, smoke=args.smoke, writeup=True)
            for name in known
            if name in wanted
        ]
    except SpecError as error:
        raise UserError(str(error)) from error
    budget = None if args.minutes is None else 60 * args.minutes
    environment, start_s = _looked(experiments[0])
    return planned(experiments, environment, budget, start_s)


def _known(name: str, known: Sequence[str]) -> str:
    meant = named(name, known)
    if meant is None:
        raise UserError(f"no experiment of a write-up is called {unknown(name, known)}")
    return meant


def _looked(experiment: Experiment) -> tuple[Environment, float]:
    """The device, and the seconds that an engine takes which only looks at it. Raises UserError."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="llmprof-") as folder:
        probe = new_run(experiment.name, RunStore(Path(folder)))
        plan = plan_of(probe, experiment, lifeline=True, only_plan=True)
        view, number = measure_run(probe, plan, quiet=True)
    if view.environment is None:
        code = NOTHING if number is None else 128 + number
        errors = [line.message for line in view.log if line.level == "error"]
        raise UserError(errors[0] if errors else "the device could not be read", code)
    return view.environment, time.monotonic() - began


def say(manifest: Manifest, minutes: float | None) -> None:
    """What will be measured, and about how long it takes beside what was allowed."""
    columns = (
        Column("Experiment", numeric=False),
        Column("Sizes", numeric=False),
        Column("Cases"),
        Column("About"),
    )
    rows = tuple(
        (
            entry.experiment.name,
            ", ".join(model.name for model in entry.experiment.models),
            len(entry.experiment.cases()),
            duration(entry.estimate_s or 0.0),
        )
        for entry in manifest.entries
    )
    put(grid(Table("writeup", "Write-up", columns, rows)))
    total = sum(entry.estimate_s or 0.0 for entry in manifest.entries)
    more = f"; left out for time: {', '.join(manifest.left_out)}" if manifest.left_out else ""
    put(f"\nabout {duration(total)} in all{more}{busy_words()}")
    if minutes is not None and total > 60 * minutes:
        put(beyond(minutes))


def beyond(minutes: float) -> str:
    """That what is left after leaving out takes longer than was allowed, and what to do."""
    return (
        f"That is more than --minutes {minutes:g}, even at the smallest sizes: "
        "--experiments measures fewer."
    )


def _all(writeup: Writeup) -> None:
    """Run every entry to its end. Raises UserError, with how to go on, when one is stopped."""
    count, estimated_s, took_s = len(writeup.load().entries), 0.0, 0.0
    for at in range(count):
        entry = writeup.load().entries[at]
        the_run = writeup.run_of(entry)
        if the_run is not None:
            _wait_for_its_end(the_run)
        missing = None if the_run is None else left_of(the_run)
        if missing == ():
            continue
        left = duration(left_s(writeup.load().entries[at:], estimated_s, took_s))
        tell(f"{entry.experiment.name} ({at + 1} of {count}), about {left} left")
        began = time.monotonic()
        the_run = the_run or writeup.begin(at)
        view, number = measure_run(the_run, _plan(the_run, entry.experiment, missing))
        if number is not None or view.outcome not in ("complete", "stopped"):
            raise _unfinished(writeup, NOTHING if number is None else 128 + number)
        if missing is None:
            estimated_s += entry.estimate_s or 0.0
            took_s += time.monotonic() - began


def _wait_for_its_end(the_run: Run) -> None:
    """Wait for an engine whose front end was killed to let go. Raises UserError where it won't."""
    deadline = time.monotonic() + LETS_GO_S
    while the_run.alive():
        if time.monotonic() > deadline:
            raise UserError(f"run {the_run.id} is still going on{the_run.place}")
        time.sleep(0.1)


def _plan(the_run: Run, experiment: Experiment, missing: tuple[int, ...] | None) -> Plan:
    return Plan(
        run_dir=str(the_run.path),
        experiment=experiment,
        command=("llmprof", *sys.argv[1:]),
        lifeline=True,
        resume=missing,
    )
