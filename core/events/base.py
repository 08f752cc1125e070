"""The base of all events, and the bounds of what they may say."""

from __future__ import annotations

import time
from typing import Annotated

import msgspec

JOURNAL_SCHEMA = 1

# A journal from elsewhere may say anything; what is outside these bounds is no event.
Ns = Annotated[int, msgspec.Meta(ge=0, le=2**62)]
Ms = Annotated[float, msgspec.Meta(ge=0, le=1e12)]
Bytes = Annotated[int, msgspec.Meta(ge=0, le=2**60)]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**40)]


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag=True):
    """Base of all events; t says when it was observed."""

    t: Ns = msgspec.field(default_factory=time.monotonic_ns)
