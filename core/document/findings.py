"""What may be said of the runs: from decisions and counted levels, every number a cell.

A difference is a finding only where it is told from equal between processes. A cause is named
only where a second measurement names it too; else the sentence says "consistent with". Cells to
which a check says no support nothing.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from llmprof.core.document.changes import Change, part_word
from llmprof.core.document.configurations import switches_text, work_of
from llmprof.core.document.levels import PEAK, UNDER, level_key, peak_cells
from llmprof.core.document.profiles import IDLE, idle_share, profile_key
from llmprof.core.document.quotes import KeyedTable, Quote, Sentence, number
from llmprof.core.document.sources import Source
from llmprof.core.document.steps import Found, step_key
from llmprof.core.document.tables import Tables
from llmprof.core.document.warmups import warmup_key
from llmprof.core.events.kernel_rows import WHOLE_STEP
from llmprof.core.figures.comparison import PartChange
from llmprof.core.report.sentences import is_launch_bound
from llmprof.core.report.table import Figure
from llmprof.core.report.warmup import COLD_FIRST_STEP, first_step_ms
from llmprof.core.spec.axes import SWITCHES, apart
from llmprof.core.state.view import CaseState

Kind = Literal["change", "pace", "memory", "growth", "rate", "products", "warm-up", "prediction"]
MOST = 7
MOST_OF_KIND: dict[Kind, int] = {"change": 4, "memory": 2}  # of other kinds one
MEMORY_BOUND = 60.0  # percent of the bandwidth from which on it, and nothing else, sets the time
LEAST_LEVEL_CHANGE = 0.02  # of a peak
SURE_EXPONENT = 0.25  # between the exponents of neighbouring points
NOT_JUDGED = (
    ("process", "cells were measured in one process, whose steps say nothing of what another would "
     "measure (`--processes 3` judges them)"),
    ("failed check", "a check says no to cells that it would rest on"),
    ("the host was", "the host's pace differed between cells"),
)  # fmt: skip
JUDGED = 0.5  # what is decided between processes comes before what is only read


@dataclass(frozen=True)
class Finding:
    """One statement with the cells that it rests on; the greater its weight, the earlier."""

    kind: Kind
    text: Sentence
    weight: float

    @property
    def evidence(self) -> tuple[Quote, ...]:
        """The cells."""
        return tuple(each for each in self.text if isinstance(each, Quote))


def findings(tables: Tables) -> list[Finding]:
    """At most seven, the weightiest first."""
    found = [
        *change_findings(tables.changes, tables.all_changes),
        *_pace(tables),
        *_memory_bound(tables),
        *_levels(tables),
        *_does_not_fit(tables),
        *_growth(tables),
        *_rate(tables),
        *_products(tables),
        *_warmup(tables),
        *_prediction(tables),
    ]
    kept: list[Finding] = []
    for each in sorted(found, key=lambda finding: -finding.weight):
        if sum(other.kind == each.kind for other in kept) < MOST_OF_KIND.get(each.kind, 1):
            kept.append(each)
    return kept[:MOST]


def why_no_change(tables: Tables) -> str:
    """What is said where no difference between cells holds; "" where one does."""
    if any(finding.kind == "change" for finding in findings(tables)):
        return ""
    if not tables.all_changes:
        return "No two cells differ in a switch alone, so that no difference is judged."
    reasons = {change.why_not for change in tables.all_changes}
    if "" in reasons:
        return "No switch is told from its baseline."
    why = list(filter(None, (_why(reasons, *each) for each in NOT_JUDGED)))
    return f"No difference between cells is judged: {'; '.join(why)}."


def _why(reasons: Iterable[str], word: str, said: str) -> str:
    return said if any(word in reason for reason in reasons) else ""


def change_findings(table: KeyedTable | None, changes: Iterable[Change]) -> Iterator[Finding]:
    """One finding a switch: what it does to the step of each size, or to its own phase alone."""
    if table is None:
        return
    families: dict[tuple[str, bool], list[Change]] = {}
    for change in changes:
        attention = change.found.other.case.probe == "attention"
        families.setdefault((change.name, attention), []).append(change)
    for (name, attention), family in families.items():
        subject = f"{name} in attention alone" if attention else name
        for decision, verb in (("faster", "shortens"), ("slower", "lengthens")):
            decided = [each for each in family if _decided(each.found.total, decision, each)]
            if decided:
                yield _step_finding(table, subject, verb, decided)
        for part in dict.fromkeys(part for each in family for part in _phase_only(each)):
            yield _phase_finding(table, subject, part, family)


def _decided(part: PartChange, decision: str, change: Change) -> bool:
    return not change.why_not and part.decision == decision


def _phase_only(change: Change) -> list[str]:
    """Touched phases that are told from equal while the step is not."""
    if change.why_not or change.found.total.decision != "not distinguished":
        return []
    return [
        part.part
        for part in change.found.parts
        if part.touched and part.decision in ("faster", "slower")
    ]


def _step_finding(table: KeyedTable, subject: str, verb: str, decided: Sequence[Change]) -> Finding:
    pieces: list[str | Quote] = [f"{subject} {verb} the step: "]
    best = max(decided, key=lambda each: abs(math.log(each.found.total.time.value)))
    shown = sorted(decided, key=lambda each: each is not best)[:3]
    pieces += _listed(table, [(each, each.found.total) for each in shown])
    mover = _mover(best)
    if mover is not None:
        pieces += [
            f"; in {best.found.other.case.model.name} {mover.part} accounts for ",
            table.quote(best.key(mover), "Of the step's change"),
            " % of it",
        ]
    weight = JUDGED + abs(math.log(best.found.total.time.value))
    return Finding("change", (*pieces, "."), weight)


def _mover(change: Change) -> PartChange | None:
    """The phase that makes most of the step's change, where that is known."""
    whole = change.found.total
    decided = [
        part for part in change.found.parts if part.touched and part.decision == whole.decision
    ]
    return max(decided, key=lambda part: abs(part.base.mean - part.other.mean), default=None)


def _phase_finding(table: KeyedTable, subject: str, part: str, family: Sequence[Change]) -> Finding:
    mine = [
        (each, next(own for own in each.found.parts if own.part == part))
        for each in family
        if part in _phase_only(each)
    ]
    mine.sort(key=lambda item: -abs(math.log(item[1].time.value)))
    pieces: list[str | Quote] = [f"{subject} changes the {part}: ", *_listed(table, mine[:3])]
    change, own = mine[0]
    total = change.found.total
    pieces.append("; the step is not distinguished")
    if table.known(change.key(total), "Excluded beyond"):
        pieces += [
            f" (in {change.found.other.case.model.name} more than ±",
            table.quote(change.key(total), "Excluded beyond"),
            " % is excluded)",
        ]
    share = own.base.mean / total.base.mean if total.base.mean else 0.0
    weight = JUDGED + abs(math.log(own.time.value)) * share
    return Finding("change", (*pieces, "."), weight)


def _listed(table: KeyedTable, parts: Sequence[tuple[Change, PartChange]]) -> Iterator[str | Quote]:
    """small (512 tokens) −38 % [−41 to −35, n = 3 processes], …."""
    for at, (change, part) in enumerate(parts):
        key = change.key(part)
        yield f"{', ' if at else ''}{change.found.other.case.model.name} "
        yield from work_of(table, key)
        yield f" {part_word(part)} "
        yield table.quote(key, "Change")
        yield " % ["
        yield table.quote(key, "95 % interval")
        yield "; n = "
        yield table.quote(key, "n")
        yield "]"


def _pace(tables: Tables) -> Iterator[Finding]:
    """Cells of which the host sets the pace: a cause only where the card's idle time says so."""
    if tables.steps is None:
        return
    for source, state in tables.profiled:
        idle = idle_share(source, state)
        alike = _cell_like(tables, state)
        if idle is None or idle < IDLE or alike is None or tables.profiles is None:
            continue
        if not is_launch_bound(alike[1]) or not source.sound(state) or not alike[0].sound(alike[1]):
            continue
        yield Finding(
            "pace",
            (
                f"The {state.case.mode} step of {state.case.model.name} ",
                *work_of(tables.steps, step_key(*alike), "Mode"),
                " is launch-bound, by two measurements: the card idles ",
                tables.profiles.quote(profile_key(source, state, WHOLE_STEP), "Idle of plain"),
                " % of it, and it has caught up with the host at the end of ",
                ", ".join(alike[1].launch_bound.phases if alike[1].launch_bound else ()),
                ". Fewer launches help it, faster kernels do not.",
            ),
            idle,
        )
    bound = {
        step_key(source, state): (source, state)
        for source, state in tables.step_cells
        if state.total is not None and is_launch_bound(state) and source.sound(state)
    }
    if bound:
        pieces: list[str | Quote] = ["Consistent with a launch-bound step, by one measurement: in "]
        for at, (source, state) in enumerate([*bound.values()][:4]):
            pieces += [
                f"{', ' if at else ''}{state.case.model.name} ",
                *work_of(tables.steps, step_key(source, state)),
            ]
        pieces.append(
            " the card has caught up with the host at the end of phases that make most of the "
            "step; a kernel profile "
            "would say how long it idles."
        )
        yield Finding("pace", tuple(pieces), 0.15)


def _cell_like(tables: Tables, state: CaseState) -> Found | None:
    wanted = state.case.configuration()
    return next(
        (found for found in tables.step_cells if found[1].case.configuration() == wanted), None
    )


def _memory_bound(tables: Tables) -> Iterator[Finding]:
    """An optimizer whose least bytes come near the card's bandwidth."""
    for source, state in tables.step_cells:
        table = tables.steps
        key = step_key(source, state)
        if table is None or not table.known(key, "Of bandwidth") or not source.sound(state):
            continue
        share = number(table.quote(key, "Of bandwidth"))
        if MEMORY_BOUND <= share <= 100:
            yield Finding(
                "pace",
                (
                    f"The optimizer of {state.case.model.name} is memory-bound: what it must read "
                    "and write makes ",
                    table.quote(key, "Optimizer moves"),
                    " GB/s, ",
                    table.quote(key, "Of bandwidth"),
                    " % of the card's bandwidth.",
                ),
                0.2,
            )


def _levels(tables: Tables) -> Iterator[Finding]:
    """What one switch does to a requested peak: counted on one card, so without an interval."""
    if tables.levels is None:
        return
    strongest: dict[str, Finding] = {}
    for one, other in _pairs(tables.memory):
        (source, base), (theirs, state) = one, other
        before, after = _requested(base), _requested(state)
        if not before or not after or not source.sound(base) or not theirs.sound(state):
            continue
        change = math.log(after / before)
        if abs(change) < LEAST_LEVEL_CHANGE:
            continue
        rows = level_key(source, base, PEAK), level_key(theirs, state, PEAK)
        axis = apart(state.case, base.case, SWITCHES)[0]
        found = Finding(
            "memory",
            (
                f"{axis.named(axis.of(state.case))} {'raises' if change > 0 else 'lowers'} the "
                f"peak of requested bytes of {_of(base)} ",
                *work_of(tables.levels, rows[1], "Mode", "As"),
                ", from ",
                tables.levels.quote(rows[0], "Requested"),
                " MiB (in ",
                tables.levels.quote(rows[0], "Reached in"),
                ") to ",
                tables.levels.quote(rows[1], "Requested"),
                " MiB (in ",
                tables.levels.quote(rows[1], "Reached in"),
                "); counted, not sampled.",
            ),
            0.6 * abs(change),
        )
        name = axis.named(axis.of(state.case))
        strongest[name] = max(strongest.get(name, found), found, key=lambda each: each.weight)
    yield from strongest.values()


def _pairs(cells: Sequence[Found]) -> Iterator[tuple[Found, Found]]:
    """Cases that differ in one switch alone, of the same card, the plain one first."""
    for one in cells:
        for other in cells:
            if one[1].case.configuration() == other[1].case.configuration():
                continue
            if _card(one) != _card(other) or one[1].case.probe != other[1].case.probe:
                continue
            switched = apart(one[1].case, other[1].case, SWITCHES)
            work = apart(one[1].case, other[1].case)
            same_model = one[1].case.model == other[1].case.model
            if len(switched) == 1 and len(work) == 1 and same_model:
                axis = switched[0]
                if axis.of(one[1].case) == axis.neutral and _counted_alike(one[1], other[1]):
                    yield one, other


def _of(state: CaseState) -> str:
    """attention d=64; medium, train."""
    case = state.case
    if case.probe == "attention":
        return f"attention {case.model.name}"
    return f"{case.model.name}, {case.mode}"


def _card(found: Found) -> str:
    environment = found[0].environment
    return "" if environment is None else environment.device_name


def _counted_alike(one: CaseState, other: CaseState) -> bool:
    """Whether both peaks are of the same kind of reading."""
    return (one.memory_timeline is None) == (other.memory_timeline is None)


def _requested(state: CaseState) -> float | None:
    cells = peak_cells(state)
    found = None if cells is None else cells[1]
    return found.value if isinstance(found, Figure) else None


def _does_not_fit(tables: Tables) -> Iterator[Finding]:
    """The smallest case that did not fit, with what it was predicted to need."""
    table, met = tables.predicted, tables.out_of_memory_table
    for source, state in tables.out_of_memory:
        key = (source.name, state.index)
        if table is None or not table.known(key, "Predicted"):
            if met is not None and met.known(key, "Asked"):
                yield _ran_out(met, key, state)
                return
            continue
        predicted = state.failure is not None and state.failure.predicted
        how = "was not tried, since it" if predicted else "ran out of memory; it"
        yield Finding(
            "memory",
            (
                f"{state.case.model.name}, {state.case.mode}, {switches_text(state.case)} (",
                table.quote(key, "Context"),
                f" tokens) does not fit here: it {how} was predicted to need ",
                table.quote(key, "Predicted"),
                " MiB of requested bytes.",
            ),
            0.5,
        )
        return


def _ran_out(table: KeyedTable, key: Hashable, state: CaseState) -> Finding:
    """A case that is not predicted, where it ran out of memory."""
    return Finding(
        "memory",
        (
            f"{_of(state)}, {switches_text(state.case)} (",
            table.quote(key, "Context"),
            " tokens) ran out of memory in ",
            table.quote(key, "Failed in"),
            ", where it asked for ",
            table.quote(key, "Asked"),
            " MiB more.",
        ),
        0.5,
    )


def _growth(tables: Tables) -> Iterator[Finding]:
    if tables.growth is None:
        return
    for growth in tables.growths:
        fit = growth.fit
        if fit is None or growth.unit != "ms" or fit.between[1] - fit.between[0] > SURE_EXPONENT:
            continue
        one = growth.processes < 2
        yield Finding(
            "growth",
            (
                f"Time of {growth.what} ({growth.way}) grows with the context to the power ",
                tables.growth.quote(growth.key, "Exponent"),
                " (between neighbouring points ",
                tables.growth.quote(growth.key, "Between points, from"),
                " to ",
                tables.growth.quote(growth.key, "to"),
                ") from ",
                tables.growth.quote(growth.key, "From"),
                " to ",
                tables.growth.quote(growth.key, "To"),
                " tokens" + (" (steps of one process)." if one else "."),
            ),
            0.3 + 0.01 * math.log(fit.high),
        )


def _rate(tables: Tables) -> Iterator[Finding]:
    """The highest share of the dense peak, of cells where the card sets the pace."""
    table = tables.steps
    best: tuple[float, Source, CaseState] | None = None
    if len({state.case.model for _, state in tables.step_cells}) < 2:
        return  # the verdict says it of the only size
    for source, state in tables.step_cells:
        key = step_key(source, state)
        if table is None or not table.known(key, "Of dense peak"):
            continue
        if is_launch_bound(state) or not source.sound(state):
            continue
        share = number(table.quote(key, "Of dense peak"))
        if best is None or share > best[0]:
            best = share, source, state
    if table is None or best is None:
        return
    _, source, state = best
    yield Finding(
        "rate",
        (
            f"Of the sizes, {state.case.model.name} ",
            *work_of(table, step_key(source, state), "As"),
            f" in {switches_text(state.case)} comes nearest to the card, at ",
            table.quote(step_key(source, state), "Of dense peak"),
            " % of its dense peak in that precision.",
        ),
        0.12,
    )


def _products(tables: Tables) -> Iterator[Finding]:
    """The matrix products' share from the forward to a whole training step."""
    for source, state in tables.profiled:
        table = tables.profiles
        keys = [profile_key(source, state, part) for part in ("forward", WHOLE_STEP)]
        header = "Products of busy"
        if table is None or state.case.mode != "train" or not source.sound(state):
            continue
        if not all(table.known(key, header) for key in keys):
            continue
        yield Finding(
            "products",
            (
                f"In {state.case.model.name} ",
                *work_of(table, keys[0], "Mode"),
                " matrix products take ",
                table.quote(keys[0], header),
                " % of the card's busy time in the forward and ",
                table.quote(keys[1], header),
                " % in a whole training step.",
            ),
            0.25,
        )


def _warmup(tables: Tables) -> Iterator[Finding]:
    """What no warm-up does to the mean, where the first step was cold."""
    table = tables.warmups
    for source, group in tables.warmup_cells:
        bare, longest = group[0], group[-1]
        first = first_step_ms(bare)
        if table is None or bare.case.warmup_steps or longest.total is None or first is None:
            continue
        cold = first / longest.total.median
        if cold <= COLD_FIRST_STEP or not _usable(source, bare, longest):
            continue
        keys = warmup_key(source, bare), warmup_key(source, longest)
        yield Finding(
            "warm-up",
            (
                f"Without warm-up the mean of {bare.case.model.name}, {bare.case.mode}, is ",
                table.quote(keys[0], "Mean"),
                " ms, after ",
                table.quote(keys[1], "Warm-up"),
                " steps of it ",
                table.quote(keys[1], "Mean"),
                " ms: the process's first step took ",
                table.quote(keys[0], "First step"),
                " ms, and the median without warm-up is ",
                table.quote(keys[0], "Median"),
                " ms.",
            ),
            0.1 * math.log(cold) + 0.2,
        )


def _usable(source: Source, *states: CaseState) -> bool:
    """Whether no other check than that on warm-up says no."""
    return not any(set(source.failed_checks(state)) - {"warming"} for state in states)


def _prediction(tables: Tables) -> Iterator[Finding]:
    """The largest error of a predicted peak."""
    table = tables.predicted
    if table is None:
        return
    known = [key for key in table.keys if table.known(key, "Error") and _is_eager(table, key)]
    if not known:
        return
    worst = max(known, key=lambda key: _error(table.quote(key, "Error")))
    yield Finding(
        "prediction",
        (
            "Requested peaks come out as they were predicted: the largest error is ",
            table.quote(worst, "Error"),
            " %, of ",
            table.quote(worst, "Size"),
            ", ",
            table.quote(worst, "Mode"),
            " (",
            table.quote(worst, "Context"),
            " tokens).",
        )
        if _error(table.quote(worst, "Error")) < 1
        else (
            "Not every requested peak comes out as predicted: the largest error is ",
            table.quote(worst, "Error"),
            " %, of ",
            table.quote(worst, "Size"),
            ", ",
            table.quote(worst, "Mode"),
            " (",
            table.quote(worst, "Context"),
            " tokens).",
        ),
        0.05,
    )


def _is_eager(table: KeyedTable, key: Hashable) -> bool:
    """Whether a prediction is of what ran: of a compiled model it is a bound."""
    return "torch.compile" not in table.quote(key, "As").text


def _error(quote: Quote) -> float:
    return 0.0 if quote.text == UNDER else abs(number(quote))


def evidence_rows(found: Iterable[Finding]) -> dict[str, list[Hashable]]:
    """Rows that findings rest on, by table: these are shown first."""
    rows: dict[str, list[Hashable]] = {}
    for finding in found:
        for quote in finding.evidence:
            rows.setdefault(quote.table, []).append(quote.row)
    return rows
