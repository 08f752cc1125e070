"""`python -m llmprof.core.engine`: waits for a plan on standard input, then runs it."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import traceback
from pathlib import Path
from typing import NoReturn

import msgspec

from llmprof.core.engine.client import EngineExit, Plan
from llmprof.core.engine.loop import EngineRun
from llmprof.core.engine.signals import Signals
from llmprof.core.engine.workers import WorkerPool, redirect_output
from llmprof.core.store.journal import JournalGone
from llmprof.core.store.lock import NO_LOCKS
from llmprof.core.store.pack import pack
from llmprof.core.store.run import Run


def main() -> int:
    """Exit code of the engine: see client.EngineExit."""
    pool = WorkerPool()
    pool.warm()
    line = sys.stdin.buffer.readline()
    if not line.strip():
        return EngineExit.OK  # dismissed before it had a plan
    try:
        plan = msgspec.json.decode(line, type=Plan)
    except msgspec.DecodeError:
        return EngineExit.NO_PLAN
    run = Run(Path(plan.run_dir))
    try:
        with run.lock():
            return _run(plan, run, pool)
    except BlockingIOError:
        return EngineExit.HELD
    except OSError as error:
        if error.errno in NO_LOCKS:
            return EngineExit.NO_LOCKS
        raise


def _run(plan: Plan, run: Run, pool: WorkerPool) -> int:
    redirect_output(run.log)
    engine: EngineRun | None = None
    code = EngineExit.OK
    try:
        engine = EngineRun(plan, run, pool, Signals())
        engine.run()
    except OSError as error:
        _tell()
        code = _ending(error, run)
    except BaseException:
        _tell()
        code = EngineExit.FAILED
    measured = engine is not None and engine.looked
    if plan.pack is not None and measured and not _packed(run, Path(plan.pack)):
        code = code or EngineExit.NOT_PACKED
    leave(pool, code)


def _packed(run: Run, target: Path) -> bool:
    """Put the run into a file; False, and the reason in the log, where that fails."""
    try:
        pack(run, target)
    except OSError:
        _tell()
        return False
    return True


def _ending(error: OSError, run: Run) -> EngineExit:
    if isinstance(error, JournalGone) or not run.path.is_dir():
        return EngineExit.GONE
    full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    return EngineExit.DISK_FULL if full else EngineExit.FAILED


def _tell() -> None:
    with contextlib.suppress(OSError, ValueError):  # the log may be on the same full disk
        traceback.print_exc()


def leave(pool: WorkerPool, code: int) -> NoReturn:
    """End now, with nothing of ours alive; the run's lock goes with the process, last of all."""
    pool.kill_all()
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    sys.exit(main())
