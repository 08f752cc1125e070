"""The Memory view over a step that was recorded on a real card."""

from __future__ import annotations

import gzip
import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from textual.pilot import Pilot

from llmprof.core import events as ev
from llmprof.core.events.memory import RESIDENT_SET
from llmprof.core.memory.allocator_entries import own_frame, read_snapshot
from llmprof.core.memory.kept_timeline import Points, load, save, thin
from llmprof.core.memory.live_blocks import largest_live
from llmprof.core.memory.timeline import Held, Known, Timeline, base_of, build_timeline
from llmprof.core.predict.as_event import predicted
from llmprof.core.predict.byte_levels import CATEGORIES, OPTIMIZER, PARAMETERS
from llmprof.core.spec.experiment import Experiment
from llmprof.core.spec.shape import ModelShape
from llmprof.core.store.run import Run, RunStore
from llmprof.tui.app import LlmprofApp
from llmprof.tui.chart.scale import Scale
from llmprof.tui.kit.format import memory_text
from llmprof.tui.kit.look import ASCII, UNICODE
from llmprof.tui.kit.table import RowTable
from llmprof.tui.memory.chart import DEEPEST_US, MEMORY_GUTTER, ORDER, MemoryChart
from llmprof.tui.memory.track import Track, read_track
from llmprof.tui.memory.view import NO_RECORDING, MemoryView
from tests.builders.journals import Writer, finished
from tests.tui.apps import make_app
from tests.tui.frames import contains, hold, settle, text_of

FIXTURE = Path(__file__).parent.parent / "fixtures" / "memory-snapshot-h100.json.gz"
SHAPE = ModelShape(name="plain", d_model=256, d_ff=704, num_layers=2, num_heads=4, vocab_size=1000)
PLAN = Experiment(
    name="memory",
    probe="memory",
    models=(SHAPE,),
    precisions=("bf16",),
    attentions=("sdpa",),
    context_lengths=(192,),
    batch_sizes=(2,),
)
sizes = pytest.mark.parametrize("size", [(80, 24), (120, 30)], ids=lambda s: f"{s[0]}x{s[1]}")


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLMPROF_HOME", str(tmp_path / "home"))


@pytest.fixture(scope="module")
def timeline() -> Timeline:
    """A training step in bf16, its parameters and optimizer state known by name."""
    with gzip.open(FIXTURE) as file:
        data: dict[str, Any] = json.load(file)
    size = 4 * SHAPE.parameters
    held = (Held("w", size, PARAMETERS), Held("exp_avg", 2 * size, OPTIMIZER))
    trace = read_snapshot(data["snapshot"], 0, 200_000)
    return build_timeline(trace, base_of(held, data["base"]), held, Known())


def recorded_run(
    root: Path,
    timeline: Timeline,
    plan: Experiment = PLAN,
    resident: int | None = None,
    **fields: object,
) -> Run:
    """A run whose cases all have this recording; `fields` replace those of the event.

    With `resident` they ran on a CPU, and their process held so much.
    """
    run = RunStore(root).create("memory")
    writer = Writer(run)
    writer.begin(plan)
    for index, case in enumerate(plan.cases()):
        name = f"memory-{index}.json.gz"
        save(thin(timeline), run.artifacts / name)
        said = predicted(index, case, capability=(9, 0))
        assert said is not None
        writer.put(said)
        writer.put(ev.CaseStarted(t=writer.t, case=index, pid=2))
        known = {
            "kind": "MemoryTimeline", "t": writer.t, "case": index, "artifact": name,
            "source": "cuda allocator", "steps": 1, "entries": len(timeline.trace.entries),
            "peak_bytes": timeline.peak, "allocated_peak_bytes": timeline.peak + (3 << 20),
            "at_peak": dict(zip(CATEGORIES, timeline.at_peak, strict=True)),
            "before": dict(zip(CATEGORIES, timeline.base, strict=True)),
            "phases": [
                {"step": s.step, "phase": s.phase, "peak_bytes": s.peak, "after_bytes": s.after}
                for s in timeline.spans
            ],
            "largest": [
                {"size": a.size, "count": a.count, "category": a.category, "phase": a.phase,
                 "what": a.what, "stack": a.stack}
                for a in largest_live(timeline, 20)
            ],
        }  # fmt: skip
        writer.put(msgspec.convert({**known, **fields}, ev.MemoryTimeline))
        if resident is not None:
            edge = ev.MemoryEdge(phase="start", allocated_bytes=resident, peak_bytes=resident)
            writer.put(ev.MemoryStep(t=writer.t, case=index, edges=(edge,), source=RESIDENT_SET))
        writer.put(ev.CaseDone(t=writer.t, case=index))
    writer.end()
    return run


def opened(root: Path, run: Run | None, **options: Any) -> LlmprofApp:
    return make_app(root, view="memory", watch=run, **options)[0]


def chart_of(app: LlmprofApp) -> MemoryChart:
    return app.screen.query_one(MemoryChart)


def figure(size: int) -> str:
    return Scale("MiB", 2**20).figure(size)


async def ready(pilot: Pilot[Any], app: LlmprofApp) -> None:
    await settle(pilot, lambda: contains(app, "by time") and chart_of(app).track is not None)


@sizes
async def test_a_recorded_peak_is_the_same_wherever_it_stands(
    tmp_path: Path, timeline: Timeline, size: tuple[int, int]
) -> None:
    """The process of a recording on a CPU holds Python and torch, which its tensors do not."""
    run = recorded_run(tmp_path, timeline, resident=259 << 20, allocated_peak_bytes=None)
    app = opened(tmp_path, run)
    told = memory_text(timeline.peak)
    async with app.run_test(size=size) as pilot:
        await ready(pilot, app)
        await pilot.press("1")
        await settle(pilot, lambda: contains(app, "Requested") and contains(app, told))
        assert not contains(app, "259 MiB")
        await pilot.press("2")
        named = told if size[0] < 100 else f"{told}  peak requested"  # the label has that room
        await settle(pilot, lambda: contains(app, "Fastest") and contains(app, named))
        assert not contains(app, "259 MiB")


@sizes
async def test_a_recording_fills_the_view(
    tmp_path: Path, timeline: Timeline, size: tuple[int, int]
) -> None:
    app = opened(tmp_path, recorded_run(tmp_path, timeline))
    async with app.run_test(size=size) as pilot:
        await ready(pilot, app)
        peak = figure(timeline.peak)
        await settle(pilot, lambda: contains(app, "step 1 backward"))
        await settle(pilot, lambda: contains(app, "v Stack"))
        for text in (f"peak {peak} MiB", "predicted ", "optimizer state", "exp_avg", "Live at"):
            assert contains(app, text), text
        moment = chart_of(app).moment
        assert moment is not None
        assert moment.total == timeline.peak
        assert any(block in text_of(app) for block in "▁▂▃▄▅▆▇")
        if size[0] < 100:
            assert not contains(app, "Level by phase")
            await pilot.press("l")
            await settle(pilot, lambda: contains(app, "Level by phase"))
        shown = text_of(app)
        for span in timeline.spans[:2]:
            assert figure(span.after) in shown, span


async def test_the_cursor_names_what_is_live(tmp_path: Path, timeline: Timeline) -> None:
    app = opened(tmp_path, recorded_run(tmp_path, timeline))
    async with app.run_test(size=(120, 30)) as pilot:
        await ready(pilot, app)
        chart = chart_of(app)
        chart.move(-200)
        assert chart.moment is not None
        assert chart.moment.x < chart.end / chart.columns
        await settle(pilot, lambda: contains(app, f"{figure(chart.moment.total):>8}"))  # type: ignore[union-attr]
        before = chart.at
        await pilot.press("right", "right")
        assert before < chart.at < before + 3 * chart.end / chart.columns
        await pilot.press("p")
        assert chart.moment.total == timeline.peak
        await pilot.click(MemoryChart, offset=(MEMORY_GUTTER + 1 + chart.columns // 2, 5))
        middle = chart.end / 2
        assert abs(chart.at - middle) <= chart.end / chart.columns
        chart.move(300)
        assert chart.at <= chart.end


async def test_phases_are_walked_and_short_ones_too(tmp_path: Path, timeline: Timeline) -> None:
    app = opened(tmp_path, recorded_run(tmp_path, timeline))
    async with app.run_test(size=(120, 30)) as pilot:
        await ready(pilot, app)
        chart = chart_of(app)
        chart.move(-200)
        seen = {}
        for _ in timeline.spans:
            moment = chart.moment
            assert moment is not None
            assert moment.span is not None
            seen[moment.span.phase] = moment.total
            await settle(pilot, lambda: contains(app, f"step 1 {chart.moment.span.phase}"))  # type: ignore[union-attr]
            await pilot.press("right_square_bracket")
        assert list(seen) == [span.phase for span in timeline.spans]
        peaks = {span.phase: span.peak for span in timeline.spans}
        assert all(seen[phase] == peaks[phase] for phase in list(seen)[1:])
        await pilot.press("left_square_bracket")
        assert chart.moment is not None
        assert chart.moment.span is not None
        assert chart.moment.span.phase == "zero_grad"


async def test_zoom_keeps_the_cursor_in_its_place(tmp_path: Path, timeline: Timeline) -> None:
    app = opened(tmp_path, recorded_run(tmp_path, timeline))
    async with app.run_test(size=(120, 30)) as pilot:
        await ready(pilot, app)
        chart = chart_of(app)
        whole, at = chart.end, chart.at
        await pilot.press("plus", "plus")
        assert chart.end - chart.begin == pytest.approx(whole / 4)
        assert chart.at == at
        assert chart.begin <= at <= chart.end
        chart.move(chart.columns)
        assert chart.begin <= chart.at <= chart.end <= whole
        await hold(pilot, "plus", 12)
        assert chart.end - chart.begin == pytest.approx(DEEPEST_US)
        await pilot.press("0")
        assert (chart.begin, chart.end) == (0, whole)


async def test_the_axis_counts_changes_where_time_has_no_room(
    tmp_path: Path, timeline: Timeline
) -> None:
    app = opened(tmp_path, recorded_run(tmp_path, timeline))
    async with app.run_test(size=(120, 30)) as pilot:
        await ready(pilot, app)
        await pilot.press("i")
        await settle(pilot, lambda: contains(app, "changes"))
        chart = chart_of(app)
        assert chart.moment is not None
        assert chart.moment.total == timeline.peak
        assert chart.end == pytest.approx(len(timeline.trace.entries), abs=2)


async def test_cases_are_walked(tmp_path: Path, timeline: Timeline) -> None:
    plan = msgspec.structs.replace(PLAN, modes=("forward", "train"))
    app = opened(tmp_path, recorded_run(tmp_path, timeline, plan))
    async with app.run_test(size=(120, 30)) as pilot:
        await ready(pilot, app)
        view = app.base_view
        assert isinstance(view, MemoryView)
        for at in (1, 0, 1):
            place = f"recorded case {at + 1} of 2"
            await settle(pilot, partial(contains, app, place))
            await ready(pilot, app)
            assert view.state is not None
            assert view.state.index == at
            assert contains(app, plan.cases()[at].label)
            await pilot.press("c")


@sizes
async def test_an_allocation_shows_its_whole_stack(
    tmp_path: Path, timeline: Timeline, size: tuple[int, int]
) -> None:
    app = opened(tmp_path, recorded_run(tmp_path, timeline))
    found = largest_live(timeline, 20)
    at, live = next((n, each) for n, each in enumerate(found) if len(each.stack) > 3)
    own = own_frame(live.stack)
    assert own is not None
    async with app.run_test(size=size) as pilot:
        await ready(pilot, app)
        await settle(pilot, lambda: isinstance(app.focused, RowTable))
        await pilot.press("v")
        await settle(pilot, lambda: contains(app, "Stack "))
        await pilot.press(*["down"] * at)
        await settle(pilot, lambda: contains(app, "innermost first"))
        assert not contains(app, "by time")
        lines = text_of(app).splitlines()
        for n, frame in enumerate(live.stack):
            place, _, name = frame.partition(" ")
            (line,) = [line for line in lines if f" {place}" in line and f"{name} " in line]
            assert (line.strip()[0] == UNICODE.cursor) == (n == own)
        await pilot.press("v")
        await settle(pilot, lambda: contains(app, "by time"))
        assert contains(app, live.what)


async def test_a_long_stack_scrolls_and_ends_at_its_outermost_frame(
    tmp_path: Path, timeline: Timeline
) -> None:
    stack = [f"torch/f{n}.py:1 inner" for n in range(3)]
    stack += [f"work/evil[b]{n}.py:{n} call" for n in range(37)]
    live = [{"size": 4, "count": 2, "category": "activations", "phase": "forward",
             "what": "evil", "stack": stack}]  # fmt: skip
    app = opened(tmp_path, recorded_run(tmp_path, timeline, largest=live))
    async with app.run_test(size=(80, 24)) as pilot:
        await ready(pilot, app)
        assert contains(app, "evil[b]0.py:0 call ← evil[b]1.py:1 call")
        await pilot.press("enter")
        await settle(pilot, lambda: contains(app, "torch/f0.py:1"))
        assert not contains(app, "work/evil[b]36.py")
        await hold(pilot, "right", 50)
        await settle(pilot, lambda: contains(app, "work/evil[b]36.py:36"))
        assert contains(app, "to 40 of 40")
        assert not contains(app, "torch/f0.py:1")


async def test_what_has_no_stack_says_why(tmp_path: Path, timeline: Timeline) -> None:
    live = [
        {"size": 9, "count": 1, "category": "parameters", "phase": "", "what": "head.weight"},
        {"size": 8, "count": 1, "category": "temporaries", "phase": "backward", "what": "autograd"},
    ]
    app = opened(tmp_path, recorded_run(tmp_path, timeline, largest=live))
    async with app.run_test(size=(120, 30)) as pilot:
        await ready(pilot, app)
        await pilot.press("v")
        await settle(pilot, lambda: contains(app, "there before the recorded steps"))
        await pilot.press("down")
        await settle(pilot, lambda: contains(app, "a thread of its own"))
        assert not contains(app, "innermost first")


async def test_without_a_recording_the_view_says_how_to_make_one(tmp_path: Path) -> None:
    app, starter = make_app(tmp_path, view="memory", watch=finished(RunStore(tmp_path)))
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot, lambda: contains(app, NO_RECORDING))
        assert contains(app, "llmprof run memory --model-size small --mode train")
        assert not contains(app, "--measure-steps")
        await pilot.press("left", "right_square_bracket", "p", "plus", "i", "c", "l", "0")
        await pilot.press("r")
        await settle(pilot, lambda: len(starter.started) == 1)
    _, experiment, words = starter.started[0]
    assert experiment.name == "memory"
    assert {case.probe for case in experiment.cases()} == {"memory"}
    assert [model.name for model in experiment.models] == ["small"]
    assert words[:3] == ("llmprof", "run", "memory")
    assert_same(experiment, words)


def assert_same(experiment: Experiment, words: tuple[str, ...]) -> None:
    """The command line describes the experiment that was started."""
    import argparse

    from llmprof.cli.options import experiment_from
    from llmprof.cli.run import add_arguments

    parser = argparse.ArgumentParser()
    add_arguments(parser)
    args = parser.parse_args(words[2:])
    assert experiment_from(args, args.experiment).cases() == experiment.cases()


@pytest.mark.parametrize("name", ["../../../etc/passwd", "missing.json.gz"])
async def test_a_recording_that_cannot_be_read_is_a_line(
    tmp_path: Path, timeline: Timeline, name: str
) -> None:
    app = opened(tmp_path, recorded_run(tmp_path, timeline, artifact=name))
    async with app.run_test(size=(120, 30)) as pilot:
        await settle(pilot, lambda: contains(app, "no timeline: "))
        await pilot.press("left", "plus", "p", "right_square_bracket", "i")
        assert len(app.screen.query_one(RowTable).rows) > 5


async def test_names_from_a_strangers_run_are_only_text(tmp_path: Path, timeline: Timeline) -> None:
    nasty = "evil[/]\x1b[31m[@click=app.quit]x"
    live = [{"size": 4, "count": 2, "category": nasty, "phase": nasty, "what": nasty}]
    app = opened(tmp_path, recorded_run(tmp_path, timeline, largest=live, overflow=True))
    async with app.run_test(size=(120, 30)) as pilot:
        await ready(pilot, app)
        await settle(pilot, lambda: contains(app, "evil[/][31m[@click=app.quit]x"))
        assert contains(app, "the recorder was full")
        assert "\x1b" not in text_of(app)


async def test_plain_ascii_has_letters(tmp_path: Path, timeline: Timeline) -> None:
    app = opened(tmp_path, recorded_run(tmp_path, timeline), look=ASCII, encoding="ascii")
    async with app.run_test(size=(120, 30)) as pilot:
        await ready(pilot, app)
        await pilot.press("left", "plus")
        await settle(pilot, lambda: contains(app, "OOOO") and contains(app, "O optimizer state"))
        assert text_of(app).isascii()


async def test_nothing_is_drawn_when_nothing_changes(tmp_path: Path, timeline: Timeline) -> None:
    app = opened(tmp_path, recorded_run(tmp_path, timeline))
    async with app.run_test(size=(120, 30)) as pilot:
        await ready(pilot, app)
        view, shown = app.base_view, []
        assert isinstance(view, MemoryView)
        view.show_case = lambda: shown.append(1)  # type: ignore[method-assign]
        for _ in range(3):
            view.take(app.snapshot)
        assert shown == []


def test_moments_keep_the_peak_and_hold_levels_between_points(timeline: Timeline) -> None:
    points = thin(timeline)
    for by_time in (True, False):
        track = Track(points, by_time)
        for columns in (7, 60, 1000):
            moments = track.moments(0.0, track.length, columns)
            assert len(moments) == columns
            assert max(moment.total for moment in moments) == timeline.peak
    still = Points(
        t_us=[0, 500], levels=[[at, 2 * at] for at in range(len(CATEGORIES))],
        phases=[(0, "forward", 100, 900)], peak=56, peak_t_us=500, at_peak=[0] * 8,
    )  # fmt: skip
    moments = Track(still).moments(0.0, 1000.0, 10)
    assert [moment.total for moment in moments] == [28] * 5 + [56] * 5
    assert [moment.span is not None for moment in moments] == [False] + [True] * 8 + [True]


def test_a_damaged_recording_is_refused(tmp_path: Path, timeline: Timeline) -> None:
    (tmp_path / "artifacts").mkdir()
    path = tmp_path / "artifacts" / "memory-0.json.gz"
    good = thin(timeline)
    save(good, path)
    assert read_track(tmp_path, path.name).points == load(path)
    empty: list[list[int]] = [[] for _ in CATEGORIES]
    for bad in (
        msgspec.structs.replace(good, t_us=good.t_us[::-1]),
        msgspec.structs.replace(good, t_us=[], levels=empty),
        msgspec.structs.replace(good, levels=[[-x for x in row] for row in good.levels]),
        msgspec.structs.replace(good, levels=[[2**62 for _ in row] for row in good.levels]),
    ):
        save(bad, path)
        with pytest.raises(ValueError, match="memory-0"):
            read_track(tmp_path, path.name)


def test_every_category_is_drawn_once() -> None:
    assert sorted(ORDER) == sorted(CATEGORIES)


def test_the_view_does_not_load_torch() -> None:
    import subprocess

    code = "import sys, llmprof.tui.memory.view; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
