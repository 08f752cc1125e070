"""Who else is on the card that a run would use, before it begins."""

from __future__ import annotations

import os
import time

from llmprof.core.devices.sampler_client import SamplerProcess
from llmprof.core.events import CardSample
from llmprof.core.events.matching import Selection
from llmprof.core.figures.case_device import describe_process
from llmprof.core.monitor.watch import Watch

PATIENCE_S = 3.0  # the driver takes longer to start only where nothing has used it lately


def others_on_cards() -> tuple[str, ...]:
    """The processes on the card that torch would take, each in a few words.

    Waits for the driver for at most PATIENCE_S; what is not known by then is not told.
    """
    watch = Watch(SamplerProcess(0.5, first_visible()))
    end = time.monotonic() + PATIENCE_S
    try:
        while time.monotonic() < end:
            watch.poll(0.1)
            sample = watch.view().last_sample
            if sample is not None and sample.cards:
                return on_card(sample.cards[0])
        return ()
    finally:
        watch.close()


def on_card(card: CardSample) -> tuple[str, ...]:
    """The processes that hold memory on a card and do not belong to whoever asks."""
    return tuple(describe_process(each) for each in card.processes or () if not each.ours)


def first_visible() -> str | None:
    """The card that CUDA_VISIBLE_DEVICES puts first, None where it names none that is known."""
    first = os.environ.get("CUDA_VISIBLE_DEVICES", "").partition(",")[0].strip()
    try:
        return first if first and Selection.parse(first).names else None
    except ValueError:
        return None
