"""Is all there that was asked for: parts of a profile or a recording that could not be made."""

from __future__ import annotations

from llmprof.core.lint.verdict import Context, Verdict
from llmprof.core.state.view import CaseState
from llmprof.core.system.text import clean

EXPLAINED = {
    "incomplete": "A part of the profile or the recording could not be made or written; what is "
    "there is not touched by it.",
}


def missing(state: CaseState) -> tuple[str, ...]:
    """What a case lacks of what was asked for, a line each with the reason."""
    found = (state.kernels, state.memory_timeline)
    return tuple(clean(line, 300) for each in found if each is not None for line in each.missing)


def incomplete(state: CaseState, context: Context) -> Verdict | None:
    """A case whose figures are there, but not all that belongs to them."""
    lines = missing(state)
    return Verdict("incomplete", "warning", "; ".join(lines)) if lines else None
