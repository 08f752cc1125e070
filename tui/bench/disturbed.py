"""Which steps of the case in sight ran on a card that was slowed down or shared."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from llmprof.core.state.view import CaseState, RunView
from llmprof.core.system.text import clock

if TYPE_CHECKING:
    from llmprof.core.figures.case_device import CaseDevice

EVERY_S = 2.0  # between looks at a running case
MOST_MARKS = 500  # on a chart


class Disturbed:
    """The newest join of samples and steps; worked out anew only now and then."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._key: tuple[object, ...] = ()
        self._at = 0.0
        self._found: CaseDevice | None = None

    def update(self, view: RunView, case: CaseState) -> CaseDevice | None:
        """What is known of the case."""
        key = (case.index, case.attempt, case.done, len(view.cards))
        now = self._clock()
        if key != self._key or (not case.done and now - self._at >= EVERY_S):
            self._key, self._at = key, now
            from llmprof.core.figures.case_device import join_case  # not needed for the first frame

            self._found = join_case(view, case)
        return self._found


def marked_steps(found: CaseDevice | None) -> Collection[int]:
    """Positions of the disturbed measured steps."""
    return () if found is None else found.disturbed


def chart_positions(found: CaseDevice | None) -> list[int]:
    """The same, thinned to what a chart can show."""
    return [] if found is None else found.disturbed.thinned(MOST_MARKS)


def in_words(found: CaseDevice | None) -> str:
    """Throttle time and other tenants in a few words; "" when there is nothing to say."""
    if found is None:
        return ""
    said = []
    if found.throttled_s:
        said.append(f"{', '.join(found.throttle_reasons)} {clock(found.throttled_s, tenths=True)}")
    if found.others:
        from llmprof.core.figures.case_device import describe_process

        more = f" and {len(found.others) - 1} more" if len(found.others) > 1 else ""
        said.append(f"shared with {describe_process(found.others[0])}{more}")
    return "; ".join(said)
