"""Entry of a worker process: isolate it, run its probe, tell how it ended."""

from __future__ import annotations

import contextlib
import importlib
import os
import resource
import signal
import sys
import time
from multiprocessing.connection import Connection
from pathlib import Path
from types import FrameType
from typing import NoReturn

import msgspec
import torch

from llmprof.core import events as ev
from llmprof.core.spec.case import Case
from llmprof.core.spec.own_function import is_function, path_and_name
from llmprof.core.spec.own_model import OwnModel
from llmprof.core.system.lifeline import die_with
from llmprof.core.system.modules_by_name import PROBES
from llmprof.core.worker import environment
from llmprof.core.worker.card import cards_now
from llmprof.core.worker.compiling import use_empty_cache
from llmprof.core.worker.failures import (
    Overdue,
    Stopped,
    describe_failure,
    overdue,
    with_card_memory,
)
from llmprof.core.worker.job import Job, write_all
from llmprof.core.worker.optional_parts import log_traceback
from llmprof.core.worker.request import REFUSED, WorkerRequest


def run_request(
    request_json: bytes, events: Connection, lifeline: Connection, turns: Connection, log: str
) -> None:
    """Run one request in this process, which ends with the lifeline."""
    isolate(lifeline.fileno())
    request = msgspec.json.decode(request_json, type=WorkerRequest)
    if request.case is None:
        _look(request, events.fileno())
    else:
        use_empty_cache(request.scratch)
        _measure(request, request.case, events.fileno(), turns.fileno())


def isolate(lifeline: int) -> None:
    """Own process group, tied to the engine; first for the OOM killer."""
    with contextlib.suppress(OSError):
        os.setpgid(0, 0)
    die_with(lifeline)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _stop)
    signal.signal(signal.SIGUSR1, _say_where)
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")


def _stop(number: int, frame: FrameType | None) -> None:
    raise Stopped(128 + number)  # a probe's finally sends what it has


def _say_where(number: int, frame: FrameType | None) -> None:
    raise Overdue


def limit_memory(extra_bytes: int) -> None:
    """Let this process map at most extra_bytes more, so that too much is an error, not a kill."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + extra_bytes
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    allowed = [limit, *(one for one in (soft, hard) if one != resource.RLIM_INFINITY)]
    resource.setrlimit(resource.RLIMIT_AS, (min(allowed), hard))


def _look(request: WorkerRequest, fd: int) -> None:
    try:
        write_all(fd, ev.encode(environment.read_environment(request.device)))
    except Exception as error:
        failure = describe_failure(error, "start")
        write_all(fd, ev.encode(ev.Log(message=failure.message, level="error")))
        log_traceback()
        sys.exit(REFUSED)


def _measure(request: WorkerRequest, case: Case, fd: int, turns: int) -> None:
    job = Job(request, case, torch.device(request.device), fd, turns)
    try:
        _probe(job, request)
    except SystemExit as stop:
        _leave(int(stop.code or 0))
    except Overdue:  # in the repeat of a case that has ended
        _leave(1)
    _leave(0)


def _probe(job: Job, request: WorkerRequest) -> None:
    """Run the case's probe and tell how it ended; of what had no memory left, what was alive."""
    case, failure = job.case, None
    try:
        if request.created_ns:
            job.own_ms = (time.monotonic_ns() - request.created_ns) / 1e6
        if job.device.type == "cuda":
            _open_device(job)
        elif request.memory_limit_bytes is not None:
            limit_memory(request.memory_limit_bytes)
        importlib.import_module(f"{PROBES}.{case.probe}").run(job)
        job.emit(ev.CaseDone(case=job.index))
    except Stopped:
        raise
    except Overdue as error:
        late = overdue(error, request.silence_s, job.phase, _own_folder(case))
        job.emit(ev.CaseFailed(case=job.index, failure=late))
        log_traceback()
    except BaseException as error:  # a user's code may raise an exit or an interrupt as well
        failure = describe_failure(error, job.phase, _own_folder(case))
        if failure.kind == "oom" and job.device.type == "cuda":
            failure = with_card_memory(failure, job.device)
        job.emit(ev.CaseFailed(case=job.index, failure=failure))
        log_traceback()
    if failure is not None and failure.kind == "oom":
        from llmprof.core.worker.failed_step import repeat, worth_repeating  # seldom needed

        if worth_repeating(job, failure):
            repeat(job)


def _own_folder(case: Case) -> str | None:
    if isinstance(case.model, OwnModel):
        return case.model.folder
    if is_function(case.attention):
        return str(path_and_name(case.attention)[0].parent)
    return None


def _open_device(job: Job) -> None:
    """Make the CUDA context; a memory probe looks at the card before."""
    if job.case.probe == "memory":
        job.cards = cards_now()
    start = time.monotonic_ns()
    environment.create_context(job.device)
    job.context_ms = (time.monotonic_ns() - start) / 1e6


def _leave(code: int) -> NoReturn:
    """End without the interpreter's teardown: the card is free at once, nothing is left to do."""
    with contextlib.suppress(OSError, ValueError):  # what was printed may fit on no disk
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)
