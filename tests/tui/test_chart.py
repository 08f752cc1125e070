from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmprof.tui.chart.areas import (
    NO_LAYER,
    PARTS,
    Band,
    Layer,
    StackedAreas,
    fill,
    render_areas,
)
from llmprof.tui.chart.cells import ASCII_GLYPHS, UNICODE_GLYPHS, Glyphs, Row
from llmprof.tui.chart.envelope import Envelope, as_columns, bucket
from llmprof.tui.chart.plot import Line, MarkedPoint, Plot, draw_plot, render_plot
from llmprof.tui.chart.raster import BRAILLE, Raster, draw_line, merge, to_row
from llmprof.tui.chart.scale import Scale, StickyLimit, scale_for
from llmprof.tui.chart.ticks import nice_ceiling, round_ticks, time_label, time_step

positive = st.floats(1e-9, 1e12, allow_nan=False, allow_infinity=False)
GIB = 2**30


def text_of(rows: list[Row]) -> list[str]:
    return ["".join(text for text, _ in row) for row in rows]


def role_at(row: Row, column: int) -> str:
    for text, role in row:
        if column < len(text):
            return role
        column -= len(text)
    raise IndexError(column)


def line(
    ys: list[float], role: str = "forward", label: str = "forward", fill: bool = False
) -> Line:
    return Line(role, label, [float(x) for x in range(len(ys))], as_columns(ys), fill)


# Scale


@given(positive)
def test_nice_ceiling_is_round_and_just_above(value: float) -> None:
    nice = nice_ceiling(value)
    assert value <= nice * (1 + 1e-6)
    assert nice <= 2.5 * value * (1 + 1e-6)


@given(st.floats(0, 1e6), st.floats(0.001, 1e6), st.integers(2, 8))
def test_ticks_lie_within_and_are_few(low: float, span: float, most: int) -> None:
    values = round_ticks(low, low + span, most)
    assert len(values) <= most
    assert all(low - 1e-6 * span - 1e-9 <= v <= low + span * (1 + 1e-6) + 1e-9 for v in values)


def test_ticks_are_round() -> None:
    assert round_ticks(0, 300, 4) == [0, 100, 200, 300]
    assert round_ticks(0, 100, 3) == [0, 50, 100]
    assert round_ticks(5, 5, 4) == [5]


def test_limit_grows_at_once_and_shrinks_late() -> None:
    limit = StickyLimit()
    assert limit.update(None) == 1.0
    first = limit.update(100.0)
    assert first == 120.0
    assert limit.update(80.0) == first
    assert limit.update(60.0) == first
    assert limit.update(500.0) == 600.0
    assert limit.update(100.0) == 120.0
    assert StickyLimit(fixed=100.0).update(7.0) == 100.0


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, -3.0, 0.0])
def test_limit_ignores_what_is_no_height(bad: float) -> None:
    limit = StickyLimit()
    limit.update(10.0)
    assert limit.update(bad) == 12.0


def test_scale_chooses_units() -> None:
    assert scale_for("ms", 0.5) == scale_for("ms", 20_000.0) == Scale("ms", 1.0)
    assert scale_for("ms", 300.0) == Scale("ms", 1.0)
    assert scale_for("ms", 200_000.0) == Scale("s", 1000.0)
    assert scale_for("B", 80 * GIB).unit == "GiB"
    assert scale_for("B", 80 * GIB).tick(40 * GIB) == "40"
    assert scale_for("B", 0).unit == "B"
    assert Scale("s", 1000.0).figure(5572.0) == "5.572"
    assert Scale("ms", 1.0).figure(None) == "–"
    assert Scale("ms", 1.0).figure(math.nan) == "–"


def test_time_labels() -> None:
    assert [time_label(s) for s in (0.5, 12, 90, 7500, -15)] == [
        "0:00.5",
        "0:12",
        "1:30",
        "2:05:00",
        "-0:15",
    ]
    assert time_step(60, 6) == 10
    assert time_step(0.4, 4) == 0.1


# Envelope


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=400), st.integers(4, 32))
def test_envelope_is_bounded_and_loses_no_extreme(ys: list[float], capacity: int) -> None:
    envelope = Envelope(capacity)
    envelope.extend([0.37 * n for n in range(len(ys))], ys)
    xs, columns = envelope.points()
    assert len(xs) == len(columns) <= capacity
    assert xs == sorted(xs)
    assert max(c[1] for c in columns if c) == max(ys) == envelope.highest
    assert min(c[0] for c in columns if c) == min(ys)


def test_envelope_keeps_unknown_values_as_gaps() -> None:
    envelope = Envelope()
    envelope.extend([0.0, 1.0, 2.0], [math.nan, math.inf, 3.0])
    assert envelope.count == 3
    assert envelope.points()[1] == [None, None, (3.0, 3.0)]
    envelope.extend([2.5, 3.0], [math.nan, math.nan])
    assert envelope.points()[1][2:] == [(3.0, 3.0), None]
    assert (envelope.last, envelope.highest) == (3.0, 3.0)
    assert Envelope().points() == ([], [])


@given(st.lists(st.tuples(st.floats(0, 100), st.floats(-5, 5)), max_size=200), st.integers(1, 50))
def test_bucket_keeps_the_extremes_in_sight(points: list[tuple[float, float]], count: int) -> None:
    points.sort()
    xs, ys = [x for x, _ in points], [y for _, y in points]
    columns = bucket(xs, as_columns(ys), 20.0, 80.0, count)
    assert len(columns) == count
    seen = [y for x, y in points if 20.0 <= x < 80.0]
    known = [c for c in columns if c is not None]
    assert bool(known) == bool(seen)
    if seen:
        assert max(c[1] for c in known) == max(seen)
        assert min(c[0] for c in known) == min(seen)


def test_bucket_of_no_width_is_empty() -> None:
    assert bucket([1.0], [(1.0, 1.0)], 5.0, 5.0, 3) == [None, None, None]


# Raster


def test_rows_of_values() -> None:
    assert to_row(0, 0, 10, 8) == 7
    assert to_row(10, 0, 10, 8) == 0
    assert to_row(99, 0, 10, 8) == 0
    assert to_row(-5, 0, 10, 8) == 7
    assert 0 <= to_row(3.0, 3.0, 3.0, 8) < 8  # an axis of equal ends


def test_a_slope_is_drawn_without_holes() -> None:
    raster = Raster(8, 4)
    draw_line(raster, [(0.0, 0.0), *[None] * 14, (1.0, 1.0)], (0.0, 1.0))
    columns = [
        any(raster.masks[y][x // 2] & bits for y in range(4))
        for x in range(16)
        for bits in [0x47 if x % 2 == 0 else 0xB8]
    ]
    assert all(columns)


def test_reach_leaves_gaps_open() -> None:
    raster = Raster(4, 1)
    draw_line(raster, [(1.0, 1.0), None, None, None, (1.0, 1.0)], (0.0, 1.0), reach=1)
    assert raster.masks[0][1] == 0


@pytest.mark.parametrize(("unknown", "bridged"), [(False, True), (True, False)])
def test_a_line_breaks_where_its_value_was_unknown(unknown: bool, bridged: bool) -> None:
    xs = [float(x) for x in range(40)]
    middle = math.nan if unknown else 50.0
    ys = [50.0 if x < 15 or x >= 25 else middle for x in xs]
    line = Line("total", "t", xs, as_columns(ys))
    plot = Plot((line,), (0.0, 40.0), (0.0, 100.0), Scale("%", 1.0), gutter=0, time_axis=False)
    rows = render_plot(plot, 41, 4, Glyphs())
    drawn = {at for row in rows for at, char in enumerate("".join(t for t, _ in row)[1:])
             if char not in " \u2800"}  # fmt: skip
    assert set(range(15)) | set(range(25, 40)) <= drawn
    assert (set(range(15, 25)) <= drawn) is bridged
    assert bridged or not drawn & set(range(16, 24))


def test_fill_reaches_the_floor() -> None:
    raster = Raster(1, 2)
    draw_line(raster, [(1.0, 1.0), (1.0, 1.0)], (0.0, 1.0), fill=True)
    assert raster.masks == [[0xFF], [0xFF]]


def test_nothing_is_drawn_outside() -> None:
    raster = Raster(2, 1)
    raster.vertical(-1, 0, 3)
    raster.vertical(99, 0, 3)
    raster.vertical(0, -50, 50)
    assert raster.masks == [[0x47, 0]]


def test_a_cell_shows_one_line_in_its_own_colour() -> None:
    noisy, flat, over = Raster(2, 2), Raster(2, 2), Raster(2, 2)
    for x in range(4):
        noisy.vertical(x, 0, 7)
        flat.vertical(x, 6, 6)
        over.vertical(x, 7, 7)
    alone = merge([noisy, flat], 2, 2)
    assert alone.owners == [[0, 0], [1, 1]]  # the smaller one, though drawn over the other
    assert alone.masks[1] == flat.masks[1]  # and none of the other's dots in its colour
    assert merge([flat, noisy], 2, 2).owners == [[1, 1], [0, 0]]
    assert not alone.hidden
    covered = merge([noisy, flat, over], 2, 2)
    assert covered.owners[1] == [2, 2]
    assert covered.hidden == {1: 2}


def test_the_plot_says_which_line_is_hidden() -> None:
    xs = [float(x) for x in range(20)]
    lines = [
        Line(role, role, xs, as_columns([value] * 20), name=name)
        for role, name, value in (("optimizer", "optimizer", 1.0), ("forward", "forward", 1.05),
                                  ("total", "step", 8.0))
    ]  # fmt: skip
    assert draw_plot(plot(*lines), 40, 6, Glyphs()).unsaid == "optimizer behind forward"
    assert not draw_plot(plot(*lines[1:]), 40, 6, Glyphs()).unsaid


def test_a_line_without_a_label_is_drawn_in_ascii() -> None:
    xs = [float(x) for x in range(20)]
    line = Line("mean", "", xs, as_columns([5.0] * 20), letter="o")
    rows = render_plot(plot(line, time_axis=False), 40, 6, ASCII_GLYPHS)
    assert any("oooo" in text for row in rows for text, _ in row)


# Plot


def plot(*lines: Line, **options: object) -> Plot:
    base = {"x": (0.0, 20.0), "y": (0.0, 10.0), "scale": Scale("ms", 1.0), "gutter": 5}
    return Plot(lines, **{**base, **options})  # type: ignore[arg-type]


@pytest.mark.parametrize("size", [(80, 12), (20, 3), (10, 2), (1, 1), (400, 100), (0, 5), (5, 0)])
@pytest.mark.parametrize("glyphs", [Glyphs(), ASCII_GLYPHS])
def test_rows_have_exactly_the_size(size: tuple[int, int], glyphs: Glyphs) -> None:
    width, height = size
    rows = render_plot(plot(line([1, 5, 9, 2] * 5), label_width=3), width, height, glyphs)
    assert len(rows) == height
    assert all(len(text) == width for text in text_of(rows))


def test_ascii_plot_is_ascii_and_tells_series_apart() -> None:
    rows = render_plot(
        plot(line([2.0] * 20), line([8.0] * 20, "backward", "backward")), 40, 9, ASCII_GLYPHS
    )
    text = "\n".join(text_of(rows))
    assert text.isascii()
    assert "fff" in text
    assert "bbb" in text


def test_axis_carries_ticks_and_times() -> None:
    rows = text_of(render_plot(plot(line([5.0] * 20)), 60, 8, Glyphs()))
    assert any(row.startswith("  10 ┤") for row in rows)
    assert any(row.startswith("   0 ┤") for row in rows)
    assert "0:00" in rows[-1]
    assert "0:10" in rows[-1]


def test_a_shade_without_room_for_its_name_is_explained_and_not_shortened() -> None:
    shaded = plot(
        line([1.0] * 20), shades=((-1.0, 0.5),), shade_label="warm-up", shade_note="warm-up left"
    )
    drawn = draw_plot(shaded, 60, 8, Glyphs())
    assert drawn.unsaid == "warm-up left"
    assert not any("w" in text for text in text_of(drawn.rows))
    roomy = replace(shaded, shades=((-1.0, 8.0),))
    assert not draw_plot(roomy, 60, 8, Glyphs()).unsaid


def test_warm_up_is_shaded_and_named_and_outliers_marked() -> None:
    marks = (MarkedPoint(15.0, 9.0), MarkedPoint(99.0, 1.0))
    rows = render_plot(
        plot(line([1.0] * 20), shades=((-1.0, 8.0),), shade_label="warm-up", marks=marks),
        60, 8, Glyphs(),
    )  # fmt: skip
    texts = text_of(rows)
    assert "warm-up" in texts[0]
    assert role_at(rows[0], texts[0].index("warm-up")) == "shade-label"
    assert role_at(rows[3], 8) == "shade"
    assert role_at(rows[3], 50) == ""
    assert sum(text.count("◆") for text in texts) == 1
    assert any(("◆", "mark") in row for row in rows)


def test_labels_stand_at_the_ends_of_their_lines_without_covering_each_other() -> None:
    lines = [line([value] * 20, role, role) for role, value in
             (("forward", 5.0), ("backward", 5.1), ("optimizer", 5.2))]  # fmt: skip
    texts = text_of(render_plot(plot(*lines, label_width=12), 70, 8, Glyphs()))
    for name in ("forward", "backward", "optimizer"):
        assert sum(name in text for text in texts) == 1


def test_more_labels_than_rows_are_cut() -> None:
    lines = [line([float(n)] * 20, "forward", f"line{n}") for n in range(9)]
    texts = text_of(render_plot(plot(*lines, label_width=8), 60, 4, Glyphs()))
    assert len(texts) == 4


def test_no_points_draw_an_empty_plot() -> None:
    texts = text_of(render_plot(plot(line([])), 40, 6, Glyphs()))
    assert not any(ord(char) > BRAILLE for text in texts for char in text if char not in "│┤└─")
    assert render_plot(plot(line([math.nan, math.inf])), 40, 6, Glyphs())


def test_a_growing_series_changes_only_its_tip() -> None:
    ys = [5 + random.Random(2).random() for _ in range(15)]
    before = text_of(render_plot(plot(line(ys[:14])), 60, 8, Glyphs()))
    after = text_of(render_plot(plot(line(ys)), 60, 8, Glyphs()))
    changed = {
        x for one, other in zip(before, after, strict=True) for x in range(60) if one[x] != other[x]
    }
    assert changed
    assert max(changed) - min(changed) < 8


@pytest.mark.parametrize("most", range(2, 7))
def test_an_axis_always_has_two_numbers(most: int) -> None:
    for low in (0.0, 0.02, 3.5, 200.0):
        for span in (0.004, 0.6, 1.2, 1.6, 3.0, 8.0, 550.0):
            found = round_ticks(low, low + span, most)
            assert 2 <= len(found) <= most
            assert found == sorted(set(found))
            assert low - 1e-9 <= found[0]
            assert found[-1] <= (low + span) * (1 + 1e-9)


# Areas


def test_cells_are_filled_in_eighths_by_the_two_largest_layers() -> None:
    assert fill([0.0, 0.0], 8.0, 2) == [(NO_LAYER, NO_LAYER, PARTS)] * 2
    assert fill([8.0, 0.0], 8.0, 2) == [(0, 0, PARTS)] * 2
    assert fill([2.0, 2.0], 8.0, 2) == [(NO_LAYER, NO_LAYER, PARTS), (0, 1, PARTS // 2)]
    assert fill([3.0], 8.0, 2) == [(NO_LAYER, NO_LAYER, PARTS), (0, NO_LAYER, 6)]
    assert fill([0.001, 0.0], 8.0, 1) == [(0, NO_LAYER, 1)]
    assert fill([3.0, 0.1, 4.0], 8.0, 1)[0][:2] == (0, 2)


def test_areas_are_drawn_to_size() -> None:
    layers = (Layer("text", "cursor", "A"), Layer("muted", "cursor", "B"))
    areas = StackedAreas(
        layers=layers,
        columns=[[1.0, 1.0]] * 20,
        limit=4.0,
        scale=Scale("B", 1.0),
        bands=(Band(0, 12, "forward", "forward"), Band(12, 20, "loss", "loss")),
        labels=((0, "0 ms"), (15, "9 ms")),
        cursor=3,
        peak=3,
    )
    rows = render_areas(areas, 10, UNICODE_GLYPHS)
    assert len(rows) == 10
    assert all(sum(len(text) for text, _ in row) == 28 for row in rows)
    lines = ["".join(text for text, _ in row) for row in rows]
    assert "forward" in lines[0]
    assert lines[0].endswith("  loss  ")
    assert "0 ms" in lines[-1]
    assert sum(UNICODE_GLYPHS.mark in line for line in lines) == 1
    letters = render_areas(replace(areas, letters=True), 10, UNICODE_GLYPHS)
    body = ["".join(text for text, _ in row)[-1] for row in letters[1:-1]]
    assert body == [" "] * 4 + ["B"] * 2 + ["A"] * 2
    assert render_areas(areas, 2, UNICODE_GLYPHS) == []
