"""Whether a run is as fast as its device allows, and what to try next: at most three things.

First what was already measured to help, with what may add to it, then compiling where the host sets
the pace or one process says that it helps much, a larger batch where the host sets the pace, then
others. Each rests on a named measurement, comes with the command that tests it, and says what it
may bring, capped by what else was measured of the same step, and called a rough estimate by
anything else. Where the evidence is thin, or the cap is low, there is none.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from llmprof.core.document.commands import TRAIN
from llmprof.core.document.cost import NOT_STANDING, unsound_training
from llmprof.core.document.next_step import NextStep, Target
from llmprof.core.document.proposals import kernels, launches, measured, room, unjudged
from llmprof.core.document.quotes import Sentence
from llmprof.core.document.steps import Found
from llmprof.core.document.tables import Tables
from llmprof.core.document.verdict import verdict
from llmprof.core.report.sentences import is_launch_bound

MOST = 3


@dataclass(frozen=True)
class Outlook:
    """The verdict on a run, and the next steps, the most promising first."""

    verdict: Sentence
    steps: tuple[NextStep, ...]

    @property
    def lines(self) -> tuple[Sentence, ...]:
        """The verdict, then a line a step: why, the command, what it may bring."""
        return (
            ("Verdict. ", *self.verdict),
            *(step.told for step in self.steps),
        )


def outlook(tables: Tables) -> Outlook:
    """The verdict on whole training steps, and what to try on the largest sound one."""
    found = _largest(tables)
    if found is None or tables.steps is None:
        unsound = unsound_training(tables.sources)
        if unsound:
            return Outlook((f"A training step was measured, but {NOT_STANDING}: {unsound}.",), ())
        return Outlook((f"No training step was measured that a verdict could rest on; `{TRAIN}` "
                        "measures one.",), ())  # fmt: skip
    proposed = sorted(
        _proposed(Target(tables, found)), key=lambda step: (step.order, -(step.bound or 0.0))
    )
    return Outlook(verdict(tables, found), tuple(proposed[:MOST]))


def _largest(tables: Tables) -> Found | None:
    usable = [
        (source, state)
        for source, state in tables.step_cells
        if state.case.mode == "train" and state.total is not None and source.sound(state)
    ]
    return usable[-1] if usable else None


def _proposed(of: Target) -> Iterator[NextStep]:
    yield from measured.quickest(of)
    yield from launches.compiled(of)
    yield from unjudged.other_than_compiling(of)
    if is_launch_bound(of.now):
        yield from launches.profiled(of)
    else:
        yield from kernels.lower_precision(of)
        yield from kernels.fused_optimizer(of)
        yield from kernels.fused_attention(of)
    yield from launches.larger_batch(of)
    yield from room.what_fits(of)
