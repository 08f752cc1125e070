"""Every report of a recording, and of hostile names, passes a Markdown linter."""

from __future__ import annotations

from pathlib import Path

import pytest
from pymarkdown.api import PyMarkdownApi

from llmprof.core.report.formats import render
from llmprof.core.store.pack import open_view
from tests.unit.test_report_experiments import HOSTILE, hostile, switch_run

ROOT = Path(__file__).parents[2]
RECORDINGS = sorted((ROOT / "tests" / "fixtures").glob("*.llmprof")) + sorted(
    (ROOT / "tui").glob("*.llmprof")
)
LONG_LINES, INLINE_HTML = "md013", "md033"  # a table's row is one line; long tables are folded


def faults(folder: Path) -> list[str]:
    """What the linter says of the Markdown files of a folder, as "FILE:LINE RULE TEXT"."""
    linter = PyMarkdownApi()
    for rule in (LONG_LINES, INLINE_HTML):
        linter.disable_rule_by_identifier(rule)
    found = linter.scan_path(str(folder))
    return [
        f"{Path(each.scan_file).name}:{each.line_number} {each.rule_id} {each.rule_description}"
        for each in found.scan_failures
    ] + [str(each) for each in found.pragma_errors]


def test_reports_pass_a_linter(tmp_path: Path) -> None:
    assert len(RECORDINGS) > 8
    for path in RECORDINGS:
        (tmp_path / f"{path.stem}.md").write_text(render(open_view(path), "md"), "utf-8")
    for number, name in enumerate(HOSTILE):
        text = render(hostile(name, switch_run()), "md")
        (tmp_path / f"hostile-{number}.md").write_text(text, "utf-8")
    assert faults(tmp_path) == []


@pytest.mark.parametrize("text", ["# a\n### b\n", "# a\n\n\n\nb\n", "# a\n\nb"])
def test_the_linter_finds_what_is_wrong(tmp_path: Path, text: str) -> None:
    (tmp_path / "wrong.md").write_text(text, "utf-8")
    assert faults(tmp_path) != []
