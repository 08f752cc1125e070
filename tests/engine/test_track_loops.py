"""What may happen to a tracked loop: left, nested, forked, killed, switched off, out of disk."""

from __future__ import annotations

import csv
import io
import math
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from llmprof.core import events as ev
from llmprof.core.events.loop import MOST_VALUES
from llmprof.core.report.loops import loops_csv
from llmprof.core.store.journal import Follower, replay
from llmprof.core.store.run import NotOurs, RunStore
from tests.builders import gloo_scripts
from tests.builders.tracked_scripts import newest, start, told
from tests.engine.runs import llmprof
from tests.waiting import wait_for

ENDLESS = """
with track("endless") as run:
    for x in run.steps(batches(10**9, 0.005)):
        run.log(loss=1.0)
"""


def test_break_continue_and_nesting(tmp_path: Path) -> None:
    found = told(
        tmp_path,
        """
        with track("break") as run:
            for at, x in enumerate(run.steps(batches(10))):
                if at == 3:
                    break
                if at == 1:
                    continue
                for inner in run.steps(batches(4)):
                    with run.step():
                        pass
            busy(5)
            with llmprof.track("inner") as other:
                for x in other.steps(batches(2)):
                    pass
            with run.step():
                for x in run.steps(batches(3)):
                    pass
            steps = run.steps([1, 2])
            with run.step():
                pass
        hand.tell(inner=other.id, length=len(steps))
        """,
    )
    rows = found.loop.rows
    assert rows.index() == [0, 1, 2, 3, 4, 5]
    assert rows.part_ms("between")[4] >= 5  # what came after the break
    assert found.said["inner"] is None
    assert found.said["length"] == 2
    assert found.view.outcome == "complete"


def test_an_exception_names_the_part_and_leaves_its_step_out(tmp_path: Path) -> None:
    process = start(
        tmp_path,
        """
        model = net()
        with track("broken", model=model) as run:
            for at, x in enumerate(run.steps(batches(10))):
                if at == 4:
                    with run.phase("check"):
                        raise ValueError("no more")
                with run.step():
                    pass
        """,
    )
    _, errors = process.communicate(timeout=100)
    assert process.returncode == 1
    assert "ValueError: no more" in errors
    view = replay(newest(tmp_path).journal)
    assert view.outcome == "failed"
    (loop,) = view.loops
    assert loop.done is not None
    assert (loop.done.error, loop.done.outcome) == ("ValueError: no more", "failed")
    assert loop.done.part == "check"
    assert loop.rows.index() == [0, 1, 2, 3]


ENDS = {  # the body of a loop that fails, and the part that it fails in
    "for x in run.steps(batches(3)): fail()": "forward",
    "for x in run.steps(batches(3)): train(); fail()": "after",
    "for x in run.steps(batches(3)): loss(x).backward(); fail()": "before",
    "for x in run.steps(batches(3)): loss(torch.ones(3))": "forward",
    "for x in run.steps(failing()): pass": "input",
    "for x in run.steps(5): pass": "input",
    "with run.step(): train(); fail()": "after",
    "with run.step(): [x for x in run.steps(failing())]": "input",
    "with run.step(), run.phase('clip'): fail()": "clip",
    "with run.phase('evaluate'): fail()": "evaluate",
    "for x in run.steps(batches(3)): break\nwith run.phase('evaluate'): fail()": "evaluate",
    "for x in run.steps(batches(3)): train()\nfail()": "between",
    "caught()\nwith run.step(): train()\nfail()": "between",
}


def test_an_exception_is_told_by_the_part_that_raised_it(tmp_path: Path) -> None:
    told(
        tmp_path,
        """
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), 0.01)
        def loss(x):
            return model(x).square().mean()
        def train():
            loss(torch.randn(8, 320)).backward()
            optimizer.step()
        def fail():
            raise ValueError("no more")
        def failing():
            yield 1
            fail()
        def caught():
            try:
                with run.phase("check"):
                    fail()
            except ValueError:
                pass
        for at, body in enumerate(BODIES):
            try:
                with track(f"broken-{at}") as run:
                    exec(body)
            except Exception:
                pass
        hand.tell()
        """.replace("BODIES", repr(list(ENDS))),
    )
    store = RunStore(tmp_path / "runs")
    for at, (body, part) in enumerate(ENDS.items()):
        (loop,) = replay(store.find(f"broken-{at}").journal).loops
        assert loop.done is not None
        assert (body, loop.done.outcome, loop.done.part) == (body, "failed", part)


PROMPT = """
run = track("prompt").start()
def train(fails):
    for x in run.steps([0, 1, 2]):
        if x == 1:
            if fails: raise ValueError("cell")
            break

for x in run.steps([0, 1]): pass

for x in run.steps([0, 1, 2]):
    run.log(loss=x)
    if x == 1: raise ValueError("cell")

train(True)
train(False)
undefined
train(False)
for x in run.steps([0]): pass

run.finish()
"""


def test_a_step_in_which_a_cell_raised_is_none(tmp_path: Path) -> None:
    process = start(tmp_path, "")  # the prelude alone, for what is typed after it
    assert process.communicate(timeout=100)[1] == ""
    done = subprocess.run(
        [sys.executable, "-i", str(tmp_path / "train.py")],
        input=PROMPT,
        env={**os.environ, "LLMPROF_HOME": str(tmp_path), "OMP_NUM_THREADS": "1"},
        capture_output=True, text=True, timeout=110, check=False,
    )  # fmt: skip
    assert done.stderr.count("ValueError: cell") == 2
    (loop,) = replay(newest(tmp_path).journal).loops
    # 0 1 | 0, raised | 0, raised | 0 1 | 0 1 | 0
    assert loop.rows.index() == list(range(9))
    assert loop.rows.epochs == ((0, 0), (2, 1), (3, 2), (4, 3), (6, 4), (8, 5))
    assert [value for value in loop.rows.value("loss") if not math.isnan(value)] == [0.0]


@pytest.mark.parametrize(
    ("body", "part"),
    [
        ("for x in run.steps([1, 2]):\n        train()\n        fail()", "after"),
        ("for x in run.steps([1, 2]):\n        train()\n        break\n    fail()", "between"),
        ("with run.step():\n        fail()", "forward"),
        ("with run.step(), run.phase('check'):\n        fail()", "check"),
        ("for x in turns(run.steps([1, 2])):\n        train()\n        fail()", "after"),
        (
            "try:\n        with run.step():\n            fail()\n    except ValueError:\n"
            "        pass\n    fail()",
            "between",
        ),
    ],
)
def test_an_exception_is_said_to_be_where_it_was_raised(
    tmp_path: Path, body: str, part: str
) -> None:
    """A step that it leaves is over by the time that the loop hears of it."""
    process = start(
        tmp_path,
        """
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters())
def fail():
    raise ValueError("no more")
def train():
    model(torch.randn(2, 4)).sum().backward()
    optimizer.step()
def turns(steps):
    for x in steps:
        yield x
with track("broken") as run:
    """
        + body,
    )
    _, errors = process.communicate(timeout=100)
    assert "ValueError: no more" in errors
    (loop,) = replay(newest(tmp_path).journal).loops
    assert loop.done is not None
    assert (loop.done.error, loop.done.part) == ("ValueError: no more", part)


def test_an_exception_that_is_caught_in_a_step_leaves_that_step_out(tmp_path: Path) -> None:
    found = told(
        tmp_path,
        """
        model = net()
        optimizer = torch.optim.AdamW(model.parameters())
        with track("caught") as run:
            for at in range(4):
                try:
                    with run.step():
                        model(torch.randn(8, 320)).sum().backward()
                        def closure():
                            if at == 1:
                                raise RuntimeError("out of memory")
                        optimizer.step(closure)
                except RuntimeError:
                    pass
        hand.tell(back=torch.autograd.backward.__qualname__, hooks=len(
            sys.modules["torch.optim.optimizer"]._global_optimizer_pre_hooks))
        """,
    )
    assert len(found.loop.rows) == 3
    assert min(found.loop.rows.part_ms("optimizer")) > 0
    assert (found.said["back"], found.said["hooks"]) == ("backward", 0)


def test_threads_and_forks_are_left_out(tmp_path: Path) -> None:
    found = told(
        tmp_path,
        """
        import threading
        model = net()
        class Data(torch.utils.data.Dataset):
            def __len__(self):
                return 40
            def __getitem__(self, at):
                if at == 0:  # in a worker
                    torch.ones(1, requires_grad=True).sum().backward()
                return torch.randn(320)
        loader = torch.utils.data.DataLoader(Data(), batch_size=4, num_workers=2)
        def other():
            for _ in range(50):
                model(torch.randn(8, 320)).sum().backward()
                run.log(loss=7.0)
        with llmprof.track("forks") as run:
            for at, x in enumerate(run.steps(loader)):
                if at == 2:
                    thread = threading.Thread(target=other)
                    thread.start()
                    thread.join()
                if at == 5 and not os.fork():
                    with run.step():
                        pass
                    run.finish()
                    os._exit(0)
        hand.tell()
        """,
    )
    rows = found.loop.rows
    assert rows.index() == list(range(10))
    assert rows.parts.count("backward") == 0
    assert rows.values == ()
    assert found.view.damaged_lines == 0
    assert found.view.outcome == "complete"
    assert found.loop.beat is not None
    assert found.loop.beat.length == 10


def test_a_script_that_closes_all_descriptors_keeps_its_own_files(tmp_path: Path) -> None:
    """As one that makes a daemon of itself: what it opens then has the numbers of ours."""
    found = told(
        tmp_path,
        """
        folder = os.environ["LLMPROF_HOME"] + "/"
        def held():
            links = []
            for number in os.listdir("/proc/self/fd"):
                try:
                    links.append(os.readlink(f"/proc/self/fd/{number}"))
                except OSError:  # the listing's own
                    pass
            return links
        with llmprof.track("closed") as run:
            on = rest(run)
            ours = len(held())
            os.closerange(3, 256)
            mine = [os.open(folder + f"mine-{n}", os.O_RDWR | os.O_CREAT) for n in range(ours)]
            on.set()
            for x in run.steps(batches(3)):
                pass
        for number in mine:
            os.fstat(number)
        hand.tell(written=sum(os.path.getsize(folder + f"mine-{n}") for n in range(ours)))
        """,
    )
    assert found.said["written"] == 0


def test_a_run_can_be_watched_and_is_nobodys_to_stop_or_resume(tmp_path: Path) -> None:
    process = start(tmp_path, ENDLESS)
    try:
        wait_for(lambda: bool(RunStore(tmp_path / "runs").list()))
        run = newest(tmp_path)
        follower = Follower(run.journal)

        def steps() -> int:
            while follower.poll():
                pass
            loops = follower.view().loops
            return len(loops[0].rows) if loops else 0

        wait_for(lambda: steps() > 20)
        assert run.alive()
        assert run.is_loop
        with pytest.raises(NotOurs, match="end the training itself"):
            run.stop()
        for words in (["stop", "endless"], ["stop", "endless", "--kill"], ["resume", "endless"]):
            refused = llmprof(tmp_path, *words)
            assert refused.returncode == 2, refused.stderr
            assert len(refused.stderr.splitlines()) == 1
            assert "training" in refused.stderr
        assert process.poll() is None
        process.kill()
        wait_for(lambda: not run.alive(), "the lock let go")
        assert run.status(replay(run.journal)) == "interrupted"
        assert replay(run.journal).damaged_lines == 0
        shown = llmprof(tmp_path, "show", "endless")
        assert shown.returncode == 0
        assert "input wait" in shown.stdout
    finally:
        process.kill()
        process.communicate()


def test_the_newest_of_two_runs_of_one_label(tmp_path: Path) -> None:
    for _ in range(2):
        told(
            tmp_path, 'with track("same") as run:\n    with run.step():\n        pass\nhand.tell()'
        )
    store = RunStore(tmp_path / "runs")
    both = store.list()
    assert [run.label for run in both] == ["same", "same"]
    assert store.find("same") == both[0]
    assert [store.find(run.id) for run in both] == both


def test_nothing_is_done_where_it_is_switched_off(tmp_path: Path) -> None:
    script = """
        with track("off") as run:
            for x in run.steps(batches(3)):
                with run.phase("p"), run.step():
                    run.log(a=1)
        hand.tell(threads=sorted(t.name for t in __import__("threading").enumerate()))
        """
    home = tmp_path / "off"
    process = start(home, script, env={"LLMPROF_DISABLED": "1"})
    output, errors = process.communicate(timeout=100)
    assert process.returncode == 0
    assert errors == ""
    assert "MainThread" in output
    assert "llmprof-track" not in output
    assert not (home / "runs").exists()


def test_a_home_that_cannot_be_written_costs_the_run_alone(tmp_path: Path) -> None:
    home = tmp_path / "file"
    home.write_text("no folder", "utf-8")
    script = """
        with track("lost") as run:
            for x in run.steps(batches(5)):
                busy(100)
        hand.tell()
        """
    process = start(tmp_path / "scripts", script, env={"LLMPROF_HOME": str(home)})
    output, errors = process.communicate(timeout=100)
    assert process.returncode == 0, errors
    assert output
    assert errors.startswith("llmprof: lost is not watched: ")
    assert len(errors.splitlines()) == 1


def test_a_beginning_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    found = told(
        tmp_path,
        """
        places = ((torch.autograd, "backward"), (torch.autograd, "grad"), (sys, "exit"),
                  (torch.amp.GradScaler, "step"))
        before = [getattr(owner, name) for owner, name in places]
        class Odd:
            def register_forward_pre_hook(self, *given, **named):
                raise RuntimeError("no hooks here")
        with llmprof.track("no model", model=Odd()) as failed:
            for x in failed.steps(batches(3)):
                pass
        left = [name for (owner, name), one in zip(places, before) if getattr(owner, name) != one]
        with track("whole") as run:
            for x in run.steps(batches(3)):
                pass
        hand.tell(left=left)
        """,
    )
    assert found.said["left"] == []
    assert len(found.loop.rows) == 3
    assert "no model is not watched: " in found.errors


def test_a_given_folder_holds_one_loop(tmp_path: Path) -> None:
    found = told(
        tmp_path,
        """
        os.environ["LLMPROF_RUN_DIR"] = os.environ["LLMPROF_HOME"] + "/runs/given"
        for at in range(2):
            with track(f"loop {at}") as run:
                for x in run.steps(batches(3 + at)):
                    pass
        hand.tell()
        """,
    )
    assert found.loop.started.label == "loop 0"
    assert len(found.loop.rows) == 3
    assert found.errors.splitlines()[1:] == [
        "llmprof: loop 1 is not watched: LLMPROF_RUN_DIR is for one loop, and holds one already: "
        f"{tmp_path}/runs/given"
    ]


def test_a_file_of_samples_that_cannot_be_opened_costs_the_samples_alone(tmp_path: Path) -> None:
    found = told(
        tmp_path,
        """
        os.environ["LLMPROF_RUN_DIR"] = os.environ["LLMPROF_HOME"] + "/runs/given"
        in_its_place = os.environ["LLMPROF_RUN_DIR"] + "/devices-0.jsonl"
        os.makedirs(in_its_place)
        with track("unsampled", sample_devices=True) as run:
            for x in run.steps(batches(3)):
                pass
        os.rmdir(in_its_place)
        hand.tell()
        """,
    )
    assert len(found.loop.rows) == 3
    assert [note.message.partition(":")[0] for note in found.view.log] == [
        "the devices are not sampled"
    ]


@pytest.mark.parametrize("sampled", [False, True])
def test_who_closes_all_files_keeps_those_opened_after(tmp_path: Path, sampled: bool) -> None:
    """As a program does that goes on in the background."""
    found = told(
        tmp_path,
        f"""
        run = track("closed", sample_devices={sampled}).start()
        on = rest(run)
        for x in run.steps(batches(3)):
            pass
        os.closerange(3, 256)
        files = [open(f"{tmp_path}/mine-{{at}}", "w") for at in range(40)]
        on.set()
        for x in run.steps(batches(3)):
            busy(50)
        run.finish()
        for file in files:
            file.write("mine")
            file.close()
        hand.tell()
        """,
    )
    assert {path.read_text() for path in tmp_path.glob("mine-*")} == {"mine"}
    assert found.errors.splitlines()[1:] == [
        "llmprof: closed is not watched any more: Bad file descriptor"
    ]


def test_a_full_disk_costs_rows_and_training_ends_well(tmp_path: Path) -> None:
    """A limit on the size of files stands for it: writes fail in mid-run in the same way."""
    found = told(
        tmp_path,
        """
        import resource, signal
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        with track("full") as run:
            for at, x in enumerate(run.steps(batches(400, 0.005))):
                if at == 150:
                    runs = os.environ["LLMPROF_HOME"] + "/runs/"
                    size = os.path.getsize(f"{runs}{run.id}/journal.jsonl")
                    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 300, hard))
        hand.tell(steps=at + 1)
        """,
    )
    assert found.said["steps"] == 400
    assert found.view.damaged_lines == 0
    assert 0 < len(found.loop.rows) < 400
    assert found.loop.done is None


def test_a_card_that_is_lost_as_it_is_looked_for_stops_no_training(tmp_path: Path) -> None:
    found = told(
        tmp_path,
        """
        from llmprof.core.track import device_clock
        def lost():
            raise RuntimeError("CUDA error: unspecified launch failure")
        device_clock.is_there = lost
        with track("lost") as run:
            for x in run.steps(batches(3)):
                run.log(loss=1.0)
        hand.tell()
        """,
    )
    assert len(found.loop.rows) == 3
    assert [note.message for note in found.view.log] == [
        "the card's own times are not taken: CUDA error: unspecified launch failure"
    ]


RANKS = (
    gloo_scripts.IMPORTS
    + """
dist.init_process_group("gloo")
rank = dist.get_rank()
model = torch.nn.parallel.DistributedDataParallel(net(), bucket_cap_mb=100)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
with track("ranks") as run:
    for x in run.steps(batches(24)):
        loss = model(x).square().mean()
        if rank == 1:
            time.sleep(0.02)
        loss.backward()
        optimizer.step()
dist.destroy_process_group()
"""
)


def test_two_ranks_write_one_run_and_the_straggler_is_named(tmp_path: Path) -> None:
    from llmprof.core.figures.loops import straggler

    (tmp_path / "train.py").write_text("")
    start(tmp_path, "sys.exit(0)").communicate(timeout=60)
    script = tmp_path / "train.py"
    script.write_text(script.read_text("utf-8").replace("sys.exit(0)", "") + RANKS, "utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2",
         str(script)],
        env={**os.environ, "LLMPROF_HOME": str(tmp_path), "OMP_NUM_THREADS": "1"},
        capture_output=True, text=True, timeout=110, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (run,) = RunStore(tmp_path / "runs").list()
    view = replay(run.journal)
    assert [loop.rank for loop in view.loops] == [0, 1]
    assert [len(loop.rows) for loop in view.loops] == [24, 24]
    assert view.outcome == "complete"
    found = straggler(view.loops)
    assert found is not None
    assert (found.rank, found.part) == (1, "forward")
    assert found.excess_ms == pytest.approx(20, rel=0.35)


def test_a_restart_goes_on_in_the_same_run(tmp_path: Path) -> None:
    env = {"MASTER_ADDR": "a", "MASTER_PORT": "1", "RANK": "0", "WORLD_SIZE": "2"}
    script = """
        with track("again", first_step=int(os.environ["FIRST"])) as run:
            for x in run.steps(batches(5)):
                pass
        hand.tell()
        """
    for restart, first in (("0", "0"), ("1", "3")):
        more = {**env, "TORCHELASTIC_RESTART_COUNT": restart, "FIRST": first}
        told(tmp_path, script, env=more)
    (run,) = RunStore(tmp_path / "runs").list()
    (loop,) = replay(run.journal).loops
    assert loop.rows.index() == [0, 1, 2, 3, 4, 3, 4, 5, 6, 7]
    assert loop.restarts == ((0, 0), (1, 5))
    assert loop.rows.start_ns() == sorted(loop.rows.start_ns())


def test_a_hang_is_named_by_its_part(tmp_path: Path) -> None:
    process = start(
        tmp_path,
        """
        class Hang(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x.clone()
            @staticmethod
            def backward(ctx, g):
                time.sleep(1000)
        with track("hang") as run:
            for at, x in enumerate(run.steps(batches(10))):
                x.requires_grad_()
                y = Hang.apply(x) if at == 2 else x
                y.sum().backward()
        """,
    )
    try:
        wait_for(lambda: bool(RunStore(tmp_path / "runs").list()))
        journal = newest(tmp_path).journal

        def named() -> bool:
            loops = replay(journal).loops if journal.is_file() else ()
            beat = loops[0].current if loops else None
            return beat is not None and (beat.part, beat.index) == ("backward", 2)

        wait_for(named)
        process.send_signal(signal.SIGKILL)
    finally:
        process.kill()
        process.communicate()


def test_one_bad_value_costs_no_other_and_is_named_once(tmp_path: Path) -> None:
    found = told(
        tmp_path,
        """
        with track("my run") as run:
            for at, x in enumerate(run.steps(batches(4))):
                run.log(before=at, huge=10**400, name="x", vector=x[0, :3], none=None, after=at)
                run.log(loss=float("nan") if at == 2 else 1.0)
                run.log(price=decimal.Decimal("1.5"), epoch=at, wall_ms=7)
                with run.phase("wall"):
                    pass
        hand.tell()
        """.replace("with track", "import decimal\n        with track", 1),
    )
    rows = found.loop.rows
    assert rows.value("before") == rows.value("after") == [0, 1, 2, 3]
    assert rows.value("price") == [1.5] * 4
    head, first, *_ = csv.reader(io.StringIO(loops_csv(found.view)))
    assert len(set(head)) == len(head) == len(first)
    assert {"epoch", "logged_epoch", "wall_ms", "phase_wall_ms", "logged_wall_ms"} <= set(head)
    assert first[head.index("logged_wall_ms")] == "7.0"
    said = [entry.message for entry in found.view.log]
    assert said[:3] == [
        "the logged value huge is not kept: int too large to convert to float",
        "the logged value name is not kept: a str is no single number",
        "the logged value vector is not kept: a Tensor of shape (3,) is no single number",
    ]
    assert [text.partition(":")[0] for text in said[3:]] == ["loss was nan at step 2"]
    assert "`llmprof attach 'my run'`" in found.errors


def test_numbers_of_steps_of_every_kind_leave_the_run_readable(tmp_path: Path) -> None:
    given = [
        ("1e2", "numpy.int64(7)", 100, 7),
        ("numpy.float32(5)", "torch.tensor(3)", 5, 3),
        ("-1", "2.0", None, 2),
        ("'many'", "None", None, 0),
        ("float('inf')", "2**60", None, 0),
    ]
    script = "import numpy\n" + "".join(
        f"with track({at}, total_steps={total}, first_step={first}) as run:\n"
        "    for x in run.steps(batches(3)):\n"
        "        pass\n"
        for at, (total, first, _, _) in enumerate(given, 1)
    )
    told(tmp_path, script + "hand.tell()\n")
    store = RunStore(tmp_path / "runs")
    for at, (_, _, total, first) in enumerate(given, 1):
        view = replay(store.find(str(at)).journal)
        assert view.damaged_lines == 0
        assert view.loops[0].started.total_steps == total
        assert view.loops[0].rows.index() == [first, first + 1, first + 2]


def test_an_epoch_of_more_steps_than_can_be_counted_has_no_length(tmp_path: Path) -> None:
    found = told(
        tmp_path,
        """
        with track("endless") as run:
            for at in run.steps(range(sys.maxsize)):
                if at == 3:
                    break
        hand.tell()
        """,
    )
    assert found.view.damaged_lines == 0
    assert found.loop.beat is not None
    assert found.loop.beat.length is None


def test_names_without_end_are_not_written(tmp_path: Path) -> None:
    """No reader keeps more of them, and their columns would fill the disk."""
    found = told(
        tmp_path,
        """
        with track("names") as run:
            for at, x in enumerate(run.steps(batches(100))):
                run.log(loss=1.0, **{f"of step {at}": float(at)})
        hand.tell()
        """,
    )
    events = [ev.decode(line) for line in found.run.journal.read_bytes().splitlines()]
    names = {name for each in events if isinstance(each, ev.LoopSteps) for name in each.values}
    assert len(names) == MOST_VALUES
    assert found.loop.rows.value("loss") == [1.0] * 100
    messages = [note.message for note in found.view.log]
    assert messages[0] == "the logged value of step 63 is not kept: 64 names are kept"
    assert len(messages) == 3


def test_what_is_logged_after_the_last_step_is_its_own(tmp_path: Path) -> None:
    found = told(
        tmp_path,
        """
        import contextlib
        with track("evaluated") as run:
            for epoch in range(2):
                for x in run.steps(range(3)):
                    run.log(loss=1.0)
                with run.phase("evaluate"):
                    pass
                run.log(val=epoch, accuracy=torch.tensor(0.5), nan=float("nan"))
            run.log(test=7)
        with track("none") as run:
            run.log(val=1)
        with contextlib.suppress(KeyError), track("fails") as run:
            for x in run.steps(range(2)):
                run.log(loss=x)
            for x in run.steps(range(2)):
                run.log(loss=5)
                raise KeyError(x)
        hand.tell()
        """,
    )
    store = RunStore(tmp_path / "runs")
    rows = replay(store.find("evaluated").journal).loops[0].rows
    nan = pytest.approx(math.nan, nan_ok=True)
    assert rows.index() == list(range(6))
    assert rows.value("val") == [nan, nan, nan, 0, nan, 1]
    assert rows.value("accuracy") == [nan, nan, nan, 0.5, nan, 0.5]
    assert rows.value("test") == [nan, nan, nan, nan, nan, 7]
    assert rows.value("loss") == [1] * 6
    assert found.view.outcome == "failed"
    assert found.loop.rows.value("loss") == [0, 1]


def test_an_iterator_of_every_epoch_that_replaces_the_one_before(tmp_path: Path) -> None:
    found = told(
        tmp_path,
        """
        with track("some of each") as run:
            for _ in range(3):
                some = iter(run.steps(range(100)))
                for _ in range(4):
                    next(some)
            del some
            for _ in run.steps(range(2)):
                pass
        hand.tell()
        """,
    )
    rows = found.loop.rows
    assert rows.index() == list(range(14))
    assert rows.epochs == ((0, 0), (4, 1), (8, 2), (12, 3))
    assert found.view.log == ()


def test_a_loop_within_another_is_said_to_make_no_steps(tmp_path: Path) -> None:
    found = told(
        tmp_path,
        """
        with track("kept") as run:
            kept = iter(run.steps(range(10)))
            next(kept)
            for _ in range(3):
                assert list(run.steps(range(5))) == list(range(5))
        hand.tell()
        """,
    )
    assert found.loop.rows.index() == [0]
    (said,) = found.view.log
    assert "the outer loop makes the steps" in said.message


def test_what_is_given_wrong_costs_no_training(tmp_path: Path) -> None:
    found = told(
        tmp_path,
        """
        import pathlib
        import numpy as np
        wrong = [
            dict(total_steps="x"), dict(total_steps=-3), dict(total_steps=float("nan")),
            dict(total_steps=10**30), dict(first_step="a"), dict(first_step=-5), dict(model=5),
        ]
        right = [
            dict(total_steps=2.5), dict(total_steps=np.int64(3)), dict(first_step=2.0),
            dict(first_step=None), dict(model=None), dict(label=pathlib.Path("x/y")), dict(label=7),
        ]
        for given in [*wrong, *right]:
            with llmprof.track(**({"label": "given", "sample_devices": False} | given)) as run:
                for x in run.steps(range(3)):
                    with run.phase([]):
                        pass
        hand.tell(wrong=len(wrong))
        """,
    )
    lines = [line for line in found.errors.splitlines() if "watching this loop" not in line]
    assert len(lines) == found.said["wrong"]
    assert all(line.startswith("llmprof: ") for line in lines)
    runs = RunStore(tmp_path / "runs").list()
    assert len(runs) == 14
    for run in runs:
        view = replay(run.journal)
        (loop,) = view.loops
        assert (view.outcome, len(loop.rows)) == ("complete", 3)
        assert loop.rows.index()[0] in (0, 2)
        assert not loop.started.model
        assert loop.started.total_steps in (None, 3)


def test_what_looks_for_a_card_is_loaded_before_the_first_step(tmp_path: Path) -> None:
    found = told(
        tmp_path,
        """
        run = track("early").start()
        loaded = "llmprof.core.track.device_clock" in sys.modules
        run.finish()
        hand.tell(loaded=loaded)
        """,
    )
    assert found.said["loaded"]


def test_importing_llmprof_is_light(tmp_path: Path) -> None:
    code = "import sys, llmprof; print(len([m for m in sys.modules if m.startswith('llmprof.')]))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) <= 1
    code = (
        "import sys, llmprof; llmprof.track; "
        "print(*[m for m in ('torch', 'textual', 'rich', 'pynvml') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_a_program_that_ends_before_its_run_is_there_has_its_exit_code(tmp_path: Path) -> None:
    process = start(
        tmp_path,
        """
        from llmprof.core.track import writer
        find = writer.find_run
        def slow(*given):
            time.sleep(0.5)
            return find(*given)
        writer.find_run = slow
        run = track("short").start()
        with run.step():
            pass
        raise SystemExit(7)
        """,
    )
    process.communicate(timeout=110)
    assert process.returncode == 7
    (loop,) = replay(newest(tmp_path).journal).loops
    assert loop.done is not None
    assert (loop.done.outcome, loop.done.error) == ("failed", "the script exited with code 7")
