"""What set the pace: the host, or a card that was slowed down or shared."""

from __future__ import annotations

from llmprof.core import joined
from llmprof.core.lint.verdict import Context, Verdict, on_card, waits_for_host
from llmprof.core.results import CaseState, RunView

EXPLAINED = {
    "launch-bound": "The host needs nearly the whole step to launch its work, so the card idles "
    "between kernels: fewer launches help, faster kernels do not.",
    "device": "The card was not at its full speed, or not ours alone, while steps were measured.",
}


def launch_bound(state: CaseState, context: Context) -> Verdict | None:
    """Whether the host, not the card, sets the pace. Only a card can be launch-bound."""
    if not on_card(context) or state.host_share is None:
        return None
    share = 100 * state.host_share
    if waits_for_host(state, context):
        text = f"launch-bound: the host spends {share:.0f} % of the step enqueueing work"
        return Verdict("launch-bound", "warning", text)
    return Verdict("launch-bound", "info", f"GPU-bound: launches take {share:.0f} % of the step")


def device(view: RunView) -> list[tuple[int, Verdict]]:
    """Throttling and other processes during the measured steps."""
    return [
        (each.case, Verdict("device", "warning", text))
        for each in joined.join_run(view)
        if len(view.cases[each.case].measured)
        for text in joined.verdicts(view, each)
    ]
