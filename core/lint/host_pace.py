"""Cases whose host was slower than it was in the fastest case of the run."""

from __future__ import annotations

from llmprof.core.figures.host_pace import SLOWER, host_pace, host_sets_pace
from llmprof.core.lint.verdict import Context, Verdict
from llmprof.core.state.view import CaseState, RunView

STEAL_PERCENT = 5.0
EXPLAINED = {
    "host-pace": "A short fixed load before and after the measured steps ran slower than in the "
    "fastest case of the run, and the host sets this case's pace: what differs may be the "
    "machine's and not the configuration's.",
    "stolen-time": "The hypervisor ran other guests on this machine's processors.",
}


def slow_host(view: RunView) -> list[tuple[int, Verdict]]:
    """Launch-bound and CPU cases whose host's pace was at least 1.3 times the fastest's."""
    paces = [(state, pace) for state in view.cases if (pace := host_pace(state)) is not None]
    found = []
    for state, pace in paces:
        fastest, best = min(
            ((other, each) for other, each in paces if each.of == pace.of),
            key=lambda pair: pair[1].us,
        )
        factor = pace.us / best.us
        if factor < SLOWER or not host_sets_pace(state):
            continue
        text = (
            f"host {factor:.1f} × slower than in case {fastest.index + 1} "
            f"({pace.text} against {best.text})"
        )
        found.append((state.index, Verdict("host-pace", "warning", text)))
    return found


def stolen_time(state: CaseState, context: Context) -> Verdict | None:
    """The share of the machine's time that went to other guests in the measured steps."""
    stolen = None if state.observed is None else state.observed.steal_percent
    if stolen is None or stolen < STEAL_PERCENT:
        return None
    text = f"other guests of the hypervisor took {stolen:.0f} % of this machine's processor time"
    return Verdict("stolen-time", "warning", text)
