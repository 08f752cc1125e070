"""The README's table of keys, made from the bindings.

python scripts/keys.py          # writes it between its marks in README.md
python scripts/keys.py --check  # exit 1 where the README has another one
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from textual.binding import Binding

from llmprof.tui.bindings import APP_BINDINGS
from llmprof.tui.help import by_area
from llmprof.tui.kit.table import RowTable
from llmprof.tui.views import VIEWS

README = Path(__file__).resolve().parent.parent / "README.md"
BEGIN, END = "<!-- keys: made by scripts/keys.py -->", "<!-- end of keys -->"


def places() -> Iterable[tuple[str, list[Binding]]]:
    """Every place and its bindings: what works everywhere, in each view, in every table."""
    yield "everywhere", [each for each in APP_BINDINGS if isinstance(each, Binding)]
    for tab in VIEWS:
        own = vars(tab.load()).get("BINDINGS", [])
        yield tab.label, [each for each in own if isinstance(each, Binding)]
    yield "every table", [each for each in RowTable.BINDINGS if isinstance(each, Binding)]


def table() -> str:
    """One row a place: keys and what they do."""
    rows = []
    for name, bindings in places():
        said = [f"`{keys}` {text}" for area in by_area(bindings).values()
                for keys, text in area.items()]  # fmt: skip
        rows.append(f"| {name} | {'; '.join(said)} |")
    return "\n".join(["| where | keys |", "| --- | --- |", *rows])


def renewed(text: str) -> str:
    """The README with the table of now."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{table()}\n\n{END}{after}"


def main() -> int:
    """Write the table, or say whether it is up to date."""
    text = README.read_text("utf-8")
    if "--check" in sys.argv[1:]:
        return int(renewed(text) != text)
    README.write_text(renewed(text), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
