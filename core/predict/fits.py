"""Whether a prediction fits a card."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from llmprof.core.catalog.cards import CardSpec
from llmprof.core.predict.allocator_replay import replay_allocator
from llmprof.core.predict.closed_form import MemoryPrediction
from llmprof.core.spec.axes import Precision
from llmprof.core.spec.case import Case
from llmprof.core.system.units import MIB

FitVerdict = Literal["fits", "does not fit", "too close to say"]

AMPERE = (8, 0)
CONTEXT_LOW = 300 * MIB  # CUDA context and loaded kernels, small card
CONTEXT_HIGH = 1300 * MIB  # with cuDNN and what the driver keeps: 1,230 MiB on an H100
FRAGMENTATION = 0.12  # of the allocated bytes, held in segments that cannot be given back


@dataclass(frozen=True, slots=True)
class Room:
    """Memory of a card in bytes, what others hold of it already, and its compute capability.

    context_bytes is what a CUDA context took there right after it was made; None: not measured.
    """

    name: str
    total_bytes: int
    capability: tuple[int, int]
    taken_bytes: int = 0
    context_bytes: int | None = None

    @property
    def free_bytes(self) -> int:
        """What a new process could take, its CUDA context included."""
        return self.total_bytes - self.taken_bytes


def room_of(card: CardSpec, taken_bytes: int = 0) -> Room:
    """The room on a card of which others hold `taken_bytes`."""
    return Room(card.name, card.memory_bytes, card.capability, taken_bytes)


def unsupported(precision: Precision, capability: tuple[int, int]) -> str | None:
    """Why a precision cannot run on a card of a compute capability, None where it can."""
    if precision in ("bf16", "tf32") and capability < AMPERE:
        has = ".".join(map(str, capability))
        return f"{precision} needs compute capability 8.0, this card has {has}"
    return None


def context_span(measured_bytes: int | None) -> tuple[int, int]:
    """Least and most bytes that a context comes to take, kernels and libraries included.

    They come on top of what it took when it was made, which is the least where it was measured.
    """
    if measured_bytes is None:
        return CONTEXT_LOW, CONTEXT_HIGH
    return measured_bytes, max(CONTEXT_HIGH, measured_bytes + CONTEXT_LOW)


def needed_bytes(prediction: MemoryPrediction, context_bytes: int | None = None) -> tuple[int, int]:
    """Least and most bytes of the card that a case takes, context and fragmentation included.

    context_bytes is the context as it was measured on the card, None where it was not.
    """
    least, most = context_span(context_bytes)
    low = prediction.allocated_low + least
    high = int(prediction.allocated_high * (1 + FRAGMENTATION)) + most
    return low, high


def fit_verdict(
    prediction: MemoryPrediction, free_bytes: int, context_bytes: int | None = None
) -> FitVerdict:
    """Whether a case fits in so many bytes of a card, its context included."""
    low, high = needed_bytes(prediction, context_bytes)
    if prediction.upper_bound:
        low //= 2  # a compiled model may save much less than the eager one predicted
    if high <= free_bytes:
        return "fits"
    return "does not fit" if low > free_bytes else "too close to say"


def decide(case: Case, prediction: MemoryPrediction, room: Room) -> FitVerdict:
    """The verdict, with the allocator replayed where the closed form's band is too wide.

    Takes up to a second then. What stays too close depends on the size of the CUDA context.
    """
    first = fit_verdict(prediction, room.free_bytes, room.context_bytes)
    if first != "too close to say" or prediction.upper_bound or case.shape is None:
        return first
    least, most = context_span(room.context_bytes)
    if _replays(case, room, most):
        return "fits"
    return "too close to say" if _replays(case, room, least) else "does not fit"


def certainly_fits(case: Case, prediction: MemoryPrediction, room: Room) -> bool:
    """Whether `decide` says that it fits, in half the time: the other verdicts are not told."""
    first = fit_verdict(prediction, room.free_bytes, room.context_bytes)
    if first != "too close to say" or prediction.upper_bound:
        return first == "fits"
    return _replays(case, room, context_span(room.context_bytes)[1])


def _replays(case: Case, room: Room, context_bytes: int) -> bool:
    """Whether the replayed allocator has room for a case beside a context."""
    return replay_allocator(case, room.capability, room.free_bytes - context_bytes).asked is None
