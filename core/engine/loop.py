"""The engine's loop: one case after another, everything that happens journalled."""

from __future__ import annotations

import contextlib
import os
import time
from concurrent.futures import ThreadPoolExecutor
from tempfile import TemporaryDirectory

from llmprof.core import events as ev
from llmprof.core.devices.cuda_driver import absent
from llmprof.core.engine import plan as planning
from llmprof.core.engine.client import Plan
from llmprof.core.engine.endings import failure_of
from llmprof.core.engine.interleaving import LiveWorker, alternate, batches
from llmprof.core.engine.recorder import Recorder
from llmprof.core.engine.signals import Signals
from llmprof.core.engine.workers import Worker, WorkerPool
from llmprof.core.figures.same_machine import MOVED, machine_differences
from llmprof.core.spec.case import Case
from llmprof.core.store.journal import replay
from llmprof.core.store.run import Run, RunStore
from llmprof.core.system.boot import boot_id
from llmprof.core.system.host_memory import available_bytes, oom_kills
from llmprof.core.worker.request import REFUSED, WorkerRequest
from llmprof.version import __version__

WORKER_MEMORY_SHARE = 0.95  # of what the host has available, for a worker on the CPU
BESIDE = "run {} was going on this machine when this one began: the figures of both may be spoiled"


class EngineRun:
    """One run of an engine over a plan."""

    def __init__(self, plan: Plan, run: Run, pool: WorkerPool, signals: Signals) -> None:
        self._plan = plan
        self._run = run
        self._pool = pool
        self._record = Recorder(
            run.journal,
            signals,
            lifeline=plan.lifeline,
            silence_s=plan.experiment.silence_s,
        )
        self._cases = plan.experiment.cases()
        self._earlier: ev.Environment | None = None  # in which a resumed run was measured

    @property
    def looked(self) -> bool:
        """Whether the device is known: without it nothing was measured."""
        return self._record.environment is not None

    def run(self) -> ev.Outcome:
        """Run every case of the plan; the outcome, already journalled."""
        self._open()
        try:
            outcome = self._all()
        except BaseException:
            with contextlib.suppress(OSError):
                self._record.append(ev.RunDone(outcome="failed"))
            raise
        finally:
            self._record.stop_sampler()
        self._record.append(ev.RunDone(outcome=outcome))
        self._record.close()
        return outcome

    def _open(self) -> None:
        self._record.append(
            ev.Segment(
                boot_id=boot_id(), wall_ns=time.time_ns(), pid=os.getpid(), version=__version__
            )
        )
        if self._plan.resume is not None:
            before = replay(self._run.journal)
            self._cases = tuple(state.case for state in before.cases)
            measured = any(state.environment is not None for state in before.cases)
            self._earlier = before.environment if measured else None
            return
        self._record.append(
            ev.RunStarted(
                run_id=self._run.id,
                experiment=self._plan.experiment,
                cases=self._cases,
                command=self._plan.command,
            )
        )

    def _all(self) -> ev.Outcome:
        if not self._look():
            return "stopped" if self._stopped else "failed"
        for line in planning.warnings(self._plan.experiment, self._environment):
            self._record.say(line, "warning")
        for other in RunStore(self._run.path.parent).going():
            if other.id != self._run.id:
                self._record.say(BESIDE.format(other.id), "warning")
        wanted = self._wanted()
        if self._plan.only_plan:
            for index in wanted:
                refused = self._refused(index)
                if refused is not None:
                    self._record.fail(index, refused)
            return "complete"
        self._record.start_sampler()
        for group in batches(wanted, self._cases, self._environment.memory_free_bytes):
            if self._stopped:
                return "stopped"
            self._together(group)
        return "stopped" if self._stopped else "complete"

    @property
    def _stopped(self) -> bool:
        return self._record.stopping != "no"

    @property
    def _environment(self) -> ev.Environment:
        """What a worker read of the device before the first case."""
        assert self._record.environment is not None
        return self._record.environment

    def _look(self) -> bool:
        """Have a worker read the environment; False when it said why not. Raises RuntimeError."""
        why_not = absent(self._plan.experiment.device)
        if why_not is not None:
            self._record.say(why_not, "error")
            self._pool.abandon()  # torch need not be loaded for it
            return False
        worker = self._first_worker()
        if worker is None:
            return False
        self._record.follow(worker)
        code = worker.close()
        if self._record.environment is not None and self._elsewhere(self._record.environment):
            return False
        if self._record.environment is None and code != REFUSED and not self._stopped:
            raise RuntimeError(f"the process that reads the device ended with {code}")
        return self._record.environment is not None

    def _first_worker(self) -> Worker | None:
        """Start the worker that looks at the device; None when stopped while torch loads."""
        with ThreadPoolExecutor(1) as threads:
            starting = threads.submit(self._start, None, -1, self._plan.experiment.device)
            try:
                while not starting.done():
                    self._record.wait(0.05)
                    if self._stopped:
                        self._pool.abandon()  # what loads is killed, so that the start fails
                        return None
            except BaseException:
                self._pool.abandon()
                raise
            return starting.result()

    def _elsewhere(self, environment: ev.Environment) -> bool:
        """Whether a resumed run's other figures are from another machine, which isn't allowed."""
        if self._earlier is None or self._plan.elsewhere:
            return False
        wrong = machine_differences(self._earlier, environment)
        if wrong:
            self._record.say(f"{MOVED}: {'; '.join(wrong)}", "error")
        return bool(wrong)

    def _wanted(self) -> list[int]:
        """Cases to run; those that are left out by the budget are journalled as such."""
        estimates = [planning.estimate_s(case, self._environment) for case in self._cases]
        for index, estimate in enumerate(estimates):
            self._record.append(ev.Planned(case=index, estimate_s=estimate))
            said = planning.prediction(index, self._cases[index], self._environment)
            if said is not None:
                self._record.append(said)
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
                self._record.fail(index, skipped[index])
            else:
                wanted.append(index)
        return wanted

    def _refused(self, index: int) -> ev.Failure | None:
        """Why a case need not be tried, by what is free now."""
        free = self._free_bytes()
        return planning.refusal(self._cases[index], self._plan.experiment, self._environment, free)

    def _free_bytes(self) -> int | None:
        on_cpu = self._environment.device == "cpu"
        return available_bytes() if on_cpu else self._environment.memory_free_bytes

    def _together(self, group: tuple[int, ...]) -> None:
        """Run a case, or several whose measured steps alternate."""
        live = []
        for index in group:
            if self._stopped:
                break
            one = self._launch(index)
            if one is not None and self._advance(one):
                live.append(one)
        alternate(live, self._advance)

    def _launch(self, index: int) -> LiveWorker | None:
        """Start a case's worker; None for a case that need not be tried."""
        case, environment = self._cases[index], self._environment
        refused = self._refused(index)
        if refused is not None:
            self._record.fail(index, refused)
            return None
        limit = (
            int(available_bytes() * WORKER_MEMORY_SHARE) if environment.device == "cpu" else None
        )
        scratch = TemporaryDirectory(
            prefix="scratch-", dir=self._run.path, ignore_cleanup_errors=True
        )
        kills = oom_kills()
        worker = self._start(case, index, environment.device, limit, scratch.name)
        self._record.append(ev.CaseStarted(case=index, pid=worker.pid))
        return LiveWorker(index, worker, scratch, kills)

    def _advance(self, live: LiveWorker) -> bool:
        """Let a worker go on until it parks (True) or has ended, which is journalled (False)."""
        live.worker.give_turn()
        overdue = self._record.follow(live.worker)
        if live.worker.parked:
            return True
        code = live.worker.close()
        live.scratch.cleanup()
        if not live.worker.finished:
            silence = self._plan.experiment.silence_s if overdue else None
            self._record.fail(
                live.index,
                failure_of(
                    code,
                    silence_s=silence,
                    stopped=self._stopped,
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
        request = WorkerRequest(
            case=case,
            index=index,
            device=device,
            run_dir=str(self._run.path),
            memory_limit_bytes=limit,
            scratch=scratch,
            silence_s=self._plan.experiment.silence_s,
            created_ns=time.monotonic_ns(),
        )
        return self._pool.start(request, str(self._run.log))
