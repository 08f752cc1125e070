"""Metrics as text: a value with its unit, or n/a; and the same for machines."""

from __future__ import annotations

import datetime
from collections.abc import Sequence

from llmprof.core.devices.metrics import METRICS
from llmprof.core.events import CardProcess, CardSample, HostSample, Metric, throttle
from llmprof.core.monitor import amounts
from llmprof.core.state.view import RunView

NOT_AVAILABLE = amounts.NOT_AVAILABLE


def size(value: float | None) -> str:
    """Bytes in the binary unit that suits them."""
    return amounts.text(value, "B")


def host_memory(host: HostSample) -> str:
    """What is used of the host's memory, and how much a container may have of it."""
    text = f"{size(host.memory_used_bytes)} of {size(host.memory_total_bytes)}"
    limit = host.memory_limit_bytes
    return text if limit is None else f"{text}, limit {size(limit)}"


def reading(name: str, card: CardSample) -> float | None:
    """One metric of a card, None when unknown or not read yet."""
    metric = card.metrics.get(name)
    return None if metric is None else metric.value


def amount(name: str, card: CardSample) -> str:
    """One metric of a card with its unit, "n/a" when unknown or not read yet."""
    return amounts.text(reading(name, card), METRICS[name][0])


def pair(name: str, limit: str, card: CardSample) -> str:
    """A metric beside its limit, as in "350 / 700 W"; the limit left out when unknown."""
    return pairs(name, limit, (card,))[0]


def pairs(name: str, limit: str, cards: Sequence[CardSample]) -> list[str]:
    """The same of several cards, as a column in one unit."""
    values = [(reading(name, card), reading(limit, card)) for card in cards]
    unit = amounts.unit_of(METRICS[name][0], (value for both in values for value in both))
    return [
        NOT_AVAILABLE
        if value is None
        else " / ".join(amounts.figure(each, unit) for each in (value, most) if each is not None)
        + f" {unit.name}"
        for value, most in values
    ]


def several(names: Sequence[str], card: CardSample) -> str:
    """Metrics of one unit in a row, as in "96 / 0 / 5 %"; "n/a" once when none is known."""
    return amounts.together((reading(name, card) for name in names), METRICS[names[0]][0])


def throttle_words(card: CardSample) -> str:
    """What holds the clocks down; harmless reasons in brackets, "none" for neither."""
    metric = card.metrics.get("throttle")
    if metric is None or metric.value is None:
        return NOT_AVAILABLE
    harmful = [name for name in card.throttle if throttle.is_harmful(name)]
    harmless = [name for name in card.throttle if not throttle.is_harmful(name)]
    words = ", ".join(harmful) or "none"
    return f"{words} ({', '.join(harmless)})" if harmless else words


def state(card: CardSample) -> str:
    """What is wrong with a card that does not answer; "" for one that does."""
    if card.state == "ok":
        return ""
    return "NOT YOURS" if card.denied else card.state.upper()


def reasons(card: CardSample) -> dict[str, list[str]]:
    """Why metrics are n/a: each reason with the metrics that it keeps away."""
    found: dict[str, list[str]] = {}
    for name, metric in card.metrics.items():
        if metric.value is None and metric.reason is not None:
            found.setdefault(metric.reason, []).append(name)
    return found


def as_object(view: RunView, wall_ns: int | None) -> dict[str, object]:
    """Host and cards as JSON-ready values; an unknown metric has a reason in place of a value."""
    sample = view.last_sample
    lasts = [card.last for _, card in sorted(view.cards.items()) if card.last is not None]
    when = None if wall_ns is None else datetime.datetime.fromtimestamp(wall_ns / 1e9, datetime.UTC)
    return {
        "time": None if when is None else when.isoformat(),
        "host": _host(sample.host) if sample else {},
        "cards": [_card(card) for card in lasts],
        "cards_reason": sample.cards_reason if sample else "no sample yet",
        "sampler_cost_ms": sample.cost_ms if sample else None,
    }


def _host(host: HostSample) -> dict[str, object]:
    return {name: getattr(host, name) for name in HostSample.__struct_fields__}


def _card(card: CardSample) -> dict[str, object]:
    mask = card.metrics.get("throttle")
    told = mask is not None and mask.value is not None
    return {
        "index": card.index,
        "name": card.name,
        "uuid": card.uuid,
        "pci_bus_id": card.pci_bus_id,
        "state": "denied" if card.denied else card.state,
        "unified_memory": card.unified,
        "metrics": {name: _metric(name, metric) for name, metric in card.metrics.items()},
        "throttle": list(card.throttle) if told else None,
        "throttled": any(map(throttle.is_harmful, card.throttle)) if told else None,
        "processes": None if card.processes is None else [_process(p) for p in card.processes],
        "mig": [{n: getattr(m, n) for n in m.__struct_fields__} for m in card.mig],
    }


def _metric(name: str, metric: Metric) -> dict[str, object]:
    unit = METRICS.get(name, ("", ""))[0]
    if metric.value is None:
        return {"value": None, "reason": metric.reason or "unknown"}
    return {"value": metric.value, "unit": unit} if unit else {"value": metric.value}


def _process(process: CardProcess) -> dict[str, object]:
    return {name: getattr(process, name) for name in CardProcess.__struct_fields__}
