"""Tracked loops: rows to events, events to state, state to figures, tables and exports."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmprof.core import events as ev
from llmprof.core.figures.loops import failures, parts, steps_per_s, straggler
from llmprof.core.report.formats import render
from llmprof.core.report.loop_words import last_seen, loop_line
from llmprof.core.report.loops import loop_parts, loop_table
from llmprof.core.state.loop_columns import LoopColumns
from llmprof.core.state.loops import Loops
from llmprof.core.state.reducer import Reducer
from llmprof.core.store import lock
from llmprof.core.store.journal import JournalWriter, replay
from llmprof.core.store.listing import summarize_run
from llmprof.core.store.pack import SUFFIX, adopt, open_view, pack
from llmprof.core.store.run import Run, RunStore
from llmprof.core.track.batches import Batches
from llmprof.core.track.parts import current, labels, sums_us
from tests.builders.tracked_rows import MS, SECOND, USUAL, row, rows, started, write_loop

NAMES = st.sampled_from(["", "backward", "optimizer", "input", "clip", "loss", "between"])


@given(st.lists(st.tuples(NAMES, st.integers(0, 10**8)), min_size=1, max_size=40))
def test_parts_sum_to_the_wall_time_exactly(stretches: list[tuple[str, int]]) -> None:
    marks, t = [], SECOND + 123
    for name, ns in stretches:
        marks.append((t, name, None))
        t += ns
    found = sums_us(marks, t)
    assert sum(found.values()) == t // 1000 - (SECOND + 123) // 1000
    assert "" not in found


def test_a_gap_is_told_by_what_follows_it() -> None:
    assert labels(["", "backward", "", "optimizer", ""]) == [
        "forward", "backward", "before", "optimizer", "after",
    ]  # fmt: skip
    twice = ["input", "", "backward", "", "backward", "", "clip", "", "optimizer", ""]
    assert labels(twice) == [
        "input", "forward", "backward", "forward", "backward", "before", "clip", "before",
        "optimizer", "after",
    ]  # fmt: skip
    assert labels(["input", ""]) == ["input", "forward"]
    assert [current(twice[: at + 1]) for at in range(10)] == [
        "input", "forward", "backward", "before", "backward", "before", "clip", "before",
        "optimizer", "after",
    ]  # fmt: skip


def columns_of(events: list[ev.LoopSteps]) -> LoopColumns:
    columns = LoopColumns()
    for event in events:
        read = ev.decode(ev.encode(event))
        assert isinstance(read, ev.LoopSteps)
        assert columns.extend(read)
    return columns


def test_rows_come_back_as_they_were() -> None:
    made = [*rows(40), row(45, SECOND + 10**10, loss=1.5), *rows(5, SECOND + 2 * 10**10, first=46)]
    view = columns_of(Batches(0, 0).events(made)).view()
    assert view.index() == [each.index for each in made]
    assert view.start_ns() == [each.marks[0][0] for each in made]
    assert view.wall_ms() == pytest.approx([20.0] * 46)
    assert view.part_ms("forward") == pytest.approx([5.0] * 46)
    assert view.value("loss")[40] == 1.5
    assert view.part_ms("clip") == [0.0] * 46
    assert view.end_ns == made[-1].end_ns


def test_a_second_is_one_row_once_there_are_many_steps() -> None:
    made = rows(1000)
    made[700] = row(700, made[700].marks[0][0], [("input", 1.0), ("", 19.0)], loss=9.0)
    batches = Batches(0, 0, full_steps=100)
    events = [
        event
        for at in range(0, 1000, 7)
        for event in batches.events(made[at : at + 7], last=at + 7 >= 1000)
    ]
    view = columns_of(events).view()
    assert 110 < len(view) < 125
    assert sum(view.count()) == 1000
    assert view.index()[-1] == 999
    assert view.end_ns == pytest.approx(made[-1].end_ns, abs=100_000)
    assert all(later > sooner for sooner, later in pairwise(view.start_ns()))
    weighted = zip(view.wall_ms(), view.count(), strict=True)
    assert sum(wall * n for wall, n in weighted) == pytest.approx(20_000, rel=1e-4)


def test_values_that_are_not_finite_are_named_once_with_their_step() -> None:
    nan, inf = float("nan"), float("inf")
    batches = Batches(0, 0)
    first = row(7, SECOND, loss=1.0, scale=inf, rate=0.1)
    batches.events([first, row(8, first.end_ns, loss=nan, scale=inf)])
    batches.events([row(9, SECOND * 2, loss=nan, rate=nan)], last=True)
    assert [said.partition(":")[0] for said in batches.said] == [
        "scale was inf at step 7",
        "loss was nan at step 8",
        "rate was nan at step 9",
    ]


def test_a_loop_that_ended_before_its_writer_began_lasted_its_steps() -> None:
    reducer = Reducer()
    made = rows(3)
    reducer.apply(ev.LoopStarted(t=made[-1].end_ns + SECOND, run_id="r", label="l"))
    for event in Batches(0, 0).events(made):
        reducer.apply(event)
    assert reducer.view().loops[0].first_t == made[0].marks[0][0]


def test_what_cannot_be_is_counted_and_not_taken() -> None:
    reducer = Reducer()
    steps = Batches(0, 0).events(rows(3))[0]
    reducer.apply(steps)  # of a rank that never began
    reducer.apply(ev.LoopStarted(run_id="r", label="l"))
    for bad in (
        msgspec.structs.replace(steps, values={"loss": (1.0,)}),
        msgspec.structs.replace(steps, parts={}),
        msgspec.structs.replace(steps, gaps=((9, 1),)),
        msgspec.structs.replace(steps, counts=(1,)),
        msgspec.structs.replace(steps, restart=1),
        msgspec.structs.replace(steps, parts={"a": (2**53,) * 3}, counts=(2**31,) * 3),
        ev.LoopStarted(run_id="r", label="l"),
    ):
        reducer.apply(bad)
    reducer.apply(steps)
    view = reducer.view()
    assert view.damaged_lines == 8
    assert len(view.loops[0].rows) == 3


def test_several_files_are_one_run(tmp_path: Path) -> None:
    run = write_loop(tmp_path, 60, (USUAL, USUAL))
    devices = JournalWriter(run.path / "devices-0.jsonl")
    devices.append(ev.Segment(t=5, boot_id="another", wall_ns=1_764_000_001 * SECOND, pid=1,
                              version="0"))  # fmt: skip
    devices.append(ev.DeviceSample(t=5, host=ev.HostSample(cpu_percent=3.0)))
    devices.close()
    view = replay(run.journal)
    assert [len(loop.rows) for loop in view.loops] == [60, 60]
    assert view.outcome == "complete"
    assert view.host_cpu.points()[0] == [2 * SECOND]  # a second after the run began
    assert view.damaged_lines == 0
    target = tmp_path / f"run{SUFFIX}"
    pack(run, target)
    assert [loop.rank for loop in open_view(target).loops] == [0, 1]
    taken = adopt(target, RunStore(tmp_path / "other"))
    assert len(replay(taken.journal).loops) == 2


def test_the_straggler_is_found_by_its_own_work(tmp_path: Path) -> None:
    slow = (("input", 2.0), ("", 25.0), ("backward", 9.0), ("", 0.5), ("optimizer", 3.0))
    waits = (("input", 2.0), ("", 5.0), ("backward", 29.0), ("", 0.5), ("optimizer", 3.0))
    loops = replay(write_loop(tmp_path / "a", 60, (waits, slow)).journal).loops
    found = straggler(loops)
    assert found is not None
    assert (found.rank, found.part) == (1, "forward")
    assert found.excess_ms == pytest.approx(20, abs=0.5)
    assert straggler(replay(write_loop(tmp_path / "b", 60, (waits, waits)).journal).loops) is None
    assert straggler(loops[:1]) is None


def test_figures_and_words(tmp_path: Path) -> None:
    run = write_loop(tmp_path, 100)
    view = replay(run.journal)
    (loop,) = view.loops
    assert steps_per_s(loop) == pytest.approx(50.0)
    found = {part.name: part for part in parts(loop)}
    assert found["backward"].host_ms == pytest.approx(9.0)
    assert sum(part.share for part in found.values()) == pytest.approx(1.0)
    assert loop_line(loop, None).startswith("step 100 · 50/s · epoch 1 · complete")
    assert loop.beat is not None
    behind = msgspec.structs.replace(loop.beat, position=99, length=100)  # as the last one is
    ended = replace(loop, beat=behind)
    assert "99" not in loop_line(ended, None)
    assert "epoch 1 (99 of 100)" in loop_line(replace(ended, done=None), None)
    summary = summarize_run(run, view)
    assert (summary.extent, summary.experiment) == ("100 steps", "training loop")
    going = msgspec.structs.replace(loop.beat, part="backward")
    reducer = Reducer()
    reducer.apply(started(run))
    for event in Batches(0, 0).events(rows(10)):
        reducer.apply(event)
    assert going is not None
    reducer.apply(msgspec.structs.replace(going, since_ns=2 * SECOND, index=10))
    (live,) = reducer.view().loops
    assert loop_line(live, 2 * SECOND + 400 * MS).endswith("in backward 0:00.4")


def test_one_that_was_killed_where_it_hung_says_where_it_did(tmp_path: Path) -> None:
    view = replay(write_loop(tmp_path, 100).journal)
    (loop,) = view.loops
    end = loop.rows.end_ns
    assert loop.beat is not None
    assert end is not None
    beat = msgspec.structs.replace(loop.beat, part="allreduce", since_ns=end, t=end + 19 * SECOND)
    killed = replace(loop, done=None, beat=beat)
    for long_s, words in ((19, "in allreduce 0:19.0"), (1, "")):
        beat = msgspec.structs.replace(beat, t=end + long_s * SECOND)
        killed = replace(killed, beat=beat)
        table = loop_table(replace(view, loops=(killed,)))
        assert table is not None
        assert any(f"had been {words} when" in note for note in table.notes) == bool(words)
        assert loop_line(killed, None).endswith(f"last {words}") == bool(words)
        assert loop_line(killed, beat.t).endswith("in allreduce 0:19.0") == bool(words)
    assert last_seen(loop) == ""


def test_of_ranks_that_fail_the_first_is_named(tmp_path: Path) -> None:
    loops = Loops()
    for rank, (failed_at, node) in enumerate([(9, "a"), (7, "a"), (8, "b")]):
        loops.apply(msgspec.structs.replace(started(Run(tmp_path), rank, 3), node=node))
        loops.apply(ev.LoopDone(t=failed_at * SECOND, rank=rank, outcome="failed", error="no more"))
    states = loops.view()
    assert [loop.rank for loop in failures(states[:2])] == [1, 0]
    assert failures(states) == []
    assert failures(states[1:2]) == []


def test_tables_and_exports_of_a_loop(tmp_path: Path) -> None:
    view = replay(write_loop(tmp_path, 30, (USUAL, USUAL)).journal)
    text = render(view, "md")
    for words in ("my-run, a training loop", "## Parts of a step", "input wait", "| loss "):
        assert words in text
    assert "Precision" not in text
    document = json.loads(render(view, "json"))
    assert document["loops"][1]["rows"]["parts_ms"]["backward"] == [9.0] * 30
    lines = list(csv.DictReader(io.StringIO(render(view, "csv"))))
    assert len(lines) == 60
    assert lines[31]["rank"] == "1"
    assert float(lines[31]["backward_ms"]) == 9.0
    assert lines[0]["loss"] == "4.0"


def test_notes_of_a_loop_say_what_its_figures_are_of(tmp_path: Path) -> None:
    """A rank alone waits for none; where nearly all steps are the first, they count."""
    for count, ranks, which in ((2, (USUAL,), "all steps, the"), (30, (USUAL, USUAL), "but the f")):
        view = replay(write_loop(tmp_path / str(count), count, ranks).journal)
        table, by_part = loop_table(view), loop_parts(view)
        assert table is not None
        assert by_part is not None
        heads = [column.header for column in table.columns]
        assert ("Own work" in heads) == (len(ranks) > 1)
        assert all(len(row) == len(heads) for row in table.rows)
        assert "over the last 10 s" in table.notes[0]
        assert which in by_part.notes[0]


def test_a_label_means_its_newest_run(tmp_path: Path) -> None:
    one, two = write_loop(tmp_path, 10), write_loop(tmp_path, 10)
    store = RunStore(tmp_path)
    assert store.find("my-run").id in (one.id, two.id)
    assert store.find(one.id) == one
    assert store.find(two.id) == two


def test_a_loop_that_goes_on_is_running_in_every_format(tmp_path: Path) -> None:
    run = write_loop(tmp_path, 30, (USUAL, USUAL), done=False)
    held = lock.hold_as_loop(run.lock_file)  # by this very process
    going = open_view(run.path)
    held.close()
    gone = open_view(run.path)
    for view, state in ((going, "running"), (gone, "interrupted")):
        text = render(view, "md")
        assert f"**Outcome:** **{state}**" in text
        assert text.count(f"| {state} |") == 2
        assert json.loads(render(view, "json"))["outcome"] == state
    assert "interrupted" not in render(going, "md")


def test_what_goes_on_is_followed_before_what_is_newer(tmp_path: Path) -> None:
    old, new = write_loop(tmp_path, 10, done=False), write_loop(tmp_path, 10, start_ns=2 * SECOND)
    store = RunStore(tmp_path)
    assert store.find_to_follow(None).id == store.find(None).id
    assert store.find_to_follow(new.id) == new
    for run in (old, new):
        held = lock.hold_as_loop(run.lock_file)
        assert store.find_to_follow(None) == run
        held.close()


def test_a_part_that_is_a_place_is_not_said_to_be_in(tmp_path: Path) -> None:
    view = replay(write_loop(tmp_path, 30).journal)
    (loop,) = view.loops
    assert loop.done is not None
    for part, words in (("after", "failed after the optimizer"), ("input", "failed in input wait")):
        done = msgspec.structs.replace(
            loop.done, outcome="failed", part=part, error="ValueError: x"
        )
        failed = replace(loop, done=done)
        assert loop_line(failed, None).endswith(f"{words}: ValueError: x")
        assert loop_line(failed, None, error=False).endswith(words)
        table = loop_table(replace(view, loops=(failed,)))
        assert table is not None
        assert f"Rank 0 {words.replace('failed', 'ended')}: ValueError: x." in table.notes


def test_a_first_step_out_of_proportion_is_named(tmp_path: Path) -> None:
    def notes(first_ms: float) -> tuple[str, ...]:
        slow = (("input", 2.0), ("", first_ms), ("backward", 9.0), ("optimizer", 3.0))
        reducer = Reducer()
        reducer.apply(started(Run(tmp_path)))
        first = row(0, SECOND, slow)
        rest = rows(20, first.end_ns, first=1)
        for event in Batches(0, 0).events([first, *rest], last=True):
            reducer.apply(event)
        reducer.apply(ev.LoopBeat(t=rest[-1].end_ns, part="input", since_ns=rest[-1].end_ns,
                                  index=21, compiles=2, compile_s=7.25))  # fmt: skip
        table = loop_table(reducer.view())
        assert table is not None
        return table.notes

    assert "Rank 0's first step took 8.01 s, 7.25 s of it in torch.compile." in notes(8000)
    assert not [note for note in notes(300) if "first step" in note]
