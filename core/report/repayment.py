"""After how many steps the time of compiling is gained back."""

from __future__ import annotations

from typing import Literal

from llmprof.core.figures.comparison import Comparison

Unknown = Literal["never", "not distinguished", "not judged"]


def compile_ms(found: Comparison) -> float | None:
    """What the other case took to compile, its first step included; None where it did not."""
    return None if found.other.observed is None else found.other.observed.compile_ms


def steps_until_repaid(found: Comparison) -> int | Unknown | None:
    """About how many steps gain what compiling took, or why there is no such number.

    None: nothing was compiled. A gain is one only where the whole step is told from equal.
    """
    cost = compile_ms(found)
    if cost is None:
        return None
    match found.total.decision:
        case "faster":
            gain = found.total.base.mean * (1 - found.total.time.value)  # as it was judged
            return _rough(cost / gain)
        case "slower":
            return "never"
        case "not distinguished":
            return "not distinguished"
    return "not judged"


def _rough(count: float) -> int:
    """To two digits."""
    return max(1, int(round(count, 2 - len(str(round(count))))))
