"""`llmprof watch`: scripts that know nothing of llmprof, run as they are."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path

import pytest

from llmprof.cli.watch import blind_flag
from llmprof.core.figures.loops import straggler
from llmprof.core.lint.loops import loop_verdicts
from llmprof.core.store.journal import replay
from llmprof.core.store.run import RunStore
from tests.builders import gloo_scripts, watched_scripts
from tests.builders.tracked_scripts import agree, newest
from tests.builders.watched_scripts import told
from tests.engine.runs import command, llmprof
from tests.waiting import wait_for

EPOCHS = """
model = net()
optimizer = torch.optim.AdamW(model.parameters())
train, held_out = loader(4, 0.004), loader(5, 0.002)
for epoch in range(6):
    hand.at("input")
    for (x,) in train:
        hand.at("forward")
        loss = model(x).square().mean()
        hand.at("backward")
        loss.backward()
        hand.at("before")
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        hand.at("optimizer")
        optimizer.step()
        hand.end("after")
        optimizer.zero_grad()
        hand.at("input")
    hand.at("evaluation")
    with torch.no_grad():
        for (x,) in held_out:
            model(x)
    hand.at("checkpoint")
    torch.save(model.state_dict(), sys.argv[0] + ".pt")
    hand.at("between")
hand.tell()
"""


def test_epochs_with_evaluation_and_checkpoints(tmp_path: Path) -> None:
    found = told(tmp_path, EPOCHS)
    rows = found.loop.rows
    assert rows.index() == list(range(24))
    agree(found, ("input", "forward", "backward", "before", "optimizer", "after"))
    begins = range(4, 24, 4)  # what came between epochs is told with the step after it
    agree(found, ("evaluation", "checkpoint"), at=begins)
    assert [ms > 0 for ms in rows.part_ms("evaluation")] == [at in begins for at in range(24)]
    assert rows.epochs == tuple((4 * epoch, epoch) for epoch in range(6))
    assert found.loop.started.label == "train"
    assert found.view.outcome == "complete"
    assert not [log for log in found.view.log if log.level == "warning"]


def test_accumulation_with_amp_and_a_batch_function(tmp_path: Path) -> None:
    """As nanoGPT is written: no DataLoader, so that batches are part of forward, which is said."""
    found = told(
        tmp_path,
        """
        model = net()
        optimizer = torch.optim.AdamW(model.parameters())
        scaler = torch.amp.GradScaler("cpu")
        for step in range(14):
            for micro in range(3):
                hand.at("forward")
                x = torch.randn(64, 320)
                with torch.autocast("cpu", torch.bfloat16):
                    loss = model(x).square().mean() / 3
                if step == 12:
                    loss = loss * float("inf")
                hand.at("backward")
                scaler.scale(loss).backward()
            hand.at("before")
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            hand.at("optimizer")
            scaler.step(optimizer)
            hand.end("forward")
            scaler.update()
            optimizer.zero_grad(set_to_none=True)
        hand.tell()
        """,
    )
    assert found.loop.rows.index() == list(range(14))
    agree(found, ("forward", "backward", "before"))
    assert found.loop.beat is not None
    assert found.loop.beat.updates_skipped == 1
    assert "no batch came from a DataLoader" in found.view.log[-1].message


def test_several_optimizers_and_closures(tmp_path: Path) -> None:
    found = told(
        tmp_path,
        """
        a, b = net(), net()
        first, second = torch.optim.SGD(a.parameters(), 0.01), torch.optim.Adam(b.parameters())
        for (x,) in loader(12):
            a(x).square().mean().backward()
            first.step()
            loss = b(x).square().mean()
            loss.backward()
            second.step()
        third = torch.optim.LBFGS(a.parameters(), max_iter=3)
        for (x,) in loader(6):
            def closure():
                third.zero_grad()
                loss = a(x).square().mean()
                loss.backward()
                return loss
            third.step(closure)
        print("{}")
        """,
    )
    rows = found.loop.rows
    assert rows.index() == list(range(18))
    assert all(ms > 0 for ms in rows.part_ms("optimizer"))
    assert all(ms > 0 for ms in rows.part_ms("forward")[1:])
    assert rows.part_ms("backward")[-1] > 0


def test_updates_within_a_backward(tmp_path: Path) -> None:
    found = told(
        tmp_path,
        """
        model = net()
        each = {p: torch.optim.SGD([p], 0.01) for p in model.parameters()}
        def update(p):
            each[p].step()
            each[p].zero_grad()
        for p in each:
            p.register_post_accumulate_grad_hook(update)
        for (x,) in loader(8):
            model(x).square().mean().backward()
        print("{}")
        """,
    )
    assert found.loop.rows.index() == list(range(8))


NOISY = """
print("out", *sys.argv[1:])
print("err", file=sys.stderr)
print(os.environ.get("HIDDEN"), [p for p in sys.path if "startup" in p])
model = net()
optimizer = torch.optim.SGD(model.parameters(), 0.01)
for (x,) in loader(3, num_workers=1):
    model(x).sum().backward()
    optimizer.step()
os._exit(5) if "exit" in sys.argv else os.kill(os.getpid(), 15) if "kill" in sys.argv else None
raise SystemExit("bad" if "bad" in sys.argv else 0)
"""


@pytest.mark.parametrize("end", ["exit", "kill", "bad", "well"])
def test_output_exit_code_and_signal_are_the_commands_own(tmp_path: Path, end: str) -> None:
    hidden = tmp_path / "site"
    hidden.mkdir()
    (hidden / "sitecustomize.py").write_text("import os; os.environ['HIDDEN'] = 'run'")
    env = {"PYTHONPATH": os.pathsep.join([str(hidden), os.environ.get("PYTHONPATH", "")])}
    done, plain = (
        watched_scripts.run(tmp_path, NOISY, words=[end], watched=watched, env=env)
        for watched in (True, False)
    )
    assert (done.returncode, done.stdout, done.stderr) == (
        plain.returncode,
        plain.stdout,
        plain.stderr,
    )
    if end != "kill":
        assert "run []" in done.stdout
    (run,) = RunStore(tmp_path / "runs").list()
    assert not run.alive()


ENDS = {
    "sys.exit(7)": (7, "failed", "the script exited with code 7"),
    "sys.exit('no data')": (1, "failed", "the script exited with code 1: no data"),
    "quit(5)": (5, "failed", "the script exited with code 5"),
    "import argparse; argparse.ArgumentParser().error('what')": (
        2, "failed", "the script exited with code 2"
    ),
    "raise SystemExit(7)": (7, "failed", "the script exited with code 7"),
    "raise SystemExit": (0, "complete", ""),
    "def main(): raise SystemExit(300)\nmain()": (44, "failed", "the script exited with code 44"),
    "sys.exit(0)": (0, "complete", ""),
    "try:\n    sys.exit(3)\nexcept SystemExit:\n    pass": (0, "complete", ""),
    "1 / 0": (1, "failed", "ZeroDivisionError: division by zero"),
    "raise KeyboardInterrupt": (-2, "interrupted", "KeyboardInterrupt (SIGINT)"),
}  # fmt: skip


TRAINS = """
model = net(8)
optimizer = torch.optim.SGD(model.parameters(), 0.01)
for at in range(3):
    model(torch.randn(2, 8)).sum().backward()
    optimizer.step()
"""


@pytest.mark.parametrize("end", ENDS)
def test_the_run_says_how_its_script_ended(tmp_path: Path, end: str) -> None:
    done = watched_scripts.run(tmp_path, TRAINS + end)
    code, outcome, said = ENDS[end]
    assert (done.returncode, done.stdout) == (code, "")
    if said.endswith(str(code)) and code != 2:  # argparse has said something
        assert done.stderr == ""
    view = replay(newest(tmp_path).journal)
    (loop,) = view.loops
    assert loop.done is not None
    assert (loop.done.outcome, loop.done.error) == (outcome, said)
    assert view.outcome == outcome


@pytest.mark.parametrize("words", [["-c", "{0}{1}sys.exit(4)"], ["-m", "mine"]])
def test_commands_and_modules_that_exit_say_so_too(tmp_path: Path, words: list[str]) -> None:
    (tmp_path / "mine.py").write_text(f"{watched_scripts.PRELUDE}{TRAINS}sys.exit(4)", "utf-8")
    launcher = [word.format(watched_scripts.PRELUDE, TRAINS) for word in words]
    done = watched_scripts.run(
        tmp_path,
        "",
        launcher=[sys.executable, *launcher],
        env={"PYTHONPATH": f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"},
    )
    assert done.returncode == 4
    (loop,) = replay(newest(tmp_path).journal).loops
    assert loop.done is not None
    assert loop.done.error == "the script exited with code 4"


def test_an_error_names_its_part(tmp_path: Path) -> None:
    done = watched_scripts.run(
        tmp_path,
        """
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), 0.01)
        for at, (x,) in enumerate(loader(5)):
            loss = model(x).square().mean()
            if at == 3:
                loss.register_hook(lambda g: 1 / 0)
            loss.backward()
            optimizer.step()
        """,
    )
    assert done.returncode == 1
    assert "ZeroDivisionError" in done.stderr
    (loop,) = replay(newest(tmp_path).journal).loops
    assert loop.done is not None
    assert (loop.done.outcome, loop.done.part) == ("failed", "backward")
    assert loop.rows.index() == [0, 1, 2]


@pytest.mark.parametrize(
    ("failing", "part"),
    [
        ("model(torch.ones(3))", "forward"),
        ("model(x).sum().backward(); fail()", "before"),
        ("model(x).sum().backward(); optimizer.step(); fail()", "after"),
        ("torch.save(model, '/nowhere/model.pt')", "checkpoint"),
        ("next(iter(torch.utils.data.DataLoader(Broken())))", "evaluation"),
    ],
)
def test_an_error_outside_of_backward_names_its_part(
    tmp_path: Path, failing: str, part: str
) -> None:
    done = watched_scripts.run(
        tmp_path,
        f"""
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), 0.01)
        def fail():
            raise ValueError("no more")
        class Broken(torch.utils.data.Dataset):
            def __len__(self):
                return 1
            def __getitem__(self, at):
                fail()
        for at, (x,) in enumerate(loader(5)):
            if at == 3:
                {failing}
            model(x).square().mean().backward()
            optimizer.step()
        """,
    )
    assert done.returncode == 1
    (loop,) = replay(newest(tmp_path).journal).loops
    assert loop.done is not None
    assert (loop.done.outcome, loop.done.part) == ("failed", part)
    assert loop.rows.index()[:3] == [0, 1, 2]


def test_programs_that_do_not_train_are_left_alone(tmp_path: Path) -> None:
    script = """
    import subprocess
    subprocess.run([sys.executable, "-c", "import sys; print('torch' in sys.modules)"], check=True)
    print([finder for finder in sys.meta_path if "Optimizer" in type(finder).__name__])
    print(sorted(name for name in sys.modules if name.startswith("llmprof")), flush=True)
    """
    done = watched_scripts.run(tmp_path, script)
    assert done.stdout.splitlines() == ["False", "[]", "[]"]
    assert not (tmp_path / "runs").exists()


def test_switched_off_or_tracked_by_the_script_itself(tmp_path: Path) -> None:
    script = """
        import llmprof
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), 0.01)
        with llmprof.track("its-own", sample_devices=False) as run:
            for (x,) in run.steps(loader(4)):
                model(x).sum().backward()
                optimizer.step()
        print("{}")
        """
    assert watched_scripts.run(tmp_path, script, env={"LLMPROF_DISABLED": "1"}).returncode == 0
    assert not (tmp_path / "runs").exists()
    found = told(tmp_path, script)
    assert [run.label for run in RunStore(tmp_path / "runs").list()] == ["its-own"]
    assert found.loop.rows.index() == list(range(4))


@pytest.mark.parametrize(
    ("words", "flag"),
    [
        (["python", "-I", "train.py"], "I"),
        (["/usr/bin/python3.12", "-uE", "train.py"], "E"),
        (["python", "-W", "ignore", "-S", "-m", "pkg"], "S"),
        (["python", "-X", "importtime", "train.py", "-I"], None),
        (["python", "-c", "-I"], None),
        (["torchrun", "-I"], None),
        (["python"], None),
    ],
)
def test_options_that_make_blind(words: Sequence[str], flag: str | None) -> None:
    assert blind_flag(words) == flag


def test_what_cannot_be_watched_is_one_line(tmp_path: Path) -> None:
    script = "print('runs')"
    done = watched_scripts.run(tmp_path, script, launcher=[sys.executable, "-I"])
    assert done.returncode == 0
    assert done.stdout == "runs\n"
    assert len(done.stderr.splitlines()) == 1
    assert "leave -I out" in done.stderr
    for words in (["watch"], ["watch", "--", "no-such-command-x"]):
        refused = llmprof(tmp_path, *words)
        assert refused.returncode == 2
        assert len(refused.stderr.splitlines()) == 1


def test_ctrl_c_reaches_the_script(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(
        watched_scripts.PRELUDE
        + """
model = net()
optimizer = torch.optim.SGD(model.parameters(), 0.01)
try:
    while True:
        for (x,) in loader(3):
            model(x).sum().backward()
            optimizer.step()
except KeyboardInterrupt:
    sys.exit(9)
""",
        "utf-8",
    )
    process = subprocess.Popen(
        command("watch", "--no-sampler", "--label=mine", "--", sys.executable, str(path)),
        env={**os.environ, "LLMPROF_HOME": str(tmp_path)},
    )
    try:
        wait_for(lambda: [run.label for run in RunStore(tmp_path / "runs").list()] == ["mine"])
        assert interrupted(process) == 9
    finally:
        process.kill()
        process.wait()


def interrupted(process: subprocess.Popen[bytes]) -> int:
    """Ctrl-C until the process ends: Python loses one that comes within a finalizer."""
    for _ in range(5):
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.wait(30)
    raise AssertionError("Ctrl-C did not reach it")


RANKS = (
    gloo_scripts.IMPORTS
    + """
dist.init_process_group("gloo")
rank = dist.get_rank()
model = torch.nn.parallel.DistributedDataParallel(net(), bucket_cap_mb=100)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for (x,) in loader(24):
    loss = model(x).square().mean()
    if rank == 1:
        time.sleep(0.02)
    loss.backward()
    optimizer.step()
dist.destroy_process_group()
"""
)


def test_two_ranks_under_torchrun(tmp_path: Path) -> None:
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    done = watched_scripts.run(tmp_path, RANKS, launcher=launcher)
    assert done.returncode == 0, done.stderr
    (run,) = RunStore(tmp_path / "runs").list()
    view = replay(run.journal)
    assert [(loop.rank, len(loop.rows)) for loop in view.loops] == [(0, 24), (1, 24)]
    assert view.outcome == "complete"
    found = straggler(view.loops)
    assert found is not None
    assert (found.rank, found.part) == (1, "forward")
    assert [verdict.rule for verdict in loop_verdicts(view)] == ["straggler"]


def test_ranks_that_the_script_starts_by_itself(tmp_path: Path) -> None:
    done = watched_scripts.run(
        tmp_path,
        textwrap.indent(gloo_scripts.IMPORTS, " " * 8)
        + """
        def train(rank, folder):
            dist.init_process_group("gloo", f"file://{folder}/meet", rank=rank, world_size=2)
            model = torch.nn.parallel.DistributedDataParallel(net())
            optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
            for (x,) in loader(6):
                model(x).square().mean().backward()
                optimizer.step()
            dist.destroy_process_group()
        if __name__ == "__main__":
            torch.multiprocessing.spawn(train, (sys.argv[1],), nprocs=2)
        """,
        words=[str(tmp_path)],
    )
    assert done.returncode == 0, done.stderr
    (run,) = RunStore(tmp_path / "runs").list()
    loops = replay(run.journal).loops
    assert [(loop.rank, len(loop.rows)) for loop in loops] == [(0, 6), (1, 6)]


def test_a_package_gives_the_run_its_name(tmp_path: Path) -> None:
    package = tmp_path / "mypackage"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text(
        watched_scripts.PRELUDE
        + """
model = net()
optimizer = torch.optim.SGD(model.parameters(), 0.01)
for (x,) in loader(3):
    model(x).square().mean().backward()
    optimizer.step()
""",
        "utf-8",
    )
    done = subprocess.run(
        command("watch", "--no-sampler", "--", sys.executable, "-m", "mypackage"),
        env={**os.environ, "LLMPROF_HOME": str(tmp_path)}, cwd=tmp_path,
        capture_output=True, text=True, timeout=110, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert newest(tmp_path).label == "mypackage"
