"""What a switch changes: the step of each size, or the phase that it acts on alone."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from llmprof.core.document.changes import Change, by_itself, shares_of
from llmprof.core.document.configurations import work_of
from llmprof.core.document.finding import Finding
from llmprof.core.document.quotes import KeyedTable, Sentence, joined
from llmprof.core.document.sources import Source
from llmprof.core.document.steps import paced_by_host
from llmprof.core.document.tables import Tables
from llmprof.core.figures.comparison import PartChange
from llmprof.core.report.sentences import is_launch_bound, listing

JUDGED = 0.5  # what is decided between processes comes before what is only read
MOST_SHOWN = 3  # sizes
WIDE = 1.02  # times the shortest baseline in any run: below it there is no need to tell the range
ALL_RUNS = "Baseline in all runs"
GAIN = "Gain excluded above"


def switched(tables: Tables) -> Iterator[Finding]:
    """Every switch that is told from its baseline."""
    return of_changes(tables.changes, tables.all_changes, tables.sources)


def of_changes(
    table: KeyedTable | None, changes: Iterable[Change], sources: Sequence[Source]
) -> Iterator[Finding]:
    """One finding a switch: what it does to the step of each size, or to its own phase alone.

    sources: all runs, which tell the phases that the host sets the pace of.
    """
    if table is None:
        return
    families: dict[tuple[str, bool], list[Change]] = {}
    for change in changes:
        families.setdefault((change.name, change.of_attention), []).append(change)
    for (name, attention), family in families.items():
        subject = f"{name} in attention alone" if attention else name
        for decision, verb in (("faster", "shortens"), ("slower", "lengthens")):
            decided = [each for each in family if _decided(each.found.total, decision, each)]
            if decided:
                whole = decided[0].word(decided[0].found.total)
                told = _of_step(table, f"{subject} {verb} the {whole}: ", decided, sources)
                yield replace(told, alone=attention)
        for part in dict.fromkeys(part for each in family for part in _phase_only(each)):
            yield replace(_of_phase(table, subject, part, family), alone=attention)


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


def _of_step(
    table: KeyedTable, begin: str, decided: Sequence[Change], sources: Sequence[Source]
) -> Finding:
    best = max(decided, key=lambda each: _size(each.found.total))
    shown = sorted(decided, key=lambda each: each is not best)[:MOST_SHOWN]
    listed = _listed(table, [(each, each.found.total) for each in shown])
    text = (begin, *listed, *_by_phase(table, best),
            *_then_the_host(table, best, sources), *_in_all_runs(table, best), ".")  # fmt: skip
    return Finding("change", text, JUDGED + _size(best.found.total))


def _by_phase(table: KeyedTable, change: Change) -> Sentence:
    """What each phase makes of the step's change, where that is known."""
    key = change.key(change.found.total)
    if not table.known(key, "Of the step's change"):
        return ()
    what = "saving" if change.found.total.decision == "faster" else "time lost"
    told = table.told(key, f"; the {what} in {{Size}}: {{Of the step's change}}")
    return (*told, *_the_other_way(table, change))


def _the_other_way(table: KeyedTable, change: Change) -> Sentence:
    """; the optimizer took longer (9.321 to 12.8 ms): phases against the step's change."""
    faster = change.found.total.decision == "faster"
    opposite, verb = ("slower", "longer") if faster else ("faster", "less")
    shares = shares_of(change.found)
    return tuple(
        piece
        for part in change.found.parts[:-1]
        if shares.get(part.part, 0.0) < 0 and by_itself(part) == opposite
        if table.knows(change.key(part), "Baseline", "With it")
        for piece in table.told(
            change.key(part),
            "; the {phase} took {verb} ({Baseline} to {With it} ms)",
            phase=part.part,
            verb=verb,
        )
    )


def _then_the_host(table: KeyedTable, change: Change, sources: Sequence[Source]) -> Sentence:
    """That the host sets the pace with the switch and did not without it."""
    base, other = change.found.base, change.found.other
    phases = paced_by_host(other, sources)
    if change.found.total.decision != "faster" or not phases:
        return ()
    if is_launch_bound(base) or not is_launch_bound(other):
        return ()
    size: Sentence = ()
    if not change.of_attention:
        size = table.told(change.key(change.found.total), " of {Size}")
    brings_no_more = f" ({listing(phases)}), so that still faster kernels bring no more"
    return ("; with it the host sets the pace", *size, brings_no_more)


def _in_all_runs(table: KeyedTable, change: Change) -> Sentence:
    """How far apart the baseline came out, where several runs measured it."""
    key = change.key(change.found.total)
    if not table.known(key, ALL_RUNS):
        return ()
    low, high = table.quote(key, ALL_RUNS).text.replace(",", "").split(" to ")
    if float(high) < WIDE * float(low):
        return ()
    return table.told(key, f"; the baseline of {{Size}} took {{{ALL_RUNS}}} ms in all runs")


def _of_phase(table: KeyedTable, subject: str, phase: str, family: Sequence[Change]) -> Finding:
    mine = [
        (each, part)
        for each in family
        if phase in _phase_only(each)
        for part in each.found.parts
        if part.part == phase
    ]
    mine.sort(key=lambda item: -_size(item[1]))
    change, part = mine[0]
    whole = change.found.total
    key = change.key(whole)
    beyond: Sentence = ()
    if table.known(key, GAIN):
        beyond = table.told(key, f" (in {{Size}} a gain above {{{GAIN}}} % is excluded)")
    listed = _listed(table, mine[:MOST_SHOWN])
    share = part.base.mean / whole.base.mean if whole.base.mean else 0.0
    text = (f"{subject} changes the {phase}: ", *listed, f"; the {change.word(whole)} is not "
            "distinguished", *beyond, ".")  # fmt: skip
    return Finding("change", text, JUDGED + _size(part) * share)


def _size(part: PartChange) -> float:
    """How large a change is, alike for halves and doubles."""
    return abs(math.log(part.time.value))


def _listed(table: KeyedTable, parts: Sequence[tuple[Change, PartChange]]) -> Sentence:
    """small (512 tokens) step −38 % [95 %: −41 to −35; 3 processes], …."""
    return joined(
        table.told(
            change.key(part),
            "{Size} {work} {word} {Change} % [95 %: {95 % interval}; {n} processes]",
            work=work_of(table, change.key(part)),
            word=change.word(part),
        )
        for change, part in parts
    )
