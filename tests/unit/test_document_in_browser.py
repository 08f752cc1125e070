"""Documents in a headless Chromium: pages of paper, and widths of windows. Skipped without one."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from llmprof.core.document.html import write_html
from llmprof.core.document.sections import Document
from tests.unit.test_document import FIXTURES, course, whole

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "chrome")
BROWSER = next(filter(None, map(shutil.which, NAMES)), None)
MOST_PAGES = 4  # of A4 before the appendix
PAGE = re.compile(rb"/Type\s*/Page\b")
MEASURE = (
    "<script>document.title=JSON.stringify("
    "[document.documentElement.scrollWidth,window.innerWidth,"
    "[...document.querySelectorAll('figure svg')].every(e=>{const r=e.getBoundingClientRect();"
    "return r.left>=0&&r.right<=window.innerWidth})])"
    "</script>"
)

pytestmark = [
    pytest.mark.skipif(BROWSER is None, reason="no headless Chromium is installed"),
    pytest.mark.timeout(300),
]


def browse(page: Path, *options: str) -> str:
    assert BROWSER is not None
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", *options, page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


DOCUMENTS: dict[str, Callable[[], Document]] = {
    "course": course,
    "questions": lambda: course(questions=True),
    "switches": lambda: whole(FIXTURES / "switches-h200.llmprof"),
    "checkpointing": lambda: whole(FIXTURES / "checkpointing-h200.llmprof"),
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_document_is_four_pages_before_its_appendix(tmp_path: Path, name: str) -> None:
    page, printed = tmp_path / "d.html", tmp_path / "d.pdf"
    page.write_text(write_html(replace(DOCUMENTS[name](), appendix=())), "utf-8")
    browse(page, f"--print-to-pdf={printed}", "--no-pdf-header-footer")
    assert 1 <= len(PAGE.findall(printed.read_bytes())) <= MOST_PAGES


@pytest.mark.parametrize("width", [390, 1400])
@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_page_is_no_wider_than_its_window(tmp_path: Path, name: str, width: int) -> None:
    page = tmp_path / "d.html"
    page.write_text(write_html(DOCUMENTS[name]()).replace("</body>", f"{MEASURE}</body>"), "utf-8")
    dom = browse(page, f"--window-size={width},900", "--dump-dom")
    found = re.search(r"<title>\[(\d+),(\d+),(true|false)\]</title>", dom)
    assert found is not None, dom[:200]
    assert int(found[1]) <= int(found[2])
    assert found[3] == "true"  # figures shrink to the window
