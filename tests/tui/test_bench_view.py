"""The Bench view: from nothing to a run, and a run in sight."""

from __future__ import annotations

import argparse
import re
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import msgspec
import pytest

from llmprof.cli.options import experiment_from
from llmprof.cli.run import add_arguments
from llmprof.core import events as ev
from llmprof.core.catalog.experiments import build_experiment
from llmprof.core.catalog.models import load_models
from llmprof.core.document.results import outlook_lines
from llmprof.core.report.subject import subject_of
from llmprof.core.spec.case import Case
from llmprof.core.spec.experiment import Experiment, Variant
from llmprof.core.spec.own_model import find_own_model
from llmprof.core.spec.shape import ModelShape
from llmprof.core.state.view import RunView
from llmprof.core.store.journal import replay
from llmprof.core.store.run import Run, RunStore
from llmprof.tui.bench import next_steps
from llmprof.tui.bench.live import LivePanels
from llmprof.tui.bench.setup import SetupPane
from llmprof.tui.bench.step_log import StepLog
from tests.builders import journals
from tests.builders.journals import live_run
from tests.tui.apps import (
    FakeStarter,
    bench,
    make_app,
    pinned,
    sizes,
    table,
)
from tests.tui.frames import contains, look_again, settle, text_of

FIXTURES = Path(__file__).parent.parent / "fixtures"


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLMPROF_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


# From nothing to a run


@sizes
async def test_two_keys_lead_to_a_running_benchmark(tmp_path: Path, size: tuple[int, int]) -> None:
    app, starter = make_app(tmp_path)
    async with app.run_test(size=size) as pilot:
        await settle(pilot)
        assert starter.warmed
        assert contains(app, "llmprof run --model-size small")
        await pilot.press("r")
        await settle(pilot, lambda: app.snapshot.view.environment is not None)
        assert [e.models[0].name for _, e, _ in starter.started] == ["small"]
        assert contains(app, "0/1 cases")
        plan = starter.started[0][1]
        starter.writers[0].case(0, plan.cases()[0], steps=4, finish=False)
        await settle(pilot, lambda: contains(app, "step 4 of 10"))
        assert contains(app, "Step time")
        assert contains(app, "forward")
        with starter.started[0][0].lock():  # as the engine holds it
            await pilot.press("r")
            await settle(pilot)
            assert len(starter.started) == 1  # one at a time


@sizes
async def test_no_panel_is_ever_empty(tmp_path: Path, size: tuple[int, int]) -> None:
    app, _ = make_app(tmp_path)
    async with app.run_test(size=size) as pilot:
        await settle(pilot)
        if size[0] < 100:
            await pilot.press("s")
            await settle(pilot)
        for text in ("waiting for the first step", "curves of the card", "one row a case",
                     "Ready"):  # fmt: skip
            assert contains(app, text)
        await pilot.press("2")
        await settle(pilot)
        assert contains(app, "no runs yet")


async def test_the_first_frame_has_the_form_and_the_panels_follow(tmp_path: Path) -> None:
    app, _ = make_app(tmp_path)
    async with app.run_test(size=(120, 30)) as pilot:
        assert app.screen.query(SetupPane)
        await settle(pilot, lambda: contains(app, "waiting for the first step"))
        assert app.screen.query_one(LivePanels).ready


async def test_a_watched_run_has_its_panels_at_once(tmp_path: Path) -> None:
    app, _ = make_app(tmp_path, watch=journals.finished(RunStore(tmp_path)))
    async with app.run_test(size=(120, 30)) as pilot:
        assert app.screen.query(LivePanels)
        await settle(pilot, lambda: contains(app, "finished"))
        assert app.focused is not None
        assert app.focused.id == "results"
        assert not contains(app, "Models")


# A run in sight


@sizes
async def test_keys_of_the_live_view(tmp_path: Path, size: tuple[int, int]) -> None:
    run, writer = live_run(tmp_path)
    app, _ = make_app(tmp_path, watch=run)
    with run.lock():
        async with app.run_test(size=size) as pilot:
            await settle(pilot, lambda: contains(app, "step 20 of 30"))
            assert contains(app, "1/3 cases")
            assert contains(app, "warm")
            view = bench(app)
            assert table(app).cursor == "1"
            await pilot.press("up")
            assert pinned(view) == [0]
            await pilot.press("end")
            assert pinned(view) == [2]
            await pilot.press("home", "pagedown", "pageup")
            assert pinned(view) == [0]
            await pilot.press("f")
            assert not pinned(view)
            assert table(app).cursor == "1"
            for name in ("last 5:00", "last 1:00", "last 0:15", "whole case"):
                await pilot.press("z")
                assert contains(app, name)
            await pilot.press("o")
            assert table(app).order == (0, False)
            await pilot.press("O")
            assert table(app).order == (0, True)
            await pilot.press("l")
            assert view.has_class("-log")
            await pilot.press("l", "s")
            assert view.has_class("-setup")
            await pilot.press("escape")
            assert not view.has_class("-setup")
            await pilot.press("space")
            assert contains(app, "paused")
            before = text_of(app).splitlines()[2:]  # above, what came since is counted
            plan = journals.experiment(("tiny", "small", "medium"), 30)
            writer.step(1, plan.cases()[1], 20, False, 90.0)
            await look_again(pilot)
            assert text_of(app).splitlines()[2:] == before
            await pilot.press("space")
            await settle(pilot, lambda: contains(app, "step 21 of 30"))


@sizes
async def test_the_step_log_scrolls_and_stays(tmp_path: Path, size: tuple[int, int]) -> None:
    run, _ = live_run(tmp_path)
    app, _ = make_app(tmp_path, watch=run)
    async with app.run_test(size=size) as pilot:
        await settle(pilot, lambda: contains(app, "interrupted"))
        if size[0] < 100:
            await pilot.press("l")
            await settle(pilot)
        log = app.screen.query_one(StepLog)
        log.focus()
        await pilot.press("home")
        await settle(pilot)
        assert contains(app, "w1")
        await pilot.press("pagedown", "pageup", "down", "up", "k", "j")
        assert contains(app, "scrolled back")
        await pilot.press("end")
        assert not contains(app, "scrolled back")


@sizes
async def test_a_failed_case_says_why(tmp_path: Path, size: tuple[int, int]) -> None:
    run = journals.finished(RunStore(tmp_path))
    app, _ = make_app(tmp_path, watch=run)
    async with app.run_test(size=size) as pilot:
        await settle(pilot, lambda: contains(app, "finished"))
        assert contains(app, "complete")
        await pilot.press("end")
        await settle(pilot)
        assert contains(app, "oom in backward, asked for 3.00 GiB")


@sizes
async def test_a_finished_run_says_what_it_came_to(tmp_path: Path, size: tuple[int, int]) -> None:
    run = RunStore(tmp_path).create("bench")
    with zipfile.ZipFile(FIXTURES / "end-to-end-h100.llmprof") as archive:
        run.journal.write_bytes(archive.read("journal.jsonl"))
    verdict = outlook_lines(replay(run.journal))[0]
    app, _ = make_app(tmp_path, watch=run)
    async with app.run_test(size=size) as pilot:
        bare, ellipsis = verdict.removeprefix("Verdict. "), "…"
        said = bare.partition(", but" if size[0] == 80 else ";")[0] + ellipsis  # a clause is whole
        await settle(pilot, lambda: contains(app, said))


@sizes
async def test_stop_asks_the_engine(
    tmp_path: Path, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped: list[str] = []

    def stop(asked: Run, *, force: bool = False) -> bool:
        stopped.append(asked.id)
        return True

    monkeypatch.setattr(Run, "stop", stop)
    run, _ = live_run(tmp_path)
    app, _ = make_app(tmp_path, watch=run)
    with run.lock():
        async with app.run_test(size=size) as pilot:
            await settle(pilot, lambda: contains(app, "live"))
            await pilot.press("x")
    assert stopped == [run.id]


async def test_the_verdict_of_the_row_under_the_cursor_is_whole(tmp_path: Path) -> None:
    run = journals.finished(RunStore(tmp_path), ("tiny", "small"))
    app, _ = make_app(tmp_path, watch=run)
    async with app.run_test(size=(100, 30)) as pilot:
        await settle(pilot, lambda: contains(app, "finished"))
        await pilot.press("end")
        await settle(pilot, lambda: contains(app, "in backward asked 3.00 GiB: out of memory"))
        await pilot.press("home")
        await settle(pilot, lambda: contains(app, "very stable"))
        heading = next(line for line in text_of(app).splitlines() if "Results" in line)
        assert "asked" not in heading


async def test_no_case_runs_on_in_a_run_whose_engine_is_gone(tmp_path: Path) -> None:
    store = RunStore(tmp_path)
    run = store.create("bench")
    writer = journals.Writer(run)
    plan = journals.experiment(("small", "medium"))
    writer.begin(plan)
    writer.case(0, plan.cases()[0], steps=4, finish=False)
    app, _ = make_app(tmp_path, watch=run)
    async with app.run_test(size=(120, 30)) as pilot:
        with run.lock():
            app.watch_run(run)
            await settle(pilot, lambda: contains(app, "4/10"))
            assert contains(app, "step 4 of 10")
            assert contains(app, f"{app.look.running} ")
            assert contains(app, "pending")
        await settle(pilot, lambda: contains(app, "its process is gone"))
        assert not contains(app, f"{app.look.running} ")
        assert not contains(app, "pending")
        assert contains(app, "killed")
        assert contains(app, ev.SKIPPED)
        app.toggle_pause()  # a picture that is held stays as it is
        await settle(pilot)
        assert contains(app, "killed")


async def test_steps_of_identical_time_do_not_end_the_screen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = journals.experiment(("small",), 2000)
    run = RunStore(tmp_path).create("bench")
    writer = journals.Writer(run)
    writer.begin(plan)
    monkeypatch.setattr(writer.random, "gauss", lambda mean, _: 100.0)
    writer.case(0, plan.cases()[0], 100.0, 55, finish=False)
    with run.lock():
        for width in (60, 80, 100, 120):
            app, _ = make_app(tmp_path, watch=run)
            async with app.run_test(size=(width, 30)) as pilot:
                await settle(pilot, partial(contains, app, "step 55 of 2000"))


async def test_no_figure_of_the_results_is_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = journals.experiment(("small",), 20)
    run = RunStore(tmp_path).create("bench")
    writer = journals.Writer(run)
    writer.begin(plan)
    steps = iter([1.0, 9000.0] * 50)
    monkeypatch.setattr(writer.random, "gauss", lambda mean, _: next(steps))
    writer.case(0, plan.cases()[0], 100.0)
    writer.end()
    for width in (70, 80, 100, 120):
        app, _ = make_app(tmp_path, watch=run)
        async with app.run_test(size=(width, 30)) as pilot:
            await settle(pilot, partial(contains, app, "finished"))
            line = next(t for t in text_of(app).splitlines() if "ok" in t and "small" in t)
            assert not re.search(r"\d…", line), line


async def test_a_kernel_profile_and_its_plain_timing_are_told_apart(tmp_path: Path) -> None:
    plan = msgspec.structs.replace(
        journals.experiment(("small",)), variants=(Variant(), Variant(probe="kernels"))
    )
    run = RunStore(tmp_path).create("bench")
    writer = journals.Writer(run)
    writer.begin(plan)
    for index, case in enumerate(plan.cases()):
        writer.case(index, case)
    writer.end()
    app, _ = make_app(tmp_path, watch=run)
    async with app.run_test(size=(120, 30)) as pilot:
        await settle(pilot, lambda: contains(app, "finished"))
        lines = [line for line in text_of(app).splitlines() if "✓ ok" in line]
        assert ["timing" in line for line in lines] == [True, False]
        assert ["kernels" in line for line in lines] == [False, True]


async def test_the_processes_of_a_cell_are_told_apart(tmp_path: Path) -> None:
    plan = msgspec.structs.replace(journals.experiment(("small",)), processes=3)
    run = RunStore(tmp_path).create("bench")
    writer = journals.Writer(run)
    writer.begin(plan)
    for index, case in enumerate(plan.cases()):
        writer.case(index, case)
    writer.end()
    app, _ = make_app(tmp_path, watch=run)
    async with app.run_test(size=(120, 30)) as pilot:
        await settle(pilot, lambda: contains(app, "Process"))
        lines = [line.split() for line in text_of(app).splitlines() if "✓ ok" in line]
        assert [line[line.index("small") + 1] for line in lines] == ["1", "2", "3"]


async def test_the_plotted_case_is_named_and_f_shows_the_running_one(tmp_path: Path) -> None:
    run, _ = live_run(tmp_path)
    app, _ = make_app(tmp_path, watch=run)

    def title() -> str:
        return next(line for line in text_of(app).splitlines() if "Step time" in line)

    with run.lock():
        async with app.run_test(size=(140, 34)) as pilot:
            await settle(pilot, lambda: contains(app, "Step time ms by phase, small · train"))
            assert "f shows" not in title()
            assert not contains(app, "f Follow")
            await pilot.press("home", "up", "down", "up")
            await settle(pilot, lambda: "Step time ms by phase, tiny · train" in title())
            assert "f shows the running case" in title()
            assert contains(app, "f Follow")
            await pilot.press("f")
            await settle(pilot, lambda: "Step time ms by phase, small · train" in title())


@sizes
async def test_a_held_picture_says_that_the_run_goes_on(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    run, writer = live_run(tmp_path)
    case = writer_case(run)
    app, _ = make_app(tmp_path, watch=run)
    with run.lock():
        async with app.run_test(size=size) as pilot:
            await settle(pilot, lambda: contains(app, "step 20 of 30"))
            if size[0] >= 100:
                assert contains(app, run.label)  # the run's name in the header
            await pilot.press("space")
            await settle(pilot, lambda: contains(app, "display paused, the run goes on"))
            for at in range(20, 23):
                writer.step(1, case, at, False, 90.0)
            await settle(pilot, lambda: contains(app, "the run goes on (+3 steps)"))
            await pilot.press("space")
            await settle(pilot, lambda: contains(app, "step 23 of 30"))


def writer_case(run: Run) -> Case:
    return replay(run.journal).cases[1].case


async def test_a_high_window_shows_more_rows_of_results(tmp_path: Path) -> None:
    names = [f"model-{at}" for at in range(18)]
    run = journals.finished(RunStore(tmp_path), names, 4)
    heights = []
    for height in (30, 50):
        app, _ = make_app(tmp_path, watch=run)
        async with app.run_test(size=(200, height)) as pilot:
            await settle(pilot, partial(contains, app, "finished"))
            await settle(pilot)
            charts = app.screen.query_one("#charts").region.height
            heights.append((table(app).region.height, charts))
    assert heights[1][0] >= 18 + 2
    assert heights[1][1] >= heights[0][1]


@pytest.mark.parametrize("view", ["bench", "runs"])
async def test_what_the_user_stopped_reads_stopped(tmp_path: Path, view: str) -> None:
    plan = journals.experiment(("tiny", "small"), 20)
    run = RunStore(tmp_path).create("bench")
    writer = journals.Writer(run)
    writer.begin(plan)
    writer.case(0, plan.cases()[0], 40.0, 13, finish=False)
    failure = ev.Failure(kind="stopped", message="the run was stopped", outside=True)
    writer.put(ev.CaseFailed(t=writer.t, case=0, failure=failure))
    writer.end("stopped")
    app, _ = make_app(tmp_path, watch=run, view=view)
    async with app.run_test(size=(120, 30)) as pilot:
        await settle(pilot, lambda: contains(app, "0/2"))
        assert not contains(app, "killed")
        assert not contains(app, "!1")
        if view == "bench":
            assert contains(app, "   next  2 then r measures what it still lacks")
            assert contains(app, ev.SKIPPED)


@pytest.mark.parametrize(("outcome", "word"), [(None, "killed"), ("stopped", "stopped")])
async def test_a_case_that_never_ended_was_stopped_or_killed_with_its_run(
    tmp_path: Path, outcome: ev.Outcome | None, word: str
) -> None:
    plan = journals.experiment(("tiny",), 20)
    run = RunStore(tmp_path).create("bench")
    writer = journals.Writer(run)
    writer.begin(plan)
    writer.case(0, plan.cases()[0], 40.0, 13, finish=False)
    if outcome is not None:
        writer.end(outcome)
    app, _ = make_app(tmp_path, watch=run)
    async with app.run_test(size=(120, 30)) as pilot:
        await settle(pilot, lambda: contains(app, f" {word} "))
        assert not contains(app, {"killed": "stopped", "stopped": "killed"}[word])
    assert subject_of(replay(run.journal)).cases[0].status == word


async def test_a_memory_recording_waits_for_no_step(tmp_path: Path) -> None:
    plan = msgspec.structs.replace(journals.experiment(("small",)), probe="memory")
    run = RunStore(tmp_path).create("bench")
    writer = journals.Writer(run)
    writer.begin(plan)
    writer.put(ev.CaseStarted(t=writer.t, case=0, pid=2))
    writer.put(ev.CaseDone(t=writer.t, case=0))
    writer.end()
    app, _ = make_app(tmp_path, watch=run)
    async with app.run_test(size=(120, 30)) as pilot:
        await settle(pilot, lambda: contains(app, "records memory and times no step"))
        assert not contains(app, "waiting for the first step")


def complete_run(tmp_path: Path, experiment: str) -> Run:
    """A run of two presets in fp32, of the experiment of this name."""
    models = load_models()
    plan = msgspec.structs.replace(
        journals.experiment(), name=experiment, models=(models["tiny"], models["small"])
    )
    run = RunStore(tmp_path).create("bench")
    writer = journals.Writer(run)
    writer.begin(plan)
    for index, case in enumerate(plan.cases()):
        writer.case(index, case, 40.0 * (index + 1))
    writer.end()
    return run


async def test_an_experiment_that_is_not_known_here_is_offered_by_no_command(
    tmp_path: Path,
) -> None:
    app, _ = make_app(tmp_path, watch=complete_run(tmp_path, "of-another-machine"))
    async with app.run_test(size=(120, 30)) as pilot:
        await settle(pilot, lambda: contains(app, "K kernels of small train"))
        assert not contains(app, "the same in bf16")


@pytest.mark.parametrize("model", ["small", "unknown here"])
async def test_what_to_try_next_is_worked_out_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: str
) -> None:
    """Also where there is nothing to try."""
    worked_out: list[RunView] = []

    def counted(view: RunView, models: Mapping[str, ModelShape]) -> next_steps.NextSteps:
        worked_out.append(view)
        return known(view, models)

    known = next_steps.next_steps
    monkeypatch.setattr(next_steps, "next_steps", counted)
    plan = journals.experiment((model,))
    run = RunStore(tmp_path).create("bench")
    writer = journals.Writer(run)
    writer.begin(plan)
    writer.case(0, plan.cases()[0], 40.0)
    writer.end()
    app, _ = make_app(tmp_path, watch=run)
    async with app.run_test(size=(120, 30)) as pilot:
        await settle(pilot, lambda: contains(app, "finished"))
        for _ in range(3):
            await pilot.press("z", "space", "space")
            app.show_newest()
            await look_again(pilot)
        assert len(worked_out) == 1


def measured(root: Path, plan: Experiment) -> Run:
    """A complete run of an experiment."""
    run = RunStore(root).create(plan.name)
    writer = journals.Writer(run)
    writer.begin(plan)
    for index, case in enumerate(plan.cases()):
        writer.case(index, case, 40.0 * (index + 1))
    writer.end()
    return run


def asked_for(words: tuple[str, ...]) -> Experiment:
    """The experiment that a command measures."""
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    args = parser.parse_args(words[2:])
    return experiment_from(args, args.experiment)


@pytest.mark.parametrize("name", ["end-to-end", "warmup", "switches"])
async def test_after_a_smoke_run_there_is_something_to_try_too(tmp_path: Path, name: str) -> None:
    plan = build_experiment(name, {}, smoke=True)
    app, _ = make_app(tmp_path, watch=measured(tmp_path, plan))
    async with app.run_test(size=(120, 30)) as pilot:
        await settle(pilot, lambda: contains(app, "K kernels of smoke train"))
        found = next_steps.next_steps(app.session.snapshot.view, app.models).steps
        assert [step.key for step in found][:2] == ["K", "M"]
        for step in found:
            assert "--smoke" in step.command
            assert asked_for(step.command) == step.experiment
            assert {case.model.name for case in step.experiment.cases()} == {"smoke"}


def test_of_a_model_of_ones_own_there_is_something_to_try_too(tmp_path: Path) -> None:
    source = tmp_path / "mine.py"
    source.write_text("def build():\n    ...\n", "utf-8")
    model = find_own_model(f"{source}:build", {}, ())
    plan = build_experiment("end-to-end", {"models": ("small",), "modes": ("train",)})
    view = replay(measured(tmp_path, plan).journal)
    state = view.cases[0]
    case = msgspec.structs.replace(state.case, model=model)
    plan = msgspec.structs.replace(plan, models=(model,), cpu_budget_s=None)
    view = replace(view, experiment=plan, cases=(replace(state, case=case),))
    found = next_steps.next_steps(view, load_models()).steps
    assert [step.key for step in found] == ["K", "M", "B"]
    for step in found:
        assert asked_for(step.command) == step.experiment


async def test_where_nothing_can_be_tried_the_screen_says_why(tmp_path: Path) -> None:
    plan = journals.experiment(("small",))
    shape = msgspec.structs.replace(load_models()["small"], name="elsewhere", num_layers=3)
    run = measured(tmp_path, msgspec.structs.replace(plan, models=(shape,)))
    app, _ = make_app(tmp_path, watch=run)
    async with app.run_test(size=(120, 30)) as pilot:
        await settle(pilot, lambda: contains(app, "no preset here is the model elsewhere"))


async def test_what_to_try_next_is_called_so_beside_the_set_up_pane(tmp_path: Path) -> None:
    app, _ = make_app(tmp_path, watch=complete_run(tmp_path, "end-to-end"))
    async with app.run_test(size=(120, 30)) as pilot:
        await settle(pilot, lambda: contains(app, "K kernels of small train"))
        await pilot.press("s")
        await settle(pilot, lambda: app.query_one(SetupPane).display)
        await settle(pilot, lambda: contains(app, "finished   next  K kernels of small train"))


async def test_after_a_run_the_screen_says_what_to_try_next(tmp_path: Path) -> None:
    run = complete_run(tmp_path, "end-to-end")
    app, starter = make_app(tmp_path, watch=run)
    async with app.run_test(size=(120, 30)) as pilot:
        await settle(pilot, lambda: contains(app, "K kernels of small train"))
        assert contains(app, "M memory of ")
        assert contains(app, "B the same in bf16")
        await pilot.press("B")
        await settle(pilot, lambda: len(starter.started) == 1)
        assert starter.started[0][1].precisions == ("bf16",)
        assert "--precision bf16" in " ".join(starter.started[0][2])
        assert not contains(app, "K kernels")
    for key, name in (("K", "kernels"), ("M", "memory")):
        app, starter = make_app(tmp_path / key, watch=run)
        async with app.run_test(size=(120, 30)) as pilot:
            await settle(pilot, partial(contains, app, "K kernels of small train"))
            await pilot.press(key)
            await settle(pilot, partial(has_started, starter))
            assert starter.started[0][1].name == name


def has_started(starter: FakeStarter) -> bool:
    return bool(starter.started)


async def test_enter_shows_what_was_cut(tmp_path: Path) -> None:
    plan = journals.experiment(("small",), 10)
    run = RunStore(tmp_path).create("bench")
    writer = journals.Writer(run)
    writer.begin(plan)
    writer.fail(0, "error", "out of memory: tried to take 3.00 GiB of the card beside 77 GiB")
    writer.end()
    app, _ = make_app(tmp_path, watch=run)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot, lambda: contains(app, "finished"))
        await pilot.press("enter")
        await settle(pilot, lambda: contains(app, "77 GiB") and contains(app, "Tokens/s"))
        lines = text_of(app).splitlines()
        model, last = (
            next(line for line in lines if word in line) for word in ("│  Model ", "77 G")
        )
        assert last.index("77 GiB") == model.index("small")  # below its column
        await pilot.press("escape")
        await settle(pilot, lambda: len(app.screen_stack) == 1)
