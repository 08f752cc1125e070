"""How fast the host was in a case, and what of a difference that explains."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from llmprof.core.figures.replicates import processes_of
from llmprof.core.state.view import CaseState
from llmprof.core.system.numbers import significant

SLOWER = 1.3  # from here on a pace explains a difference; the load says factors, not ten per cent


@dataclass(frozen=True)
class HostPace:
    """Microseconds of a launch (on a card) or of a small matrix product (on a CPU)."""

    us: float
    of: str

    @property
    def text(self) -> str:
        """6.4 µs a launch."""
        return f"{significant(self.us)} µs a {self.of}"


def host_pace(state: CaseState) -> HostPace | None:
    """A case's pace, the mean of before and after its steps, the median over its processes."""
    read = [
        statistics.fmean(each.observed.host_pace_us)
        for each in processes_of(state)
        if each.observed is not None and each.observed.host_pace_us
    ]
    if not read or state.environment is None:
        return None
    of = "product" if state.environment.device == "cpu" else "launch"
    return HostPace(statistics.median(read), of)


def host_sets_pace(state: CaseState) -> bool:
    """Whether a slower host makes the case's steps longer: on a CPU, or where launch-bound."""
    if state.environment is None:
        return False
    if state.environment.device == "cpu":
        return True
    found = state.launch_bound
    return found is not None and found.most_of_step


def pace_apart(one: CaseState, other: CaseState) -> float | None:
    """The factor between two cases' paces, where it may explain a difference between them."""
    paces = host_pace(one), host_pace(other)
    if paces[0] is None or paces[1] is None or not (host_sets_pace(one) or host_sets_pace(other)):
        return None
    factor = max(paces[0].us, paces[1].us) / min(paces[0].us, paces[1].us)
    return factor if factor >= SLOWER else None
