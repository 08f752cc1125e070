"""What every view is made of: numbers, glyphs, rows, cells."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.color import Color, ColorSystem
from rich.style import Style
from textual.color import Color as TextualColor
from textual.theme import Theme

from llmprof.tui.chart.scale import scale_for
from llmprof.tui.kit import format as fmt
from llmprof.tui.kit.canvas import changed_span, heading, row_length, whole_words
from llmprof.tui.kit.colors import DARK_THEME, LIGHT_THEME, few_colors, theme_variables
from llmprof.tui.kit.look import ASCII, UNICODE, choose_look
from llmprof.tui.kit.roles import Palette
from llmprof.tui.kit.table_cells import TableCell

# Numbers


def test_intervals_show_two_digits_of_the_uncertainty() -> None:
    assert fmt.mean_interval(156.2134, 0.834) == "156.21 ± 0.83"
    assert fmt.mean_interval(156.2134, 6.7) == "156.2 ± 6.7"
    assert fmt.mean_interval(156.2134, None) == "156.2"
    assert fmt.mean_interval(2264.3, 2009.1) == "2,264 ± 2,009"
    assert fmt.interval_text(2264.3, 2494.7) == "± 2,495"
    assert scale_for("ms", 8000.0).tick(2500.0) == "2,500"
    assert fmt.mean_interval(None, None) == "–"
    assert fmt.mean_interval(2.0, 0.0) == "2.000 ± 0.000"


@pytest.mark.parametrize("bad", [math.nan, math.inf, None])
def test_unknown_numbers_are_dashes(bad: float | None) -> None:
    assert {
        fmt.number_text(bad),
        fmt.memory_text(bad),
        fmt.milliseconds_text(bad),
        fmt.clock_text(bad),
    } == {"–"}
    assert fmt.percent_text(None) == "–"
    assert fmt.count_text(None) == "–"


def test_numbers_read_well() -> None:
    assert fmt.memory_text(5 * 2**30) == "5.00 GiB"
    assert fmt.memory_text(3 * 2**20) == "3 MiB"
    assert fmt.count_text(128_625_408) == "129 M"
    assert fmt.count_text(22_696_448) == "22.7 M"
    assert [fmt.clock_text(s) for s in (7.6, 125, 3725, 90_061)] == [
        "0:08",
        "2:05",
        "1:02:05",
        "1 d 1:01:01",
    ]


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=30), st.integers(1, 12))
def test_sparkline_never_fails_and_fits(values: list[float], width: int) -> None:
    line = fmt.sparkline(values, width, UNICODE.spark)
    assert len(line) <= width
    assert set(line) <= {*UNICODE.spark, " "}
    known = [math.isfinite(value) for value in values[-width:]]
    assert [char != " " for char in line] == (known if any(known) else [])


def test_sparkline_spans_more_than_the_largest_number() -> None:
    first, last = UNICODE.spark[0], UNICODE.spark[-1]
    assert fmt.sparkline([-9.9e291, 1.79e308], 8, UNICODE.spark) == first + last
    assert fmt.sparkline([-1.79e308, 1.79e308], 8, UNICODE.spark) == first + last


def test_sparkline_shows_a_rise() -> None:
    assert fmt.sparkline([1, 2, 3, 4, 5, 6, 7, 8], 8, UNICODE.spark) == UNICODE.spark


def test_steady_values_make_a_flat_sparkline() -> None:
    assert len(set(fmt.sparkline([100.0, 100.1, 99.9], 8, UNICODE.spark))) == 1


# Look


def test_ascii_text_is_ascii() -> None:
    assert ASCII.text("5 ± 1 · µs – naïve 模型").isascii()
    assert ASCII.text("5 ± 1") == "5 +- 1"
    assert UNICODE.text("5 ± 1") == "5 ± 1"


@pytest.mark.parametrize(
    ("variables", "plain"),
    [
        ({"LANG": "C.UTF-8"}, False),
        ({"LANG": "en_US.utf8"}, False),
        ({"LANG": "C"}, True),
        ({}, True),
        ({"LANG": "C.UTF-8", "LC_ALL": "POSIX"}, True),
        ({"LANG": "de_DE.ISO-8859-1@euro"}, True),
    ],
)
def test_locale_decides_between_unicode_and_ascii(
    variables: dict[str, str], plain: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("LC_ALL", "LC_CTYPE", "LANG"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert choose_look().ascii is plain
    assert choose_look(ascii_only=not plain).ascii is not plain


# Rows


def test_changed_span_is_as_narrow_as_the_change() -> None:
    old = [("abc", "text"), ("def", "muted")]
    assert changed_span(old, [("abXdef", "text")], 10) == (2, 6)
    assert changed_span(old, [("abc", "text"), ("deX", "muted")], 10) == (5, 6)
    assert changed_span(old, [*old, ("!", "text")], 10) == (6, 7)
    assert changed_span([("模型", "text")], [("模x", "text")], 10) == (0, 4)


@pytest.mark.parametrize("width", [1, 5, 12, 40, 120])
def test_headings_fit(width: int) -> None:
    row = heading(UNICODE, width, "Steps", "ms", [("r", "key")])
    assert row_length(row) <= max(width, len("Steps ms"))


def test_a_cell_without_room_says_it_in_fewer_words() -> None:
    cell = TableCell("unstable: steps became 9 % longer", short="unstable")
    assert cell.shown(40) == cell.text
    assert cell.shown(11) == "unstable"
    assert TableCell("a long word alone").shown(5) == "a long word alone"


def test_a_row_is_cut_between_words() -> None:
    row = [("energy ", "muted"), ("23.21 kJ", "text")]
    assert whole_words(row, 20) == row
    for width in range(8, 15):
        shown = "".join(text for text, _ in whole_words(row, width))
        assert shown.split() in (["energy"], ["energy", "23.21"])
        assert len(shown) <= width
    assert whole_words([("abcdefgh", "")], 5) == [("abcde", "")]  # one word alone


def test_a_heading_drops_words_of_its_note_before_it_cuts_a_figure() -> None:
    text = "of a profiled step, 4.96 ms, plain 8.31 ms"
    for width in range(20, 70):
        row = heading(UNICODE, width, "Kernels", text, [("right", "muted")])
        said = "".join(part for part, _ in row)
        for figure in ("4.96", "8.31"):
            assert figure not in said or f"{figure} ms" in said
        assert "4.9" not in said or "4.96 ms" in said


@pytest.mark.parametrize("dark", [True, False])
def test_sixteen_colours_are_enough_for_phases_and_areas(dark: bool) -> None:
    few = few_colors(dark)
    shown = {
        name: Color.parse(value).downgrade(ColorSystem.STANDARD).number
        for name, value in few.items()
    }
    for family, count in (("phase-", 5), ("memory-", 8)):
        numbers = [number for name, number in shown.items() if name.startswith(family)]
        assert len(numbers) == len(set(numbers)) == count
    assert (
        shown["cursor"]
        != Color.parse("#000000" if dark else "#ffffff").downgrade(ColorSystem.STANDARD).number
    )
    text = {name for name in few if name.startswith("text-")} | {"foreground", "pale"}
    assert few.keys() <= theme_variables(dark).keys() | text | {"accent"}
    on_ground = {0, 8} if dark else {3, 7, *range(9, 16)}  # and what is hardly told from it
    areas = {"rule", "shade", "cursor", *(name for name in few if name.startswith("memory-"))}
    written = {number for name, number in shown.items() if name not in areas}
    assert not written & on_ground


@pytest.mark.parametrize("dark", [True, False])
def test_in_sixteen_colours_what_stands_back_is_read_and_a_cursor_s_row_too(dark: bool) -> None:
    theme = DARK_THEME if dark else LIGHT_THEME
    variables = {**theme.to_color_system().generate(), **theme_variables(dark), **few_colors(dark)}
    palette = Palette(variables, no_color=False)
    ground = TextualColor.parse("#000000" if dark else "#ffffff")

    def shown(role: str) -> tuple[int | None, int | None]:
        style = palette.style(role, Style(), ground)
        return tuple(
            None if color is None else color.downgrade(ColorSystem.STANDARD).number
            for color in (style.color, style.bgcolor)
        )  # type: ignore[return-value]

    assert shown("muted")[0] == (7 if dark else 8)
    assert shown("text")[0] == (15 if dark else 0)
    assert {shown(f"{role}+cursor")[0] for role in ("muted", "optimizer", "warn", "title")} == {
        15 if dark else 0
    }


def luminance(color: TextualColor) -> float:
    """As WCAG has it, from 0 to 1."""
    parts = [value / 255 for value in color.rgb]
    linear = [x / 12.92 if x <= 0.03928 else ((x + 0.055) / 1.055) ** 2.4 for x in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: TextualColor, other: TextualColor) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", [DARK_THEME, LIGHT_THEME], ids=["dark", "light"])
def test_words_and_ticks_are_read_in_both_themes(theme: Theme) -> None:
    variables = {**theme_variables(theme.dark), **theme.to_color_system().generate(),
                 **theme.variables}  # fmt: skip
    palette = Palette(variables, no_color=False)
    grounds = [TextualColor.parse(variables[name]) for name in ("background", "cursor")]

    def read(role: str, ground: TextualColor) -> float:
        color = palette.style(role, Style(), grounds[0]).color
        assert color is not None
        return contrast(TextualColor.from_rich_color(color), ground)

    for role, least, least_on_cursor in (
        ("text", 7.0, 7.0), ("muted", 5.0, 3.9), ("good", 4.5, 4.5), ("warn", 4.5, 4.5),
        ("bad", 4.5, 4.5), ("key", 4.5, 4.5), ("backward", 4.4, 3.4), ("optimizer", 4.4, 3.4),
        ("axis", 3.3, 0.0), ("total", 5.0, 0.0),
    ):  # fmt: skip
        for ground, wanted in zip(grounds, (least, least_on_cursor), strict=True):
            assert read(role, ground) >= wanted, (role, ground)
