"""What a switch changes: the step of each size, or the phase that it acts on alone."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from llmprof.core.document.changes import Change
from llmprof.core.document.configurations import work_of
from llmprof.core.document.finding import Finding
from llmprof.core.document.quotes import KeyedTable, Sentence, joined
from llmprof.core.document.tables import Tables
from llmprof.core.figures.comparison import PartChange

JUDGED = 0.5  # what is decided between processes comes before what is only read
MOST_SHOWN = 3  # sizes


def switched(tables: Tables) -> Iterator[Finding]:
    """Every switch that is told from its baseline."""
    return of_changes(tables.changes, tables.all_changes)


def of_changes(table: KeyedTable | None, changes: Iterable[Change]) -> Iterator[Finding]:
    """One finding a switch: what it does to the step of each size, or to its own phase alone."""
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
                yield _of_step(table, f"{subject} {verb} the {whole}: ", decided)
        for part in dict.fromkeys(part for each in family for part in _phase_only(each)):
            yield _of_phase(table, subject, part, family)


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


def _of_step(table: KeyedTable, begin: str, decided: Sequence[Change]) -> Finding:
    best = max(decided, key=lambda each: _size(each.found.total))
    shown = sorted(decided, key=lambda each: each is not best)[:MOST_SHOWN]
    listed = _listed(table, [(each, each.found.total) for each in shown])
    text = (begin, *listed, *_mover(table, best), ".")
    return Finding("change", text, JUDGED + _size(best.found.total))


def _mover(table: KeyedTable, change: Change) -> Sentence:
    """The phase that makes most of the step's change, where that is known."""
    decision = change.found.total.decision
    decided = [part for part in change.found.parts if part.touched and part.decision == decision]
    if not decided:
        return ()
    part = max(decided, key=lambda each: abs(each.base.mean - each.other.mean))
    return table.told(
        change.key(part),
        "; in {Size} {Part} accounts for {Of the step's change} % of it",
    )


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
    if table.known(key, "Excluded beyond"):
        beyond = table.told(key, " (in {Size} more than ±{Excluded beyond} % is excluded)")
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
