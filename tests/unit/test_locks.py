"""A run's lock says where its engine is; nothing elsewhere is signalled or taken for dead."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path

import msgspec
import pytest

from llmprof.core import events as ev
from llmprof.core.store import lock
from llmprof.core.store.lock import Holder
from llmprof.core.store.run import QUIET_S, Run, RunElsewhere, RunStore
from llmprof.core.system.boot import boot_id, host_name, pid_namespace
from llmprof.core.system.descriptors import Held
from tests.builders.handmade import experiment, opening, whole_run, write

FAR = Holder(pid=1, host="gpu-7", boot_id="another boot", pid_namespace="pid:[1]")


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return RunStore(tmp_path / "runs").create("alpha")


def say(run: Run, who: Holder | int) -> None:
    (run.path / "lock").write_bytes(msgspec.json.encode(who))


@contextmanager
def bystander() -> Iterator[subprocess.Popen[bytes]]:
    """A process that has nothing to do with any run."""
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@contextmanager
def taken(run: Run) -> Iterator[None]:
    """The lock is held, whoever its file names."""
    with (run.path / "lock").open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def test_a_lock_says_which_process_of_which_machine_holds_it(run: Run) -> None:
    with run.lock():
        assert run.holder() == Holder(
            pid=os.getpid(), host=host_name(), boot_id=boot_id(), pid_namespace=pid_namespace()
        )
        assert run.place == ""
    assert run.holder() is None


def test_a_lock_of_a_bare_pid_is_read(run: Run) -> None:
    say(run, 4711)
    with taken(run):
        assert run.engine_pid() == 4711
        assert run.place == ""


@pytest.mark.parametrize("known", [False, True], ids=["bare pid", "with its machine"])
def test_a_process_that_does_not_hold_the_lock_is_never_signalled(run: Run, known: bool) -> None:
    with bystander() as other, taken(run):
        here = Holder(pid=other.pid, boot_id=boot_id(), pid_namespace=pid_namespace())
        say(run, here if known else other.pid)
        for force in (False, True):
            with pytest.raises(RunElsewhere, match="in another container or on another machine"):
                run.stop(force=force)
        with pytest.raises(subprocess.TimeoutExpired):
            other.wait(0.2)


def test_a_run_of_another_container_is_not_stopped_from_here(run: Run) -> None:
    with bystander() as other, taken(run):
        say(run, Holder(pid=other.pid, host="box", boot_id=boot_id(), pid_namespace="pid:[1]"))
        assert run.alive()
        with pytest.raises(RunElsewhere, match=r"in another container of this machine.*\(box\)"):
            run.stop()
        with pytest.raises(RuntimeError, match="still running in another container"):
            run.delete()
        assert other.poll() is None


def test_a_run_that_another_machine_writes_is_alive_there(run: Run) -> None:
    write(run.journal, opening(experiment()))
    say(run, FAR)
    assert run.alive()
    with pytest.raises(RunElsewhere, match="going on on gpu-7: stop it there"):
        run.stop()
    with pytest.raises(RuntimeError, match="still running on gpu-7"):
        run.delete()
    with pytest.raises(BlockingIOError), run.lock():
        pass


@pytest.mark.parametrize("end", ["said", "silent", "booted anew", "bare pid"])
def test_what_has_ended_elsewhere_is_not_alive(run: Run, end: str) -> None:
    say(run, FAR)
    write(run.journal, opening(experiment()))
    match end:
        case "said":
            whole_run(run.journal)
        case "silent":
            long_ago = time.time() - QUIET_S - 1
            os.utime(run.journal, (long_ago, long_ago))
        case "booted anew":
            say(run, msgspec.structs.replace(FAR, host=host_name()))
        case _:
            say(run, FAR.pid)
    assert not run.alive()
    assert run.stop() is False
    with run.lock():
        assert run.engine_pid() == os.getpid()


def test_an_engine_elsewhere_that_has_not_written_yet_is_alive(run: Run) -> None:
    say(run, FAR)
    assert run.alive()


def test_a_process_that_is_gone_is_no_error(run: Run) -> None:
    with bystander() as other:
        pass
    with pytest.raises(ProcessLookupError):
        lock.has_open(other.pid, run.path / "lock")
    say(run, Holder(pid=other.pid, boot_id=boot_id(), pid_namespace=pid_namespace()))
    with taken(run):
        assert run.stop()


def test_a_torn_lock_names_nobody(run: Run) -> None:
    (run.path / "lock").write_bytes(b'{"pid":12')
    with taken(run):
        assert run.alive()
        assert run.engine_pid() is None
        assert run.stop() is False


def test_a_journal_that_goes_on_has_not_ended(run: Run) -> None:
    from llmprof.core.store.opening import ended

    whole_run(run.journal)
    assert ended(run.journal)
    with run.journal.open("ab") as file:
        file.write(ev.encode(ev.Log(message="resumed")))
    assert not ended(run.journal)


@pytest.mark.parametrize("hold", [lock.hold, lock.hold_as_loop])
def test_who_only_looks_whether_a_run_goes_on_keeps_nobody_from_holding_it(
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
    hold: Callable[[Path], AbstractContextManager[None] | Held],
) -> None:
    with (run.path / "lock").open("rb") as looker:
        fcntl.flock(looker, fcntl.LOCK_SH)
        monkeypatch.setattr(time, "sleep", lambda _: fcntl.flock(looker, fcntl.LOCK_UN))
        found = hold(run.lock_file)
        with found if isinstance(found, AbstractContextManager) else closing(found):
            assert lock.held(run.lock_file)
