"""One key has one meaning in all views, and the README's table of keys is that of the bindings."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from textual.binding import Binding

from llmprof.tui.bindings import APP_BINDINGS
from llmprof.tui.kit.checklist import Checklist
from llmprof.tui.views import VIEWS

ROOT = Path(__file__).resolve().parents[2]
SAME = {  # what is said of a key in one view and in another, where the words differ
    frozenset({"Run", "Record", "Profile", "Resume"}),  # start measuring
    frozenset({"Steps", "Classes", "Phases"}),  # the other list, where there is room for one
    frozenset({"Phase", "Next card", "Table", "Value"}),
    frozenset({"Phase before", "Card before", "Table before", "Value before"}),
    frozenset({"Coverage", "Grid"}),  # all at once
    frozenset({"Later", "Cursor"}),
    frozenset({"Earlier", "Cursor"}),
    frozenset({"Whole step", "Whole"}),
    frozenset({"Watch", "Open"}),  # look at the run
    frozenset({"Back", "Clear filter"}),
    frozenset({"Case", "Compare"}),  # where there are cases, and where there are runs
}


def test_a_key_means_the_same_in_every_view() -> None:
    meanings: dict[str, set[str]] = {}
    views = [vars(tab.load()).get("BINDINGS", []) for tab in VIEWS]
    for binding in [each for own in (*views, APP_BINDINGS, Checklist.BINDINGS) for each in own]:
        assert isinstance(binding, Binding)
        for key in binding.key.split(","):
            if key not in ("up", "down", "j", "k", "space", "enter"):  # of what has the focus
                meanings.setdefault(key, set()).add(binding.description)
    for key, said in meanings.items():
        assert len(said) == 1 or any(said <= same for same in SAME), (key, said)


def test_the_views_are_numbered() -> None:
    assert [tab.key for tab in VIEWS] == [str(at + 1) for at in range(len(VIEWS))]


def test_the_readme_has_the_keys_as_they_are() -> None:
    spec = importlib.util.spec_from_file_location("keys", ROOT / "scripts" / "keys.py")
    assert spec is not None
    assert spec.loader is not None
    keys = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(keys)
    text = (ROOT / "README.md").read_text("utf-8")
    assert keys.renewed(text) == text, "run python scripts/keys.py"
