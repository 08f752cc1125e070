"""What closes a document: what it cannot say, and how its figures were measured."""

from __future__ import annotations

from collections.abc import Iterable

from llmprof.core.document import changes as change_rows
from llmprof.core.document import cost as cost_rows
from llmprof.core.document import growth as growth_rows
from llmprof.core.document import levels as level_rows
from llmprof.core.document import profiles as profile_rows
from llmprof.core.document import same_cells as same_rows
from llmprof.core.document import steps as step_rows
from llmprof.core.document import warmups as warmup_rows
from llmprof.core.document.commands import SWITCHES, WRITEUP
from llmprof.core.document.quotes import Sentence
from llmprof.core.document.sources import differences
from llmprof.core.document.spread import spread
from llmprof.core.document.tables import Tables
from llmprof.core.lint import EXPLAINED as CHECKS
from llmprof.core.lint.in_short import IN_SHORT
from llmprof.core.report.sentences import listing

EXPLAINED = {  # notes that stand in the method
    "steps": step_rows.NOTES,
    "changes": change_rows.NOTES,
    "warm-up": warmup_rows.NOTES,
    "same": same_rows.NOTES,
    "profiles": profile_rows.STEP_NOTES,
    "levels": level_rows.LEVEL_NOTES,
    "growth": growth_rows.NOTES,
    "predicted": level_rows.PREDICTED_NOTES,
    "cost": cost_rows.NOTES,
}
METHOD = (
    "Every case ran in a fresh process, its warm-up doing exactly what is measured. Phase times "
    "are of device events at the phases' edges, without a synchronisation inside the step; on a "
    "CPU of the host's clock. Inputs are random tokens, weights random.",
    "A difference is judged between processes only. Findings rest on decisions: the phases that a "
    "switch acts on are tested first, by Holm's procedure, then each part and the step by its own "
    "interval. Times of cells to which a check says no are compared with no other cell's.",
    "A cause is named where two measurements name it; with one the sentence says consistent with.",
)


def left_out(tables: Tables) -> tuple[Sentence, ...]:
    """What a write-up was to measure and left out for time; nothing where it left out nothing."""
    names = [name.replace("`", "'") for name in tables.left_out]
    if not names:
        return ()
    return (
        (f"For time the write-up left out {listing(names)}; `{WRITEUP}` with a higher `--minutes`, "
         "or none, measures them too.",),
    )  # fmt: skip


def limits(tables: Tables) -> tuple[Sentence, ...]:
    """What was left out for time, and what the document cannot say, in six lines."""
    lines: list[Sentence] = [
        ("Random tokens and random weights on one device: loading of data, evaluation, "
         "checkpoints and communication are not in any figure.",),
    ]  # fmt: skip
    single = any(change.found.processes < 2 for change in tables.all_changes)
    if single:
        lines.append(("Cells of one process support no difference; their intervals are those of "
                      "steps and say nothing of another process.",))  # fmt: skip
    lines += _checks(tables)
    apart = spread(tables)
    if apart:
        lines.append(apart)
    if tables.profiled:
        lines.append(("The profiler lengthens what it sees: shares are of profiled steps, and idle "
                      "time is told by the plain step.",))  # fmt: skip
    mixed = differences(tables.sources)
    if mixed:
        lines.append((f"Runs are mixed: {'; '.join(mixed)}.",))
    if not tables.all_changes:
        lines.append((f"No switch was timed beside its baseline; `{SWITCHES}` does.",))
    if not all(rate.measured for rate in tables.rates):
        lines.append(("Predicted rates of other cards are bounds from published peaks, and no "
                      "measurement.",))  # fmt: skip
    return (*left_out(tables), *lines[:6])


def _checks(tables: Tables) -> list[Sentence]:
    """The checks that say no to cells, and those that only warn, each in plain words."""
    vetoes = _failed(tables)
    warned = dict.fromkeys(
        verdict.rule
        for source in tables.sources
        for verdicts in source.subject.verdicts.values()
        for verdict in verdicts
        if verdict.level != "info" and verdict.rule not in vetoes and verdict.rule != "launch-bound"
    )
    lines: list[Sentence] = []
    if vetoes:
        lines.append((f"Checks say no to the times of some cells: {_in_words(vetoes)}. They stand "
                      "in tables, and no finding compares their times with another cell's, but "
                      "for the range of a baseline in all runs; bytes are counted whatever the "
                      "clocks did.",))  # fmt: skip
    if warned:
        lines.append((f"Others warn and veto nothing: {_in_words(warned)}.",))
    return lines


def _in_words(rules: Iterable[str]) -> str:
    return "; ".join(f"{rule} ({IN_SHORT[rule]})" for rule in rules)


def method_items(tables: Tables) -> tuple[Sentence, ...]:
    """What the columns of the tables mean, and the checks that say no to cells."""
    there = {each.table.key: each.table.title for each in tables.whole}
    columns = ((f"{there[key]}: ", *notes) for key, notes in EXPLAINED.items() if key in there)
    checks = ((f"Check {rule}: {CHECKS[rule]}",) for rule in _failed(tables) if rule in CHECKS)
    return (*columns, *checks)


def _failed(tables: Tables) -> dict[str, None]:
    """The checks that say no to cells, each once."""
    return dict.fromkeys(
        rule
        for source in tables.sources
        for state in source.cases
        for rule in source.failed_checks(state)
    )
