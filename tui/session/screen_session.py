"""Which run is watched, whether its engine lives, and the picture that is shown of it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from llmprof.core.spec.shape import SpecError
from llmprof.core.system.text import cause
from llmprof.tui.session.starter import CannotStart, Starter

if TYPE_CHECKING:
    from llmprof.core.catalog.cards import CardSpec
    from llmprof.core.events import Environment
    from llmprof.core.spec.experiment import Experiment
    from llmprof.core.state.view import RunView
    from llmprof.core.store.run import Run, RunStore
    from llmprof.tui.kit.snapshot import Snapshot
    from llmprof.tui.session.feed import Feed

ALIVE_S = 0.5  # how often the lock is looked at


class ScreenSession:
    """Follows one run at a time. No Textual in here: poll() is called by whoever has a timer."""

    def __init__(
        self,
        store: RunStore,
        starter: Starter,
        clock: Callable[[], float] = time.monotonic,
        period_s: float = 0.25,
    ) -> None:
        self.store = store
        self.starter = starter
        self.run: Run | None = None
        self.own: Run | None = None  # the run that this screen started last
        self.alive = False
        self.paused = False
        self.problem = ""
        self.others: tuple[Run, ...] = ()  # that are going and not watched, as last looked
        self.machine: Environment | None = None  # this one, as an earlier run saw it
        self._around: object = None
        self._looked_around = False
        self._newcomers: list[Run] = []  # trainings of which nobody was told yet
        self.marked: tuple[Run, ...] = ()  # at most two, which the Compare view compares
        self._snapshot: Snapshot | None = None
        self._clock = clock
        self._period_s = period_s
        self._feed: Feed | None = None
        self._closing: list[Feed] = []
        self._looked = -ALIVE_S
        self._last_read: int | None = None  # the read that has all of a run whose engine left

    @property
    def snapshot(self) -> Snapshot:
        """The newest snapshot that was taken; an empty one while nothing is watched."""
        if self._snapshot is None:
            from llmprof.tui.kit.snapshot import Snapshot  # not needed for the first frame

            self._snapshot = Snapshot()
        return self._snapshot

    @property
    def loading(self) -> bool:
        """Whether what was written so far of the watched run is still being read."""
        return self._feed is not None and self._feed.latest.loading

    def now_ns(self) -> int | None:
        """This moment on the watched run's clock; None where that clock does not go on here.

        It goes on while an engine of this boot holds the run: not for a finished run, nor for
        one that was recorded elsewhere and is only replayed.
        """
        segments = self.snapshot.view.segments
        if not self.alive or not segments:
            return None
        from llmprof.core.system.boot import this_boot  # not needed for the first frame

        if not this_boot(segments[-1].boot_id):
            return None
        return int(self._clock() * 1e9)

    def watch(self, run: Run | None) -> None:
        """Follow another run, or none."""
        self._closing = [feed for feed in self._closing if feed.alive]
        if self._feed is not None:
            self._feed.close(wait=False)
            self._closing.append(self._feed)
        self.run, self.paused, self.problem = run, False, ""
        self._snapshot = self._feed = self._last_read = None
        if run is not None:
            from llmprof.tui.session.feed import Feed  # not needed for the first frame

            self._feed = Feed(run.journal, self._period_s)
            self._snapshot = self._feed.latest
        self.alive = run is not None and run.alive()

    def poll(self) -> bool:
        """Take what is new; whether anything that is shown changed. Nothing changes while paused.

        Call it from a timer; it never waits.
        """
        around = self.others, self.machine
        changed = self._look() or around != self._around
        self._around = around
        feed = self._feed
        if feed is None or self.paused:
            return changed
        latest = feed.latest
        if latest is not self._snapshot:
            self._snapshot = latest
            return True
        return changed

    def look_around(self) -> None:
        """See which other runs are going and what is known of this machine; for a thread."""
        if self.machine is None:
            from llmprof.tui.session.machine import machine_here  # not needed for the first frame

            self.machine = machine_here(self.store, self._card())
        going = tuple(self.find_going())
        if self._looked_around:
            self._newcomers += [run for run in going if run not in self.others and run.is_loop]
        self.others, self._looked_around = going, True

    @property
    def beside(self) -> Run | None:
        """The run that is going and not watched; of several the one that began last."""
        return next((run for run in self.others if run != self.run), None)

    def take_begun(self) -> Run | None:
        """A training that has begun beside what is watched, told once."""
        begun, self._newcomers = self._newcomers, []
        return next((run for run in begun if run != self.run and run in self.others), None)

    def find_going(self) -> list[Run]:
        """The runs that are going now: a second one beside them would spoil both."""
        known = [run for run in (self.own, self.run) if run is not None]
        going = self.store.going()
        young = [run for run in known if run is self.own and self._young() and run not in going]
        return [*young, *going]

    def has_card(self) -> bool:
        """Whether a driver has a card here that may be used."""
        from llmprof.core.devices.driver_files import card_names

        return bool(card_names())

    def _card(self) -> CardSpec | None:
        """The published figures of this machine's card."""
        from llmprof.core.catalog.cards import match_device
        from llmprof.core.devices.driver_files import card_names

        names = card_names()
        try:
            return match_device(names[0]) if names else None
        except SpecError:
            return None

    def start(
        self, experiment: Experiment, command: tuple[str, ...], *, beside: bool = False
    ) -> Run:
        """Start a run and watch it; beside another one only where that is meant.

        Raises CannotStart: one run at a time keeps figures honest.
        """
        going = None if beside else self.going()
        if going is not None:
            raise CannotStart(f"{going.label} is still running; stop it first, or wait")
        try:
            run = self.store.create(experiment.name)
        except OSError as error:
            raise CannotStart(f"cannot create a run: {cause(error)}") from error
        try:
            self.starter.start(run, experiment, command)
        except (OSError, CannotStart) as error:
            with contextlib.suppress(OSError, RuntimeError):
                run.delete()  # an empty run would only clutter the list
            raise CannotStart(f"cannot start a run: {cause(error)}") from error
        self._begun(run)
        return run

    def resume(
        self, run: Run, experiment: Experiment, command: tuple[str, ...], lacking: tuple[int, ...]
    ) -> None:
        """Measure some cases of a run that is there, and watch it. Raises CannotStart."""
        try:
            self.starter.start(run, experiment, command, lacking)
        except (OSError, CannotStart) as error:
            raise CannotStart(f"cannot resume it: {cause(error)}") from error
        self._begun(run)

    def _begun(self, run: Run) -> None:
        self.own = run
        self.watch(run)
        self.alive = True
        self._looked = self._clock() + 2.0  # the engine takes a moment to lock its run

    def going(self) -> Run | None:
        """A run that quitting has to ask about: the own one or the watched one, if alive.

        Never a tracked loop: it is somebody's training and goes on by itself.
        """
        for run in (self.own, self.run):
            if (
                run is not None
                and not run.is_loop
                and (run.alive() or (run is self.own and self._young()))
            ):
                return run
        return None

    def toggle_pause(self) -> None:
        """Hold the picture, or go on with the newest."""
        self.paused = not self.paused

    @property
    def missed_steps(self) -> int:
        """Steps that came since the picture is held."""
        if self._feed is None or not self.paused:
            return 0
        newest, shown = self._feed.latest.view, self.snapshot.view
        return max(0, _steps(newest) - _steps(shown))

    def mark(self, run: Run) -> None:
        """Mark a run for comparison, the older of two marks gives way; or take its mark away."""
        if run in self.marked:
            self.unmark(run)
        else:
            self.marked = (*self.marked, run)[-2:]

    def unmark(self, run: Run) -> None:
        """Take a run's mark away, if it has one."""
        self.marked = tuple(each for each in self.marked if each != run)

    def swap_marked(self) -> None:
        """Compare the other way round."""
        self.marked = self.marked[::-1]

    def close(self) -> None:
        """End the threads and what waits unused."""
        for feed in (*self._closing, self._feed):
            if feed is not None:
                feed.close()
        self.starter.dismiss()

    def _young(self) -> bool:
        """Whether the own run was started so lately that its engine may not hold it yet."""
        return self.starter.exit_code() is None and self._clock() < self._looked

    def _look(self) -> bool:
        """See whether the engine lives, now and then; not while paused: the picture is older."""
        now = self._clock()
        if self.run is None or self.paused or now - self._looked < ALIVE_S:
            return False
        self._looked = now
        alive, problem = self._lives(self.run), self._failure()
        changed = (alive, problem) != (self.alive, self.problem)
        self.alive, self.problem = alive, problem
        return changed

    def _lives(self, run: Run) -> bool:
        """Whether the engine lives, or its last words may not be in the picture yet."""
        if run.alive():
            self._last_read = None
            return True
        feed = self._feed
        if feed is None:
            return False
        if self._last_read is None:
            self._last_read = feed.reads + 2  # one may have begun before the engine left
        return self.alive and feed.alive and feed.reads < self._last_read

    def _failure(self) -> str:
        if self.run is None or self.run is not self.own or self.run.alive():
            return ""
        code = self.starter.exit_code()
        if not code or self.snapshot.view.outcome is not None:
            return ""
        return f"the engine ended with exit code {code}; see {self.run.log}"


def _steps(view: RunView) -> int:
    return sum(case.steps_done for case in view.cases)
