"""What sets the pace of a step: the host, the card's memory, or, as far as is known, neither."""

from __future__ import annotations

from collections.abc import Iterator

from llmprof.core.document.commands import profiling
from llmprof.core.document.configurations import work_of
from llmprof.core.document.finding import Finding
from llmprof.core.document.profiles import IDLE, idle_share, profile_key
from llmprof.core.document.quotes import joined, number
from llmprof.core.document.steps import Found, step_key
from llmprof.core.document.tables import Tables
from llmprof.core.events.kernel_rows import WHOLE_STEP
from llmprof.core.report.sentences import is_launch_bound
from llmprof.core.state.view import CaseState

MEMORY_BOUND = 60.0  # percent of the bandwidth from which on it, and nothing else, sets the time
MOST_NAMED = 4


def launch_bound(tables: Tables) -> Iterator[Finding]:
    """Cells of which the host sets the pace: a cause only where the card's idle time says so."""
    yield from _by_two_measurements(tables)
    yield from _by_one(tables)


def _by_two_measurements(tables: Tables) -> Iterator[Finding]:
    if tables.steps is None or tables.profiles is None:
        return
    for source, state in tables.profiled:
        idle, alike = idle_share(source, state), _cell_like(tables, state)
        if idle is None or idle < IDLE or alike is None or not is_launch_bound(alike[1]):
            continue
        if source.sound(state) and alike[0].sound(alike[1]):
            bound = alike[1].launch_bound
            text = tables.profiles.told(
                profile_key(source, state, WHOLE_STEP),
                "The {Mode} step of {Size} {work} is launch-bound, by two measurements: the card "
                "idles {Idle of plain} % of it, and it has caught up with the host at the end of "
                "{phases}. Fewer launches help it, faster kernels do not.",
                work=work_of(tables.steps, step_key(*alike), "Mode"),
                phases=", ".join(bound.phases) if bound else "",
            )
            yield Finding("pace", text, idle)


def _by_one(tables: Tables) -> Iterator[Finding]:
    table = tables.steps
    bound = [
        (source, state)
        for source, state in tables.step_cells
        if state.total is not None and is_launch_bound(state) and source.sound(state)
    ]
    if table is None or not bound:
        return
    cells = joined(
        table.told(step_key(*each), "{Size} {work}", work=work_of(table, step_key(*each)))
        for each in bound[:MOST_NAMED]
    )
    more = ", and in others," if len(bound) > MOST_NAMED else ""
    text = (
        "Consistent with a launch-bound step, by one measurement: in ",
        *cells,
        f"{more} the card has caught up with the host at the end of phases that make most of the "
        f"step; `{profiling(bound[-1][1].case)}` measures how long it idles.",
    )
    yield Finding("pace", text, 0.15)


def _cell_like(tables: Tables, state: CaseState) -> Found | None:
    wanted = state.case.configuration()
    return next(
        (found for found in tables.step_cells if found[1].case.configuration() == wanted), None
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
