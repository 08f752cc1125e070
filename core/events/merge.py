"""Samples hold what was due; merged they hold all that is known."""

from __future__ import annotations

import msgspec

from llmprof.core.events import CardSample, DeviceSample, Metric


def merge(old: DeviceSample, new: DeviceSample) -> DeviceSample:
    """The newer sample with what only the older one read: a card's newest known state."""
    before = {card.index: card for card in old.cards}
    cards = tuple(
        merge_card(before[card.index], card) if card.index in before else card for card in new.cards
    )
    return msgspec.structs.replace(new, cards=cards)


def merge_card(old: CardSample, new: CardSample) -> CardSample:
    """A card's newest reading of each metric; a sample holds only what was due.

    Of a card that does not answer nothing is known, whatever was read of it before.
    """
    throttle, processes = old.throttle, old.processes
    if "throttle" in new.metrics:
        throttle = new.throttle
    others = new.metrics.get("other_processes")
    if new.processes is not None or (others is not None and others.value is None):
        processes = new.processes
    metrics = {**old.metrics, **new.metrics}
    if new.state != "ok":
        throttle, processes = (), None
        metrics = _unknown(metrics, new)
    return msgspec.structs.replace(
        new,
        uuid=new.uuid or old.uuid,
        pci_bus_id=new.pci_bus_id or old.pci_bus_id,
        name=new.name or old.name,
        metrics=metrics,
        throttle=throttle,
        processes=processes,
        mig=new.mig or old.mig,
        unified=new.unified or old.unified,
    )


def _unknown(metrics: dict[str, Metric], card: CardSample) -> dict[str, Metric]:
    """Metrics of a card that does not answer: each with a reason, its own where it has one."""
    reasons = [metric.reason for metric in card.metrics.values() if metric.value is None]
    reason = next((each for each in reasons if each), f"the card is {card.state}")
    return {
        name: metric if metric.value is None else Metric(None, reason)
        for name, metric in metrics.items()
    }
