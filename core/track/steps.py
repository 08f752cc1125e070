"""What a loop is written with: steps of a loader, a step, a phase."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from numbers import Number
from types import TracebackType
from typing import Any, Generic, TypeVar, cast

from llmprof.core.track.tracker import Stack, Tracker

T = TypeVar("T")
MOST_FRAMES = 32
Claim = tuple[str, int]  # a "loop" over batches or a "step", and which


class Steps(Generic[T]):
    """An iterable whose every turn is a step; in all else it is the iterable itself."""

    def __init__(
        self,
        tracker: Tracker,
        batches: Iterable[T],
        claims: list[Claim],
        nested: Callable[[], None] = lambda: None,
    ) -> None:
        self._tracker = tracker
        self._batches = batches
        self._claims = claims  # what is on, of which the first makes the steps
        self._nested = nested  # called where another loop makes them

    def __len__(self) -> int:
        return len(self._batches)  # type: ignore[arg-type]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "_batches":  # as a copy looks for them
            raise AttributeError(name)
        return getattr(self._batches, name)

    def __iter__(self) -> Iterator[T]:
        if self._claims and self._claims[-1][0] == "step":
            return _Waits(self._tracker, iter(self._batches))
        if not self._tracker.working:
            return iter(self._batches)
        if self._claims:
            return _Within(self._tracker, self._batches, self._claims, self._nested)
        return _Turns(self._tracker, self._batches, self._claims)


class _Waits(Iterator[T]):
    """A pass over batches within a step: waiting for one is input wait of that step."""

    def __init__(self, tracker: Tracker, inner: Iterator[T]) -> None:
        self._tracker = tracker
        self._inner = inner

    def __next__(self) -> T:
        before = self._tracker.enter("input")
        try:
            return next(self._inner)
        except BaseException as error:
            self._tracker.raised(error)
            raise
        finally:
            self._tracker.leave(before)


class _Within(Iterator[T]):
    """A pass over batches begun within another, which makes the steps; or did until it was let go.

    As in `batches = iter(run.steps(loader))` at every epoch: the one before lives until then.
    """

    def __init__(
        self,
        tracker: Tracker,
        batches: Iterable[T],
        claims: list[Claim],
        nested: Callable[[], None],
    ) -> None:
        self._tracker = tracker
        self._batches = batches
        self._claims = claims
        self._nested = nested
        self._begun = False
        before = tracker.enter("input")
        try:
            self._inner = iter(batches)
        finally:
            tracker.leave(before)

    def __next__(self) -> T:
        if not self._begun:
            self._begun = True
            if self._claims:
                self._nested()
            elif self._tracker.working:
                self._inner = _Turns(self._tracker, self._batches, self._claims, self._inner)
        return next(self._inner)


class _Turns(Iterator[T]):
    """One pass over the batches: waiting for one ends the step before it."""

    def __init__(
        self,
        tracker: Tracker,
        batches: Iterable[T],
        claims: list[Claim],
        begun: Iterator[T] | None = None,
    ) -> None:
        self._tracker = tracker
        self._claims = claims
        self._claim: Claim = "loop", id(self)
        claims.append(self._claim)
        length = None
        try:
            length = len(batches)  # type: ignore[arg-type]
        except Exception:  # a loader of an iterable has none, and says so in its own way
            length = None
        tracker.begin_epoch(length)
        tracker.begin_input()
        try:
            self._inner = iter(batches) if begun is None else begun
        except BaseException as error:
            tracker.raised(error)
            self._let_go()
            raise
        finally:
            tracker.end_input(batch=False)

    def __next__(self) -> T:
        tracker = self._tracker
        tracker.begin_input()
        try:
            batch = next(self._inner)
        except BaseException as error:  # StopIteration, or what the loader met
            tracker.raised(error)
            tracker.end_input(batch=False)
            self._let_go()
            raise
        tracker.end_input(batch=True)
        return batch

    def __iter__(self) -> Iterator[T]:
        return self

    def __del__(self) -> None:
        if self._claim in self._claims:
            self._let_go()
            self._tracker.left_loop(_stack())

    def _let_go(self) -> None:
        if self._claim in self._claims:
            self._claims.remove(self._claim)


class Step:
    """`with run.step():` one step; an exception in it leaves it out."""

    __slots__ = ("_claim", "_claims", "_counts", "_tracker")

    def __init__(self, tracker: Tracker, claims: list[Claim]) -> None:
        self._tracker = tracker
        self._claims = claims
        self._claim: Claim = "step", id(self)
        self._counts = False

    def __enter__(self) -> None:
        self._counts = not self._claims
        if self._counts:
            self._claims.append(self._claim)
            self._tracker.begin_step()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._counts and self._claim in self._claims:
            self._claims.remove(self._claim)
            self._tracker.end_step(whole=kind is None, at=_place(trace))


class Phase:
    """`with run.phase("clip"):` a part of the user's own."""

    __slots__ = ("_before", "_name", "_tracker")

    def __init__(self, tracker: Tracker, name: str) -> None:
        self._tracker = tracker
        self._name = name
        self._before: str | None = None

    def __enter__(self) -> None:
        self._before = self._tracker.begin_phase(self._name)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._tracker.end_phase(self._before)
        if trace is not None:
            self._tracker.broke(_place(trace), self._name)


class Nothing:
    """A context that does nothing."""

    __slots__ = ()

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        return None


def _stack() -> Stack:
    """Where those are whose loop is let go of, the innermost first."""
    found: list[tuple[object, int]] = []
    frame = None if sys.is_finalizing() else sys._getframe(1).f_back
    while frame is not None and len(found) < MOST_FRAMES:
        found.append((frame.f_code, frame.f_lineno))
        frame = frame.f_back
    return found


def _place(trace: TracebackType | None) -> Stack:
    """Where an exception left a context."""
    return () if trace is None else ((trace.tb_frame.f_code, trace.tb_lineno),)


def left_by(error: BaseException | None, at: Stack) -> bool:
    """Whether an exception came through a place: in the innermost frame that both know."""
    lines: dict[object, int] = {}
    trace = None if error is None else error.__traceback__
    while trace is not None:
        lines[trace.tb_frame.f_code] = trace.tb_lineno
        trace = trace.tb_next
    return next((lines[code] == line for code, line in at if code in lines), False)


def as_number(value: object) -> object | None:
    """A number as float; a tensor on a card stays itself; None for what is no single number."""
    if isinstance(value, (int, float)):
        return float(value)
    given = cast(Any, value)
    try:
        if given.numel() != 1 or given.is_complex():
            return None
    except AttributeError:  # of numpy, or no number at all
        item = getattr(value, "item", None)
        if item is None:
            return float(given) if isinstance(value, Number) else None
        return float(item())
    return given if given.is_cuda else float(given.item())
