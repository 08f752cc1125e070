"""Hooks in torch that say when a backward, an optimizer's update or a model's forward goes on.

They stand apart from who listens, so that whoever starts a process can install them. All that a
compiler may meet is disabled for it: traced, a hook would break the graph.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable
from functools import wraps
from typing import Any, cast

import torch
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from llmprof.core.track.tracker import Tracker

Undo = Callable[[], None]
_hidden: Any = torch.compiler.disable  # from compilers


class Hooks:
    """What is installed in torch for one tracker at a time; remove() takes all of it away."""

    def __init__(self, tracker: Tracker) -> None:
        self._undo: list[Undo] = []
        self.forwards = 0  # of the model, seen
        try:
            self._undo += _replace_backwards(tracker)
            self._undo += _hook_optimizers(tracker, self._undo)
            self._undo += _watch_scaler(tracker)
        except BaseException:  # of a torch that is another by now
            self.remove()
            raise

    def add(self, undo: list[Undo]) -> None:
        """Take care of what else was installed."""
        self._undo += undo

    def watch_model(self, model: Any, tracker: Tracker) -> None:
        """Tell a model's forward from the loss, by hooks on this instance alone."""
        self._undo += _hook_model(model, tracker, self._count)

    def remove(self) -> None:
        """Take everything away, the last first; what somebody laid over it stays and is inert."""
        while self._undo:
            self._undo.pop()()

    def _count(self) -> None:
        self.forwards += 1


def _replace_backwards(tracker: Tracker) -> list[Undo]:
    """torch.autograd.backward, which Tensor.backward calls, and torch.autograd.grad."""
    undo: list[Undo] = []
    for name in ("backward", "grad"):
        original = getattr(torch.autograd, name)
        wrapped = _timed(original, tracker)
        setattr(torch.autograd, name, wrapped)

        def restore(name: str = name, ours: Any = wrapped, original: Any = original) -> None:
            if getattr(torch.autograd, name) is ours:
                setattr(torch.autograd, name, original)

        undo.append(restore)
    return undo


def _timed(original: Callable[..., Any], tracker: Tracker) -> Any:
    @wraps(original)
    def backward(*args: Any, **kwargs: Any) -> Any:
        before = None
        try:
            before = tracker.enter("backward")
        except Exception as error:
            tracker.fail(error)
        try:
            return original(*args, **kwargs)
        finally:
            try:
                tracker.leave(before)
            except Exception as error:
                tracker.fail(error)

    return _hidden(backward)


def _hook_optimizers(tracker: Tracker, undo: list[Undo]) -> list[Undo]:
    """Every optimizer's step, also of one that is made later; closures are told apart.

    What torch does between a step's beginning and these hooks takes up to 0.1 ms: once seen, a
    step is timed from outside, and these look at its closure alone.
    """
    timed: set[int] = set()  # classes and optimizers
    within: set[int] = set()  # optimizers whose step is on and timed from outside

    def before(optimizer: Any, args: Any, kwargs: Any) -> Any:
        try:
            if id(optimizer) in within:
                tracker.calls += 1
            else:
                tracker.update_begins(optimizer)
                _time_whole(optimizer, tracker, timed, within, undo)
            return _with_closure(args, kwargs, tracker)
        except Exception as error:
            tracker.fail(error)
        return None

    def after(optimizer: Any, args: Any, kwargs: Any) -> None:
        try:
            if id(optimizer) in within:
                tracker.calls += 1
            else:
                tracker.update_ended()
        except Exception as error:
            tracker.fail(error)

    handles = (
        register_optimizer_step_pre_hook(_hidden(before)),
        register_optimizer_step_post_hook(_hidden(after)),
    )
    return [handle.remove for handle in handles]


def _time_whole(
    optimizer: Any, tracker: Tracker, timed: set[int], within: set[int], undo: list[Undo]
) -> None:
    """Have the whole of its step timed from now on: its own, as a scheduler makes it, or its
    class's."""
    owner: Any = optimizer if "step" in optimizer.__dict__ else type(optimizer)
    if id(owner) in timed:
        return
    timed.add(id(owner))
    if owner is not optimizer:
        owner = next(kind for kind in owner.__mro__ if "step" in vars(kind))
        if id(owner) in timed and owner is not type(optimizer):
            return  # through another class that has its step from it
        timed.add(id(owner))
    original = vars(owner)["step"]
    of_class = owner is not optimizer
    key = id(owner)
    found = weakref.ref(owner, lambda _: timed.discard(key))

    @wraps(original)
    def step(*args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling():
            return original(*args, **kwargs)
        stepping = args[0] if of_class and args else found()
        depth = tracker.update_begins(stepping)
        outermost = id(stepping) not in within
        within.add(id(stepping))
        whole = False
        try:
            result = original(*args, **kwargs)
            whole = True
        finally:
            if outermost:
                within.discard(id(stepping))
            tracker.update_ended(depth, whole=whole)
        return result

    owner.step = step
    ours = weakref.ref(step)  # an optimizer's own holds that optimizer, and with it its tensors

    def restore() -> None:
        owner, step = found(), ours()
        if owner is not None and step is not None and vars(owner).get("step") is step:
            owner.step = step.__wrapped__

    undo.append(restore)


def _with_closure(args: Any, kwargs: Any, tracker: Tracker) -> Any:
    """The arguments with the closure wrapped; None where there is none."""
    if len(args) > 1 and callable(args[1]):
        return (args[0], _timed_closure(args[1], tracker), *args[2:]), kwargs
    if callable(kwargs.get("closure")):
        return args, kwargs | {"closure": _timed_closure(kwargs["closure"], tracker)}
    return None


def _timed_closure(closure: Callable[[], Any], tracker: Tracker) -> Callable[[], Any]:
    @wraps(closure, updated=())
    def timed() -> Any:
        marked = tracker.closure_begins()
        try:
            return closure()
        finally:
            tracker.closure_ended(marked)

    return timed


def _watch_scaler(tracker: Tracker) -> list[Undo]:
    """Count the updates that a GradScaler skips: its step calls no optimizer then.

    A fused optimizer is called all the same and skips by itself: nobody is told.
    """
    original = torch.amp.GradScaler.step

    @wraps(original)
    def step(self: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        before = tracker.updates
        result = original(self, optimizer, *args, **kwargs)
        if getattr(optimizer, "_step_supports_amp_scaling", False):
            tracker.updates_skipped = None
        elif tracker.working and tracker.updates == before:
            tracker.update_skipped(optimizer)
        return result

    torch.amp.GradScaler.step = step  # type: ignore[method-assign]

    def restore() -> None:
        if torch.amp.GradScaler.step is step:
            torch.amp.GradScaler.step = original  # type: ignore[method-assign]

    return [restore]


def _hook_model(model: Any, tracker: Tracker, seen: Callable[[], None]) -> list[Undo]:
    begun: list[str | None] = []

    def begin() -> None:
        try:
            seen()
            del begun[:]  # of a forward that an exception ended
            begun.append(tracker.enter("forward"))
        except Exception as error:
            tracker.fail(error)

    def end() -> None:
        try:
            if begun:
                tracker.forward_ended(begun.pop())
        except Exception as error:
            tracker.fail(error)

    begin, end = _hidden(begin), _hidden(end)

    # Compiled together with its model a hook is traced, and must leave nothing in the graph.
    def before(*_: Any) -> None:
        if not torch.compiler.is_compiling():
            begin()

    def after(*_: Any) -> None:
        if not torch.compiler.is_compiling():
            end()

    module = cast("torch.nn.Module", model)
    handles = (module.register_forward_pre_hook(before), module.register_forward_hook(after))
    return [handle.remove for handle in handles]


def call_overhead_us(rounds: int = 2000) -> float:
    """What calling one of the hooks costs beside what it does itself, microseconds."""
    hook = _hidden(lambda: None)
    hook()
    start = time.perf_counter_ns()
    for _ in range(rounds):
        hook()
    whole = time.perf_counter_ns() - start
    start = time.perf_counter_ns()
    for _ in range(rounds):
        pass
    return max(0.0, whole - (time.perf_counter_ns() - start)) / rounds / 1000
