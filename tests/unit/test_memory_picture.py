"""The SVG of a timeline: well-formed, to scale, safe."""

from __future__ import annotations

import random
import xml.etree.ElementTree as ET

import pytest
from msgspec.structs import replace

from llmprof.core.document.figures.timeline import memory_timeline
from llmprof.core.memory.kept_timeline import Points
from llmprof.core.memory.picture import BOTTOM, HEIGHT, LEFT, RIGHT, WIDTH, draw_picture
from llmprof.core.predict.byte_levels import CATEGORIES

SVG = "{http://www.w3.org/2000/svg}"


def points(peak: int = 3 << 20) -> Points:
    levels = [[0, 0, 0] for _ in CATEGORIES]
    levels[0] = [1 << 20] * 3
    levels[3] = [0, peak - (1 << 20), 0]
    at_peak = [0] * len(CATEGORIES)
    at_peak[0], at_peak[3] = 1 << 20, peak - (1 << 20)
    return Points(
        t_us=[0, 500, 1000],
        levels=levels,
        phases=[(0, "forward", 0, 600), (0, "back\x1b<b>", 600, 1000)],
        peak=peak,
        peak_t_us=500,
        at_peak=at_peak,
    )


def test_document_is_well_formed_and_within_its_frame() -> None:
    root = ET.fromstring(draw_picture(points(), "a <b> & \x1b[31m"))
    polygons = root.findall(f"{SVG}polygon")
    assert [p[0].text for p in polygons] == ["activations", "parameters"]
    for polygon in polygons:
        for pair in polygon.attrib["points"].split():
            x, y = map(float, pair.split(","))
            assert 0 <= x <= WIDTH
            assert 0 <= y <= HEIGHT


@pytest.mark.parametrize("on_card", [True, False])
def test_a_step_of_a_cpu_is_not_said_to_be_shorter_than_on_the_card(on_card: bool) -> None:
    figure = memory_timeline(points(), "small", on_card=on_card)
    assert figure is not None
    assert figure.caption.startswith("Requested memory over recorded steps, the peak marked: small")
    assert ("on the card" in figure.caption) is on_card


def test_areas_are_to_scale() -> None:
    root = ET.fromstring(draw_picture(points(), "t"))
    upper, lower = root.findall(f"{SVG}polygon")

    def tops(polygon: ET.Element) -> list[float]:
        pairs = polygon.attrib["points"].split()
        return [float(pair.split(",")[1]) for pair in pairs[:-2]]

    bottom = float(lower.attrib["points"].split()[-1].split(",")[1])
    one, three = bottom - tops(lower)[1], bottom - tops(upper)[1]
    assert abs(three / one - 3) < 0.02


def test_names_the_peak_phases_and_parts_with_units() -> None:
    text = draw_picture(points(), "medium")
    for expected in ("peak 3.00 MiB", "forward", "parameters 1 MiB", "activations 2 MiB"):
        assert expected in text
    assert "\x1b" not in text
    assert "temporaries" not in text
    assert "2.00 GiB" in draw_picture(points(3 << 30), "large") or "3.00 GiB" in draw_picture(
        points(3 << 30), "l"
    )


def test_the_legend_lists_every_band_that_is_drawn() -> None:
    gradients = CATEGORIES.index("gradients")
    levels = [list(column) for column in points().levels]
    levels[gradients] = [0, 0, 1 << 20]  # none at the peak
    text = draw_picture(replace(points(), levels=levels), "t")
    root = ET.fromstring(text)
    drawn = {polygon[0].text for polygon in root.findall(f"{SVG}polygon")}
    named = {(each.text or "").rsplit(" ", 2)[0] for each in root.findall(f"{SVG}text")}
    assert "gradients" in drawn
    assert drawn <= named
    assert "gradients 0 MiB" in text


def test_a_picture_of_a_long_recording_is_small_and_keeps_its_peak() -> None:
    count = 40_000
    steps = random.Random(1)
    levels = [[steps.randrange(1 << 28) for _ in range(count)] for _ in CATEGORIES]
    totals = [sum(column) for column in zip(*levels, strict=True)]
    peak = max(totals)
    at = totals.index(peak)
    made = Points(
        t_us=list(range(count)),
        levels=levels,
        phases=[(0, "forward", 0, count)],
        peak=peak,
        peak_t_us=at,
        at_peak=[column[at] for column in levels],
    )
    text = draw_picture(made, "t")
    assert len(text.encode()) < 200_000
    (top, *_) = ET.fromstring(text).findall(f"{SVG}polygon")
    ys = [float(pair.split(",")[1]) for pair in top.attrib["points"].split()]
    circle = ET.fromstring(text).find(f"{SVG}circle")
    assert circle is not None
    assert min(ys) == pytest.approx(float(circle.attrib["cy"]), abs=0.1)


@pytest.mark.parametrize("end_us", [1, 13, 59_400, 100_000, 101_000, 12_345_678])
def test_times_on_the_axis_are_round_and_lie_under_their_marks(end_us: int) -> None:
    spread = replace(points(), t_us=[0, end_us // 2, end_us], phases=[], peak_t_us=0)
    root = ET.fromstring(draw_picture(spread, "t"))
    under = HEIGHT - BOTTOM + 16
    labels = [each for each in root.findall(f"{SVG}text") if float(each.attrib["y"]) == under]
    times = [float((each.text or "").replace(",", "")) for each in labels]
    assert 4 <= len(times) <= 9
    step = times[1]
    assert f"{step:e}"[0] in "125"
    assert times == pytest.approx([index * step for index in range(len(times))])
    assert times[-1] <= end_us / 1000 < times[-1] + step
    for each, time_ms in zip(labels, times, strict=True):
        wanted = LEFT + (WIDTH - LEFT - RIGHT) * time_ms * 1000 / end_us
        assert float(each.attrib["x"]) == pytest.approx(wanted, abs=0.06)
