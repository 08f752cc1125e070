"""Starts runs: at once, or after asking where one would take long, not fit, or disturb another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from llmprof.core.system.text import cause, clean, clock, counted
from llmprof.core.system.units import GIB
from llmprof.tui.session.starter import CannotStart

if TYPE_CHECKING:
    from textual.app import App

    from llmprof.core.spec.experiment import Experiment
    from llmprof.core.store.run import Run
    from llmprof.tui.bench.outlook import Outlook
    from llmprof.tui.kit.ask import Answer
    from llmprof.tui.kit.dialog import Dialog
    from llmprof.tui.session.screen_session import ScreenSession

    Ask = Callable[[Dialog[str], Callable[[str | None], None]], None]  # opens a dialog

LONG_S = 300.0  # from here on a run is asked about
MOST_NAMES = 4


@dataclass(frozen=True)
class Wanted:
    """A run that is asked for, and what follows once it is started."""

    experiment: Experiment
    command: tuple[str, ...]
    then: Callable[[], None]


class Starts:
    """Asks before a run what it would cost; a demo, whose runs are replays, never asks."""

    def __init__(
        self, app: App[Any], session: ScreenSession, ask: Ask, watch: Callable[[Run], None],
        *, demo: bool,
    ) -> None:  # fmt: skip
        self._app = app
        self._session = session
        self._ask = ask
        self._watch = watch
        self._demo = demo

    def begin(
        self, experiment: Experiment, command: tuple[str, ...], then: Callable[[], None]
    ) -> None:
        """Start a run, after asking where that is called for; then() once it is started."""
        wanted = Wanted(experiment, command, then)
        if self._demo:
            self._start(wanted)
        elif experiment.device != "cpu" and self._session.has_card():
            look = partial(self._look_at_cards, wanted)
            self._app.run_worker(
                look, thread=True, group="cards", exclusive=True, exit_on_error=False
            )
        else:
            self._consider(wanted, ())

    def resume(self, run: Run, then: Callable[[], None]) -> None:
        """Measure what a run still lacks; says so where that is nothing, or cannot be now."""
        going = self._session.find_going()
        if going:
            name = clean(going[0].label, 60)
            self._app.notify(f"{name} is going; stop it first, or wait", severity="warning",
                             markup=False)  # fmt: skip
            return
        read = partial(self._read_lacking, run, then)
        self._app.run_worker(read, thread=True, group="resume", exclusive=True, exit_on_error=False)

    def _read_lacking(self, run: Run, then: Callable[[], None]) -> None:
        """In a thread: a long run takes a second to read."""
        from llmprof.core.figures.outcomes import to_resume  # not needed for the first frame
        from llmprof.core.store.journal import replay

        try:
            view = replay(run.journal)
        except OSError as error:
            self._app.call_from_thread(self._refuse, f"cannot resume it: {cause(error)}")
            return
        lacking = to_resume(view)
        if view.experiment is None or not lacking:
            self._app.call_from_thread(self._refuse, "nothing is missing of this run")
            return
        self._app.call_from_thread(
            self._resume, run, Wanted(view.experiment, view.command, then), lacking
        )

    def _resume(self, run: Run, wanted: Wanted, lacking: tuple[int, ...]) -> None:
        try:
            self._session.resume(run, wanted.experiment, wanted.command, lacking)
        except CannotStart as error:
            self._refuse(str(error))
            return
        noun = "case" if len(lacking) == 1 else "cases"
        self._app.notify(f"{len(lacking)} {noun} to measure", markup=False)
        wanted.then()

    def _refuse(self, why: str) -> None:
        self._app.notify(why, severity="warning", markup=False)

    def _look_at_cards(self, wanted: Wanted) -> None:
        """In a thread: the driver takes a moment to say who is on its cards."""
        from llmprof.core.monitor.others import others_on_cards  # not needed for the first frame

        others = others_on_cards()
        self._app.call_from_thread(self._consider, wanted, others)

    def _consider(self, wanted: Wanted, others: Sequence[str]) -> None:
        from llmprof.tui.bench.forecast import device_here  # not needed for the first frame
        from llmprof.tui.bench.outlook import outlook

        experiment, going = wanted.experiment, self._session.find_going()
        found = outlook(experiment, self._session.machine, device_here(experiment.device))
        said = objections(found, going, others)
        if not said:
            self._start(wanted)
            return
        from llmprof.tui.kit.ask import AskDialog

        answers = possible_answers(found, going, experiment)
        dialog = AskDialog(headline(found), " ".join(said), answers, at=len(answers) - 1)
        smaller = without(experiment, found.models_too_large)
        self._ask(dialog, partial(self._answered, wanted, smaller, going))

    def _answered(
        self, wanted: Wanted, smaller: Experiment, going: Sequence[Run], answer: str | None
    ) -> None:
        if answer == "watch":
            self._watch(going[0])
        elif answer == "run":
            self._start(wanted, beside=True)
        elif answer == "fitting":
            from llmprof.tui.session.choices import command

            self._start(Wanted(smaller, command(smaller), wanted.then), beside=True)

    def _start(self, wanted: Wanted, *, beside: bool = False) -> None:
        try:
            self._session.start(wanted.experiment, wanted.command, beside=beside)
        except CannotStart as error:
            self._app.notify(str(error), severity="error", markup=False)
            return
        wanted.then()


def headline(found: Outlook) -> str:
    """How much it is, as a question."""
    noun = "case" if found.cases == 1 else "cases"
    about = "" if found.seconds is None else f", about {clock(found.seconds)}"
    return f"Run {found.cases} {noun}{about}?"


def objections(found: Outlook, going: Sequence[Run], others: Sequence[str]) -> list[str]:
    """Why a run is asked about, a sentence a reason; nothing for what can simply be started."""
    said = []
    if going:
        said.append(
            f"Run {clean(going[0].label, 60)} is going on this machine: each would slow the other "
            "down, and the figures of both would be spoiled."
        )
    elif others:
        said.append(
            f"The card is in use by {', '.join(others[:2])}: what is measured beside it is spoiled."
        )
    if found.too_large:
        most = max(need.low for need in found.too_large)
        names = found.models_too_large
        listed = ", ".join(map(clean, names[:MOST_NAMES]))
        more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
        count, room = len(found.too_large), found.room_bytes
        said.append(
            f"{counted(count, 'case')} {'does' if count == 1 else 'do'} not fit: {listed}{more} "
            f"would take up to {most / GIB:.1f} GiB; this machine has {room / GIB:.1f} GiB."
        )
    if found.seconds is not None and found.seconds > LONG_S and not said:
        said.append(f"It takes about {clock(found.seconds)}.")
    return said


def possible_answers(
    found: Outlook, going: Sequence[Run], experiment: Experiment
) -> tuple[Answer, ...]:
    """What can be done; the last one does nothing."""
    from llmprof.tui.kit.ask import Answer

    answers = []
    if going:
        answers.append(Answer("watch", "w", f"Watch {clean(going[0].label, 60)} instead", "good"))
    kept = [model for model in experiment.models if model.name not in found.models_too_large]
    if found.too_large and kept:
        count = len(without(experiment, found.models_too_large).cases())
        noun = "case" if count == 1 else "cases"
        answers.append(Answer("fitting", "f", f"Run the {count} {noun} of models that fit"))
    noun = "it" if found.cases == 1 else f"all {found.cases} cases"
    answers.append(Answer("run", "y", f"Run {noun} anyway", "warn"))
    answers.append(Answer("cancel", "escape", "Run nothing"))
    return tuple(answers)


def without(experiment: Experiment, models: Sequence[str]) -> Experiment:
    """The experiment without some of its models."""
    kept = tuple(model for model in experiment.models if model.name not in models)
    return msgspec.structs.replace(experiment, models=kept)
