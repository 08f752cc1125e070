"""What a switch changed: every comparison of a document's runs, and the table of all of them."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

from llmprof.core.document.configurations import OF_MODEL, configuration_cells, source_columns
from llmprof.core.document.quotes import KeyedTable, keyed
from llmprof.core.document.repeats import repeats_of
from llmprof.core.document.sources import Source
from llmprof.core.figures.comparison import Comparison, Part, PartChange
from llmprof.core.report.comparisons import (
    SIGN_UNCLEAR,
    TESTED_TOGETHER,
    TOO_NOISY,
    beside_baselines,
    only_alone,
    switch_name,
    unclear,
)
from llmprof.core.report.table import Cell, Column, Figure
from llmprof.core.state.launch_bound import NEGLIGIBLE
from llmprof.core.stats.summary import Summary
from llmprof.core.system.numbers import interval

COLUMNS = (
    Column("Switch", numeric=False),
    Column("Part", numeric=False),
    Column("Baseline", "ms"),
    Column("With it", "ms"),
    Column("Change", "%"),
    Column("95 % interval", "%", numeric=False),
    Column("n", "processes"),
    Column("Of the step's change", numeric=False),
    Column("Gain excluded above", "%"),
    Column("Baseline in all runs", "ms", numeric=False),
    Column("Verdict", numeric=False),
)
BY_ITSELF = "by its own interval"
UNTOLD = "the rest not distinguished"  # phases whose own intervals hold no change
LEAST_SHARE = 0.03  # of the step's change, from which on a phase is named
NOTES = (
    "Device times, means over fresh processes, which are the unit of replication. What a switch "
    "acts on is tested first (Holm's procedure at 5 % together), then each part and the step by "
    "its own interval; a difference below 1 % is none. Change: from Baseline to With it, below 0 "
    "is less time; the ratio of the geometric means of processes (of their rounds, where they took "
    "turns), so that it differs a little from the ratio of the two columns before it, which are "
    f"arithmetic means. {SIGN_UNCLEAR}: the two differ in sign, for processes scatter widely. "
    f"{TOO_NOISY}: the interval allows both faster and slower, and is too wide for a figure. "
    "Gain excluded above: a step shorter by more lies outside the interval. Of the step's change: "
    "the difference of each phase over the step's, of phases that changed the way it did by their "
    f"own interval, the others together as {UNTOLD}; above 100 % together where another changed "
    "the other way, as its own row says; those under 3 % are left out. Baseline in all runs: "
    "the shortest and the longest mean of a process that ran the baseline's step after a warm-up "
    "in any run, where several did. Parts under 2 % of both steps are left out. "
    f"{BY_ITSELF}: a phase that the switch does not act on, by its own interval.",
)


@dataclass(frozen=True)
class Change:
    """A case against the baseline of its group, in a run."""

    source: Source
    found: Comparison

    @property
    def name(self) -> str:
        """bf16 + SDPA."""
        return switch_name(self.found.other.case, self.found.base.case)

    @property
    def of_attention(self) -> bool:
        """Whether attention alone is compared, which has no training step."""
        return self.found.other.case.probe == "attention"

    def word(self, part: PartChange) -> str:
        """What a part is called: a phase's name, or what all of them are together."""
        if part.part != "total":
            return part.part
        return " + ".join(self.found.other.case.phases) if self.of_attention else "step"

    @property
    def why_not(self) -> str:
        """Why nothing may be said of it; "" where it may."""
        return self.found.not_judged

    def key(self, part: PartChange) -> Hashable:
        """The row of a part."""
        return self.source.name, self.found.other.index, part.part

    def verdict(self, part: PartChange) -> str:
        """What may be said of a part."""
        return self.why_not or part.decision

    def verdict_cell(self, part: PartChange) -> str:
        """The same, and why not where the part's own interval would say otherwise.

        A phase that the switch does not act on is in no test and has what its own interval says.
        """
        if not self.verdict(part):
            return f"{by_itself(part)} ({BY_ITSELF})"
        if not self.why_not and only_alone(part):
            return f"{part.decision} ({TESTED_TOGETHER})"
        return self.verdict(part)


def by_itself(part: PartChange) -> str:
    """What a part's own interval says of it, whether the switch acts on it or not."""
    if not (part.time.resolved and part.time.large):
        return "not distinguished"
    return "faster" if part.time.value < 1 else "slower"


def changes_of(sources: Sequence[Source]) -> list[Change]:
    """Every measured case against the baseline of its group."""
    found: list[Change] = []
    for source in sources:
        states = [state for state in source.cases if state.case.probe in ("timing", "attention")]
        for base, *others in beside_baselines(states):
            found += [
                Change(source, against)
                for state in others
                if (against := source.subject.compare(base, state)) is not None
            ]
    return found


def change_table(changes: Sequence[Change], sources: Sequence[Source]) -> KeyedTable | None:
    """A row for each part that a switch acts on, and one for the step."""
    head = source_columns(sources)
    return keyed(
        "changes",
        "What each switch changes, phase by phase, from Baseline to With it",
        (*head, *OF_MODEL, *COLUMNS),
        (
            (change.key(part), (*_labels(change, head), *_figures(change, part, sources)))
            for change in changes
            for part in shown_parts(change.found)
        ),
        NOTES,
    )


def shown_parts(found: Comparison) -> Iterable[PartChange]:
    """What the switch acts on, every other phase that counts, then the step."""
    whole = found.total
    for part in found.parts:
        share = max(_over(part.base, whole.base), _over(part.other, whole.other))
        if part.touched or part is whole or share >= NEGLIGIBLE:
            yield part


def _over(part: Summary, whole: Summary) -> float:
    return part.mean / whole.mean if whole.mean > 0 else 0.0


def _labels(change: Change, head: Sequence[Column]) -> tuple[Cell, ...]:
    first: tuple[Cell, ...] = (change.source.name,) if head else ()
    return (*first, *configuration_cells(change.found.other), change.name)


def _figures(change: Change, part: PartChange, sources: Sequence[Source]) -> tuple[Cell, ...]:
    time = part.time
    judged = time.judged and time.low is not None and time.high is not None
    half = 100 * (time.half or 0.01) if judged else 1.0
    between: Cell = ""
    if time.judged and time.low is not None and time.high is not None:
        between = signed_interval(100 * (time.low - 1), 100 * (time.high - 1))
    return (
        change.word(part),
        Figure(part.base.mean, part.base.ci95),
        Figure(part.other.mean, part.other.ci95),
        unclear(part) or Figure(100 * (time.value - 1), max(half, 0.5)),
        between,
        time.processes,
        _by_phase(change, part),
        _gain_excluded(change, part),
        _in_all_runs(change, part, sources),
        change.verdict_cell(part),
    )


def _gain_excluded(change: Change, part: PartChange) -> Cell:
    """Percent of less time that lie outside the interval of a part that is not distinguished."""
    if change.verdict(part) != "not distinguished" or part.time.low is None:
        return None
    return max(1, round(100 * (1 - part.time.low)))


def _in_all_runs(change: Change, part: PartChange, sources: Sequence[Source]) -> Cell:
    """How far apart the baseline's step came out, where several runs measured it."""
    if part.part != "total":
        return None
    found = repeats_of(change.found.base, sources)
    return None if found is None or len(found.runs) < 2 else found.text


def signed_interval(low: float, high: float) -> str:
    """−41 to −35: an interval of percentages, with the digits that its width allows."""
    return interval(low, high).replace("-", "−")


def _by_phase(change: Change, part: PartChange) -> str:
    """What each phase makes of the step's change, where that is told from equal.

    backward 75 %, forward 32 %: of phases that changed the way the step did, by their own interval.
    """
    if part.part != "total" or change.why_not or part.decision not in ("faster", "slower"):
        return ""
    shares = shares_of(change.found)
    along = [each for each in change.found.parts[:-1] if shares.get(each.part, 0.0) > 0]
    told = [each.part for each in along if by_itself(each) == part.decision]
    if not told:
        return ""
    if len(shares) == 1:
        return f"all of it in the {told[0]}"
    told.sort(key=lambda name: -shares[name])
    listed = [f"{name} {round(100 * shares[name]):d} %" for name in told]
    return ", ".join(listed if len(told) == len(along) else [*listed, UNTOLD])


def shares_of(found: Comparison) -> dict[Part, float]:
    """Of the step's change what each phase makes; below 0 those that changed the other way."""
    whole = found.total.base.mean - found.total.other.mean
    shares = {each.part: (each.base.mean - each.other.mean) / whole for each in found.parts[:-1]}
    return {part: share for part, share in shares.items() if abs(share) >= LEAST_SHARE}
