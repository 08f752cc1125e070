"""What is known of this machine before a run has looked at it: by an earlier run, else assumed."""

from __future__ import annotations

import socket
from itertools import islice

import msgspec

from llmprof.core.catalog.cards import CardSpec
from llmprof.core.events import Environment, decode
from llmprof.core.store.run import Run, RunStore
from llmprof.core.system.processors import usable_cpus
from llmprof.core.system.text import clean

MOST_RUNS = 20  # in which a look at this machine is searched
MOST_EVENTS = 8  # of a journal's beginning, in which the look is
MATMUL_SHARE = 0.7  # of a card's published fp32 peak that a matrix product reaches
CPU_TFLOPS = 0.04  # fp32, of a matrix product, a processor


def machine_here(store: RunStore, card: CardSpec | None = None) -> Environment:
    """This machine as the newest run saw it; else its published card or its processors, assumed.

    Rates are what estimates of time are made from; those of an earlier run were measured.
    """
    kind = "cpu" if card is None else "cuda"
    host = clean(socket.gethostname(), 80)
    for run in islice(store.list(), MOST_RUNS):
        seen = look_of(run)
        if seen is not None and seen.host == host and seen.device.startswith(kind):
            return seen
    if card is None:
        tflops = CPU_TFLOPS * len(usable_cpus())
        return Environment(device="cpu", device_name="this machine", matmul_tflops=tflops)
    reached = None if card.fp32 is None else MATMUL_SHARE * card.fp32
    return Environment(device="cuda:0", device_name=card.name, matmul_tflops=reached)


def look_of(run: Run) -> Environment | None:
    """The look at its machine at the beginning of a run's journal, None where there is none."""
    try:
        with run.journal.open("rb") as file:
            for line in islice(file, MOST_EVENTS):
                event = decode(line)
                if isinstance(event, Environment):
                    return event
    except (OSError, msgspec.MsgspecError, ValueError):
        return None
    return None
