"""Keys of the Compare view."""

from __future__ import annotations

from textual.binding import Binding, BindingType

COMPARE_BINDINGS: list[BindingType] = [
    Binding("left_square_bracket", "table(-1)", "Table before", key_display="[", show=False,
            id="compare.table_before", tooltip="the table before"),
    Binding("right_square_bracket", "table(1)", "Table", key_display="]",
            id="compare.next_table", tooltip="the next table: kernels, memory, what is different"),
    Binding("b", "swap", "Swap", id="compare.swap", tooltip="compare the other way round"),
    Binding("e", "export", "Export", id="compare.export",
            tooltip="write the comparison as Markdown, CSV or JSON"),
    Binding("F", "force", "Force", id="compare.force",
            tooltip="compare though the runs are unlike; the tables say so"),
    Binding("u", "again", "Read again", show=False, id="compare.read_again",
            tooltip="read both runs again, as where one goes on"),
]  # fmt: skip
