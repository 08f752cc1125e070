"""Events on another clock: a replay's, or that of the machine whose file comes first."""

from __future__ import annotations

import msgspec

from llmprof.core import events as ev


def shifted(event: ev.AnyEvent, by_ns: int) -> ev.AnyEvent:
    """The event as if all that it says had happened later."""
    if not by_ns:
        return event
    t = max(0, event.t + by_ns)
    match event:
        case ev.StepDone() | ev.LoopSteps():
            return msgspec.structs.replace(event, t=t, start_ns=max(0, event.start_ns + by_ns))
        case ev.LoopBeat():
            return msgspec.structs.replace(event, t=t, since_ns=max(0, event.since_ns + by_ns))
    return msgspec.structs.replace(event, t=t)
