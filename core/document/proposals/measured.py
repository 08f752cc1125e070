"""What was measured to help: alone, and what was not measured together."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from llmprof.core.document.commands import judged_together
from llmprof.core.document.configurations import work_of
from llmprof.core.document.gains import Bound
from llmprof.core.document.next_step import (
    COMBINED,
    MEASURED,
    WORTH,
    NextStep,
    Target,
)
from llmprof.core.document.quotes import listed
from llmprof.core.predict.command import command_of
from llmprof.core.spec.axes import SWITCHES, apart


def already(of: Target) -> Iterator[NextStep]:
    """What was measured to help most."""
    table = of.tables.changes
    if not of.quicker or table is None:
        return
    best = of.quicker[0]
    key = best.key(best.found.total)
    yield NextStep(
        table.told(
            key,
            "{Switch} shortens the step of {Size} {work} from {Baseline} to {With it} ms",
            work=work_of(table, key),
        ),
        command_of(best.found.other.case),
        f"{table.quote(key, 'Change').text} %, already measured: use it",
        MEASURED,
        1 - best.found.total.time.value,
    )


def together(of: Target) -> Iterator[NextStep]:
    """Several switches that were each told to help, where they were not measured together."""
    if len(of.quicker) < 2 or of.tables.changes is None:
        return
    case, ratio = of.now.case, 1.0
    values: dict[str, list[str]] = {}
    for change in of.quicker[1:]:
        axes = apart(of.case, change.found.other.case, SWITCHES)
        if any(axis.of(case) != axis.of(of.case) for axis in axes):
            continue
        case = replace(case, **{axis.field: axis.of(change.found.other.case) for axis in axes})
        ratio *= change.found.total.time.value
        values |= {
            axis.field: [axis.text(axis.of(of.case)), axis.text(axis.of(case))] for axis in axes
        }
    if not values or of.measured(case):
        return
    expected, saved = of.capped(Bound(ratio * of.ms, "by what each brings alone"), case)
    if saved >= WORTH:
        names = [change.name for change in of.quicker]
        table, keys = of.tables.changes, [each.key(each.found.total) for each in of.quicker]
        yield NextStep(
            (f"{' and '.join(names)} shorten the step of ", *of.name, " to ",
             *listed([(table.quote(key, "With it"), " ms") for key in keys]),
             " each alone, and were not measured together"),
            judged_together(of.now.case, values),
            expected,
            COMBINED,
            saved,
        )  # fmt: skip
