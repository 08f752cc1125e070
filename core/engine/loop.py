"""The engine's loop: one case after another, everything that happens journalled."""

from __future__ import annotations

import contextlib
import os
import select
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

import msgspec

from llmprof.core import events as ev
from llmprof.core.devices.process import SamplerProcess
from llmprof.core.engine import plan as planning
from llmprof.core.engine.endings import failure_of
from llmprof.core.engine.request import Request
from llmprof.core.engine.signals import KILL, Signals
from llmprof.core.engine.turns import Live, alternate, batches
from llmprof.core.engine.workers import Worker, WorkerPool
from llmprof.core.hostmem import available_bytes, oom_kills
from llmprof.core.identity import differences
from llmprof.core.journal import JournalWriter, replay
from llmprof.core.launch import Plan
from llmprof.core.runs import Run
from llmprof.core.spec import Case
from llmprof.version import __version__

POLL_S = 0.5
STOP_GRACE_S = 2.0
MEMORY_SHARE = 0.95  # of what the host has available, for a worker on the CPU
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
Stopping = Literal["no", "stop", "kill"]


class EngineRun:
    """One run of an engine over a plan."""

    def __init__(self, plan: Plan, run: Run, pool: WorkerPool, signals: Signals) -> None:
        self._plan = plan
        self._run = run
        self._pool = pool
        self._signals = signals
        self._journal = JournalWriter(run.journal)
        self._sampler: SamplerProcess | None = None
        self._cases = plan.experiment.cases()
        self._environment: ev.Environment | None = None
        self._earlier: ev.Environment | None = None  # in which a resumed run was measured
        self._stopping: Stopping = "no"
        self._poll = select.poll()
        self._poll.register(signals.fd, select.POLLIN)
        if plan.lifeline:
            self._poll.register(sys.stdin.fileno(), select.POLLIN)

    def run(self) -> ev.Outcome:
        """Run every case of the plan; the outcome, already journalled."""
        self._open()
        try:
            outcome = self._all()
        except BaseException:
            with contextlib.suppress(OSError):
                self._journal.append(ev.RunDone(outcome="failed"))
            raise
        finally:
            if self._sampler is not None:
                self._sampler.close()
        self._journal.append(ev.RunDone(outcome=outcome))
        self._journal.close()
        return outcome

    def _open(self) -> None:
        self._journal.append(
            ev.Segment(
                boot_id=_boot_id(), wall_ns=time.time_ns(), pid=os.getpid(), version=__version__
            )
        )
        if self._plan.resume is not None:
            before = replay(self._run.journal)
            self._cases = tuple(state.case for state in before.cases)
            measured = any(state.environment is not None for state in before.cases)
            self._earlier = before.environment if measured else None
            return
        self._journal.append(
            ev.RunStarted(
                run_id=self._run.id,
                experiment=self._plan.experiment,
                cases=self._cases,
                command=self._plan.command,
            )
        )

    def _all(self) -> ev.Outcome:
        if not self._look():
            return "stopped" if self._stopping != "no" else "failed"
        assert self._environment is not None
        for line in planning.warnings(self._plan.experiment, self._environment):
            self._say(line, "warning")
        wanted = self._wanted()
        if self._plan.only_plan:
            for index in wanted:
                refused = self._refused(index)
                if refused is not None:
                    self._fail(index, refused)
            return "complete"
        self._start_sampler()
        for group in batches(wanted, self._cases, self._environment.memory_free_bytes):
            if self._stopping != "no":
                return "stopped"
            self._together(group)
        return "stopped" if self._stopping != "no" else "complete"

    def _look(self) -> bool:
        """Have a worker read the environment; False when there is none."""
        worker = self._first_worker()
        if worker is None:
            return False
        self._follow(worker)
        code = worker.close()
        if self._environment is not None and self._elsewhere(self._environment):
            return False
        if self._environment is None and self._stopping == "no":
            self._say(f"no device could be read (worker exit {code})", "error")
        return self._environment is not None

    def _first_worker(self) -> Worker | None:
        """Start the worker that looks at the device; None when stopped while torch loads."""
        with ThreadPoolExecutor(1) as threads:
            starting = threads.submit(self._start, None, -1, self._plan.experiment.device)
            while not starting.done():
                self._wait(0.05)
                if self._stopping != "no":
                    self._pool.abandon()  # what loads is killed, so that the start fails
                    return None
            return starting.result()

    def _elsewhere(self, environment: ev.Environment) -> bool:
        """Whether a resumed run's other figures are from another machine, which isn't allowed."""
        if self._earlier is None or self._plan.elsewhere:
            return False
        wrong = differences(self._earlier, environment)
        if wrong:
            self._say(
                f"not resumed, this is not where it was measured: {'; '.join(wrong)}", "error"
            )
        return bool(wrong)

    def _wanted(self) -> list[int]:
        """Cases to run; those that are left out by the budget are journalled as such."""
        assert self._environment is not None
        estimates = [planning.estimate_s(case, self._environment) for case in self._cases]
        for index, estimate in enumerate(estimates):
            self._journal.append(ev.Planned(case=index, estimate_s=estimate))
            said = planning.prediction(index, self._cases[index], self._environment)
            if said is not None:
                self._journal.append(said)
        on_cpu = self._environment.device == "cpu"
        resumed = self._plan.resume is not None  # what is wanted has been chosen before
        budget = self._plan.experiment.cpu_budget_s if on_cpu and not resumed else None
        name = self._plan.experiment.name
        skipped = planning.left_out(self._cases, estimates, budget, name)
        wanted = []
        for index in range(len(self._cases)):
            if self._plan.resume is not None and index not in self._plan.resume:
                continue
            if index in skipped:
                self._fail(index, skipped[index])
            else:
                wanted.append(index)
        return wanted

    def _refused(self, index: int) -> ev.Failure | None:
        """Why a case need not be tried, by what is free now."""
        assert self._environment is not None
        free = self._free_bytes()
        return planning.refusal(self._cases[index], self._plan.experiment, self._environment, free)

    def _free_bytes(self) -> int | None:
        assert self._environment is not None
        on_cpu = self._environment.device == "cpu"
        return available_bytes() if on_cpu else self._environment.memory_free_bytes

    def _together(self, group: tuple[int, ...]) -> None:
        """Run a case, or several whose measured steps alternate."""
        live = []
        for index in group:
            if self._stopping != "no":
                break
            one = self._launch(index)
            if one is not None and self._advance(one):
                live.append(one)
        alternate(live, self._advance)

    def _launch(self, index: int) -> Live | None:
        """Start a case's worker; None for a case that need not be tried."""
        assert self._environment is not None
        case, environment = self._cases[index], self._environment
        refused = self._refused(index)
        if refused is not None:
            self._fail(index, refused)
            return None
        limit = int(available_bytes() * MEMORY_SHARE) if environment.device == "cpu" else None
        scratch = TemporaryDirectory(
            prefix="scratch-", dir=self._run.path, ignore_cleanup_errors=True
        )
        kills = oom_kills()
        worker = self._start(case, index, environment.device, limit, scratch.name)
        self._journal.append(ev.CaseStarted(case=index, pid=worker.pid))
        return Live(index, worker, scratch, kills)

    def _advance(self, live: Live) -> bool:
        """Let a worker go on until it parks (True) or has ended, which is journalled (False)."""
        live.worker.give_turn()
        overdue = self._follow(live.worker)
        if live.worker.parked:
            return True
        code = live.worker.close()
        live.scratch.cleanup()
        if not live.worker.finished:
            silence = self._plan.experiment.silence_s if overdue else None
            self._fail(
                live.index,
                failure_of(
                    code,
                    silence_s=silence,
                    stopped=self._stopping != "no",
                    out_of_memory=oom_kills().since(live.memory_kills),
                    log=self._run.log.name,
                ),
            )
        return False

    def _start(
        self,
        case: Case | None,
        index: int,
        device: str,
        limit: int | None = None,
        scratch: str | None = None,
    ) -> Worker:
        request = Request(
            case=case,
            index=index,
            device=device,
            run_dir=str(self._run.path),
            memory_limit_bytes=limit,
            scratch=scratch,
            created_ns=time.monotonic_ns(),
        )
        return self._pool.start(request, str(self._run.log))

    def _follow(self, worker: Worker) -> bool:
        """Journal what a worker sends until it ends or parks; whether it was silent too long."""
        overdue = False
        killed_at: float | None = None
        for fd in worker.fds:
            self._poll.register(fd, select.POLLIN)
        try:
            while not worker.ended and not worker.parked:
                self._wait()
                self._take(worker)
                now = time.monotonic()
                if now - worker.heard > self._plan.experiment.silence_s and not overdue:
                    overdue = True
                    worker.kill()
                if self._stopping == "kill":
                    worker.kill()
                elif self._stopping == "stop" and killed_at is None:
                    worker.ask_to_stop()
                    killed_at = now
                elif killed_at is not None and now - killed_at > STOP_GRACE_S:
                    worker.kill()
            self._take(worker)
            return overdue
        finally:
            for fd in worker.fds:
                self._poll.unregister(fd)

    def _take(self, worker: Worker) -> None:
        """Journal what has arrived from a worker, noting whether it parked or ended its case."""
        good = []
        for line in worker.read():
            try:
                event = ev.decode(line)
            except (msgspec.DecodeError, ValueError) as error:
                self._say(f"a worker sent what is not an event: {error}", "error")
                continue
            good.append(line)
            if isinstance(event, ev.Environment):
                self._environment = event
            worker.parked |= isinstance(event, ev.Parked)
            worker.finished |= isinstance(event, (ev.CaseDone, ev.CaseFailed))
        if good:
            self._journal.append_lines(b"".join(good))

    def _wait(self, seconds: float = POLL_S) -> None:
        """Sleep until something arrives; journal samples, note signals and a lost owner."""
        ready = {fd for fd, _ in self._poll.poll(seconds * 1000)}
        if self._signals.fd in ready:
            for number in self._signals.drain():
                again = self._stopping != "no"
                self._stopping = "kill" if again or number == KILL else "stop"
        if self._plan.lifeline and sys.stdin.fileno() in ready and self._stopping == "no":
            self._poll.unregister(sys.stdin.fileno())
            self._stopping = "stop"
        if self._sampler is not None:
            if self._sampler.fd in ready:
                self._journal.append_lines(self._sampler.read())
            for event in self._sampler.check():
                self._journal.append(event)

    def _start_sampler(self) -> None:
        self._sampler = SamplerProcess()
        self._poll.register(self._sampler.fd, select.POLLIN)

    def _fail(self, index: int, failure: ev.Failure) -> None:
        self._journal.append(ev.CaseFailed(case=index, failure=failure))

    def _say(self, message: str, level: Literal["info", "warning", "error"]) -> None:
        self._journal.append(ev.Log(message=message, level=level))


def _boot_id() -> str:
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return ""
