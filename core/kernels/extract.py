"""A profiler's raw events into columns: one pass a field, no Python object kept."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from llmprof.core.kernels.columns import NO_SEQUENCE, Bool, EventColumns, Int32, Int64, Kind, UInt8
from llmprof.core.kernels.files import NAME_LENGTH
from llmprof.core.text import clean

_ON_CPU = ("aten::", "autograd::engine::", "torch::autograd::", "llmprof ")  # never a kernel's
_RUNTIME = re.compile(r"(?:cuda|cu|hip)[A-Z][A-Za-z0-9_]*")  # cudaLaunchKernel, cuLaunchKernelEx
_SYNC = ("Stream Wait Event", "Stream Sync", "Event Sync", "Context Sync", "Event Record")
_OVERHEAD = (
    "Activity Buffer Request",
    "Buffer Flush",
    "Instrumentation",
    "Lazy Function Loading",
    "Command Buffer Full",
    "Runtime Triggered Module Loading",
    "Resource",
    "Iteration Start:",
)


def extract(events: Sequence[Any]) -> EventColumns:
    """Columns of kineto's raw events (`prof.profiler.kineto_results.events()`).

    A field is read of the events that have a meaning for it only, through the methods of the
    events' class, which is several times cheaper than a Python loop over the events.
    """
    n = len(events)
    if not n:
        return _empty()
    methods = type(events[0])
    names, name = intern(map(methods.name, events), n)
    on_gpu = _on_gpu(methods, events, names, name)
    kind = _kinds(methods, events, names, name, on_gpu)
    ops = np.flatnonzero(kind == Kind.OP)
    on_card = np.flatnonzero(on_gpu)
    place, scope = np.zeros(n, np.int64), np.zeros(n, np.uint8)
    sequence, forward = np.full(n, NO_SEQUENCE, np.int64), np.zeros(n, np.int64)
    op_events = _some(events, ops)
    place[ops] = _ints(methods.start_thread_id, op_events)
    sequence[ops] = _ints(methods.sequence_nr, op_events)
    numbered = ops[sequence[ops] >= 0]
    numbered_events = _some(events, numbered)
    scope[numbered] = _ints(methods.scope, numbered_events)
    forward[numbered] = _ints(methods.fwd_thread_id, numbered_events)
    place[on_card] = _ints(methods.device_resource_id, _some(events, on_card))
    return EventColumns(
        names=tuple(clean(each, NAME_LENGTH) for each in names),
        name=name,
        kind=kind,
        start=_ints(methods.start_ns, events),
        duration=_ints(methods.duration_ns, events),
        place=place,
        correlation=_ints(methods.correlation_id, events),
        linked=_ints(methods.linked_correlation_id, events),
        sequence=sequence,
        forward_thread=forward,
        scope=scope,
    )


def intern(names: Iterable[str], n: int) -> tuple[list[str], Int32]:
    """Distinct names in order of appearance, and the position of each event's name."""
    ids: dict[str, int] = {}
    numbers = itertools.count()
    name = np.fromiter(
        (ids[text] if text in ids else ids.setdefault(text, next(numbers)) for text in names),
        np.int32,
        n,
    )
    return list(ids), name


def _on_gpu(methods: Any, events: Sequence[Any], names: list[str], name: Int32) -> Bool:
    """Which events ran on a device; asked only of those whose name leaves it open."""
    sure = (text.startswith(_ON_CPU) or _RUNTIME.fullmatch(text) for text in names)
    open_names = np.array([not each for each in sure], np.bool_)
    unsure = np.flatnonzero(open_names[name])
    on_gpu = np.zeros(len(name), np.bool_)
    if len(unsure):
        types = list(map(methods.device_type, _some(events, unsure)))
        cpu = type(types[0]).CPU
        on_gpu[unsure] = np.fromiter((each != cpu for each in types), np.bool_, len(unsure))
    return on_gpu


def _kinds(
    methods: Any, events: Sequence[Any], names: list[str], name: Int32, on_gpu: Bool
) -> UInt8:
    host = np.array([_host_kind(text) for text in names], np.uint8)
    card = np.array([_card_kind(text) for text in names], np.uint8)
    kind = np.where(on_gpu, card[name], host[name]).astype(np.uint8)
    kernels = np.flatnonzero(kind == Kind.KERNEL)
    ranges = np.fromiter(
        map(methods.is_user_annotation, _some(events, kernels)), np.bool_, len(kernels)
    )
    kind[kernels[ranges]] = Kind.OTHER  # a range's shadow on the card counts its kernels twice
    return kind


def _host_kind(name: str) -> Kind:
    if _RUNTIME.fullmatch(name):
        return Kind.RUNTIME
    return Kind.OTHER if name.startswith(_OVERHEAD) else Kind.OP


def _card_kind(name: str) -> Kind:
    if name.startswith("Memcpy"):
        return Kind.MEMCPY
    if name.startswith("Memset"):
        return Kind.MEMSET
    return Kind.OTHER if name.startswith(_SYNC) else Kind.KERNEL


def _some(events: Sequence[Any], positions: Int64) -> list[Any]:
    return [events[position] for position in positions.tolist()]


def _ints(method: Callable[[Any], int], events: Sequence[Any]) -> Int64:
    return np.fromiter(map(method, events), np.int64, len(events))


def _empty() -> EventColumns:
    none = np.zeros(0, np.int64)
    small = np.zeros(0, np.uint8)
    return EventColumns(
        (), none.astype(np.int32), small, none, none, none, none, none, none, none, small
    )
