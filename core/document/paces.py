"""Which whole steps the host sets the pace of, which the card, and by which measurements."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

from llmprof.core.document.configurations import work_of
from llmprof.core.document.profiles import IDLE, idle_share, profile_key
from llmprof.core.document.quotes import Quote, Sentence, joined, listed, plain
from llmprof.core.document.steps import Found, host_phases, step_key
from llmprof.core.document.tables import Tables
from llmprof.core.events.kernel_rows import WHOLE_STEP
from llmprof.core.figures.profile_wholes import twin
from llmprof.core.report.sentences import is_launch_bound
from llmprof.core.state.view import CaseState

Side = Literal["up to", "from"]
STANDS = frozenset({"host-pace"})  # a slow host is still the one that sets the pace
MOST_NAMED = 4
IDLE_COLUMN = "Idle of plain"


@dataclass(frozen=True)
class Paces:
    """Steps of models by what sets their pace, the smallest first.

    measured: of those of the host the ones whose idle time a kernel profile measured, each with
    its profile, the most idle first.
    """

    host: tuple[Found, ...]
    card: tuple[Found, ...]
    measured: tuple[tuple[Found, Found], ...]

    @property
    def mostly_host(self) -> bool:
        """Whether the host sets the pace of at least half of them."""
        return len(self.host) >= len(self.card)

    @property
    def by_one(self) -> tuple[Found, ...]:
        """Those of the host whose idle time was not measured."""
        profiled = [found for found, _ in self.measured]
        return tuple(found for found in self.host if found not in profiled)


def paces_of(tables: Tables) -> Paces:
    """Steps in the table of steps whose pace is known."""
    known = [
        (source, state)
        for source, state in tables.step_cells
        if state.total is not None
        and host_phases(state) is not None
        and not set(source.failed_checks(state)) - STANDS
    ]
    host = tuple(found for found in known if is_launch_bound(found[1]))
    card = tuple(
        found for found in known if not is_launch_bound(found[1]) and found[0].sound(found[1])
    )
    measured = [(found, idle) for found in host if (idle := idle_profile(tables, found[1]))]
    measured.sort(key=lambda pair: -(idle_share(*pair[1]) or 0.0))
    return Paces(host, card, tuple(measured))


def profile_of(tables: Tables, state: CaseState) -> Found | None:
    """The kernel profile of a case, of whichever run."""
    wanted = state.case.configuration()
    return next((each for each in tables.profiled if each[1].case.configuration() == wanted), None)


def idle_profile(tables: Tables, state: CaseState) -> Found | None:
    """A sound profile of a case that shows the card idle in a launch-bound plain step."""
    found = profile_of(tables, state)
    if found is None or not found[0].sound(found[1]) or (idle_share(*found) or 0.0) < IDLE:
        return None
    plain = twin(found[0].subject.as_one, found[1])
    if plain is None or not is_launch_bound(plain) or not found[0].sound(plain):
        return None
    return found


def idle_quote(tables: Tables, profile: Found) -> Quote:
    """Its cell of idle time. tables.profiles holds it."""
    assert tables.profiles is not None
    return tables.profiles.quote(profile_key(*profile, WHOLE_STEP), IDLE_COLUMN)


def cells_named(tables: Tables, cells: Sequence[Found], side: Side) -> Sentence:
    """tiny and small (128 tokens), medium (up to 256 tokens): a model's contexts at one end as one.

    tables.steps holds the cells; side: at which end several contexts are told as one.
    """
    groups: dict[Hashable, list[Found]] = {}
    for found in cells:
        groups.setdefault(_model(found), []).append(found)
    told: list[tuple[str, Sentence]] = []
    for group in groups.values():
        if len(group) > 1 and _all_of_a_side(tables, group, side):
            told.append(_named(tables, group[-1 if side == "up to" else 0], f"{side} "))
        else:
            told += [_named(tables, found) for found in group]
    alike_told = _alike_in_a_row(told[:MOST_NAMED])
    shown = [(*listed([(name,) for name, _ in alike]), *alike[0][1]) for alike in alike_told]
    if len(told) > MOST_NAMED:
        return (*joined(shown), " and others")
    if len(shown) > 1 and any(len(alike) > 1 for alike in alike_told):
        return (*joined(shown[:-1]), ", and ", *shown[-1])
    return listed(shown)


def _alike_in_a_row(told: Sequence[tuple[str, Sentence]]) -> list[list[tuple[str, Sentence]]]:
    """Models in a row of which the same work is told."""
    return [list(group) for _, group in groupby(told, key=lambda each: plain(each[1]))]


def _named(tables: Tables, found: Found, word: str = "") -> tuple[str, Sentence]:
    """A model's name, and the work in brackets."""
    assert tables.steps is not None
    _, *rest = work_of(tables.steps, step_key(*found))
    return found[1].case.model.name, (f" ({word}", *rest)


def _model(found: Found) -> Hashable:
    case = found[1].case
    return case.model, case.batch_size, case.mode


def _all_of_a_side(tables: Tables, group: Sequence[Found], side: Side) -> bool:
    """Whether every other step of the model has a longer context, or every other a shorter one."""
    contexts = [found[1].case.context_length for found in group]
    others = [
        each[1].case.context_length
        for each in tables.step_cells
        if _model(each) == _model(group[0]) and each[1].case.context_length not in contexts
    ]
    if side == "up to":
        return all(other > max(contexts) for other in others)
    return all(other < min(contexts) for other in others)
