"""The card as the driver sees it from a worker, and what the CUDA context takes of it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

import torch

from llmprof.core.devices.nvml import NvmlCards
from llmprof.core.events import CardSample
from llmprof.core.events.matching import match

NVML_WAIT_S = 5.0
CardSamples = Sequence[CardSample]


def cards_now() -> CardSamples:
    """Every card and its processes by NVML now; none where it cannot be read."""
    reader = NvmlCards(owner=os.getpid(), wait_s=NVML_WAIT_S)
    try:
        return reader.read().cards
    finally:
        reader.close()


def card_of_device(cards: CardSamples, device: torch.device) -> CardSample | None:
    """The one of the cards that torch calls `device`."""
    uuid = getattr(torch.cuda.get_device_properties(device), "uuid", None)
    return None if uuid is None else match(cards, str(uuid), None)


def used_bytes(card: CardSample | None) -> int | None:
    """Bytes in use on a card, by whomever; None where the driver doesn't say."""
    metric = None if card is None else card.metrics.get("memory_used")
    return None if metric is None or metric.value is None else int(metric.value)


def own_bytes(card: CardSample | None) -> int | None:
    """Bytes that this process holds of a card; None where the driver doesn't say.

    In a container the driver lists it under a pid of the host, which can't be told from others.
    """
    listed = () if card is None else card.processes or ()
    sizes = [process.memory_bytes for process in listed if process.ours and process.local]
    known = [size for size in sizes if size is not None]
    return sum(known) if known and len(known) == len(sizes) else None


def context_bytes(before: CardSample | None, after: CardSample | None, reserved: int) -> int | None:
    """What a context took, from readings before and after it was made.

    Of this process's own bytes, or else of the growth of the card's used bytes, all but the
    `reserved` ones of torch's allocator. None where neither is known or nothing grew.
    """
    held = own_bytes(after)
    if held is None:
        first, last = used_bytes(before), used_bytes(after)
        held = None if first is None or last is None else last - first
    return None if held is None or held <= reserved else held - reserved


def measure_context(device: torch.device, make: Callable[[], None]) -> int | None:
    """Have the CUDA context made; its bytes, where NVML says."""
    before = cards_now()
    make()
    if not before:
        return None
    after = card_of_device(cards_now(), device)
    return context_bytes(card_of_device(before, device), after, torch.cuda.memory_reserved(device))
