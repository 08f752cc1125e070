"""A run's own export begins with what may be said of it; its tables and logs follow."""

from __future__ import annotations

from pathlib import Path

from llmprof.core.document.findings import findings, why_no_change
from llmprof.core.document.markdown import sentence_text
from llmprof.core.document.next_steps import outlook
from llmprof.core.document.quotes import Sentence, plain
from llmprof.core.document.sources import sources_of
from llmprof.core.document.tables import Tables, tables_of
from llmprof.core.report.markdown_table import wrapped
from llmprof.core.state.view import RunView


def findings_text(view: RunView, path: Path | None = None) -> str:
    """Findings, verdict and what to try as a section of Markdown; "" for a run without figures."""
    if not any(state.done for state in view.cases) or view.all_failed:
        return ""
    tables = tables_of(sources_of([(view, path)]))
    nothing = why_no_change(tables)
    lines: list[Sentence] = [finding.text for finding in findings(tables)]
    if nothing:
        lines.append((nothing,))
    return "## Findings\n\n" + "\n".join(
        wrapped(f"- {sentence_text(line)}", "  ") for line in (*lines, *_outlook(view, tables))
    )


def outlook_lines(view: RunView) -> tuple[str, ...]:
    """The verdict on a run and what to try next, a line each; empty where it trained nothing."""
    trained = any(state.done and state.case.mode == "train" for state in view.cases)
    if not trained or view.all_failed:
        return ()
    return tuple(map(plain, _outlook(view, tables_of(sources_of([(view, None)])))))


def _outlook(view: RunView, tables: Tables) -> tuple[Sentence, ...]:
    verdict, *steps = outlook(tables).lines
    trained = any(state.case.mode == "train" for state in view.cases)
    return (verdict, *steps) if trained else tuple(steps)
