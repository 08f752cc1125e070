"""A profiler's raw events into columns, without keeping a Python object of any."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llmprof.core.kernels.column_files import NAME_LENGTH
from llmprof.core.kernels.columns import (
    COLUMN_DTYPES,
    NO_SEQUENCE,
    Bool,
    EventColumns,
    Int32,
    Int64,
    Kind,
    UInt8,
)
from llmprof.core.system.text import clean

EVENTS_AT_ONCE = 4_096  # events whose C++ objects stay in the cache while their fields are read

_RUNTIME = re.compile(r"(?:cuda|cu|hip)[A-Z][A-Za-z0-9_]*")  # cudaLaunchKernel, cuLaunchKernelEx
_OP = re.compile(r"(?:aten::|autograd::engine::|torch::autograd::|llmprof )|\w+Backward\d+$")
_ACTIVITY = re.compile(r"void |Memcpy |Memset ")
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
    events' class, chunk by chunk: several times cheaper than a Python loop over the events.
    """
    names = Names()
    methods = Methods(type(events[0])) if events else None
    chunks = [
        _chunk(events[at : at + EVENTS_AT_ONCE], methods, names)
        for at in range(0, len(events), EVENTS_AT_ONCE)
    ]
    columns = {
        field: np.concatenate([np.zeros(0, dtype), *(chunk[field] for chunk in chunks)])
        for field, dtype in COLUMN_DTYPES.items()
    }
    return EventColumns(names=tuple(clean(name, NAME_LENGTH) for name in names.texts), **columns)


class Methods:
    """The methods of the events' class as plain functions.

    pybind11 wraps each in an object that costs a third of the call.
    """

    def __init__(self, kind: type) -> None:
        self._kind = kind

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._kind, name)
        function = getattr(method, "__func__", method)
        setattr(self, name, function)
        return function


class Names:
    """Distinct names in order of appearance, with what each says of its events."""

    def __init__(self) -> None:
        self._ids: dict[str, int] = {}
        self._host: list[int] = []
        self._card: list[int] = []
        self._unsure: list[bool] = []
        self._gpu: list[bool] = []

    @property
    def texts(self) -> list[str]:
        """The names."""
        return list(self._ids)

    def intern(self, names: list[str]) -> Int32:
        """Position of each name, new ones added."""
        ids = self._ids
        for name in dict.fromkeys(names):
            if name not in ids:
                ids[name] = len(ids)
                self._add(name)
        return np.fromiter(map(ids.__getitem__, names), np.int32, len(names))

    def kinds(self, name: Int32, on_gpu: Bool) -> UInt8:
        """Kind of each event, from its name and whether it ran on a card."""
        host, card = np.array(self._host, np.uint8), np.array(self._card, np.uint8)
        return np.where(on_gpu, card[name], host[name])

    def where(self, name: Int32) -> tuple[Bool, Bool]:
        """Which events ran on a card by their name, and which names leave it open."""
        return np.array(self._gpu, np.bool_)[name], np.array(self._unsure, np.bool_)[name]

    def _add(self, name: str) -> None:
        runtime, activity = _RUNTIME.fullmatch(name), _ACTIVITY.match(name)
        self._host.append(_host_kind(name, runtime=runtime is not None))
        self._card.append(_card_kind(name))
        self._gpu.append(activity is not None)
        self._unsure.append(not (runtime or activity or _OP.match(name)))


def _chunk(events: Sequence[Any], methods: Any, names: Names) -> dict[str, NDArray[Any]]:
    n = len(events)
    name = names.intern(list(map(methods.name, events)))
    on_gpu, unsure = names.where(name)
    open_rows = np.flatnonzero(unsure)
    open_events = _some(events, open_rows)
    on_gpu[open_rows] = _on_card(methods, open_events)
    kind = names.kinds(name, on_gpu)
    ranges = np.fromiter(map(methods.is_user_annotation, open_events), np.bool_, len(open_events))
    shadows = open_rows[ranges]
    # A range is no work: on the card its shadow would count its kernels twice.
    kind[shadows] = np.where(on_gpu[shadows], Kind.OTHER, Kind.RANGE)
    ops, card = np.flatnonzero(kind == Kind.OP), np.flatnonzero(on_gpu)
    op_events, card_events = _some(events, ops), _some(events, card)
    sequence = _spread(n, ops, methods.sequence_nr, op_events, NO_SEQUENCE)
    numbered = np.flatnonzero(sequence >= 0)
    node_events = _some(events, numbered)
    place = _spread(n, ops, methods.start_thread_id, op_events)
    place[card] = _ints(methods.device_resource_id, card_events)
    return {
        "name": name,
        "kind": kind,
        "start": _ints(methods.start_ns, events),
        "duration": _ints(methods.duration_ns, events),
        "place": place,
        "correlation": _ints(methods.correlation_id, events),
        "linked": _spread(n, card, methods.linked_correlation_id, card_events),
        "sequence": sequence,
        "forward_thread": _spread(n, numbered, methods.fwd_thread_id, node_events),
        "scope": _spread(n, numbered, methods.scope, node_events).astype(np.uint8),
    }


def _on_card(methods: Any, events: list[Any]) -> Bool:
    types = list(map(methods.device_type, events))
    cpu = type(types[0]).CPU if types else None
    return np.fromiter((each != cpu for each in types), np.bool_, len(types))


def _host_kind(name: str, *, runtime: bool) -> Kind:
    if runtime:
        return Kind.RUNTIME
    return Kind.OTHER if name.startswith(_OVERHEAD) else Kind.OP


def _card_kind(name: str) -> Kind:
    if name.startswith("Memcpy"):
        return Kind.MEMCPY
    if name.startswith("Memset"):
        return Kind.MEMSET
    return Kind.OTHER if name.startswith(_SYNC) else Kind.KERNEL


def _some(events: Sequence[Any], positions: Int64) -> list[Any]:
    return list(map(events.__getitem__, positions.tolist()))


def _ints(method: Callable[[Any], int], events: Sequence[Any]) -> Int64:
    return np.fromiter(map(method, events), np.int64, len(events))


def _spread(
    n: int, rows: Int64, method: Callable[[Any], int], events: list[Any], otherwise: int = 0
) -> Int64:
    """A column of n that holds the method's values in some rows."""
    column = np.full(n, otherwise, np.int64)
    column[rows] = _ints(method, events)
    return column
