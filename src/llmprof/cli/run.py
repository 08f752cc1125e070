"""`llmprof run`: start an engine, follow its journal, print or export the tables."""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from signal import Signals

from llmprof.cli.exits import CRASHED, NOTHING, OK, USAGE, UserError
from llmprof.cli.follow import CRASHES, Follow, exit_code_of
from llmprof.cli.options import add_case_options, add_export_option, experiment_from
from llmprof.cli.output import check_exports, deliver, dry_run_table
from llmprof.cli.pack import add_pack_option, check_target
from llmprof.cli.streams import put, tell
from llmprof.core.catalog.experiments import DEFAULT, WRITEUP
from llmprof.core.catalog.names import named
from llmprof.core.devices.cuda_driver import absent
from llmprof.core.engine.client import ENGINE_ENDINGS, Engine, EngineExit, Plan
from llmprof.core.events import Log
from llmprof.core.figures.profile_wholes import twin
from llmprof.core.spec.experiment import Experiment
from llmprof.core.state.view import RunView
from llmprof.core.store.pack import pack
from llmprof.core.store.run import Run, RunStore, wait_started
from llmprof.core.system.text import clean, counted

LAST_BYTES = 4096  # of an engine's output: its last line is in them


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `llmprof run`."""
    parser.add_argument(
        "experiment",
        nargs="?",
        default=DEFAULT,
        help=f"which experiment ({DEFAULT}); `llmprof experiments` lists them; "
        "writeup measures all that a document needs",
    )
    add_case_options(parser)
    add_export_option(parser)
    add_pack_option(parser)
    how = parser.add_argument_group("how to run")
    how.add_argument("--detach", action="store_true", help="start it, print its name, leave it")
    how.add_argument("--dry-run", action="store_true", help="only list the cases and their times")


def run(args: argparse.Namespace) -> int:
    """Measure; the exit code says whether there are results. Raises UserError."""
    if named(args.experiment, [WRITEUP]):
        raise UserError(f"its options follow its name: `llmprof run {WRITEUP} [OPTIONS]`")
    experiment = experiment_from(args, args.experiment, also=(WRITEUP,))
    check_exports(args.export)
    if args.detach and args.export:
        raise UserError("--detach does not wait for tables; export later with `llmprof show`")
    if args.dry_run and args.pack:
        raise UserError("--pack has no effect with --dry-run: nothing is measured")
    packed = check_target(args.pack)
    require_torch()
    require_device(experiment.device)
    if args.dry_run:
        return _dry_run(experiment)
    the_run = new_run(experiment.name)
    if args.detach:
        return detach(the_run, plan_of(the_run, experiment, packed=packed))
    view, signal = measure_run(the_run, plan_of(the_run, experiment, lifeline=True, packed=packed))
    return finish(view, signal, args.export, the_run, packed)


def new_run(name: str, store: RunStore | None = None) -> Run:
    """A run's folder in a store, by default the user's. Raises UserError."""
    store = store or RunStore()
    try:
        return store.create(name)
    except OSError as error:
        raise UserError(f"cannot create a run in {store.root}: {error.strerror}") from error


def require_torch() -> None:
    """Raise UserError when torch is not installed, without importing it."""
    if importlib.util.find_spec("torch") is None:
        raise UserError(
            "torch is not installed, and measuring needs it: `pip install torch` "
            "(viewing, exporting and monitoring work without)",
            NOTHING,
        )


def require_device(device: str) -> None:
    """Raise UserError for a CUDA device that the driver does not have, before torch is loaded."""
    why_not = absent(device)
    if why_not is not None:
        raise UserError(why_not)


def measure_run(the_run: Run, plan: Plan, *, quiet: bool = False) -> tuple[RunView, int | None]:
    """Run a plan to its end; the final view, and the signal that stopped it.

    Raises UserError for an engine that ended before it knew what it would measure on.
    """
    if not quiet:
        tell_who_is_beside(the_run)
    engine = Engine(the_run.log)
    try:
        engine.run(plan)
        view, signal = Follow(the_run, engine, quiet=quiet).to_end()
    finally:
        engine.dismiss()
        code = engine.wait()
    if code:
        if view.environment is None and signal is None:
            raise _not_started(code, the_run, plan, None if quiet else the_run.log)
        reasons = [ENGINE_ENDINGS.get(code) or crash(code, None if quiet else the_run.log)]
        if plan.pack is not None and view.environment is not None and code != EngineExit.NOT_PACKED:
            reasons = [*_pack_for_engine(the_run, Path(plan.pack)), *reasons]
        said = tuple(Log(t=0, message=reason, level="error") for reason in reasons)
        view = replace(view, log=(*view.log, *said))
    return view, signal


def tell_who_is_beside(the_run: Run) -> None:
    """Warn of a run that is going on this machine; the engine journals it as well."""
    for other in RunStore(the_run.path.parent).going():
        if other.id != the_run.id:
            tell(
                f"llmprof: warning: run {other.id} is going on this machine: each slows the other "
                f"down, and the figures of both may be spoiled (`llmprof stop {other.id}` ends it)"
            )


def _pack_for_engine(the_run: Run, target: Path) -> list[str]:
    """Pack what an engine left that was killed, or that failed, before it could; why not, if so."""
    try:
        pack(the_run, target)
    except OSError:
        return [ENGINE_ENDINGS[EngineExit.NOT_PACKED]]
    return []


def _not_started(code: int, the_run: Run, plan: Plan, log: Path | None) -> UserError:
    """What to say of an engine that ended before it measured; a new run goes with it."""
    if code != EngineExit.FAILED and plan.resume is None:  # else its log is worth reading
        _discard(the_run)
    reason = ENGINE_ENDINGS.get(code) or crash(code, log)
    return UserError(reason, NOTHING if code in ENGINE_ENDINGS else CRASHED)


def crash(code: int, log: Path | None) -> str:
    """One line about an engine that ended by itself: by which signal, or on which error."""
    if code < 0:
        return f"the engine was killed by {Signals(-code).name}"
    lines = [] if log is None else last_words(log)
    return f"the engine ended with {code}" + (f": {lines[-1]}; see {log}" if lines else "")


def last_words(log: Path) -> list[str]:
    """Lines at the end of an engine's output."""
    with contextlib.suppress(OSError), log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - LAST_BYTES))
        return [clean(line) for line in file.read().decode(errors="replace").split("\n") if line]
    return []


def _discard(the_run: Run) -> None:
    """Forget a run without figures, which would only clutter the list."""
    with contextlib.suppress(OSError, RuntimeError):
        the_run.delete()


def finish(
    view: RunView,
    signal: int | None,
    exports: list[Path],
    the_run: Run,
    packed: Path | None = None,
) -> int:
    """Print or export what was measured and say where it is packed; the exit code."""
    if packed is None or view.environment is None:
        return _finish(view, signal, exports, the_run)
    there = _say_packed(view, packed)
    code = _finish(view, signal, exports, the_run)
    return code if there else code or CRASHED


def _finish(view: RunView, signal: int | None, exports: list[Path], the_run: Run) -> int:
    errors = [log.message for log in view.log if log.level == "error"]
    if view.environment is None:
        if signal is None and not errors:
            raise UserError(f"the engine ended before it measured; see {the_run.log}", NOTHING)
        _discard(the_run)
        if signal is not None:
            raise UserError("stopped before anything was measured", 128 + signal)
        raise UserError(errors[0], USAGE if view.outcome == "failed" else NOTHING)
    deliver(view, exports, the_run.path)
    if signal is not None:
        return 128 + signal
    if view.outcome not in ("complete", "stopped"):
        done = f"{view.cases_done} of {counted(len(view.cases), 'case')} done"
        reason = errors[-1] if errors else "it was killed"
        raise UserError(f"the engine ended early, {done}: {reason}", CRASHED)
    code = exit_code_of(view)
    if code == NOTHING:
        why = next((s.failure.message for s in view.cases if s.failure is not None), "no cases")
        tell(f"llmprof: nothing was measured: {why}")
    if code == CRASHED:
        tell(f"llmprof: {crashes(view)}")
    return code


def _say_packed(view: RunView, target: Path) -> bool:
    """Say where the packed run is, or, returning False, that there is none."""
    reason = ENGINE_ENDINGS[EngineExit.NOT_PACKED]
    if any(log.message == reason for log in view.log):
        tell(f"llmprof: {reason}")
        return False
    tell(f"packed {target}")
    return True


def crashes(view: RunView) -> str:
    """One line about the cases that crashed or were cut off or silent: the first, how many."""
    crashed = [state for state in view.cases if state.status in CRASHES]
    first = crashed[0]
    message = "" if first.failure is None else f": {first.failure.message}"
    text = f"{first.case.label} (case {first.index + 1}) {first.status}{message}"
    if len(crashed) > 1:
        text += f"; and {len(crashed) - 1} more of {len(view.cases)} cases"
    plain = twin(view, first) if first.case.probe == "kernels" else None
    if plain is not None and plain.status == "ok":
        text += f"; the timing of the same case (case {plain.index + 1}) is kept"
    return text


def detach(the_run: Run, plan: Plan) -> int:
    """Start an engine that outlives this process, and say how to follow it.

    Raises UserError with the engine's reason where it ended before it held the run.
    """
    tell_who_is_beside(the_run)
    engine = Engine(the_run.log)
    engine.run(plan)
    started = wait_started(the_run, engine.poll)
    if code := engine.poll():
        raise _not_started(code, the_run, plan, the_run.log)
    if not started:
        raise UserError(f"the engine did not start; see {the_run.log}", NOTHING)
    put(the_run.id)
    tell(f"follow it with `llmprof attach {the_run.id}`")
    return OK


def _dry_run(experiment: Experiment) -> int:
    with tempfile.TemporaryDirectory(prefix="llmprof-") as folder:
        the_run = new_run(experiment.name, RunStore(Path(folder)))
        plan = plan_of(the_run, experiment, lifeline=True, only_plan=True)
        view, signal = measure_run(the_run, plan, quiet=True)
        if view.environment is None and signal is None:
            return finish(view, signal, [], the_run)
    dry_run_table(view)
    return OK if signal is None else 128 + signal


def plan_of(
    the_run: Run,
    experiment: Experiment,
    *,
    lifeline: bool = False,
    only_plan: bool = False,
    packed: Path | None = None,
) -> Plan:
    """What the engine is told about a new run."""
    return Plan(
        run_dir=str(the_run.path),
        experiment=experiment,
        command=("llmprof", *sys.argv[1:]),
        lifeline=lifeline,
        only_plan=only_plan,
        pack=None if packed is None else str(packed),
    )
