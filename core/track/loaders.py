"""Hooks on torch's DataLoader: when the training thread waits for a batch, and of which loader."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from torch.utils.data import DataLoader, dataloader

from llmprof.core.events.loop import CHECKPOINT
from llmprof.core.track.automatic import AutomaticTracker


def watch_loaders(tracker: AutomaticTracker) -> list[Callable[[], None]]:
    """Tell the tracker of every loader's iter() and next(); gives what undoes it."""
    return [
        _replace(DataLoader, "__iter__", lambda original: _timed_iter(original, tracker)),
        _replace(
            dataloader._BaseDataLoaderIter,
            "__next__",
            lambda original: _timed_next(original, tracker),
        ),
    ]


def watch_saves(tracker: AutomaticTracker) -> list[Callable[[], None]]:
    """Have torch.save stand as a part of its own."""
    return [_replace(torch, "save", lambda original: _timed_save(original, tracker))]


def _timed_iter(original: Callable[..., Any], tracker: AutomaticTracker) -> Any:
    @wraps(original)
    def __iter__(self: Any) -> Any:  # noqa: N807
        waits = False
        try:
            length: int | None
            try:
                length = len(self)
            except Exception:  # of a data set that has no length, in its own words
                length = None
            waits = tracker.iter_begins(_key(self), length)
        except Exception as error:
            tracker.fail(error)
        try:
            return original(self)
        except BaseException as error:
            tracker.raised(error)
            raise
        finally:
            tracker.next_ended(waits, batch=False)

    return __iter__


def _timed_next(original: Callable[..., Any], tracker: AutomaticTracker) -> Any:
    @wraps(original)
    def __next__(self: Any) -> Any:  # noqa: N807
        waits = tracker.next_begins(_key(self))
        try:
            batch = original(self)
        except BaseException as error:  # StopIteration, or what a worker met
            tracker.raised(error)
            tracker.next_ended(waits, batch=False)
            raise
        tracker.batch_came(_key(self))
        tracker.next_ended(waits, batch=True)
        return batch

    return __next__


def _timed_save(original: Callable[..., Any], tracker: AutomaticTracker) -> Any:
    @wraps(original)
    def save(*args: Any, **kwargs: Any) -> Any:
        before = tracker.begin_aside(CHECKPOINT)
        try:
            return original(*args, **kwargs)
        except BaseException as error:  # a disk that is full
            tracker.raised(error)
            raise
        finally:
            tracker.end_phase(before)

    return save


def _key(loader: Any) -> int:
    """The same for a loader and its iterators: both hold the sampler that is made for them."""
    return id(getattr(loader, "_index_sampler", loader))


def _replace(owner: Any, name: str, made: Callable[[Any], Any]) -> Callable[[], None]:
    """Put ours in the place of an attribute; gives what puts it back, if nobody came after us."""
    original = getattr(owner, name)
    ours = made(original)
    setattr(owner, name, ours)

    def restore() -> None:
        if getattr(owner, name) is ours:
            setattr(owner, name, original)

    return restore
