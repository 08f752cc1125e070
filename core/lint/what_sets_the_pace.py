"""What set the pace: the host, or a card that was slowed down or shared."""

from __future__ import annotations

from llmprof.core.figures import case_device
from llmprof.core.lint.verdict import Context, Verdict, on_card
from llmprof.core.state.view import CaseState, RunView

EXPLAINED = {
    "launch-bound": "In most of the step the card has caught up with the host and waits for its "
    "next launch, so it idles between kernels: fewer launches help, faster kernels do not.",
    "device": "The card was not at its full speed, or not ours alone, while steps were measured.",
}


def launch_bound(state: CaseState, context: Context) -> Verdict | None:
    """Whether the host, not the card, sets the pace, and of which phases. Cards alone have it."""
    if not on_card(context) or state.host_share is None:
        return None
    found = state.launch_bound
    if found is None:
        return None
    spent = f"the host spends {100 * state.host_share:.0f} % of the step enqueueing work"
    if not found.phases:
        return Verdict(
            "launch-bound", "info", f"GPU-bound: {spent}, its waits for the card included"
        )
    where = f"{' and '.join(found.phases)}, {100 * found.share:.0f} % of the step"
    if not found.most_of_step:
        return Verdict("launch-bound", "info", f"GPU-bound except in {where}: {spent}")
    where = "" if found.nearly_all else f" in {where}"
    return Verdict("launch-bound", "warning", f"launch-bound{where}: {spent}")


def card_disturbed(view: RunView) -> list[tuple[int, Verdict]]:
    """Throttling and other processes during the measured steps."""
    return [
        (each.case, Verdict("device", "warning", text))
        for each in case_device.join_run(view)
        if len(view.cases[each.case].measured)
        for text in case_device.disturbances(view, each)
    ]
