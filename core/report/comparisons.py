"""Cases that are alike but for some axes, and how a comparison of them is written."""

from __future__ import annotations

from collections.abc import Iterable

from llmprof.core.figures.comparison import Comparison, Decision, PartChange
from llmprof.core.report.table import Cell, Figure
from llmprof.core.spec.axes import SWITCHES, Axis, apart, neutral
from llmprof.core.spec.case import Case
from llmprof.core.state.view import CaseState
from llmprof.core.stats.ratio import Ratio
from llmprof.core.system.numbers import format_number, interval

JUDGED = (
    "Differences are judged between fresh processes: first the phases that a switch acts on, "
    "tested together (Holm, 5 %), then, where one of them differs, each of them and the step by "
    "its own 95 % interval, which the text gives in brackets. A change of less than 1 % is not "
    "called one."
)
SIGN_UNCLEAR = "sign unclear"  # of a change whose two kinds of mean move opposite ways
TOO_NOISY = "too noisy"  # of a ratio whose interval holds 1 and has its ends far apart
TESTED_TOGETHER = "tested together, none of them is"
UNJUDGED = (
    "One process a cell: steps of one process say nothing of what another would measure, so "
    "differences are shown and not judged (with --processes 3 they are)."
)


def grouped_alike(states: Iterable[CaseState], *axes: Axis) -> list[list[CaseState]]:
    """Cases in groups whose members differ on some axes alone, in order."""
    found: dict[str, list[CaseState]] = {}
    for state in states:
        found.setdefault(neutral(state.case, axes).key, []).append(state)
    return list(found.values())


def beside_baselines(states: Iterable[CaseState]) -> list[list[CaseState]]:
    """Cases that differ in switches alone, in groups of several with their baseline first.

    The baseline is the case that has no switch on, else the first.
    """
    groups = (group for group in grouped_alike(states, *SWITCHES) if len(group) > 1)
    return [
        sorted(group, key=lambda state: state.case != neutral(state.case, SWITCHES))
        for group in groups
    ]


def switch_name(case: Case, base: Case) -> str:
    """What a case switches on or off against another: bf16 + SDPA + torch.compile."""
    names = [axis.named(axis.of(case)) for axis in apart(case, base, SWITCHES)]
    return " + ".join(names) or "baseline"


def judging_note(found: Iterable[Comparison]) -> str:
    """How differences were judged, for the foot of a table; "" where there is none."""
    processes = [each.processes for each in found]
    if not processes:
        return ""
    return JUDGED if max(processes) > 1 else UNJUDGED


def times(ratio: Ratio) -> str:
    """1.52 × (1.45 to 1.60) between processes; of single processes three digits and no interval.

    Between 0.0082 and 490 ×, without a figure, where that is too noisy.
    """
    if not ratio.judged or ratio.low is None or ratio.high is None:
        return f"{three(ratio.value)} ×"
    if ratio.too_noisy:
        return f"between {three(ratio.low)} and {three(ratio.high)} ×"
    half = ratio.half or 0.01 * ratio.value
    return f"{format_number(ratio.value, half)} × ({interval(ratio.low, ratio.high)})"


def three(value: float) -> str:
    """A ratio with the three digits that one process may have."""
    return format_number(value, 0.1 * abs(value) if value else None)


def ratio_cells(ratio: Ratio | None) -> tuple[Cell, Cell]:
    """A ratio, and its interval between processes."""
    if ratio is None:
        return None, None
    if not ratio.judged or ratio.low is None or ratio.high is None:
        return Figure(ratio.value, 0.1 * ratio.value), "one process"
    if ratio.too_noisy:
        return TOO_NOISY, f"{three(ratio.low)} to {three(ratio.high)}"
    half = ratio.half or 0.01 * ratio.value
    return Figure(ratio.value, half), interval(ratio.low, ratio.high)


def unclear(part: PartChange) -> str:
    """Why a change does not stand as a figure; empty where it does."""
    if part.told:
        return ""
    return TOO_NOISY if part.sign_told else SIGN_UNCLEAR


def decision_cell(found: Comparison | None) -> str:
    """What may be said of a comparison, touched phases first: optimizer faster; step slower."""
    if found is None:
        return "nothing to compare with"
    if found.not_judged:
        return found.not_judged
    words = [f"{_part_word(part)} {part.decision}" for part in found.judged if part.part != "total"]
    text = "; ".join([*words, f"step {found.total.decision}"])
    if any(map(only_alone, found.judged)) and not found.changed("faster", "slower"):
        text += f" ({TESTED_TOGETHER})"
    return text


def only_alone(part: PartChange) -> bool:
    """Whether a part would be told from equal by its own interval alone, and was not."""
    own = part.time.resolved and part.time.large
    return part.decision == "not distinguished" and own


def phase_sentence(part: PartChange) -> str:
    """optimizer faster: 15.9 to 8.7 ms, 1.83 × (1.78 to 1.88)."""
    before, after = (format_number(each.mean, each.ci95) for each in (part.base, part.other))
    return f"{_part_word(part)} {part.decision}: {before} to {after} ms, {times(part.speedup)}"


def excluded(part: PartChange) -> str:
    """the step is not distinguished, a change of more than 4 % is excluded."""
    percent = part.excluded_percent
    beyond = (
        "" if percent is None else f"; a change of more than {max(1, round(percent))} % is excluded"
    )
    return f"the {_part_word(part)} is not distinguished{beyond}"


def named_parts(found: Comparison, *decisions: Decision) -> list[PartChange]:
    """The touched phases with a decision, without the total."""
    return [part for part in found.changed(*decisions) if part.part != "total"]


def _part_word(part: PartChange) -> str:
    return "step" if part.part == "total" else part.part
