"""What is asked before the screen is left while a run goes on."""

from __future__ import annotations

from llmprof.core.store.run import Run
from llmprof.tui.kit.ask import Answer, AskDialog


def quit_question(run: Run) -> AskDialog:
    """Returns "leave", "stop", or something else for neither."""
    text = (
        f"{run.label} goes on without this screen if you let it; `llmprof attach` shows it again."
    )
    answers = (
        Answer("leave", "l", "Leave it running", "good"),
        Answer("stop", "s", "Stop the run", "bad"),
        Answer("cancel", "escape", "Cancel"),
    )
    return AskDialog("A run is going", text, answers)
