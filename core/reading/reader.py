"""Opens a run for a notebook or a script; needs no torch."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

from llmprof.core.events import Environment
from llmprof.core.figures.replicates import configurations
from llmprof.core.figures.throughput import throughput
from llmprof.core.lint import Verdict, lint
from llmprof.core.reading.records import (
    Case,
    Check,
    Kernel,
    Machine,
    MemoryLevel,
    Run,
    Step,
    Times,
)
from llmprof.core.state.step_columns import StepRow
from llmprof.core.state.view import CaseState, RunView
from llmprof.core.stats.summary import Summary
from llmprof.core.store.baselines import find_baseline
from llmprof.core.store.pack import is_path, open_view
from llmprof.core.store.run import RunStore

T = TypeVar("T")


def open_run(run: str | PathLike[str]) -> Run:
    """A run from a packed file, a run's folder or a journal; or one of this machine by name.

    A name is a run's id or label, the beginning of its id, "last" or a baseline's name. What has
    been written so far is read, also of a run that goes on. Raises FileNotFoundError for a path
    that is not there, ValueError for a file that holds no run, LookupError for a name that no run
    or more than one has, OSError for what cannot be read.
    """
    path = _located(run)
    if not path.exists():
        raise FileNotFoundError(f"{path}: there is no such file")
    view = open_view(path)
    said = lint(view)
    return Run(
        name=view.run_id or path.stem,
        path=path,
        experiment=None if view.experiment is None else view.experiment.name,
        command=view.command,
        started=_started(view),
        outcome=view.outcome,
        llmprof_version=view.segments[-1].version if view.segments else None,
        machine=None if view.environment is None else _machine(view.environment),
        cases=tuple(_case(state, view, said.get(state.index, ())) for state in view.cases),
        configurations=tuple(
            _case(state, view, said.get(state.index, ())) for state in configurations(view.cases)
        ),
        damaged_lines=view.damaged_lines,
    )


def _located(run: str | PathLike[str]) -> Path:
    path = Path(run)
    if not isinstance(run, str) or is_path(run):
        return path
    return find_baseline(run) or RunStore().find(run).path


def _started(view: RunView) -> datetime | None:
    return datetime.fromtimestamp(view.segments[0].wall_ns / 1e9, UTC) if view.segments else None


def _machine(environment: Environment) -> Machine:
    return Machine(
        device=environment.device,
        device_name=environment.device_name,
        device_uuid=environment.device_uuid,
        device_memory_bytes=environment.memory_total_bytes,
        driver_version=environment.driver,
        cuda_version=environment.cuda,
        torch_version=environment.torch,
        python_version=environment.python,
        system=environment.system,
        host_name=environment.host,
        cpu_name=environment.cpu_name,
        cpu_count=environment.cpu_count,
        threads=environment.threads,
    )


def _case(state: CaseState, view: RunView, said: tuple[Verdict, ...]) -> Case:
    case = state.case
    given = None if view.experiment is None else view.experiment.peak_tflops
    rates = throughput(state, state.environment or view.environment, given)
    return Case(
        number=state.index + 1,
        label=case.label,
        model=case.model.name,
        parameters=_parameters(state),
        probe=case.probe,
        mode=case.mode,
        precision=case.precision,
        attention=case.attention,
        optimizer=case.optimizer,
        compile=case.compile,
        sdpa_backend=case.sdpa_backend,
        checkpoint=case.checkpoint,
        accumulate=case.accumulate,
        context_length_tokens=case.context_length,
        batch_size_sequences=case.batch_size,
        warmup_steps=case.warmup_steps,
        process=case.process,
        seed=case.seed,
        status=state.status,
        failure=None if state.failure is None else state.failure.message,
        phases=_frozen({phase: _times(found) for phase, found in state.summaries.items()}),
        step=None if state.total is None else _times(state.total),
        wall=None if state.wall is None else _times(state.wall),
        tokens_per_s=None if rates is None else rates.tokens_per_s,
        tflop_per_s=None if rates is None else rates.tflops,
        mfu=None if rates is None else rates.mfu,
        peak_memory_bytes=None if state.memory is None else state.memory.peak_bytes,
        memory=_memory(state),
        memory_at_peak_bytes=_frozen(
            {} if state.memory_timeline is None else dict(state.memory_timeline.at_peak)
        ),
        kernels=_kernels(state),
        checks=tuple(Check(each.rule, each.level, each.text) for each in said),
        steps=(
            *(_step(step, warmup=True) for step in state.warmup),
            *(_step(step, warmup=False) for step in state.measured),
        ),
    )


def _parameters(state: CaseState) -> int | None:
    if state.model is not None:
        return state.model.parameters
    return None if state.case.shape is None else state.case.shape.parameters


def _times(summary: Summary) -> Times:
    return Times(
        n_steps=summary.n,
        n_processes=max(1, len(summary.process_means)),
        mean_ms=summary.mean,
        std_ms=summary.std,
        median_ms=summary.median,
        min_ms=summary.minimum,
        max_ms=summary.maximum,
        ci95_ms=summary.ci95,
    )


def _step(step: StepRow, *, warmup: bool) -> Step:
    forward, loss, backward, optimizer, zero_grad = step.device_ms
    return Step(
        index=step.index,
        warmup=warmup,
        forward_ms=forward,
        loss_ms=loss,
        backward_ms=backward,
        optimizer_ms=optimizer,
        zero_grad_ms=zero_grad,
        total_ms=step.total_ms,
        wall_ms=step.wall_ms,
        loss=step.loss,
        allocated_bytes=step.allocated_bytes,
    )


def _memory(state: CaseState) -> tuple[MemoryLevel, ...]:
    edges = () if state.memory is None else state.memory.edges
    return tuple(
        MemoryLevel(
            phase=edge.phase,
            allocated_bytes=edge.allocated_bytes,
            peak_bytes=edge.peak_bytes,
            requested_peak_bytes=edge.requested_peak_bytes,
            reserved_bytes=edge.reserved_bytes,
        )
        for edge in edges
    )


def _kernels(state: CaseState) -> tuple[Kernel, ...]:
    table = state.kernels
    if table is None:
        return ()
    return tuple(
        Kernel(
            phase=row.phase,
            name=row.name,
            kernel_class=row.group,
            calls_per_step=row.calls / table.steps,
            total_ms_per_step=row.total_ms / table.steps,
            mean_us=1e3 * row.avg_ms,
            op=row.op,
            module=row.module,
            source=row.source,
        )
        for row in table.rows
    )


def _frozen(values: dict[str, T]) -> Mapping[str, T]:
    return MappingProxyType(values)
