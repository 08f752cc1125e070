"""One configuration measured in several fresh processes, as one case."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import dataclass, fields
from functools import cached_property

import msgspec

from llmprof.core.spec.case import Phase
from llmprof.core.state.launch_bound import LaunchBound
from llmprof.core.state.view import CaseState
from llmprof.core.stats.summary import Summary, over_processes


@dataclass(frozen=True)
class Replicated(CaseState):
    """A configuration's first process that has figures, with the summaries of all that have."""

    processes: tuple[CaseState, ...] = ()

    @property
    def measured_processes(self) -> tuple[CaseState, ...]:
        """Those that have figures."""
        return tuple(each for each in self.processes if each.total is not None)

    @cached_property
    def summaries(self) -> dict[Phase, Summary]:
        """Measured device time of each phase, over processes."""
        ran = [each.summaries for each in self.measured_processes]
        return {
            phase: over_processes([each[phase] for each in ran])
            for phase in self.case.phases
            if ran and all(phase in each for each in ran)
        }

    @cached_property
    def total(self) -> Summary | None:
        """Measured device time of whole steps, over processes."""
        return self._over([each.total for each in self.processes])

    @cached_property
    def wall(self) -> Summary | None:
        """Measured wall time of whole steps, over processes."""
        return self._over([each.wall for each in self.processes])

    @cached_property
    def host_share(self) -> float | None:
        """Median over processes."""
        known = [share for each in self.processes if (share := each.host_share) is not None]
        return statistics.median(known) if known else None

    @cached_property
    def launch_bound(self) -> LaunchBound | None:
        """That of the process whose pace the host sets most of."""
        known = [found for each in self.measured_processes if (found := each.launch_bound)]
        return max(known, key=lambda found: found.share, default=None)

    @staticmethod
    def _over(summaries: Iterable[Summary | None]) -> Summary | None:
        known = [each for each in summaries if each is not None]
        return over_processes(known) if known else None


def configurations(cases: Iterable[CaseState]) -> tuple[CaseState, ...]:
    """The cases of a run, those of one configuration in several processes as one."""
    found: dict[str, list[CaseState]] = {}
    for state in cases:
        found.setdefault(msgspec.structs.replace(state.case, process=0).key, []).append(state)
    return tuple(group[0] if len(group) == 1 else _as_one(group) for group in found.values())


def processes_of(state: CaseState) -> tuple[CaseState, ...]:
    """The processes behind a case: itself, where it is one."""
    return state.processes if isinstance(state, Replicated) else (state,)


def _as_one(group: list[CaseState]) -> Replicated:
    first = next((each for each in group if each.total is not None), group[0])
    known = {each.name: getattr(first, each.name) for each in fields(CaseState)}
    known["case"] = msgspec.structs.replace(first.case, process=0)
    return Replicated(**known, processes=tuple(group))
