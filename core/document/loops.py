"""What a document says of training loops: what holds them up, their tables, and its limits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from llmprof.core.document.quotes import Sentence
from llmprof.core.document.sources import Source
from llmprof.core.lint.loop_verdict import is_judged
from llmprof.core.lint.loops import loop_verdicts
from llmprof.core.report.registry import tables
from llmprof.core.report.table import Table

TABLES = "loop"  # what the names of their tables begin with
NOTHING = "Nothing was found that holds the training up."
TOO_FEW = "Too few steps were seen to say what holds the training up."
NOT_OF_A_LOOP = "Not measured of a training loop: `llmprof run` measures it of a model of its own."
LIMITS: tuple[Sentence, ...] = (
    ("One run of one script: two runs of equal code differ too. `llmprof compare A B` sets two "
     "side by side, shown and not judged.",),
    ("What other threads and processes do is in no part of a step.",),
)  # fmt: skip
METHOD: tuple[Sentence, ...] = (
    ("The training's own process marked the parts of its steps, and nothing was synchronised for "
     "it. Parts are by the host's clock and sum to the step's wall time; on a card those of the "
     "card's own clock stand beside them.",),
    ("At most three findings are named, the costliest first, each by the figures beside it. The "
     "first steps, which warm up, support none.",),
)  # fmt: skip


def with_loops(sources: Iterable[Source]) -> list[Source]:
    """The runs of someone's own training among the sources of a document."""
    return [source for source in sources if source.subject.loops]


def loop_title(sources: Sequence[Source]) -> str:
    """What a document is called that is about nothing else."""
    noun = "loop" if len(sources) == 1 else "loops"
    return f"Training {noun} {', '.join(source.name for source in sources)}"


def loop_findings(sources: Sequence[Source]) -> tuple[Sentence, ...]:
    """A sentence a finding, or one that says why a run has none."""
    several = len(sources) > 1
    return tuple(
        (f"{source.name}: {said}" if several else said,)
        for source in sources
        for said in _said(source)
    )


def loop_tables(sources: Sequence[Source]) -> tuple[Table, ...]:
    """The tables of their loops, those of findings left out, which sentences tell."""
    several = len(sources) > 1
    return tuple(
        replace(table, key=f"{table.key} {source.name}", title=f"{table.title} ({source.name})")
        if several
        else table
        for source in sources
        for table in tables(source.subject)
        if table.key.startswith(TABLES) and table.key != "loop-verdicts"
    )


def _said(source: Source) -> Iterable[str]:
    loops = source.subject.loops
    found = loop_verdicts(source.subject)
    for each in found:
        rank = f" (rank {each.rank})" if len(loops) > 1 else ""
        yield (
            f"{each.rule}{rank}: {each.finding}. To try: {each.remedy}. The next run tells by "
            f"this: {each.test}."
        )
    if not found:
        yield NOTHING if any(map(is_judged, loops)) else TOO_FEW
