"""The cards that a prediction is for."""

from __future__ import annotations

import time

from llmprof.cli.exits import UserError
from llmprof.core.catalog.cards import find_card, match_device
from llmprof.core.devices.sampler_client import SamplerProcess
from llmprof.core.events import CardSample
from llmprof.core.monitor.watch import Watch
from llmprof.core.predict.closed_form import HOPPER
from llmprof.core.predict.fits import Room, room_of
from llmprof.core.spec.shape import SpecError

NVML_START_S = 30.0  # NVML may take so long to start with persistence mode off


def rooms(names: list[str] | None) -> list[Room]:
    """The cards that were named, or those of this machine. Raises UserError."""
    if names is None:
        return cards_here()
    try:
        return [room_of(find_card(name)) for name in names]
    except SpecError as error:
        raise UserError(str(error)) from error


def cards_here() -> list[Room]:
    """The cards of this machine with what is taken of them; none without a driver."""
    watch = Watch(SamplerProcess(1.0, None))
    end = time.monotonic() + NVML_START_S
    try:
        while time.monotonic() < end:
            watch.poll(0.25)
            sample = watch.view().last_sample
            if sample is not None and (
                sample.cards or "is starting" not in (sample.cards_reason or "")
            ):
                return list(dict.fromkeys(filter(None, map(_room, sample.cards))))
        return []
    finally:
        watch.close()


def _room(sample: CardSample) -> Room | None:
    total, used = (sample.metrics.get(name) for name in ("memory_total", "memory_used"))
    if total is None or total.value is None:
        return None
    known = match_device(sample.name)
    taken = 0 if used is None or used.value is None else int(used.value)
    capability = HOPPER if known is None else known.capability
    return Room(sample.name, int(total.value), capability, taken)
