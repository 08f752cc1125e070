"""How long a step takes, how much that varies, and what warm-up does to it."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

from llmprof.core.document.commands import in_mode
from llmprof.core.document.configurations import work_of
from llmprof.core.document.quotes import KeyedTable, Sentence, joined
from llmprof.core.document.repeats import repeats_key
from llmprof.core.document.sources import Source
from llmprof.core.document.steps import FORWARD_ALONE, Found, alone_of, step_key
from llmprof.core.document.tables import Tables
from llmprof.core.document.warmups import cold_told, warmup_key
from llmprof.core.figures.comparison import ONE_PROCESS
from llmprof.core.figures.replicates import processes_of
from llmprof.core.report.sentences import listing
from llmprof.core.report.warmup import TOLD, cold_phases, is_longer
from llmprof.core.spec.case import Phase
from llmprof.core.state.view import CaseState

PARTS = ("Forward", "Backward", "Optimizer")
NO_EFFECT = "; no later effect is told: processes differ by more"


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
        alone = alone_of(source, state, tables.sources)
        times = joined(_time(table, key, name, _where(source, alone)) for name in known)
        end = f"; {lacks} not measured (`{in_mode(state.case, 'train')}` does)" if lacks else ""
        yield table.told(
            key,
            "{Size}, {Mode} {work}: {times}{end}{failed}.",
            work=work_of(table, key, "Mode"),
            times=times,
            end=end,
            failed=_failed(source, state),
        )


def _where(source: Source, alone: Found | None) -> str:
    """What is to be known of the forward alone: that it is of another run, what a check says."""
    if alone is None:
        return ""
    return (
        f"{', another run' * (alone[0] is not source)}{_failed(*alone, form=', failed check {}')}"
    )


def _time(table: KeyedTable, key: Hashable, name: str, where: str) -> Sentence:
    """forward 18.4 ±4.3 ms (10.8 ms alone): of a forward also what it takes without a backward."""
    std = f" ±{{{name} std}}" if table.known(key, f"{name} std") else ""
    alone = name == "Forward" and table.known(key, FORWARD_ALONE)
    beside = f" ({{{FORWARD_ALONE}}} ms alone{where})" if alone else ""
    return table.told(key, f"{name.lower()} {{{name}}}{std} ms{beside}")


def spread(tables: Tables) -> Iterable[Sentence]:
    """The deviation of each size's steps, and how far processes are apart, here and in all."""
    table = tables.steps
    for source, state in tables.step_cells if table else ():
        assert table is not None
        key = step_key(source, state)
        if state.total is not None and table.known(key, "CV"):
            yield table.told(
                key,
                "{Size} {work}: step {Step} ±{Std Dev of steps} ms, CV {CV} %{between}{runs}"
                "{failed}.",
                work=work_of(table, key),
                between=_between(table, key),
                runs=_in_all_runs(tables.same, state),
                failed=_failed(source, state),
            )


def _between(table: KeyedTable, key: Hashable) -> Sentence:
    """The interval of the mean between processes, where there are several."""
    if not table.known(key, "95 % interval"):
        return ()
    return table.told(key, ", between {n} processes ±{95 % interval} ms")


def _in_all_runs(same: KeyedTable | None, state: CaseState) -> Sentence:
    """The least and the most that a process took for the same step, in whichever run."""
    key = repeats_key(state)
    if same is None or not same.knows(key, "Least", "Most"):
        return ()
    return same.told(key, "; all runs {Least} to {Most} ms")


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
            "{Size}, {Mode} {work}: mean {means} ms after {counts} warm-up steps; first step "
            "{First step} ms{cold}{later}{failed}.",
            work=work_of(table, keys[0], "Mode"),
            means=joined((table.quote(key, "Mean"),) for key in keys),
            counts=joined((table.quote(key, "Warm-up"),) for key in keys),
            cold=cold_told(table, source, group),
            later=_later(table, source, group),
            failed=_failed(source, *group, but="warming"),
        )
    if "forward" in cold:
        state = " and making the optimizer's state" * ("optimizer" in cold)
        yield (f"Cold phases are consistent with loading kernels and libraries, first asking for "
               f"memory{state}; not measured apart.",)  # fmt: skip


def _later(table: KeyedTable, source: Source, group: Sequence[CaseState]) -> Sentence:
    """The phases that take longer after little warm-up than after the most.

    Where one does after more of it and not after less, or takes longest after the most, that is no
    warm-up's doing.
    """
    *some, longest = (state for state in group if state.case.warmup_steps)
    parts, scattered = [], False
    for phase in TOLD:
        longer = [each for each in some if is_longer(phase, each, longest)]
        scattered |= any(is_longer(phase, longest, each) for each in some)
        keys = [warmup_key(source, each) for each in longer]
        if longer != some[: len(longer)]:
            scattered = True
            continue
        name = phase.capitalize()
        if keys:
            last = warmup_key(source, longest)
            told = phase in cold_phases(group[0], longest)
            warm: Sentence = () if told else (" for ", table.quote(last, name), " ms warm")
            means = joined(table.told(key, f"{{{name}}} ms after {{Warm-up}}") for key in keys)
            parts.append((f"{phase} ", *means, *warm))
    one = any(len(processes_of(state)) == 1 for state in group)
    judged = f" ({ONE_PROCESS})" if one else ""
    if scattered and not parts:
        return (NO_EFFECT,)
    return (f"; longer after little warm-up{judged}: ", *joined(parts)) if parts else ()


def _failed(
    source: Source, *states: CaseState, but: str = "", form: str = " (failed check {})"
) -> str:
    """The checks that say no to what a line quotes, other than one that it is about."""
    rules = dict.fromkeys(rule for state in states for rule in source.failed_checks(state))
    rules.pop(but, None)
    return form.format(", ".join(rules)) if rules else ""
