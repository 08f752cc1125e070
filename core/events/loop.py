"""Someone's own training loop, as its own process saw it: one file a rank and restart.

A step is one turn of the loop. Its parts are contiguous and sum to its wall time, which begins
where the step before it ended.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from llmprof.core.events.base import Bytes, Count, Event, Ns
from llmprof.core.events.memory import LiveAllocation
from llmprof.core.events.run import Outcome

# Parts of a turn of the loop, in their usual order; a user's own phases come beside them.
PARTS = (
    "between",  # since the step before ended: evaluation, checkpoints, whatever lies outside
    "input",  # the training thread's wait for the next batch, iter() included
    "forward",  # with a model given: the model alone
    "loss",  # with a model given: from its output to the backward
    "backward",
    "before",  # from the backward to the optimizer: clipping, unscaling
    "optimizer",
    "after",  # from the optimizer to the step's end: zero_grad, logging
)
# Beside them where a trainer, a loader that is not the training's, or torch.save says so.
EVALUATION, CHECKPOINT = "evaluation", "checkpoint"
MOST_PARTS = 64  # with the user's own
MOST_VALUES = 64  # names given to run.log

Micros = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
Name = Annotated[str, msgspec.Meta(max_length=80)]
Value = Annotated[float, msgspec.Meta(ge=-1e30, le=1e30)]


class LoopStarted(Event, frozen=True, kw_only=True, omit_defaults=True):
    """A process began to track its loop."""

    run_id: str
    label: str
    rank: Count = 0
    restart: Count = 0
    world_size: Count = 1
    local_rank: Count = 0
    node: str = ""  # the machine's name
    pid: Count = 0
    command: tuple[str, ...] = ()
    total_steps: Count | None = None  # where the user said so
    own_calls_us: float = 0.0  # of a call of one of our hooks, calibrated: interpreter's share
    model: bool = False  # a model was given, so that forward and loss are apart


class LoopDevice(Event, frozen=True, kw_only=True, omit_defaults=True):
    """The card that a rank's training thread uses."""

    rank: Count = 0
    restart: Count = 0
    name: str
    uuid: str | None = None
    pci_bus_id: str | None = None


class LoopSteps(Event, frozen=True, kw_only=True, omit_defaults=True):
    """Steps in columns, a row each, of one epoch; microseconds.

    Rows follow each other in time: the first begins at start_ns, each takes the sum of its parts,
    and between two events of one rank nothing is lost but what `dropped` of a LoopBeat counts.
    With `counts` a row stands for that many steps, `index` is the last of them, times and values
    are means, and least and most are of their walls; a row begins where the one before it ended.
    """

    rank: Count = 0
    restart: Count = 0
    start_ns: Ns
    first: Count  # index of the first row
    gaps: tuple[tuple[Count, Count], ...] = ()  # row, steps left out before it
    epoch: Count | None = None
    parts: dict[Name, tuple[Micros, ...]]  # host clock; a part that is not named took no time
    device: dict[Name, tuple[Micros | None, ...]] = {}  # device clock; None: not known
    values: dict[Name, tuple[Value | None, ...]] = {}
    counts: tuple[Annotated[int, msgspec.Meta(ge=1, le=2**31)], ...] = ()
    least_us: tuple[Micros, ...] = ()
    most_us: tuple[Micros, ...] = ()


class LoopBeat(Event, frozen=True, kw_only=True, omit_defaults=True):
    """A sign of life: in which part the training thread is, and since when."""

    rank: Count = 0
    restart: Count = 0
    part: Name
    since_ns: Ns
    index: Count  # of the step that it is in
    epoch: Count | None = None
    position: Count | None = None  # of that step in its epoch, from 0
    length: Count | None = None  # steps of an epoch, where the loader says so
    dropped: Count = 0  # steps that the writer had no room for, in all
    own_us: Annotated[float, msgspec.Meta(ge=0, le=1e9)] = 0.0  # our own host time a step, mean
    updates_skipped: Count | None = 0  # by a GradScaler, in all; None: not known
    allocated_bytes: Bytes | None = None  # the caching allocator's figures
    peak_bytes: Bytes | None = None  # since the process began: it is never reset
    reserved_bytes: Bytes | None = None
    alloc_retries: Count | None = None
    rss_bytes: Bytes | None = None  # of the process on the host
    compiles: Count | None = None  # functions that torch.compile has compiled, again ones included
    compile_s: Annotated[float, msgspec.Meta(ge=0, le=1e9)] = 0.0  # spent on that
    looks: Count = 0  # how often it was looked where the training thread is, where there is a card
    blocked: Count = 0  # of these, in a call that waits for the card
    blocked_at: Annotated[str, msgspec.Meta(max_length=200)] = ""  # where most often, and the call


class LoopDone(Event, frozen=True, kw_only=True, omit_defaults=True):
    """The tracked part of the process ended."""

    rank: Count = 0
    restart: Count = 0
    outcome: Outcome
    error: str = ""  # of an exception that ended it, in one line
    part: Name = ""  # in which it ended, of an exception
    values: dict[Name, Value] = {}  # logged after the last step, as of a last evaluation


class LoopOutOfMemory(Event, frozen=True, kw_only=True, omit_defaults=True):
    """An allocator had no room: in which part, what was asked, and what it had given out.

    Of the card it is read inside the refusal, also where the program gets over it; a process says
    it of its first one and of the one that ends it.
    """

    rank: Count = 0
    restart: Count = 0
    part: Name
    index: Count  # of the step
    bytes_asked: Bytes | None = None
    free_bytes: Bytes | None = None  # on the card
    total_bytes: Bytes | None = None  # of the card
    allocated_bytes: Bytes | None = None
    peak_bytes: Bytes | None = None
    reserved_bytes: Bytes | None = None
    alloc_retries: Count | None = None
    largest: tuple[LiveAllocation, ...] = ()  # where the program had the allocator's history on


LoopEvent = LoopStarted | LoopDevice | LoopSteps | LoopBeat | LoopOutOfMemory | LoopDone
