"""A comparison of two runs as Markdown, CSV or JSON, from the same decisions."""

from __future__ import annotations

import json
from typing import Any

from llmprof.core.figures.comparison import Comparison, PartChange
from llmprof.core.report.exports import config, summary_values, table_document
from llmprof.core.report.formats import Format
from llmprof.core.report.long_csv import to_cells
from llmprof.core.report.markdown_table import escape, section
from llmprof.core.report.run_comparison import RunComparison
from llmprof.core.report.run_comparison_words import part_name, percent, verdict
from llmprof.core.report.two_runs import TwoRuns, began

SCHEMA = 1


def render(found: RunComparison, fmt: Format) -> str:
    """The comparison in a format."""
    match fmt:
        case "md":
            return to_markdown(found)
        case "csv":
            return to_cells(found.tables)
        case "json":
            return to_json(found)


def to_markdown(found: RunComparison) -> str:
    """The whole comparison, tables that can be pasted into a write-up."""
    title = f"# llmprof: {escape(found.base_name)} and {escape(found.other_name)} compared"
    return "\n\n".join([title, *map(section, found.tables)]) + "\n"


def to_json(found: RunComparison) -> str:
    """The document as indented JSON, never NaN or infinity."""
    return json.dumps(document(found), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def document(found: RunComparison) -> dict[str, Any]:
    """The comparison as JSON data; what is not known is null."""
    runs = found.runs
    changes = ("changes", "differences")
    return {
        "schema": SCHEMA,
        "A": {"name": found.base_name, "run": runs.base.run_id, "began": began(runs.base) or None},
        "B": {
            "name": found.other_name,
            "run": runs.other.run_id,
            "began": began(runs.other) or None,
        },
        "differences": [
            {"what": each.what, "A": each.base, "B": each.other} for each in runs.differences
        ],
        "host_pace": None if runs.paces is None else dict(zip("AB", runs.paces, strict=True)),
        "forced": list(runs.obstacles),
        "findings": list(found.sentences),
        "cases": [_case(each, runs) for each in runs.comparisons],
        "tables": [table_document(table) for table in found.tables if table.key not in changes],
    }


def _case(found: Comparison, runs: TwoRuns) -> dict[str, Any]:
    return {
        "A": config(found.base.case),
        "B": config(found.other.case),
        "differs_on": [
            axis.field for pair in runs.pairs if pair.base is found.base for axis in pair.axes
        ],
        "processes": found.processes,
        "not_judged": found.not_judged or None,
        "parts": [_part(part, found) for part in found.parts],
    }


def _part(part: PartChange, found: Comparison) -> dict[str, Any]:
    time = part.time
    return {
        "part": part_name(part),
        "A": summary_values(part.base),
        "B": summary_values(part.other),
        "change_percent": percent(time.value),
        "low_percent": None if time.low is None or not time.judged else percent(time.low),
        "high_percent": None if time.high is None or not time.judged else percent(time.high),
        "p": time.p if time.judged else None,
        "verdict": verdict(part, found),
        "judged": bool(part.decision) and part.decision != "not judged",
    }
