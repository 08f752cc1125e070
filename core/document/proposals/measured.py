"""What was measured to help: alone, with its setting, and what was not measured together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from msgspec.structs import replace

from llmprof.core.document.changes import Change
from llmprof.core.document.commands import judged_together
from llmprof.core.document.configurations import work_of
from llmprof.core.document.gains import Bound
from llmprof.core.document.next_step import MEASURED, WORTH, NextStep, Target
from llmprof.core.document.own_loop import setting
from llmprof.core.document.quotes import KeyedTable
from llmprof.core.predict.command import command_of
from llmprof.core.report.sentences import is_launch_bound, listing
from llmprof.core.spec.axes import SWITCHES, apart
from llmprof.core.spec.case import Case


@dataclass(frozen=True)
class Together:
    """The quickest way with every other switch that was told to help, not measured so."""

    case: Case
    added: tuple[Change, ...]
    values: dict[str, list[str]]  # of axes, both of each
    ratio: float  # of the quickest way's time that is left by what each brings alone


def quickest(of: Target) -> Iterator[NextStep]:
    """What was measured to help most, with what may add to it where that is worth a run."""
    table = of.tables.changes
    if not of.quicker or table is None:
        return
    best, whole = of.quicker[0], _together(of)
    key = best.key(best.found.total)
    evidence = table.told(
        key,
        "{Switch} shortens the step of {Size} {work} from {Baseline} to {With it} ms",
        work=work_of(table, key),
    )
    own, measured = setting(of.case, best.found.other.case), _measured(table, best)
    if own:
        evidence = (*evidence, f"; in a loop of one's own {own}")
    promise = None if whole is None else _of_all(of, whole)
    if whole is None or promise is None:
        yield NextStep(
            evidence,
            "" if own else command_of(best.found.other.case),
            f"{measured}, already measured",
            MEASURED,
            1 - best.found.total.time.value,
        )
        return
    yield NextStep(
        (*evidence, f". {_others(of, whole)} not measured with it"),
        judged_together(of.now.case, whole.values),
        f"{measured} with {best.name}, already measured; the others {promise[0]}",
        MEASURED,
        promise[1],
    )


def _others(of: Target, whole: Together) -> str:
    """SDPA (`…`) and fused AdamW (`…`) shorten it alone, too, and were."""
    told = [
        f"{change.name} ({own})"
        if (own := setting(of.case, change.found.other.case))
        else change.name
        for change in whole.added
    ]
    verbs = (
        "shortens it alone, too, and was" if len(told) == 1 else "shorten it alone, too, and were"
    )
    return f"{listing(told)} {verbs}"


def _measured(table: KeyedTable, change: Change) -> str:
    """−35 % [95 %: −49 to −16]."""
    key = change.key(change.found.total)
    percent, between = (table.quote(key, each).text for each in ("Change", "95 % interval"))
    return f"{percent} % [95 %: {between}]"


def _of_all(of: Target, whole: Together) -> tuple[str, float] | None:
    """What the others may add, in words and as a fraction; None where that is too little."""
    least = Bound(whole.ratio * of.ms, "by what each brings alone")
    if is_launch_bound(of.now):
        text, saved = of.at_most(least)
        text = f"{text}, as far as the host, which sets its pace, allows it"
    else:
        text, saved = of.capped(least, whole.case)
    return (text, saved) if saved >= WORTH else None


def _together(of: Target) -> Together | None:
    """All that was told to help, where no two of them set the same axis and none measured it."""
    case, ratio = of.now.case, 1.0
    added: list[Change] = []
    values: dict[str, list[str]] = {}
    for change in of.quicker[1:]:
        axes = apart(of.case, change.found.other.case, SWITCHES)
        if any(axis.of(case) != axis.of(of.case) for axis in axes):
            continue
        case = replace(case, **{axis.field: axis.of(change.found.other.case) for axis in axes})
        ratio *= change.found.total.time.value
        added.append(change)
        values |= {
            axis.field: [axis.text(axis.of(of.case)), axis.text(axis.of(case))] for axis in axes
        }
    return None if not added or of.measured(case) else Together(case, tuple(added), values, ratio)
