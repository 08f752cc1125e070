"""Cases that differ in switches alone and do not train alike."""

from __future__ import annotations

from llmprof.core.figures.losses import loss_difference
from llmprof.core.lint.verdict import Verdict
from llmprof.core.spec.axes import SWITCHES, neutral
from llmprof.core.state.view import CaseState, RunView
from llmprof.core.system.numbers import significant
from llmprof.core.system.text import counted

EXPLAINED = {
    "trains-differently": "The same steps from the same seed give other losses than the first "
    "case of its kind, beyond what the precision's rounding explains: a faster step that trains "
    "differently is no gain.",
}


def trains_differently(view: RunView) -> list[tuple[int, Verdict]]:
    """Each case against the first that differs from it in switches alone."""
    first: dict[str, CaseState] = {}
    found = []
    for state in view.cases:
        if state.case.probe != "timing" or state.total is None:
            continue
        base = first.setdefault(neutral(state.case, SWITCHES).key, state)
        apart = None if base is state else loss_difference(state, base)
        if apart is not None and apart.unexplained:
            text = (
                f"the loss lies up to {significant(100 * apart.largest, 2)} % from that of case "
                f"{base.index + 1} over {counted(apart.steps, 'step')}; rounding explains "
                f"{significant(100 * apart.explained, 2)} %"
            )
            found.append((state.index, Verdict("trains-differently", "warning", text)))
    return found
