"""What sets the pace of a step: the host, the card's memory, or, as far as is known, neither."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from llmprof.core.document.commands import profiling
from llmprof.core.document.finding import Finding
from llmprof.core.document.paces import Paces, cells_named, idle_quote, paces_of
from llmprof.core.document.profiles import (
    idle_share,
    part_of,
    profile_key,
    waits_between_kernels,
)
from llmprof.core.document.quotes import Sentence, joined, number
from llmprof.core.document.steps import paced_by_host, step_key
from llmprof.core.document.tables import Tables
from llmprof.core.events.kernel_rows import WHOLE_STEP
from llmprof.core.report.sentences import listing
from llmprof.core.spec.case import Phase
from llmprof.core.state.view import CaseState

MEMORY_BOUND = 60.0  # percent of the bandwidth from which on it, and nothing else, sets the time
LEADS = 10.0  # what holds for most cells comes before all else


def launch_bound(tables: Tables) -> Iterator[Finding]:
    """Steps of which the host sets the pace: a cause only where the card's idle time says so."""
    paces = paces_of(tables)
    if tables.steps is None or not paces.host:
        return
    said = [each for each in (_by_two(tables, paces), _by_one(tables, paces)) if each]
    text = joined(said, " ")
    if paces.mostly_host and len(paces.host) + len(paces.card) > 1:
        weight = LEADS
    elif paces.measured:
        weight = idle_share(*paces.measured[0][1]) or 0.0
    else:
        weight = 0.15
    yield Finding("pace", text, weight)


def _by_two(tables: Tables, paces: Paces) -> Sentence:
    """Those whose idle time a kernel profile measured as well, the most idle with its phases."""
    if not paces.measured or tables.profiles is None:
        return ()
    (found, profile), *others = paces.measured
    phases = paced_by_host(found[1], tables.sources) or ()
    alike = joined(
        (*cells_named(tables, [each], "up to"), ", where it idles ", idle_quote(tables, its), " %")
        for each, its in others
    )
    return tables.profiles.told(
        profile_key(*profile, WHOLE_STEP),
        "The {Mode} step of {cell} is launch-bound, by two measurements: the card idles {Idle of "
        "plain} % of it, and the host sets the pace of {phases}{alike}.{helps}",
        cell=cells_named(tables, [found], "up to"),
        phases=listing(phases),
        alike=("; so it does in ", *alike) if alike else (),
        helps=_what_helps(profile[1], phases),
    )


def _what_helps(profiled: CaseState, phases: Sequence[Phase]) -> str:
    """Of the phases in which the card waits for many launches; "" where no gaps tell any."""
    parts = ((phase, part_of(profiled, phase)) for phase in phases)
    waiting = [phase for phase, part in parts if part is not None and waits_between_kernels(part)]
    if not waiting:
        return ""
    return (f" Fewer launches, or more work a launch, help its {listing(waiting)}, faster kernels "
            "do not.")  # fmt: skip


def _by_one(tables: Tables, paces: Paces) -> Sentence:
    """Those of which only the step's own times tell it."""
    if not paces.by_one:
        return ()
    command = profiling(paces.by_one[-1][1].case)
    return (
        "Consistent with a launch-bound step, by one measurement: in ",
        *cells_named(tables, paces.by_one, "up to"),
        " the card has caught up with the host at the end of phases that make most of the step",
        "." if paces.measured else f"; `{command}` measures its idle time.",
    )


def memory_bound(tables: Tables) -> Iterator[Finding]:
    """An optimizer whose least bytes come near the card's bandwidth."""
    table = tables.steps
    for source, state in tables.step_cells if table else ():
        assert table is not None
        key = step_key(source, state)
        if not table.known(key, "Of bandwidth") or not source.sound(state):
            continue
        if MEMORY_BOUND <= number(table.quote(key, "Of bandwidth")) <= 100:
            text = table.told(
                key,
                "The optimizer of {Size} is memory-bound: what it must read and write makes "
                "{Optimizer moves} GB/s, {Of bandwidth} % of the card's bandwidth.",
            )
            yield Finding("pace", text, 0.2)
