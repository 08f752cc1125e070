"""How long a step takes, how much that varies, and what warm-up does to it."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

from llmprof.core.document.commands import in_mode
from llmprof.core.document.configurations import work_of
from llmprof.core.document.quotes import KeyedTable, Sentence, joined
from llmprof.core.document.sources import Source
from llmprof.core.document.steps import FORWARD_ALONE, step_key
from llmprof.core.document.tables import Tables
from llmprof.core.document.warmups import cold_told, warmup_key
from llmprof.core.figures.comparison import ONE_PROCESS
from llmprof.core.figures.replicates import processes_of
from llmprof.core.report.sentences import listing
from llmprof.core.report.warmup import TOLD, cold_phases, is_longer
from llmprof.core.spec.case import Phase
from llmprof.core.state.view import CaseState

PARTS = ("Forward", "Backward", "Optimizer")


def phases(tables: Tables) -> Iterable[Sentence]:
    """Forward, backward and optimizer of each size."""
    table = tables.steps
    for source, state in tables.step_cells if table else ():
        assert table is not None
        key = step_key(source, state)
        known = [name for name in PARTS if table.known(key, name)]
        if state.total is None or not known:
            continue
        lacks = listing([name.lower() for name in PARTS if name not in known] or [""])
        times = joined(_time(table, key, name) for name in known)
        end = f"; {lacks} not measured (`{in_mode(state.case, 'train')}` does)" if lacks else ""
        yield table.told(
            key,
            "{Size}, {Mode} {work}: {times}{end}{failed}.",
            work=work_of(table, key, "Mode"),
            times=times,
            end=end,
            failed=_failed(source, state),
        )


def _time(table: KeyedTable, key: Hashable, name: str) -> Sentence:
    """forward 18.4 ±4.3 ms (10.8 ms alone): of a forward also what it takes without a backward."""
    std = f" ±{{{name} std}}" if table.known(key, f"{name} std") else ""
    alone = name == "Forward" and table.known(key, FORWARD_ALONE)
    beside = f" ({{{FORWARD_ALONE}}} ms alone)" if alone else ""
    return table.told(key, f"{name.lower()} {{{name}}}{std} ms{beside}")


def spread(tables: Tables) -> Iterable[Sentence]:
    """The standard deviation of each size's steps, absolute and relative."""
    table = tables.steps
    for source, state in tables.step_cells if table else ():
        assert table is not None
        key = step_key(source, state)
        if state.total is not None and table.known(key, "CV"):
            yield table.told(
                key,
                "{Size} {work}: step {Step} ±{Std Dev of steps} ms, CV {CV} %{failed}.",
                work=work_of(table, key),
                failed=_failed(source, state),
            )


def warmup(tables: Tables) -> Iterable[Sentence]:
    """The mean after each number of warm-up steps, and the phases in which they differ."""
    table = tables.warmups
    cold: dict[Phase, None] = {}
    for source, group in tables.warmup_cells if table else ():
        assert table is not None
        keys = [warmup_key(source, state) for state in group]
        cold |= dict.fromkeys(cold_phases(group[0], group[-1]))
        yield table.told(
            keys[0],
            "{Size}, {Mode} {work}: mean {means} ms after {counts} steps of warm-up; first step "
            "{First step} ms{cold}{later}{failed}.",
            work=work_of(table, keys[0], "Mode"),
            means=joined((table.quote(key, "Mean"),) for key in keys),
            counts=joined((table.quote(key, "Warm-up"),) for key in keys),
            cold=cold_told(table, source, group),
            later=_later(table, source, group),
            failed=_failed(source, *group, but="warming"),
        )
    if "forward" in cold:
        state = ", and the optimizer's state being made" * ("optimizer" in cold)
        yield (f"Cold phases are consistent with kernels and libraries loaded at first use, memory "
               f"first asked for{state}; not measured apart.",)  # fmt: skip


def _later(table: KeyedTable, source: Source, group: Sequence[CaseState]) -> Sentence:
    """The phases that take longer after little warm-up than after the most."""
    *some, longest = (state for state in group if state.case.warmup_steps)
    parts = []
    for phase in TOLD:
        keys = [warmup_key(source, each) for each in some if is_longer(phase, each, longest)]
        name = phase.capitalize()
        if keys:
            last = warmup_key(source, longest)
            told = phase in cold_phases(group[0], longest)
            warm: Sentence = () if told else (" for ", table.quote(last, name), " ms warm")
            means = joined(table.told(key, f"{{{name}}} ms after {{Warm-up}}") for key in keys)
            parts.append((f"{phase} ", *means, *warm))
    one = any(len(processes_of(state)) == 1 for state in group)
    judged = f" ({ONE_PROCESS})" if one else ""
    return (f"; longer after little warm-up{judged}: ", *joined(parts)) if parts else ()


def _failed(source: Source, *states: CaseState, but: str = "") -> str:
    """The checks that say no to what a line quotes, other than one that it is about."""
    rules = dict.fromkeys(rule for state in states for rule in source.failed_checks(state))
    rules.pop(but, None)
    return f" (failed check {', '.join(rules)})" if rules else ""
