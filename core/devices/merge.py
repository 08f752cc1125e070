"""Samples hold what was due; merged they hold all that is known."""

from __future__ import annotations

import msgspec

from llmprof.core.events import CardSample, DeviceSample


def merge(old: DeviceSample, new: DeviceSample) -> DeviceSample:
    """The newer sample with what only the older one read: a card's newest known state."""
    before = {card.index: card for card in old.cards}
    cards = tuple(
        merge_card(before[card.index], card) if card.index in before else card for card in new.cards
    )
    return msgspec.structs.replace(new, cards=cards)


def merge_card(old: CardSample, new: CardSample) -> CardSample:
    """A card's newest reading of each metric; a sample holds only what was due."""
    return msgspec.structs.replace(
        new,
        uuid=new.uuid or old.uuid,
        pci_bus_id=new.pci_bus_id or old.pci_bus_id,
        name=new.name or old.name,
        metrics={**old.metrics, **new.metrics},
        processes=old.processes if new.processes is None else new.processes,
        mig=new.mig or old.mig,
        unified=new.unified or old.unified,
    )
