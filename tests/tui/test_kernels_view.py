"""The Kernels view over the recorded profile of a real card."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from llmprof.core import events as ev
from llmprof.core.kernels.attribution import Activities
from llmprof.core.kernels.profile import attention_lens, kernel_table, timeline_facts
from llmprof.core.kernels.tables import class_ids
from llmprof.core.kernels.timeline_strip import save_strip
from llmprof.core.spec.experiment import Experiment, Variant
from llmprof.core.store.run import Run, RunStore
from llmprof.tui.app import LlmprofApp
from llmprof.tui.kernels.timeline_strip import DEEPEST, TimelineStrip
from llmprof.tui.kernels.view import NO_PROFILE, KernelsView
from llmprof.tui.kit.look import ASCII
from llmprof.tui.kit.table import RowTable
from llmprof.tui.runs.export import ExportDialog
from tests.builders.journals import Writer, experiment, finished
from tests.builders.kernel_events import PHASES, TINY, Made, recorded
from tests.tui.apps import make_app
from tests.tui.frames import contains, hold, settle, text_of

SIZES = ((80, 24), (120, 30), (200, 50))
sizes = pytest.mark.parametrize("size", SIZES, ids=lambda s: f"{s[0]}x{s[1]}")


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLMPROF_HOME", str(tmp_path / "home"))


def on_the_cpu() -> Activities:
    """Two steps of ops of the CPU, one of which runs in two classes."""
    made = Made()
    for start in (0, 2_000_000):
        edges = [start + at * 100_000 for at in (1, 5, 6, 12, 16, 18)]
        made.step(start, edges, start + 1_900_000, PHASES)
        for at, name in ((1, "aten::matmul"), (6, "aten::mm"), (12, "aten::mul"), (17, "aten::x")):
            made.op(name, start + at * 100_000 + 5_000, 80_000)
        made.op("aten::mm", start + 110_000, 60_000)
    return made.activities(PHASES, "cpu")


def profiled_run(
    root: Path,
    name: str | None = None,
    strip: str | None = None,
    activities: Activities | None = None,
    missing: tuple[str, ...] = (),
) -> Run:
    """A plain case and a profiled one; with `name` its first kernel is called so."""
    variants = (Variant(), Variant(probe="kernels"))
    plan = Experiment(name="kernels", models=(TINY.model,), variants=variants, profile_steps=2)
    run = RunStore(root).create("kernels")
    writer = Writer(run)
    writer.begin(plan)
    plain, profiled = plan.cases()
    writer.case(0, plain, 8.0)
    writer.case(1, profiled, 12.0, finish=False)
    activities = activities or recorded()
    classes = class_ids(activities)
    table = kernel_table(activities, classes, index=1, case=TINY, missing=missing)
    saved = save_strip(activities, classes, run.artifacts, "timeline-1.npz")
    facts = timeline_facts(activities, classes, index=1, strip=saved)
    if name is not None:
        first = msgspec.structs.replace(table.rows[0], name=name, full_name=name, module=name)
        table = msgspec.structs.replace(table, rows=(first, *table.rows[1:]))
    if strip is not None and facts.strip is not None:
        facts = msgspec.structs.replace(
            facts, strip=msgspec.structs.replace(facts.strip, file=strip)
        )
    lens = attention_lens(activities, index=1, case=TINY, layer=2)
    for event in (table, facts, *((lens,) if lens else ()), ev.CaseDone(t=writer.t, case=1)):
        writer.put(event)
    writer.end()
    return run


def opened(root: Path, run: Run, **options: Any) -> LlmprofApp:
    return make_app(root, view="kernels", watch=run, **options)[0]


def view_of(app: LlmprofApp) -> KernelsView:
    view = app.base_view
    assert isinstance(view, KernelsView)
    return view


def table_of(app: LlmprofApp) -> RowTable:
    return app.screen.query_one(RowTable)


def strip_of(app: LlmprofApp) -> TimelineStrip:
    return app.screen.query_one(TimelineStrip)


async def ready(pilot: Pilot[Any], app: LlmprofApp) -> None:
    await settle(pilot, lambda: contains(app, "launches") and len(table_of(app).rows) > 20)


@sizes
async def test_a_recorded_profile_fills_the_view(tmp_path: Path, size: tuple[int, int]) -> None:
    app = opened(tmp_path, profiled_run(tmp_path))
    async with app.run_test(size=size) as pilot:
        await ready(pilot, app)
        for text in ("Kernels", "launch-bound", "gemm", "% busy", "Phase"):
            assert contains(app, text), text
        for text in ("stream 7", "class GEMM", "device", "launches"):
            assert contains(app, text), text
        assert contains(app, "step 30.15 ms under the profiler (mean of 2), plain 8.")
        assert any(block in text_of(app) for block in "▂▃▄▅▆▇█")
        if size[0] >= 100:
            assert contains(app, "Classes")
            assert contains(app, "forward 1.")


async def test_phases_are_tabs(tmp_path: Path) -> None:
    app = opened(tmp_path, profiled_run(tmp_path))
    async with app.run_test(size=(120, 30)) as pilot:
        await ready(pilot, app)
        everything = len(table_of(app).rows)
        seen = 0
        for phase in ("forward", "loss", "backward", "optimizer"):
            await pilot.press("right_square_bracket")
            assert view_of(app).phase == phase
            rows = table_of(app).rows
            assert {row.cells[2].text for row in rows} == {phase}
            totals = [row.cells[6].sort or 0.0 for row in rows]
            assert totals == sorted(totals, reverse=True)
            seen += len(rows)
        assert seen == everything
        await pilot.press("right_square_bracket")
        assert view_of(app).phase == "all"
        await pilot.press("left_square_bracket")
        assert view_of(app).phase == "optimizer"
        await pilot.click("#phase-tabs", offset=(1, 0))
        await settle(pilot, lambda: view_of(app).phase == "all")


@sizes
async def test_rows_of_several_phases_say_theirs(tmp_path: Path, size: tuple[int, int]) -> None:
    app = opened(tmp_path, profiled_run(tmp_path))
    async with app.run_test(size=size) as pilot:
        await ready(pilot, app)
        lines = [line for line in text_of(app).splitlines() if "multi_tensor" in line]
        assert lines
        assert all("optimizer" in line for line in lines)
        await pilot.press("left_square_bracket")  # on a phase's own tab it would be said twice
        await settle(pilot, lambda: view_of(app).phase == "optimizer")
        if size[0] < 100:
            titles = [line for line in text_of(app).splitlines() if "Total ms" in line]
            assert titles
            assert "Phase" not in titles[0]


async def test_classes_have_a_key_where_there_is_room_for_one(tmp_path: Path) -> None:
    app = opened(tmp_path, profiled_run(tmp_path))
    async with app.run_test(size=(80, 24)) as pilot:
        await ready(pilot, app)
        await settle(pilot, lambda: contains(app, "l Classes"))
        assert not contains(app, "of GPU time")
        await pilot.press("l")
        await settle(pilot, lambda: contains(app, "Classes % of GPU time, ms"))
        assert contains(app, "GEMM")
        assert not contains(app, "Total ms")
        await pilot.press("l")
        await settle(pilot, lambda: contains(app, "Total ms"))
        await pilot.resize_terminal(120, 30)
        await settle(pilot, lambda: contains(app, "of GPU time") and contains(app, "Total ms"))
        await settle(pilot, lambda: not contains(app, "l Classes"))


@sizes
async def test_without_a_card_the_launch_lane_says_why_it_is_empty(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    app = opened(tmp_path, profiled_run(tmp_path, activities=on_the_cpu()))
    async with app.run_test(size=size) as pilot:
        await settle(pilot, lambda: contains(app, "none: without a card an op runs where"))
        for text in ("no card: CPU ops by self time", "CPU op", "% ops", "thread 1", "plain 8."):
            assert contains(app, text), text
        for text in ("GPU", "launched by", "device", "stream"):
            assert not contains(app, text), text


async def export_csv(pilot: Pilot[Any], app: LlmprofApp, target: Path) -> ExportDialog:
    """Ask for a CSV in the export dialog."""
    await ready(pilot, app)
    await pilot.press("e")
    dialog = app.screen
    assert isinstance(dialog, ExportDialog)
    await settle(pilot, lambda: bool(dialog.text))
    await pilot.press("shift+tab", "right", "space")
    await settle(pilot, lambda: dialog.format == "csv" and bool(dialog.text))
    dialog.query_one("#path", Input).value = str(target)
    await pilot.press("ctrl+s")
    return dialog


async def test_the_csv_is_written_with_the_kernel_tables_beside_it(tmp_path: Path) -> None:
    app = opened(tmp_path, profiled_run(tmp_path))
    target = tmp_path / "out.csv"
    async with app.run_test(size=(120, 30)) as pilot:
        dialog = await export_csv(pilot, app, target)
        await settle(pilot, lambda: app.screen is not dialog)
    assert target.read_text("utf-8").startswith("case,")
    beside = (tmp_path / "out-kernels.csv").read_text("utf-8")
    assert beside.startswith("table,title,row,column,unit,value")
    assert "Top kernels, forward, one profiled step" in beside


async def test_a_file_beside_the_csv_is_asked_about_like_the_csv(tmp_path: Path) -> None:
    app = opened(tmp_path, profiled_run(tmp_path))
    target, beside = tmp_path / "out.csv", tmp_path / "out-kernels.csv"
    beside.write_text("mine", "utf-8")
    async with app.run_test(size=(120, 30)) as pilot:
        dialog = await export_csv(pilot, app, target)
        await settle(pilot, lambda: contains(app, "out-kernels.csv exists; ^s again overwrites"))
        assert beside.read_text("utf-8") == "mine"
        assert not target.exists()  # neither is written before the answer
        target.write_text("mine too", "utf-8")
        await pilot.press("ctrl+s")  # it is another question now
        await settle(pilot, lambda: contains(app, "exist; ^s again overwrites them"))
        assert target.read_text("utf-8") == "mine too"
        await pilot.press("ctrl+s")
        await settle(pilot, lambda: app.screen is not dialog)
    assert target.read_text("utf-8").startswith("case,")
    assert beside.read_text("utf-8").startswith("table,")


async def test_any_column_sorts(tmp_path: Path) -> None:
    app = opened(tmp_path, profiled_run(tmp_path))
    async with app.run_test(size=(200, 50)) as pilot:
        await ready(pilot, app)
        table = table_of(app)
        for column in range(len(table.columns)):
            await pilot.press("o")
            assert table.order == (column, False)
            shown = {row.key: row for row in table.rows}
            cells = [shown[key].cells[column] for key in table.shown_keys]
            known = [cell.sort for cell in cells if cell.sort is not None]
            if known:
                assert known == sorted(known)
            else:
                assert [c.text.casefold() for c in cells] == sorted(
                    c.text.casefold() for c in cells
                )


async def test_filter_as_you_type_and_clear(tmp_path: Path) -> None:
    app = opened(tmp_path, profiled_run(tmp_path))
    async with app.run_test(size=(120, 30)) as pilot:
        await ready(pilot, app)
        everything = len(table_of(app).shown_keys)
        await pilot.press("slash", *"softmax")
        await settle(pilot, lambda: 0 < len(table_of(app).shown_keys) < 8)
        assert contains(app, "filter: softmax")
        await pilot.press("enter")
        assert app.focused is table_of(app)
        await pilot.press("escape")
        await settle(pilot, lambda: len(table_of(app).shown_keys) == everything)
        assert app.screen.query_one("#kernel-filter", Input).value == ""


async def test_the_first_escape_clears_the_filter(tmp_path: Path) -> None:
    app = opened(tmp_path, profiled_run(tmp_path))
    async with app.run_test(size=(120, 30)) as pilot:
        await ready(pilot, app)
        everything = len(table_of(app).shown_keys)
        await pilot.press("slash", *"softmax")
        await settle(pilot, lambda: 0 < len(table_of(app).shown_keys) < 8)
        assert contains(app, "esc Clear filter")
        await pilot.press("escape")
        assert len(table_of(app).shown_keys) == everything
        assert app.focused is table_of(app)
        assert not app.screen.has_class("-filter")


async def test_the_detail_is_never_of_a_row_that_the_filter_hides(tmp_path: Path) -> None:
    app = opened(tmp_path, profiled_run(tmp_path))
    async with app.run_test(size=(120, 30)) as pilot:
        await ready(pilot, app)
        assert contains(app, "launched by aten::")
        await pilot.press("slash", *"softmax")
        await settle(pilot, lambda: contains(app, "launched by aten::_softmax"))
        await pilot.press(*"zzz")
        await settle(pilot, lambda: contains(app, "no row matches the filter"))
        assert table_of(app).current is None
        assert contains(app, "the row under the cursor, in full")
        assert not contains(app, "launched by")
        await pilot.press("escape")
        await settle(pilot, lambda: contains(app, "launched by aten::"))


@sizes
async def test_what_a_profile_lacks_is_a_line(tmp_path: Path, size: tuple[int, int]) -> None:
    lines = ("no source lines: CUPTI is \x1b[31mtaken", "no Chrome trace: disk full")
    app = opened(tmp_path, profiled_run(tmp_path, missing=lines))
    async with app.run_test(size=size) as pilot:
        await ready(pilot, app)
        assert contains(app, "no source lines: CUPTI is [31mtaken")
        assert contains(app, "no Chrome trace: disk full")
        assert len(table_of(app).shown_keys) > 20


async def test_the_kernel_under_the_cursor_is_shown_in_full(tmp_path: Path) -> None:
    app = opened(tmp_path, profiled_run(tmp_path))
    async with app.run_test(size=(120, 30)) as pilot:
        await ready(pilot, app)
        await pilot.press("slash", *"softmax_warp_forward", "enter")
        await settle(pilot, lambda: contains(app, "(anonymous namespace)::softmax_warp_forward<"))
        assert contains(app, "launched by aten::_softmax")
        assert contains(app, "module blocks.*.attention.core")


async def test_the_timeline_zooms_and_pans_within_the_step(tmp_path: Path) -> None:
    app = opened(tmp_path, profiled_run(tmp_path))
    async with app.run_test(size=(120, 30)) as pilot:
        await ready(pilot, app)
        strip = strip_of(app)
        whole = strip.end
        await pilot.press("plus")
        assert strip.end - strip.begin == pytest.approx(whole / 2)
        assert strip.begin == pytest.approx(whole / 4)
        before = text_of(app)
        await pilot.press("right")
        assert strip.begin == pytest.approx(whole * 3 / 8)
        await settle(pilot, lambda: text_of(app) != before)
        await hold(pilot, "right", 10)
        assert strip.end == pytest.approx(whole)
        await hold(pilot, "left", 20)
        assert strip.begin == 0
        await hold(pilot, "plus", 30)
        assert strip.end - strip.begin == pytest.approx(DEEPEST)
        await hold(pilot, "minus", 40)
        assert (strip.begin, strip.end) == (0, whole)
        await pilot.press("plus", "0")
        assert (strip.begin, strip.end) == (0, whole)


async def test_while_a_profile_is_being_made_none_is_offered(tmp_path: Path) -> None:
    plan = msgspec.structs.replace(experiment(("small",)), variants=(Variant(probe="kernels"),))
    run = RunStore(tmp_path).create("bench")
    writer = Writer(run)
    writer.begin(plan)
    writer.case(0, plan.cases()[0], 40.0, 2, finish=False)
    app = opened(tmp_path, run)
    with run.lock():
        async with app.run_test(size=(120, 30)) as pilot:
            await settle(pilot, lambda: contains(app, "a case is shown when it ends"))
            assert not contains(app, "of what the set-up pane holds")
            assert not contains(app, "llmprof run kernels")


async def test_a_run_without_a_profile_says_how_to_make_one(tmp_path: Path) -> None:
    run = finished(RunStore(tmp_path))
    app = opened(tmp_path, run)
    async with app.run_test(size=(120, 30)) as pilot:
        await settle(pilot, lambda: contains(app, NO_PROFILE))
        assert contains(app, "r runs 2 cases of what the set-up pane holds")
        assert contains(app, "llmprof run kernels --model-size small")
        await pilot.press("right_square_bracket", "c", "plus", "right", "0", "o", "enter")
        assert contains(app, NO_PROFILE)
        await pilot.press("r")
        await settle(pilot, lambda: app.session.run is not None and app.session.run.id != run.id)
        assert app.session.run is not None
        assert app.session.run.id.endswith("kernels")


async def test_names_from_a_strangers_run_are_only_text(tmp_path: Path) -> None:
    nasty = "evil[/]\x1b[31m[@click=app.quit]kernel"
    app = opened(tmp_path, profiled_run(tmp_path, name=nasty))
    async with app.run_test(size=(120, 30)) as pilot:
        await ready(pilot, app)
        await pilot.press("right_square_bracket")
        await settle(pilot, lambda: contains(app, "evil[/][31m[@click=app.quit]kernel"))
        assert "\x1b" not in text_of(app)


@pytest.mark.parametrize("name", ["../../../etc/passwd", "missing.npz"])
async def test_a_strip_that_cannot_be_read_is_a_line(tmp_path: Path, name: str) -> None:
    app = opened(tmp_path, profiled_run(tmp_path, strip=name))
    async with app.run_test(size=(120, 30)) as pilot:
        await settle(pilot, lambda: contains(app, "no timeline: "))
        assert len(table_of(app).rows) > 20


async def test_plain_ascii(tmp_path: Path) -> None:
    app = opened(tmp_path, profiled_run(tmp_path), look=ASCII, encoding="ascii")
    async with app.run_test(size=(120, 30)) as pilot:
        await ready(pilot, app)
        await pilot.press("right_square_bracket", "plus")
        await settle(pilot, lambda: contains(app, "* forward"))
        assert text_of(app).isascii()


@pytest.mark.parametrize("no_color", [True, False])
async def test_without_colours_the_timeline_has_the_letters_of_the_phases(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_color: bool
) -> None:
    if no_color:
        monkeypatch.setenv("NO_COLOR", "1")
    app = opened(tmp_path, profiled_run(tmp_path))
    async with app.run_test(size=(120, 30)) as pilot:
        await ready(pilot, app)
        await settle(pilot, lambda: strip_of(app)._strip is not None)
        lane = next(line for line in text_of(app).splitlines() if line.startswith(" device"))
        for letter in "fbo":
            assert (letter * 2 in lane[8:]) == no_color, lane


async def test_nothing_is_sent_when_nothing_changes(tmp_path: Path) -> None:
    app = opened(tmp_path, profiled_run(tmp_path))
    async with app.run_test(size=(120, 30)) as pilot:
        await ready(pilot, app)
        view, shown = view_of(app), []
        view.show_case = lambda: shown.append(1)  # type: ignore[method-assign]
        for _ in range(3):
            view.take(app.snapshot)
        assert shown == []


def test_the_view_does_not_load_torch() -> None:
    import subprocess

    loaded = "print('torch' in sys.modules, 'numpy' in sys.modules)"
    code = f"import sys, llmprof.tui.kernels.view; {loaded}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
