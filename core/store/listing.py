"""The runs of a store, each read as far as a list needs."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from llmprof.core.figures.outcomes import cases_settled
from llmprof.core.state.view import RunView
from llmprof.core.store.journal import replay
from llmprof.core.store.run import Run, RunStatus, RunStore

LOOP = "training loop"


@dataclass(frozen=True)
class RunSummary:
    """One line of a list of runs; started is seconds since the epoch."""

    id: str
    label: str
    started: float | None
    status: RunStatus
    device: str | None
    experiment: str | None
    cases: int
    done: int
    ok: int
    steps: int | None = None  # of a tracked loop's rank that is farthest

    @property
    def extent(self) -> str:
        """How much of it there is, in words."""
        if self.steps is not None:
            return f"{self.steps:,} steps"
        return f"{self.ok} ok of {self.cases}"

    def as_json(self) -> dict[str, Any]:
        """The fields as JSON data; started in ISO 8601 with its zone."""
        started = None if self.started is None else datetime.fromtimestamp(self.started, UTC)
        return {**asdict(self), "started": started and started.isoformat(timespec="seconds")}


def summaries(store: RunStore) -> list[RunSummary]:
    """Every run of the store, newest first; one that can't be read is listed all the same."""
    return [summarize_run(run) for run in store.list()]


def summarize_run(run: Run, view: RunView | None = None) -> RunSummary:
    """A run's line, from its journal unless a view is given."""
    if view is None:
        try:
            view = replay(run.journal)
        except OSError:
            view = RunView()
    environment = view.environment
    return RunSummary(
        id=run.id,
        label=run.label,
        started=view.segments[0].wall_ns / 1e9 if view.segments else None,
        status=run.status(view),
        device=None if environment is None else environment.device_name,
        experiment=_kind(view),
        cases=len(view.cases),
        done=cases_settled(view),
        ok=sum(state.status == "ok" for state in view.cases),
        steps=max((loop.steps for loop in view.loops), default=None),
    )


def _kind(view: RunView) -> str | None:
    if view.loops:
        return LOOP
    return None if view.experiment is None else view.experiment.name
