"""The Monitor view over recorded and made-up machines."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from llmprof.core import events as ev
from llmprof.core.monitor.playback import Playback
from llmprof.core.monitor.recordings import Recording
from llmprof.core.store.journal import JournalWriter
from llmprof.core.store.run import RunStore
from llmprof.tui.app import LlmprofApp
from llmprof.tui.kit.look import ASCII
from llmprof.tui.kit.table import RowTable
from llmprof.tui.monitor.card_figures import CardFigures, figures
from llmprof.tui.monitor.card_panel import ActivityChart, CardChart, Window
from llmprof.tui.monitor.host_panel import HostLine
from llmprof.tui.monitor.view import MonitorView
from llmprof.tui.session.monitoring import Monitoring
from llmprof.tui.views import VIEWS
from tests.builders.recorded_run import events as recorded_events
from tests.tui.apps import make_app
from tests.tui.frames import contains, look_again, settle, text_of
from tests.tui.machines import GIB, RECORDING, Machine, card, recorded, sample, shifted

KEY = next(tab.key for tab in VIEWS if tab.view == "monitor")
SIZES = ((80, 24), (120, 30), (200, 50))
sizes = pytest.mark.parametrize("size", SIZES, ids=lambda s: f"{s[0]}x{s[1]}")


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLMPROF_HOME", str(tmp_path / "home"))


def opened(tmp_path: Path, machine: Machine, **options: Any) -> LlmprofApp:
    options = {"view": "monitor", **options}
    return make_app(tmp_path, monitoring=machine.monitoring, **options)[0]


def view_of(app: LlmprofApp) -> MonitorView:
    view = app.base_view
    assert isinstance(view, MonitorView)
    return view


async def shown(pilot: Pilot[Any], app: LlmprofApp, text: str) -> None:
    await settle(pilot, lambda: contains(app, text))


@sizes
async def test_a_recorded_card_fills_the_view(tmp_path: Path, size: tuple[int, int]) -> None:
    machine = Machine(recorded(39))
    app = opened(tmp_path, machine)
    async with app.run_test(size=size) as pilot:
        await shown(
            pilot, app, "GPU 0 NVIDIA H100 80GB HBM3" if size[0] > 80 else "Figures H100 80GB"
        )
        await settle(pilot, lambda: isinstance(app.focused, RowTable))
        for text in ("util", "power", "memory"):  # each curve has its name, whatever the width
            assert any(f" {text}" in line for line in text_of(app).splitlines()[2:13]), text
        await shown(pilot, app, "534 / 700 W")
        seen = ("99 %", "1980 / 1980 MHz", "python other.py", "Activity", "CPU")
        for text in seen if size[0] == 80 else (*seen, "reading"):
            assert contains(app, text), text
        panel = app.screen.query_one(CardFigures).region
        lines = text_of(app).splitlines()[panel.y : panel.bottom]
        said = " ".join(line[panel.x : panel.right].strip() for line in lines)
        assert "fan: this card does not report it" in said  # whole, in one line or two
        assert any("\u2800" < char <= "\u28ff" for char in text_of(app))
        assert machine.activity == [True]
    assert machine.closed


async def test_axis_and_names_say_percent_and_the_newest_figure(tmp_path: Path) -> None:
    app = opened(tmp_path, Machine(recorded(39)))
    async with app.run_test(size=(120, 30)) as pilot:
        await shown(pilot, app, "534 / 700 W")
        for text in ("100 % ┤", "0 % ┤", "util 99 %", "power 76 %", "memory 2 %", "tensor 0 %"):
            assert contains(app, text), text


async def test_processes_say_what_they_take_of_the_host(tmp_path: Path) -> None:
    people = (
        ev.CardProcess(pid=9, memory_bytes=GIB, cpu_percent=312.5, rss_bytes=5 * GIB,
                       running_s=12_240.0),
        ev.CardProcess(pid=7, memory_bytes=GIB),
    )  # fmt: skip
    app = opened(tmp_path, Machine([sample(card(0, processes=people), t=1)]))
    async with app.run_test(size=(140, 30)) as pilot:
        await shown(pilot, app, "Host memory")
        (row,) = [line for line in text_of(app).splitlines() if re.search(r"\b9\b.*3:24:00", line)]
        assert re.search(r" 31[23] .* 5\.0 GiB .* 3:24:00 ", row)
        (other,) = [line for line in text_of(app).splitlines() if re.match(r"\s+0\s+7 ", line)]
        assert other.count("–") >= 4


async def test_without_a_card_it_says_what_is_missing_and_shows_the_host(tmp_path: Path) -> None:
    machine = Machine([sample(reason="NVML is missing: [/] get the driver", t=1)])
    app = opened(tmp_path, machine)
    async with app.run_test(size=(80, 24)) as pilot:
        await shown(pilot, app, "NVML is missing: [/] get the driver")
        assert contains(app, "CPU 12 %")
        assert contains(app, "4.0 GiB of 16.0 GiB")
        assert not contains(app, "Processes")


async def test_a_card_that_appears_later_takes_the_place_of_the_reason(tmp_path: Path) -> None:
    machine = Machine([sample(reason="NVML is starting, 0 s so far", t=1)])
    app = opened(tmp_path, machine)
    async with app.run_test(size=(80, 24)) as pilot:
        await shown(pilot, app, "NVML is starting")
        machine.more(sample(card(0), t=2))
        await shown(pilot, app, "no process holds memory on a card")
        assert not contains(app, "NVML is starting")
        await settle(pilot, lambda: isinstance(app.focused, RowTable))


async def test_a_metric_that_is_unknown_is_never_zero(tmp_path: Path) -> None:
    metrics = {"utilization": ev.Metric(None, "shared under MIG"), "power": ev.Metric(42.0)}
    app = opened(tmp_path, Machine([sample(card(0, metrics=metrics), t=1)]))
    async with app.run_test(size=(120, 30)) as pilot:
        await shown(pilot, app, "utilization: shared under MIG")
        lines = [line for line in text_of(app).splitlines() if "utilisation" in line]
        assert lines
        assert lines[0].rstrip().endswith("n/a")


async def test_several_cards_are_listed_and_one_is_large(tmp_path: Path) -> None:
    app = opened(tmp_path, Machine(shifted(recorded(20), 1)))
    async with app.run_test(size=(120, 30)) as pilot:
        await shown(pilot, app, "Cards")
        view = view_of(app)
        figures_panel = view.query_one(CardFigures)
        await settle(pilot, lambda: figures_panel._state is not None)
        assert [row.key for row in view.query_one("#cards", RowTable).rows] == ["0", "1"]
        await pilot.press("right_square_bracket")
        assert view.index == 1
        assert figures_panel._state is not None
        assert figures_panel._state.card.index == 1
        await pilot.press("left_square_bracket")
        assert view.index == 0


async def test_the_grid_shows_every_card_and_goes_away_again(tmp_path: Path) -> None:
    app = opened(tmp_path, Machine([sample(*(card(at) for at in range(8)), t=1)]))
    async with app.run_test(size=(80, 24)) as pilot:
        await shown(pilot, app, "Cards")
        await pilot.press("g")
        await shown(pilot, app, "GPU 7")
        assert all(contains(app, f"GPU {at} NVIDIA H100") for at in range(8))
        await pilot.press("g")
        await shown(pilot, app, "Figures")
        assert not contains(app, "GPU 7 ")


async def test_cards_that_do_not_fit_the_grid_are_counted(tmp_path: Path) -> None:
    app = opened(tmp_path, Machine([sample(*(card(at) for at in range(16)), t=1)]))
    async with app.run_test(size=(80, 24)) as pilot:
        await shown(pilot, app, "Cards")
        await pilot.press("g")
        await shown(pilot, app, "more: g shows one at a time")
        seen = sum(contains(app, f"GPU {at} NVIDIA H100") for at in range(16))
        assert 0 < seen < 16
        assert contains(app, f"and {16 - seen} more: g")


async def test_names_of_the_grid_are_never_cut_within_a_word(tmp_path: Path) -> None:
    hot = ("power cap",)
    cards = [card(at, "NVIDIA H100 80GB HBM3", throttle=hot) for at in range(6)]
    app = opened(tmp_path, Machine([sample(*cards, t=1)]))
    async with app.run_test(size=(120, 30)) as pilot:
        await shown(pilot, app, "Cards")
        await pilot.press("g")
        await shown(pilot, app, "GPU 5 H100")
        words = {word for line in text_of(app).splitlines() for word in line.split()}
        assert not words & {"HB", "HBM", "80G", "80", "NVIDI"}


@pytest.mark.parametrize(("count", "both"), [(1, True), (2, True), (8, False)])
async def test_a_card_at_large_keeps_one_whole_chart_rather_than_two_flat_ones(
    tmp_path: Path, count: int, both: bool
) -> None:
    app = opened(tmp_path, Machine([sample(*(card(at) for at in range(count)), t=1)]))
    async with app.run_test(size=(120, 30)) as pilot:
        await shown(pilot, app, "Figures")
        await settle(pilot, lambda: app.screen.query_one(ActivityChart).display is both)
        assert app.screen.query_one(CardChart).size.height >= 6


async def test_one_card_needs_no_grid(tmp_path: Path) -> None:
    app = opened(tmp_path, Machine([sample(card(0), t=1)]))
    async with app.run_test(size=(80, 24)) as pilot:
        await shown(pilot, app, "Figures")
        assert not contains(app, "Grid")
        await pilot.press("g")
        assert not view_of(app).has_class("-grid")


async def test_a_lost_card_stays_and_says_so(tmp_path: Path) -> None:
    lost = {"power": ev.Metric(None, "the card fell off the bus")}
    machine = Machine([sample(card(0), card(1), t=1)])
    app = opened(tmp_path, machine)
    async with app.run_test(size=(120, 30)) as pilot:
        await shown(pilot, app, "Cards")
        machine.more(sample(card(0, state="lost", metrics=lost), card(1), t=2))
        await shown(pilot, app, "LOST")
        assert contains(app, "n/a: the card fell off the bus")


async def test_a_stretch_in_which_a_card_was_lost_is_a_gap(tmp_path: Path) -> None:
    known = {"power": ev.Metric(350.0), "power_limit": ev.Metric(700.0)}
    gone = {"power": ev.Metric(None, "the card fell off the bus")}
    samples = [
        sample(card(0, metrics=gone, state="lost") if 40 <= second < 60 else
               card(0, metrics=known), t=second * 10**9)
        for second in range(31, 90)
    ]  # fmt: skip
    app = opened(tmp_path, Machine(samples))
    async with app.run_test(size=(120, 30)) as pilot:
        await shown(pilot, app, "350 / 700 W")
        curve = max(
            (line[5:76] for line in text_of(app).splitlines()[2:16]),
            key=lambda line: sum("\u2800" < char <= "\u28ff" for char in line),
        )
        holes = [len(hole) for hole in re.findall(" +", curve.strip())]
        assert 15 <= max(holes) <= 35  # 20 of 60 s


async def test_processes_are_sorted_and_filtered(tmp_path: Path) -> None:
    people = (
        ev.CardProcess(pid=9, user="ada", command="train.py", memory_bytes=GIB, ours=True),
        ev.CardProcess(pid=7, user="eve", command="[bold]mine", memory_bytes=3 * GIB),
        ev.CardProcess(pid=5, local=False),
        ev.CardProcess(pid=None, memory_bytes=2 * GIB),
    )
    app = opened(tmp_path, Machine([sample(card(0, processes=people), t=1)]))
    async with app.run_test(size=(120, 30)) as pilot:
        await shown(pilot, app, "[bold]mine")
        assert contains(app, "host 5")
        assert contains(app, "not in this container")
        table = view_of(app).query_one("#processes", RowTable)
        for _ in range(5):
            await pilot.press("o")
        assert table.shown_keys == ["0/9", "0/unknown 3", "0/7", "0/5"]  # unknown size last
        await pilot.press("O")
        assert table.shown_keys == ["0/7", "0/unknown 3", "0/9", "0/5"]
        await pilot.press("slash", *"eve")
        assert table.shown_keys == ["0/7"]
        assert view_of(app).query_one("#process-filter", Input).has_focus
        await pilot.press("enter")
        assert table.has_focus
        await pilot.press("escape")
        assert len(table.shown_keys) == 4


async def test_pause_holds_the_picture_and_sampling_goes_on(tmp_path: Path) -> None:
    machine = Machine([sample(card(0), t=1)])
    app = opened(tmp_path, machine)
    async with app.run_test(size=(80, 24)) as pilot:
        await shown(pilot, app, "100 / 700 W")
        await pilot.press("space")
        await shown(pilot, app, "paused")
        hot = ev.CardSample(index=0, metrics={"power": ev.Metric(555.0)})
        machine.more(sample(hot, t=2))
        await settle(pilot)
        await settle(pilot)
        assert contains(app, "100 / 700 W")
        await pilot.press("space")
        await shown(pilot, app, "555 / 700 W")
        assert not contains(app, "paused")


async def test_the_time_shown_can_be_changed(tmp_path: Path) -> None:
    app = opened(tmp_path, Machine(recorded(39)))
    async with app.run_test(size=(120, 30)) as pilot:
        await shown(pilot, app, "-1:00")
        assert contains(app, "last 1:00")
        await pilot.press("z")
        await shown(pilot, app, "last 5:00")
        assert not contains(app, "-1:00 ")
        await pilot.press("z", "z", "z")
        await shown(pilot, app, "last 1:00")
        assert contains(app, "-1:00")
        assert not contains(app, "last 5:00")


async def test_counters_are_read_only_while_the_view_is_in_sight(tmp_path: Path) -> None:
    machine = Machine([sample(card(0), t=1)])
    app = opened(tmp_path, machine)
    async with app.run_test(size=(80, 24)) as pilot:
        await shown(pilot, app, "Figures")
        await pilot.press("2")
        await settle(pilot, lambda: machine.activity == [True, False])
        machine.more(sample(card(0, metrics={"power": ev.Metric(321.0)}), t=2))
        await pilot.press(KEY)
        await settle(pilot, lambda: machine.activity == [True, False, True])
        await shown(pilot, app, "321 / 700 W")
        assert machine.activity == [True, False, True]
        assert not contains(app, "100 / 700 W")  # what it was before


async def test_the_sampler_starts_with_the_first_sight_of_the_view(tmp_path: Path) -> None:
    machine = Machine([sample(card(0), t=1)])
    app = opened(tmp_path, machine, view="bench")
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        assert machine.activity == []
        await pilot.press("escape", "2", KEY)
        await shown(pilot, app, "Figures")
    assert machine.closed


async def test_a_sampler_that_fails_is_named(tmp_path: Path) -> None:
    machine = Machine([])
    machine.fails = RuntimeError("out of pipes")
    app = opened(tmp_path, machine)
    async with app.run_test(size=(80, 24)) as pilot:
        await shown(pilot, app, "the monitor failed: out of pipes")
        assert machine.closed
        await pilot.press("2")
        await shown(pilot, app, "no runs yet")
        assert app.return_code is None  # the screen goes on


async def test_it_is_drawn_in_ascii_too(tmp_path: Path) -> None:
    name = "NVIDIA \x1b[31mH100"
    app = opened(tmp_path, Machine([*recorded(20), sample(card(0, name), t=2**60)]), look=ASCII)
    async with app.run_test(size=(120, 30)) as pilot:
        await shown(pilot, app, "NVIDIA [31mH100")
        assert text_of(app).replace("\n", "").isascii()


async def test_nothing_is_sent_when_nothing_comes(tmp_path: Path) -> None:
    app = opened(tmp_path, Machine(recorded(20)))
    async with app.run_test(size=(120, 30)) as pilot:
        await shown(pilot, app, "python train.py")
        await settle(pilot)
        sent: list[str] = []
        assert app._driver is not None
        app._driver.write = sent.append  # type: ignore[method-assign,assignment]
        await look_again(pilot)
        assert sent == []


async def test_a_recording_says_that_it_is_one(tmp_path: Path) -> None:
    playback = Playback(Recording(RECORDING), 1000.0)
    monitoring = Monitoring(recorded=("NVIDIA H100", "2026-11-28"), open=lambda *_: playback)
    app = make_app(tmp_path, monitoring=monitoring, view="monitor")[0]
    async with app.run_test(size=(120, 30)) as pilot:
        await shown(pilot, app, "recording ended, 0:40, 1,000 ×")
        first = text_of(app).splitlines()[0]
        assert first.rstrip().endswith("NVIDIA H100  2026-11-28  recording")
        assert contains(app, "python other.py")
        await pilot.resize_terminal(80, 24)
        await settle(pilot, lambda: text_of(app).splitlines()[0].rstrip().endswith("recording"))


async def test_the_host_line_never_ends_within_a_figure(tmp_path: Path) -> None:
    machine = Machine(recorded(39))
    app = opened(tmp_path, machine)
    async with app.run_test(size=(120, 30)) as pilot:
        await shown(pilot, app, "reading")
        line = app.screen.query_one(HostLine)
        line.show(machine.view(), [("recording, 0:29, 10×  last 1:00  ", "warn")])
        for width in range(60, 126):
            text = "".join(part for part, _ in line.draw(width, 1)[0]).rstrip()
            assert len(text) <= width
            assert re.search(r"(Host|CPU \d+ %|GiB|load \d+\.\d\d|reading [\d.]+ ms)$", text), text


async def test_a_replayed_run_shows_its_own_samples_and_not_this_host(tmp_path: Path) -> None:
    made = RunStore(tmp_path / "runs").create("recorded")
    writer = JournalWriter(made.journal)
    writer.append(ev.Segment(t=0, boot_id="b", wall_ns=1, pid=1, version="0"))
    for event in recorded_events(10.6, 18.3, 77):
        writer.append(event)
    writer.close()
    monitoring = Monitoring(recorded=("NVIDIA H100", "2026-11-28"), of_run=True)
    app = make_app(tmp_path, monitoring=monitoring, watch=made, demo=True)[0]
    async with app.run_test(size=(120, 30)) as pilot:
        await settle(pilot, lambda: contains(app, "77"))
        await pilot.press(KEY)
        await shown(pilot, app, "GPU 0 NVIDIA H100 80GB HBM3")
        assert "recording" in text_of(app).splitlines()[0]
        assert contains(app, "of 125.9 GiB")  # the recorded host's memory
        assert view_of(app)._feed is None
        await pilot.press("space")
        await shown(pilot, app, "paused")


async def test_counters_that_a_recording_lacks_are_not_waited_for(tmp_path: Path) -> None:
    samples = [sample(card(0), t=second * 10**9) for second in range(1, 15)]
    machine = Machine(samples[:1])
    app = opened(tmp_path, machine)
    async with app.run_test(size=(120, 30)) as pilot:
        await shown(pilot, app, "waiting for two readings")
        machine.more(*samples[1:])
        await shown(pilot, app, "the counters were not read")
        assert not contains(app, "waiting for two readings")


def test_a_window_moves_in_steps_and_holds_the_newest_reading() -> None:
    ends = {Window.up_to(t, 60.0).end_ns for t in range(10**12, 10**12 + 10**9, 10**7)}
    assert len(ends) <= 3
    assert all(Window.up_to(t, 60.0).end_ns >= t for t in (1, 10**9, 10**12 + 7))


def test_figures_name_estimates_unified_memory_and_throttling() -> None:
    metrics = {
        "throttle": ev.Metric(0x41),
        "energy": ev.Metric(None, "this card does not report it"),
        "energy_estimated": ev.Metric(1500.0),
        "temperature": ev.Metric(61.0),
        "temperature_slowdown": ev.Metric(89.0),
    }
    made = card(0, metrics=metrics, throttle=("idle", "hardware thermal"), unified=True)
    got = {label: (value, role) for label, value, role in figures(made)}
    assert got["energy, estimated"] == ("1.5 kJ", "text")
    counted = card(0, metrics={"energy": ev.Metric(14_600.0)})
    assert ("energy since driver load", "14.6 kJ", "text") in figures(counted)
    assert got["throttle"] == ("hardware thermal (idle)", "warn")
    assert got["memory, unified"] == ("n/a", "title")
    assert got["temperature"] == ("61 / 89 °C", "text")


async def test_lines_are_told_apart_without_colours_in_a_narrow_window(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    app = opened(tmp_path, Machine(recorded(39)))
    async with app.run_test(size=(80, 24)) as pilot:
        await shown(pilot, app, "Activity")
        for name in ("util", "power", "memory", "SM", "tensor", "DRAM"):
            await settle(pilot, partial(has_figure, app, name))
        assert not contains(app, "● util")


def has_figure(app: LlmprofApp, name: str) -> bool:
    return re.search(rf" {name} \d+ %", text_of(app)) is not None
