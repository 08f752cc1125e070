from __future__ import annotations

import json
import os
from pathlib import Path

import msgspec
import pytest

from llmprof.core import events as ev
from llmprof.core.lint import verdicts
from llmprof.core.spec.case import PHASES
from llmprof.core.state.reducer import Reducer
from llmprof.core.store.journal import READ_BYTES, Follower, JournalWriter, apply_line, replay
from tests.builders.handmade import experiment, measured, opening, step, whole_run, write


def test_a_run_replays(tmp_path: Path) -> None:
    view = replay(whole_run(tmp_path / "j"))
    assert view.outcome == "complete"
    assert [state.status for state in view.cases] == ["ok", "ok"]
    forward, train = view.cases
    assert forward.total is not None
    assert forward.total.n == 4
    assert list(forward.summaries) == ["forward"]
    assert list(train.summaries) == list(PHASES)
    assert len(train.warmup) == 1
    assert train.measured.row(-1).index == 3


def test_a_follower_sees_a_line_only_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "j"
    follower = Follower(path)
    assert not follower.poll()
    line = ev.encode(ev.Log(message="hello"))
    path.write_bytes(line[:10])
    follower.poll()
    assert follower.view().log == ()
    path.write_bytes(line)
    follower.poll()
    assert [log.message for log in follower.view().log] == ["hello"]
    follower.close()


def test_views_are_frozen_in_time(tmp_path: Path) -> None:
    plan = experiment(("train",))
    path = write(tmp_path / "j", [*opening(plan), ev.CaseStarted(case=0, pid=1)])
    follower = Follower(path)
    follower.poll()
    before = follower.view()
    write(path, [step(0, 0, "train")])
    follower.poll()
    after = follower.view()
    follower.close()
    assert (len(before.cases[0].measured), len(after.cases[0].measured)) == (0, 1)


def test_a_journal_cut_at_any_byte_of_its_end_still_opens(tmp_path: Path) -> None:
    data = whole_run(tmp_path / "whole").read_bytes()
    complete = replay(tmp_path / "whole").events
    path = tmp_path / "cut"
    for cut in range(max(0, len(data) - 4096), len(data)):
        path.write_bytes(data[:cut])
        view = replay(path)
        assert view.damaged_lines == 0
        assert view.events == data[:cut].count(b"\n") <= complete


def test_a_torn_line_is_cut_before_appending(tmp_path: Path) -> None:
    path = whole_run(tmp_path / "j")
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"kind":"Log","t":1,"mess')
    write(path, [ev.Log(t=5, message="after")])
    assert path.read_bytes() == whole + ev.encode(ev.Log(t=5, message="after"))
    assert replay(path).damaged_lines == 0


def test_a_file_without_any_newline_is_cut_to_nothing(tmp_path: Path) -> None:
    path = tmp_path / "j"
    path.write_bytes(b"x" * 200_000)
    JournalWriter(path).close()
    assert path.read_bytes() == b""


def test_garbage_and_newer_kinds_are_counted_and_skipped(tmp_path: Path) -> None:
    path = whole_run(tmp_path / "j")
    with path.open("ab") as file:
        file.write(b'{"kind":"FromTheFuture","t":1,"x":[1]}\n')
        file.write(b"\xff\xfe garbage\n[]\nnull\n{}\n\n")
        file.write(b'{"kind":"StepDone","t":"no"}\n')
        file.write(ev.encode(ev.CaseDone(case=99)))
        file.write(ev.encode(ev.CaseDone(case=-1)))
    view = replay(path)
    assert view.unknown_events == 1
    assert view.damaged_lines == 7
    assert [state.status for state in view.cases] == ["ok", "ok"]


def test_lines_read_at_once_say_what_lines_read_singly_say(tmp_path: Path) -> None:
    """Blocks with and without what can't be read, steps out of order, of no case, losses gone."""
    plan = experiment(("forward", "train"))
    steps = [step(case, at, mode) for at in range(300) for case, mode in enumerate(plan.modes)]
    bad = msgspec.structs.replace(step(0, 301, "forward"), loss=None, loss_reason="nan")
    order = [*steps[::2], steps[0], *steps[1::2], step(7, 0, "train"), step(0, 300, "forward"),
             bad, step(0, 303, "forward")]  # fmt: skip
    starts = [ev.CaseStarted(case=at, pid=1) for at in (0, 1)]
    lines = [ev.encode(event) for event in [*opening(plan), *starts, *order]]
    two = lines[4][:-1] + lines[4]
    lines[200:200] = [b"\n", b'{"kind":"Newer","t":1}\n', b"torn\n", two]
    lines += [b'{"kind":"Log",\n', b'"t":1,"message":"over two lines"}\n']
    path = tmp_path / "j"
    path.write_bytes(b"".join(lines))
    singly = Reducer()
    for line in lines:
        apply_line(singly, line)
    one, other = replay(path), singly.view()
    assert (one.unknown_events, one.damaged_lines, one.log) == (1, 6, ())
    fields = ("events", "unknown_events", "damaged_lines", "last_t", "log")
    assert [getattr(one, f) for f in fields] == [getattr(other, f) for f in fields]
    assert [len(state.measured) for state in one.cases] == [303, 300]
    assert [list(s.measured) for s in one.cases] == [list(s.measured) for s in other.cases]
    assert [s.bad_losses for s in one.cases] == [s.bad_losses for s in other.cases] == [1, 0]


def test_two_torn_steps_damage_two_lines(tmp_path: Path) -> None:
    plan = experiment(("train",))
    steps = [ev.encode(step(0, at, "train")) for at in range(100)]
    steps[10:12] = [b"torn\n", b"torn\n"]
    started = [ev.encode(event) for event in [*opening(plan), ev.CaseStarted(case=0, pid=1)]]
    path = tmp_path / "j"
    path.write_bytes(b"".join([*started, *steps]))
    view = replay(path)
    assert view.damaged_lines == 2
    assert [row.index for row in view.cases[0].measured] == [*range(10), *range(12, 100)]


def test_a_line_longer_than_a_block_is_read_whole(tmp_path: Path) -> None:
    path, message = tmp_path / "j", "x" * (5 * READ_BYTES)
    write(path, [ev.Log(t=1, message=message), ev.Log(t=2, message="after")])
    assert [log.message for log in replay(path).log] == [message, "after"]


def test_new_fields_of_a_newer_version_are_ignored(tmp_path: Path) -> None:
    path = whole_run(tmp_path / "j")
    line = json.loads(ev.encode(ev.Log(message="x")))
    with path.open("ab") as file:
        file.write(json.dumps({**line, "colour": "blue"}).encode() + b"\n")
    assert replay(path).log[-1].message == "x"


def test_a_nan_loss_replays(tmp_path: Path) -> None:
    plan = experiment(("train",))
    nan = step(0, 0, "train", loss=float("nan"))
    path = write(tmp_path / "j", [*opening(plan), ev.CaseStarted(case=0, pid=1), nan])
    view = replay(path)
    assert view.damaged_lines == 0
    assert view.cases[0].measured.row(0).loss is None


def test_a_case_that_starts_again_forgets_its_first_steps(tmp_path: Path) -> None:
    plan = experiment(("train",))
    (case,) = plan.cases()
    failed = ev.CaseFailed(case=0, failure=ev.Failure(kind="killed", message="x"))
    events = [
        *opening(plan),
        *measured(0, case, [1.0, 2.0])[:-1],
        failed,
        ev.Segment(boot_id="b", wall_ns=1, pid=2, version="0"),
        *measured(0, case, [3.0, 4.0, 5.0]),
    ]
    state = replay(write(tmp_path / "j", events)).cases[0]
    assert (state.status, state.attempt, state.failure) == ("ok", 2, None)
    assert state.measured.device_ms("forward") == [3.0, 4.0, 5.0]


def test_wall_time_follows_the_segments(tmp_path: Path) -> None:
    view = replay(whole_run(tmp_path / "j"))
    anchor = view.segments[0]
    assert view.wall_ns(anchor.t + 5) == anchor.wall_ns + 5


def test_a_missing_journal_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        replay(tmp_path / "none")


def test_launch_bound_is_told_from_gpu_bound(tmp_path: Path) -> None:
    plan = experiment(("forward",))
    texts = []
    for number, host in enumerate((0.99, 0.4)):
        steps = [step(0, i, "forward", host=host) for i in range(4)]
        started = ev.CaseStarted(case=0, pid=1)
        path = write(tmp_path / str(number), [*opening(plan), started, *steps])
        view = replay(path)
        found = {v.rule: v.text for v in verdicts(view.cases[0], view.environment)}
        texts.append(found["launch-bound"])
    assert texts[0].startswith("launch-bound")
    assert texts[1].startswith("GPU-bound")


def test_a_file_that_took_the_place_of_a_closed_one_is_left_alone(tmp_path: Path) -> None:
    """As where a program closes all that is open in its process and goes on."""
    journal, mine = JournalWriter(tmp_path / "journal.jsonl"), tmp_path / "mine.txt"
    number = journal.fileno()
    os.close(number)
    with mine.open("w") as file:
        if file.fileno() != number:
            os.dup2(file.fileno(), number)
        with pytest.raises(OSError, match="Bad file descriptor"):
            journal.append_whole(b"{}\n")
        journal.let_go()
        os.fstat(number)  # still open
        file.write("mine")
    assert mine.read_text() == "mine"
