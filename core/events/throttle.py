"""Clock event reasons: NVML's bit mask by name, and which of them slow the card down."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ThrottleReason:
    """One bit of the mask; harmful when it holds clocks below what the load could use."""

    bit: int
    name: str
    harmful: bool
    meaning: str


# Bits as in nvml.h, "Clocks Event Reasons".
REASONS: tuple[ThrottleReason, ...] = (
    ThrottleReason(0x1, "idle", False, "nothing runs, clocks are low"),
    ThrottleReason(0x2, "application clocks", False, "clocks were set by the user"),
    ThrottleReason(0x4, "power cap", True, "the power limit holds clocks down"),
    ThrottleReason(0x8, "hardware slowdown", True, "temperature, power brake or fast trigger"),
    ThrottleReason(0x10, "sync boost", True, "clocks follow a slower card of the group"),
    ThrottleReason(0x20, "software thermal", True, "the driver cools the chip or its memory"),
    ThrottleReason(0x40, "hardware thermal", True, "the chip is too hot"),
    ThrottleReason(0x80, "power brake", True, "the power supply asks for less"),
    ThrottleReason(0x100, "display clocks", False, "clocks were set for a display"),
    ThrottleReason(0x200, "board limit", True, "the board's power or current limit"),
    ThrottleReason(0x400, "reliability", True, "the voltage limit for a long life"),
)
_BY_NAME = {reason.name: reason for reason in REASONS}
HARMFUL_BITS = sum(reason.bit for reason in REASONS if reason.harmful)


def names(mask: int) -> tuple[str, ...]:
    """Every reason set in a mask, unknown bits as "bit N"."""
    known = [reason.name for reason in REASONS if mask & reason.bit]
    rest = mask & ~sum(reason.bit for reason in REASONS)
    return (*known, *(f"bit {at}" for at in range(rest.bit_length()) if rest >> at & 1))


def harmful(mask: int) -> tuple[str, ...]:
    """The reasons in a mask that slow the card down."""
    return names(mask & HARMFUL_BITS)


def is_harmful(name: str) -> bool:
    """Whether a named reason slows the card down; an unknown one is not alarmed."""
    reason = _BY_NAME.get(name)
    return reason is not None and reason.harmful
