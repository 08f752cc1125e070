"""How often equal cells get a verdict, and how often a planted change of a phase is found.

    python benchmarks/verdict_errors.py RUN [--pairs 1000] [--change 5]

RUN is a run (or packed run) of one configuration in many fresh processes, as of
`llmprof run --model-size small --context-length 512 --mode train --processes 24`. Pairs of sets of
3, 5 and 8 of its processes are drawn without overlap and compared as a report compares them: as
they are, and with the phase that a switch acts on made faster in one of the two. Exit code 1 where
more than 5 % of equal pairs get a verdict.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path

import msgspec

from llmprof.core.figures.comparison import compare
from llmprof.core.figures.replicates import Replicated
from llmprof.core.spec.case import Phase
from llmprof.core.state.view import CaseState
from llmprof.core.stats.summary import Summary
from llmprof.core.store.pack import open_view

PROCESSES = (3, 5, 8)
SWITCHES: dict[str, dict[str, str]] = {
    "fused AdamW (acts on the optimizer)": {"optimizer": "fused"},
    "SDPA (acts on forward and backward)": {"attention": "sdpa"},
}


@dataclass(frozen=True)
class Planted(Replicated):
    """Processes of which some phases are made faster by a factor."""

    phases: tuple[Phase, ...] = ()
    factor: float = 1.0

    @cached_property
    def summaries(self) -> dict[Phase, Summary]:
        """With the planted change."""
        found = super().summaries
        return {
            phase: _scaled(summary, self.factor) if phase in self.phases else summary
            for phase, summary in found.items()
        }

    @cached_property
    def total(self) -> Summary | None:
        """Less what the phases got faster by, process by process."""
        whole = super().total
        if whole is None or not self.phases:
            return whole
        plain = Replicated.summaries.func(self)  # type: ignore[attr-defined]
        saved = [
            sum(plain[phase].process_means[at] * (1 - self.factor) for phase in self.phases)
            for at in range(len(whole.process_means))
        ]
        means = tuple(m - s for m, s in zip(whole.process_means, saved, strict=True))
        return replace(whole, mean=statistics.fmean(means), process_means=means)


def main() -> int:
    """Draw, compare and print; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--pairs", type=int, default=1000)
    parser.add_argument("--change", type=float, default=5.0, help="percent that is planted")
    args = parser.parse_args()
    view = open_view(args.run)
    cell = [state for state in view.cases if state.total is not None]
    device = "unknown device" if view.environment is None else view.environment.device_name
    print(f"{len(cell)} processes of {cell[0].case.label} on {device}")
    for phase in (*cell[0].summaries, None):
        values = [s.summaries[phase].mean if phase else s.total.mean for s in cell if s.total]
        mean = statistics.fmean(values)
        spread = 100 * statistics.stdev(values) / mean
        print(f"  {phase or 'total'}: {mean:.3f} ms, {spread:.2f} % between processes")
    worst = 0.0
    for name, change in SWITCHES.items():
        touched: tuple[Phase, ...] = (
            ("optimizer",) if "optimizer" in change else ("forward", "backward")
        )
        for count in PROCESSES:
            if 2 * count > len(cell):
                continue
            drawn = pairs_of(cell, count, args.pairs)
            false = share(drawn, change)
            found = share(drawn, change, touched, 1 - args.change / 100)
            worst = max(worst, false)
            print(
                f"  {name}, {count} processes: {100 * false:.1f} % of equal pairs get a verdict; "
                f"{args.change:g} % planted in {' and '.join(touched)} is found in "
                f"{100 * found:.1f} %"
            )
    return 1 if worst > 0.05 else 0


Pair = tuple[list[CaseState], list[CaseState]]


def pairs_of(cell: list[CaseState], count: int, pairs: int) -> list[Pair]:
    """Pairs of sets of so many processes, without overlap, the same at every call."""
    luck = random.Random(20_261_128)
    drawn = [luck.sample(cell, 2 * count) for _ in range(pairs)]
    return [(each[:count], each[count:]) for each in drawn]


def share(
    pairs: list[Pair],
    change: dict[str, str],
    phases: tuple[Phase, ...] = (),
    factor: float = 1.0,
) -> float:
    """The share of pairs in which something was called faster or slower.

    With a planted change only its own phases count, and only as faster.
    """
    called = 0
    for one, another in pairs:
        found = compare(_as_one(one, {}), _as_one(another, change, phases, factor))
        assert found is not None
        if phases:
            called += any(part.part in phases for part in found.changed("faster"))
        else:
            called += bool(found.changed("faster", "slower"))
    return called / len(pairs)


def _as_one(
    states: list[CaseState],
    change: dict[str, str],
    phases: tuple[Phase, ...] = (),
    factor: float = 1.0,
) -> Planted:
    known = {each.name: getattr(states[0], each.name) for each in fields(CaseState)}
    known["case"] = msgspec.structs.replace(states[0].case, process=0, **change)
    return Planted(**known, processes=tuple(states), phases=phases, factor=factor)


def _scaled(summary: Summary, factor: float) -> Summary:
    means = tuple(factor * mean for mean in summary.process_means)
    return replace(summary, mean=factor * summary.mean, process_means=means)


if __name__ == "__main__":
    sys.exit(main())
