"""What a switch does to a step's peak, and what does not fit; counted, so without an interval."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

from llmprof.core.document.configurations import switches_text, work_of
from llmprof.core.document.finding import Finding
from llmprof.core.document.levels import PEAK, level_key, peak_cells
from llmprof.core.document.quotes import KeyedTable
from llmprof.core.document.steps import Found
from llmprof.core.document.tables import Tables
from llmprof.core.report.sentences import listing
from llmprof.core.report.table import Figure
from llmprof.core.spec.axes import AXES, BY_FIELD, SWITCHES, Axis, apart
from llmprof.core.state.view import CaseState

LEAST_CHANGE = 0.02  # of a peak
# A kernel of SDPA by name has nothing plain beside it: the one that torch picks is one of them.
TOLD = tuple(axis for axis in SWITCHES if axis is not BY_FIELD["sdpa_backend"])
TOLD_APART = tuple(axis for axis in AXES if axis.changes != "steps")  # warm-up moves no peak


def peaks(tables: Tables) -> Iterator[Finding]:
    """What one switch does to a requested peak, where it is most bytes: of models, of attention.

    Of models a training step comes before narrower modes.

    Switches that come to the same peak from the same are named together.
    """
    strongest: dict[tuple[str, bool], Lowered] = {}
    for found in _lowered(tables):
        best = strongest.get((found.name, found.alone), found)
        strongest[found.name, found.alone] = max(best, found, key=_bytes_of_training)
    alike: dict[Hashable, list[Lowered]] = {}
    for found in strongest.values():
        key = level_key(*found.plain, PEAK), *_shown(tables, found.switched)
        alike.setdefault(key, []).append(found)
    for group in alike.values():
        yield _finding(tables, group)


@dataclass(frozen=True)
class Lowered:
    """A case with a switch beside the plain one.

    mib: by how much their peaks differ; change: the logarithm of its peak over theirs.
    """

    name: str
    plain: Found
    switched: Found
    mib: float
    change: float

    @property
    def alone(self) -> bool:
        """Whether it is of attention by itself."""
        return self.plain[1].case.probe == "attention"


def _lowered(tables: Tables) -> Iterator[Lowered]:
    for plain, switched, axis in _pairs(tables.memory):
        before, after = _requested(plain[1]), _requested(switched[1])
        if before and after and _counted(plain) and _counted(switched):
            change = math.log(after / before)
            if abs(change) >= LEAST_CHANGE:
                name = axis.named(axis.of(switched[1].case))
                yield Lowered(name, plain, switched, abs(after - before), change)


def _bytes_of_training(found: Lowered) -> tuple[bool, float]:
    return found.plain[1].case.mode == "train", found.mib


def _shown(tables: Tables, found: Found) -> tuple[str, str]:
    """The peak as it is told, and in which phase."""
    assert tables.levels is not None
    key = level_key(*found, PEAK)
    return tables.levels.quote(key, "Requested").text, tables.levels.quote(key, "Reached in").text


def _finding(tables: Tables, alike: Sequence[Lowered]) -> Finding:
    table, found = tables.levels, alike[0]
    assert table is not None
    before, after = (level_key(*each, PEAK) for each in (found.plain, found.switched))
    verb = "raise" if found.change > 0 else "lower"
    text = table.told(
        after,
        "{names} {verb} the peak of requested bytes of {of} {work}, from {before} to {Requested} "
        "MiB (in {Reached in}); counted, not sampled.",
        names=listing(each.name for each in alike),
        verb=verb if len(alike) > 1 else f"{verb}s",
        of=_of(found.plain[1]),
        work=work_of(table, after, "Mode", "Variant"),
        before=table.told(before, "{Requested} MiB (in {Reached in})"),
    )
    return Finding("memory", text, 0.3 + 0.6 * abs(found.change), found.alone)


def _counted(found: Found) -> bool:
    """Whether no check says that something else ran: bytes are counted, whatever clocks did."""
    return not found[0].subject.failed_counts(found[1])


def _pairs(cells: Sequence[Found]) -> Iterator[tuple[Found, Found, Axis]]:
    """Cases that differ in one switch alone, of the same card, the plain one first."""
    for plain in cells:
        for other in cells:
            axes = apart(plain[1].case, other[1].case, TOLD_APART)
            if len(axes) != 1 or axes[0] not in TOLD or not _alike(plain, other):
                continue
            if axes[0].of(plain[1].case) == axes[0].neutral:
                yield plain, other, axes[0]


def _alike(one: Found, other: Found) -> bool:
    """Whether two peaks are of the same model and card, and of a step or of attention alone."""
    cards = ["" if s.environment is None else s.environment.device_name for s, _ in (one, other)]
    told = [(state.case.probe == "attention", state.case.model) for _, state in (one, other)]
    return cards[0] == cards[1] and told[0] == told[1]


def _of(state: CaseState) -> str:
    """attention d=64; medium, train."""
    case = state.case
    if case.probe == "attention":
        return f"attention {case.model.name}"
    return f"{case.model.name}, {case.mode}"


def _requested(state: CaseState) -> float | None:
    cells = peak_cells(state)
    found = None if cells is None else cells[1]
    return found.value if isinstance(found, Figure) else None


def does_not_fit(tables: Tables) -> Iterator[Finding]:
    """The smallest case that did not fit, with what it was predicted to need."""
    table, met = tables.predicted, tables.out_of_memory_table
    for source, state in tables.out_of_memory:
        key: Hashable = (source.name, state.index)
        if table is not None and table.known(key, "Predicted"):
            yield _not_fitting(table, key, state)
            return
        if met is not None and met.known(key, "Asked"):
            yield _ran_out(met, key, state)
            return


def _not_fitting(table: KeyedTable, key: Hashable, state: CaseState) -> Finding:
    tried = state.failure is None or not state.failure.predicted
    text = table.told(
        key,
        "{Size}, {Mode}, {way} ({Context} tokens) does not fit here: it {how} was predicted to "
        "need {Predicted} MiB of requested bytes.",
        way=switches_text(state.case),
        how="ran out of memory; it" if tried else "was not tried, since it",
    )
    return Finding("memory", text, 0.5)


def _ran_out(table: KeyedTable, key: Hashable, state: CaseState) -> Finding:
    """A case that is not predicted, where it ran out of memory."""
    text = table.told(
        key,
        "{of}, {way} ({Context} tokens) ran out of memory in {Failed in}, where it asked for "
        "{Asked} MiB more.",
        of=_of(state),
        way=switches_text(state.case),
    )
    return Finding("memory", text, 0.5)
