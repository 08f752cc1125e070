"""`llmprof.track`: what a training script says to be watched."""

from __future__ import annotations

import atexit
import importlib
import math
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from llmprof.core import events as ev
from llmprof.core.events.loop import MOST_VALUES
from llmprof.core.system.modules_by_name import CARD_CLOCK
from llmprof.core.system.text import cause, clean
from llmprof.core.track.batches import finite
from llmprof.core.track.exits import Exits, UnseenExit, ended_well, exit_words
from llmprof.core.track.identity import read_identity
from llmprof.core.track.steps import Claim, Nothing, Phase, Step, Steps, as_number, left_by
from llmprof.core.track.tracker import MOST_STEPS, Tracker, say
from llmprof.core.track.writer import Plan, Writer

if TYPE_CHECKING:
    from llmprof.core.track.device_clock import CardClock
    from llmprof.core.track.hooks import Hooks
    from llmprof.core.track.refusals import CardRefusals, LastWords

T = TypeVar("T")
DISABLED = "LLMPROF_DISABLED"
FINISH_PATIENCE_S = 5.0  # for a disk that hangs
BLIND_STEPS = 10  # after so many without a forward seen it is said that the hooks see none
HOOKS_FILE = str(Path(__file__).with_name("hooks.py"))
PART_OF_HOOK = {"backward": "backward", "step": "optimizer"}  # functions in there
MOST_NAMES = 40  # of a user's phases
MOST_REFUSED = 3  # names of values that it is said of why they are not kept

_active: Tracked | None = None
_turns: dict[str, int] = {}


def track(
    label: str | None = None,
    *,
    model: Any = None,
    total_steps: int | None = None,
    first_step: int = 0,
    sample_devices: bool = True,
    announce: bool = True,
) -> Tracked | Untracked:
    """Watch a training loop: `with llmprof.track("my-run") as run: for batch in run.steps(loader)`.

    label names the run; model has its forward told from the loss, by hooks on this instance;
    total_steps lets the screen show how far it is, first_step is what a resumed training begins
    with. sample_devices has local rank 0 read the cards once a second, in a process of its own.
    announce=False leaves out the line on standard error that says how to look. Whatever goes wrong
    in here, the training goes on; with LLMPROF_DISABLED=1 nothing is done at all. Within a loop
    that is tracked already a second one does nothing.
    """
    if os.environ.get(DISABLED, "0") not in ("", "0") or _active is not None:
        return Untracked()
    name = clean(str(label or Path(sys.argv[0] or "loop").stem), 100) or "loop"
    return Tracked(
        name,
        model=_module(model),
        total_steps=total_steps,
        first_step=first_step,
        sample_devices=sample_devices,
        announce=announce,
    )


def _number_of_steps(name: str, given: Any) -> int | None:
    """A number of steps as a script gives it, also one that was divided; else None and a line.

    A journal that said another thing could not be read.
    """
    if given is None:
        return None
    try:
        number: int = math.ceil(given)
    except Exception:  # no number at all, or another's own
        number = -1
    if 0 <= number <= MOST_STEPS:
        return number
    say(f"{name}={clean(repr(given), 40)} is no number of steps: it is left out")
    return None


def _module(given: Any) -> Any:
    """A model whose forward can be hooked; else None and a line."""
    if given is None or hasattr(given, "register_forward_pre_hook"):
        return given
    say(f"model= is of type {type(given).__name__}, not a module: forward and loss stand together")
    return None


def is_tracked() -> bool:
    """Whether a loop of this process is tracked now."""
    return _active is not None


class Untracked:
    """A loop that nobody watches: every line of it does nothing."""

    id: str | None = None

    def start(self) -> Untracked:
        """Nothing begins."""
        return self

    def finish(self, error: BaseException | None = None) -> None:
        """Nothing ends."""

    def __enter__(self) -> Untracked:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def steps(self, batches: Iterable[T]) -> Iterable[T]:
        """The batches."""
        return batches

    def step(self) -> Nothing:
        """A context that does nothing."""
        return Nothing()

    def phase(self, name: str) -> Nothing:
        """A context that does nothing."""
        return Nothing()

    def log(self, **values: object) -> None:
        """Nothing is kept."""


class Tracked:
    """A loop that is watched, from start() to finish() or as a context."""

    def __init__(
        self,
        label: str,
        *,
        model: Any,
        total_steps: int | None,
        first_step: int,
        sample_devices: bool,
        announce: bool,
        tracker: Tracker | None = None,
        hooks: Hooks | None = None,
    ) -> None:
        self._label = label
        self._model = model
        self._total_steps = _number_of_steps("total_steps", total_steps)
        self._sample = sample_devices
        self._announce = announce
        self._tracker = tracker or Tracker(_number_of_steps("first_step", first_step) or 0)
        self._claims: list[Claim] = []  # the loops and steps that are on
        self._names: dict[str, str] = {}  # of phases, as they are shown
        self._values: dict[str, str] = {}  # of logged values
        self._clean_names: set[str] = set()  # that are shown as they are
        self._refused: set[str] = set()  # names of values that are not kept, as was said
        self._writer: Writer | None = None
        self._hooks = hooks
        self._installed = False
        self._card: CardClock | None = None
        self._refusals: CardRefusals | None = None
        self._last_words: LastWords | None = None
        self._exits: Exits | None = None
        self._blind = False
        self._said_nested = False
        self.notes: Callable[[], None] = self._blind_hooks  # asked for what is to be said

    @property
    def id(self) -> str | None:
        """The run's name; None until its folder is there."""
        run = None if self._writer is None else self._writer.run
        return None if run is None else run.id

    def start(self) -> Tracked:
        """Begin to watch."""
        global _active
        try:
            _turns[self._label] = _turns.get(self._label, -1) + 1
            plan = Plan(
                label=self._label,
                identity=read_identity(os.environ, _ranks()),
                turn=_turns[self._label],
                total_steps=self._total_steps,
                model=self._model is not None,
                sample=self._sample,
                announce=self._announce,
            )
            self._writer = Writer(plan, self._tracker)
            self._writer.memory = lambda: None if self._card is None else self._card.memory
            self._writer.notes = self.notes
            self._install()
            self._tracker.begin()
            self._tracker.find_device = self._find_card
            _active = self
            self._exits = Exits(lambda: self._tracker.calls)
            atexit.register(self._at_exit)
            self._writer.start()
        except Exception as error:
            self._give_up(error)
            self._take_back()
        return self

    def finish(self, error: BaseException | None = None) -> None:
        """End: what is left is written, torch is as it was."""
        global _active
        if _active is not self:
            return
        _active = None
        try:
            atexit.unregister(self._at_exit)
            part = self._tracker.finish(whole=ended_well(error))
            left = self._tracker.left
            if left is not None and left_by(error, left[0]):
                part = left[1]
            part = _broke_in(error) or self._tracker.raised_in(error) or part
            if self._exits is not None:
                self._exits.remove()
            if self._hooks is not None:
                self._hooks.remove()
            if self._writer is not None:
                self._say_out_of_memory(error, part)
                unseen = isinstance(error, UnseenExit)
                values = self._tracker.last_values
                self._writer.finish(_done(error, part, values), FINISH_PATIENCE_S, unseen=unseen)
        except Exception as failure:
            self._give_up(failure)

    def __enter__(self) -> Tracked:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.finish(error)

    def steps(self, batches: Iterable[T]) -> Iterable[T]:
        """The batches, a step a turn of the loop.

        Within `run.step()` waiting for one is input wait of that step; within another loop of
        this run they are the batches alone, and it is said so once.
        """
        return Steps(self._tracker, batches, self._claims, self._nested)

    def step(self) -> Step:
        """A context that is one step."""
        return Step(self._tracker, self._claims)

    def phase(self, name: str) -> Phase:
        """A context that is a part of its own, also between steps."""
        name = name if isinstance(name, str) else str(name)
        known = self._names.get(name)
        if known is None and len(self._names) >= MOST_NAMES:
            known = "other phases"
        elif known is None:
            known = self._names[name] = clean(name, 40)
        return Phase(self._tracker, known)

    def log(self, **values: object) -> None:
        """Keep numbers of this step: a loss, a learning rate; tensors of one element as well.

        A tensor on a card is copied without waiting for it; of very quick steps that come to half a
        second at most, they may be copied together.
        """
        if not self._tracker.mine():
            return
        start = time.monotonic_ns()
        try:
            if self._card is not None and self._clean_names.issuperset(values):
                again = self._card.again(values)
                if again is not None:
                    self._tracker.log(again, start)
                    return
            kept: dict[str, object] = {}
            on_card: dict[str, object] = {}
            for name, value in values.items():
                if name not in self._values and len(self._values) >= MOST_VALUES:
                    self._refuse(name, f"{MOST_VALUES} names are kept")
                    continue
                try:
                    number = as_number(value)
                except Exception as error:  # another's own __float__, a number out of range
                    self._refuse(name, cause(error))
                    continue
                if number is None:
                    self._refuse(name, "" if value is None else _no_number(value))
                else:
                    known = self._values.get(name)
                    if known is None:
                        known = self._values[name] = clean(name, 80)
                        self._clean_names |= {known} & {name}
                    (kept if isinstance(number, float) else on_card)[known] = number
            if on_card and self._card is not None:
                kept |= self._card.take(on_card)
            self._tracker.log(kept, start)
        except Exception as error:
            self._refuse(", ".join(values), cause(error))

    def note(self, message: str) -> None:
        """Say something about the loop to whoever looks at it."""
        if self._writer is not None and len(self._writer.logs) < 20:
            self._writer.logs.append(ev.Log(message=clean(message), level="warning"))

    def _nested(self) -> None:
        """Say once that a loop makes no steps, as where an iterator of another is kept."""
        if not self._said_nested:
            self._said_nested = True
            self.note(
                "run.steps() within a loop over run.steps(): the outer loop makes the steps, also "
                "one that was left and whose iterator is kept"
            )

    def _refuse(self, name: str, why: str) -> None:
        """Say once of a value's name why it is not kept; without a reason, nothing."""
        if why and name not in self._refused and len(self._refused) < MOST_REFUSED:
            self._refused.add(name)
            self.note(f"the logged value {name} is not kept: {why}")

    def forget(self) -> None:
        """In a forked child: nothing of it is this loop's."""
        self._tracker.abandon()
        if self._writer is not None:
            self._writer.forget()

    def _at_exit(self) -> None:
        """The process ends, perhaps by an exception that nobody caught."""
        interactive = hasattr(sys, "ps1")
        ending = None if interactive or self._exits is None else self._exits.ending()
        self.finish(ending)

    def _install(self) -> None:
        """Hooks, as soon as there is a torch to hook."""
        if self._installed or "torch.optim" not in sys.modules:
            return
        from llmprof.core.track.hooks import Hooks, call_overhead_us
        from llmprof.core.track.refusals import last_words  # now, not as the process ends

        self._last_words = last_words
        importlib.import_module(CARD_CLOCK)  # now, for in a step it would count as a part of it
        self._installed = True
        self._hooks = self._hooks or Hooks(self._tracker)
        if self._model is not None:
            self._hooks.watch_model(self._model, self._tracker)
        if self._writer is not None:
            self._writer.call_us = call_overhead_us()

    def _find_card(self) -> CardClock | None:
        """The card's clock once the training uses one; asked at every step until then."""
        try:
            return self._open_clock()
        except Exception as error:  # of a card that is lost the training's own calls tell
            self._tracker.find_device = self._card = None
            self.note(f"the card's own times are not taken: {cause(error)}")
            return None

    def _open_clock(self) -> CardClock | None:
        self._install()
        if self._hooks is None:
            return None
        from llmprof.core.track.device_clock import allocator_figures, find_card, is_there

        if not is_there():
            self._tracker.find_device = None
            return None
        self._card = find_card(self._tracker)
        if self._card is not None and self._writer is not None:
            identity = read_identity(os.environ, _ranks())
            self._writer.card = self._card.described(identity.rank, identity.restart)
            from llmprof.core.track.refusals import watch_refusals

            say = self._writer.refusals.append
            self._refusals = watch_refusals(self._tracker, say, allocator_figures)
        return self._card

    def _say_out_of_memory(self, error: BaseException | None, part: str) -> None:
        """Of what ended the training: as the card's allocator said it, else as it is known now."""
        if error is None or self._writer is None or self._last_words is None:
            return
        memory = None if self._card is None else self._card.memory
        found = self._last_words(self._tracker, error, part, memory)
        read = None if self._refusals is None else self._refusals.newest
        if found is not None and read is not None and read.index == found.index:
            found = None if self._refusals is None or read is self._refusals.first else read
        if found is not None:
            self._writer.refusals.append(found)

    def _blind_hooks(self) -> None:
        """Say once where the hooks on the model see nothing."""
        hooks = self._hooks
        if self._model is None or self._blind or self._tracker.steps < BLIND_STEPS:
            return
        self._blind = True
        if hooks is None or not hooks.forwards:
            self.note(
                "the hooks on the model saw no forward: it is compiled in place, or another one "
                "is trained; forward and loss stand together"
            )

    def _take_back(self) -> None:
        """A beginning that failed leaves nothing behind, in torch or in Python."""
        global _active
        _active = None if _active is self else _active
        atexit.unregister(self._at_exit)
        for installed in (self._exits, self._hooks):
            if installed is not None:
                installed.remove()

    def _give_up(self, error: BaseException) -> None:
        self._tracker.fail(error)
        say(f"{self._label} is not watched: {cause(error)}")


def _done(error: BaseException | None, part: str, logged: Mapping[str, float]) -> ev.LoopDone:
    outcome: ev.Outcome = "interrupted" if isinstance(error, KeyboardInterrupt) else "failed"
    said = "" if error is None else exit_words(error)
    if error is None or ended_well(error):
        outcome, part = "complete", ""
        said = said if isinstance(error, UnseenExit) else ""
    values = {name: known for name, v in logged.items() if (known := finite(v)) is not None}
    return ev.LoopDone(outcome=outcome, error=said, part=part, values=values)


def _no_number(value: object) -> str:
    shape = getattr(value, "shape", None)
    of_shape = "" if shape is None else f" of shape {tuple(shape)}"
    return f"a {type(value).__name__}{of_shape} is no single number"


def _broke_in(error: BaseException | None) -> str:
    """The part that an exception went through on its way out; "" where that was none of ours."""
    trace = None if error is None else error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if code.co_filename == HOOKS_FILE and code.co_name in PART_OF_HOOK:
            return PART_OF_HOOK[code.co_name]
        trace = trace.tb_next
    return ""


def _ranks() -> tuple[int, int] | None:
    """Rank and size of the process group, where there is one."""
    distributed: Any = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return distributed.get_rank(), distributed.get_world_size()


def _in_child() -> None:
    global _active
    tracked, _active = _active, None
    if tracked is not None:
        tracked.forget()


os.register_at_fork(after_in_child=_in_child)
