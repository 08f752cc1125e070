"""Reads back what monitor/words.py prints as JSON."""

from __future__ import annotations

import datetime
from typing import Literal

import msgspec

from llmprof.core import events as ev


class _Reading(msgspec.Struct):
    value: float | None
    reason: str | None = None


class _Card(msgspec.Struct):
    index: int
    name: str = ""
    uuid: str | None = None
    pci_bus_id: str | None = None
    state: Literal["ok", "lost", "stale", "denied"] = "ok"
    unified_memory: bool = False
    metrics: dict[str, _Reading] = {}
    throttle: tuple[str, ...] | None = None
    processes: tuple[ev.CardProcess, ...] | None = None
    mig: tuple[ev.MigInstance, ...] = ()


class Printed(msgspec.Struct):
    """One line of `llmprof monitor --json --follow`; unknown keys are passed over."""

    time: datetime.datetime
    host: ev.HostSample
    cards: tuple[_Card, ...]
    cards_reason: str | None = None
    sampler_cost_ms: float | None = None


def nanoseconds(moment: datetime.datetime) -> int:
    """Wall-clock nanoseconds; a time without a zone is UTC."""
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.UTC)
    return max(0, round(moment.timestamp() * 1e9))


def as_sample(line: Printed) -> ev.DeviceSample:
    """The sample that was printed; t is wall-clock time."""
    cards = tuple(
        ev.CardSample(
            index=card.index,
            name=card.name,
            uuid=card.uuid,
            pci_bus_id=card.pci_bus_id,
            state="lost" if card.state == "denied" else card.state,
            denied=card.state == "denied",
            metrics={n: ev.Metric(r.value, r.reason) for n, r in card.metrics.items()},
            throttle=card.throttle or (),
            processes=card.processes,
            mig=card.mig,
            unified=card.unified_memory,
        )
        for card in line.cards
    )
    return ev.DeviceSample(
        t=nanoseconds(line.time),
        host=line.host,
        cards=cards,
        cards_reason=line.cards_reason,
        cost_ms=line.sampler_cost_ms,
    )
