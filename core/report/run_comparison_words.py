"""What may be said of a case in two runs: its changes from the first to the second, in words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from llmprof.core.figures.comparison import Comparison, PartChange
from llmprof.core.report.class_changes import by_class, explanation
from llmprof.core.report.comparisons import excluded, named_parts
from llmprof.core.report.sentences import reason
from llmprof.core.report.table import Figure
from llmprof.core.report.two_runs import Pair
from llmprof.core.state.launch_bound import NEGLIGIBLE
from llmprof.core.state.view import CaseState
from llmprof.core.stats.ratio import Ratio
from llmprof.core.system.numbers import format_number


def said_of(found: Comparison, profiles: Sequence[Pair]) -> list[str]:
    """What may be said of a case, with what kernel profiles say of it; empty without a change."""
    name = found.base.case.label
    if found.not_judged or not found.changed("faster", "slower"):
        return []
    parts = named_parts(found, "faster", "slower")
    total = found.total
    step = excluded(total) if total.decision == "not distinguished" else _changed(total)
    said = [_changed(part) + _share(part, found) for part in parts]
    lines = [f"{name}: {'; '.join([*said, step])}."]
    why = (_why(part, found, profiles) for part in parts)
    return [*lines, *(f"{name}: {line}." for line in why if line)]


def one_sided(pair: Pair) -> str:
    """That one of the runs alone has figures of a case, and why."""
    missing, there = ("B", "A") if pair.other.total is None else ("A", "B")
    state = pair.other if missing == "B" else pair.base
    return f"no figures in {missing} ({reason(state)}), measured in {there}"


def part_name(part: PartChange) -> str:
    """A phase's name, or step."""
    return "step" if part.part == "total" else part.part


def counts(part: PartChange, found: Comparison) -> bool:
    """Whether a part takes at least 2 % of the step in one of the runs."""
    return any(
        each.mean >= NEGLIGIBLE * whole.mean
        for each, whole in ((part.base, found.total.base), (part.other, found.total.other))
    )


def verdict(part: PartChange, found: Comparison) -> str:
    """What may be said of a part, or why nothing is."""
    if part.decision == "not judged":
        return found.not_judged
    if part.decision:
        return part.decision
    return "untouched, not judged" if counts(part, found) else "under 2 % of the step"


def percent(ratio: float) -> float:
    """The change that a ratio of times means."""
    return 100 * (ratio - 1)


def percents(time: Ratio) -> str:
    """The 95 % interval of a change: -42.8 to -34.7, both ends with the digits of its width."""
    if time.low is None or time.high is None:
        return "n/a"
    low, high = percent(time.low), percent(time.high)
    return " to ".join(format_number(each + 0.0, (high - low) / 2) for each in (low, high))


def change_figure(time: Ratio) -> Figure:
    """A change in percent with the digits that its interval allows; two of one process's."""
    value = percent(time.value)
    half = 100 * time.half if time.judged and time.half else None
    return Figure(value, half or max(1.0, 0.1 * abs(value)))


def regressions(found: Iterable[Comparison], limit_percent: float) -> list[str]:
    """The parts that are called slower by at least a limit, a line each."""
    return [
        f"{each.other.case.label}, {part_name(part)}: "
        f"{format_number(percent(part.time.value), 1.0)} % slower"
        for each in found
        for part in each.changed("slower")
        if percent(part.time.value) >= limit_percent
    ]


def _changed(part: PartChange) -> str:
    """backward faster: -38.9 % (-42.8 to -34.7), 32.871 to 20.1 ms."""
    before, after = (format_number(each.mean, each.ci95) for each in (part.base, part.other))
    change = change_figure(part.time)
    by = format_number(change.value, change.uncertainty)
    return (
        f"{part_name(part)} {part.decision}: {by} % ({percents(part.time)}), {before} to {after} ms"
    )


def _share(part: PartChange, found: Comparison) -> str:
    """How much of the step's change a phase has, where both went the same way."""
    whole = found.total.other.mean - found.total.base.mean
    own = part.other.mean - part.base.mean
    if found.total.decision == "not distinguished" or not 0 < own / (whole or 1.0) <= 1:
        return ""
    return f", {100 * own / whole:.0f} % of the step's change"


def _why(part: PartChange, found: Comparison, profiles: Sequence[Pair]) -> str:
    """What the kernel profiles of the same steps say of a phase; "" where there are none."""
    profile = next(
        (
            pair
            for pair in profiles
            if _same_steps(pair.base, found.base) and _same_steps(pair.other, found.other)
        ),
        None,
    )
    if profile is None:
        return ""
    faster = part.decision == "faster"
    return explanation(part.part, by_class(profile.base), by_class(profile.other), faster=faster)


def _same_steps(profile: CaseState, timed: CaseState) -> bool:
    return profile.case.configuration() == timed.case.configuration()
