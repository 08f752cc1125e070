"""A write-up: every experiment that belongs to one, as ordinary runs in one folder.

Its manifest says which, with their estimates, and in which run each was measured. It is written
before a run begins, so that a write-up killed at any moment goes on where it was.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from llmprof.core.engine.plan import estimate_s, refusal
from llmprof.core.events import Environment
from llmprof.core.figures.outcomes import to_resume
from llmprof.core.spec.experiment import Experiment
from llmprof.core.spec.own_model import Model
from llmprof.core.spec.shape import ModelShape
from llmprof.core.store.journal import replay
from llmprof.core.store.run import Run, RunStore
from llmprof.core.system.atomic import write_file

MANIFEST = "writeup.json"


ATTENTION_SHARE = 0.2  # of a write-up's time, for each experiment without sizes


class WriteupError(ValueError):
    """A folder that holds no write-up, or a damaged one; its text is one line for the user."""


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One experiment of a write-up; run is its folder's name, "" before it began."""

    experiment: Experiment
    estimate_s: float | None = None
    run: str = ""


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What a write-up measures, in order."""

    entries: tuple[Entry, ...]
    left_out: tuple[str, ...] = ()  # sizes that would take too long
    schema: int = 1


class Writeup:
    """A write-up's folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = RunStore(folder)

    @property
    def there(self) -> bool:
        """Whether the folder holds a write-up."""
        return (self.folder / MANIFEST).is_file()

    def load(self) -> Manifest:
        """Its manifest. Raises WriteupError."""
        try:
            return msgspec.json.decode((self.folder / MANIFEST).read_bytes(), type=Manifest)
        except (OSError, msgspec.DecodeError) as error:
            raise WriteupError(f"{self.folder / MANIFEST} holds no write-up: {error}") from error

    def save(self, manifest: Manifest) -> None:
        """Write the manifest, whole or not at all. Raises OSError."""
        self.folder.mkdir(parents=True, exist_ok=True)
        text = msgspec.json.format(msgspec.json.encode(manifest), indent=1)
        write_file(self.folder / MANIFEST, text.decode())

    def begin(self, at: int) -> Run:
        """A run for an entry, in the manifest before anything is measured. Raises OSError.

        A folder that it had, in which nothing began, goes.
        """
        manifest = self.load()
        entries = list(manifest.entries)
        if entries[at].run:
            with contextlib.suppress(OSError, RuntimeError):
                Run(self.folder / Path(entries[at].run).name).delete()
        run = self.store.create(entries[at].experiment.name)
        entries[at] = msgspec.structs.replace(entries[at], run=run.id)
        self.save(msgspec.structs.replace(manifest, entries=tuple(entries)))
        return run

    def run_of(self, entry: Entry) -> Run | None:
        """The run of an entry that has a plan to go on with; None before that."""
        run = Run(self.folder / Path(entry.run).name)
        if not entry.run or not run.journal.is_file():
            return None
        return run if replay(run.journal).experiment is not None else None

    def runs(self) -> Iterator[Run]:
        """The runs that were begun, in order."""
        yield from filter(None, map(self.run_of, self.load().entries))


def left_of(run: Run) -> tuple[int, ...]:
    """Cases that a run still lacks."""
    return to_resume(replay(run.journal))


def planned(
    experiments: Iterable[Experiment],
    environment: Environment,
    budget_s: float | None,
    start_s: float = 0.0,
) -> Manifest:
    """The experiments at the sizes that a device can take within a budget, with estimates.

    start_s: what a run takes that measures nothing, its engine's start and end.

    Sizes are taken from the smallest on, in all experiments together; the smallest is taken
    whatever it needs. What has no sizes, attention alone, is kept to lengths that take a share.
    """
    listed = list(experiments)
    shortened: list[str] = []
    if budget_s is not None:
        share = ATTENTION_SHARE * budget_s
        listed = [_shortened(each, environment, share, shortened) for each in listed]
    for_cases = None if budget_s is None else budget_s - start_s * len(listed)
    kept = _sizes(listed, environment, for_cases)
    entries: list[Entry] = []
    dropped: dict[str, Model] = {}
    for experiment in listed:
        models = tuple(model for model in experiment.models if model.name in kept)
        dropped |= {m.name: m for m in experiment.models if m.name not in kept}
        if models:
            reduced = msgspec.structs.replace(experiment, models=models)
            estimate = start_s + seconds(reduced, environment)
            entries.append(Entry(experiment=reduced, estimate_s=estimate))
    names = sorted(dropped, key=lambda name: _size(dropped[name]))
    return Manifest(entries=tuple(entries), left_out=(*names, *shortened))


def _shortened(
    experiment: Experiment, environment: Environment, share_s: float, left_out: list[str]
) -> Experiment:
    """An experiment of attention alone without the longest contexts, until it takes its share.

    The shortest stays, whatever it takes. What goes is named.
    """
    if experiment.probe != "attention":
        return experiment
    kept = sorted(experiment.context_lengths)
    reduced = experiment
    while len(kept) > 1 and seconds(reduced, environment) > share_s:
        kept.pop()
        reduced = msgspec.structs.replace(experiment, context_lengths=tuple(kept))
    if len(kept) < len(experiment.context_lengths):
        left_out.append(f"{experiment.name} above {kept[-1]:,} tokens")
    return reduced


def seconds(experiment: Experiment, environment: Environment) -> float:
    """About how long an experiment takes: what is refused takes nothing."""
    free = environment.memory_free_bytes
    return sum(
        estimate_s(case, environment) or 0.0
        for case in experiment.cases()
        if refusal(case, experiment, environment, free) is None
    )


def left_s(entries: Sequence[Entry], estimated_s: float, took_s: float) -> float:
    """About how long entries take, by how long others took that were estimated at so much."""
    pace = took_s / estimated_s if estimated_s else 1.0
    return pace * sum(entry.estimate_s or 0.0 for entry in entries)


def _size(model: Model) -> int:
    """Parameters, by which sizes are ordered; an own model's are not known and come first."""
    return model.parameters if isinstance(model, ModelShape) else 0


def _sizes(
    experiments: Sequence[Experiment], environment: Environment, budget_s: float | None
) -> set[str]:
    cost: dict[str, float] = {}
    parameters: dict[str, int] = {}
    fixed: set[str] = set()
    for experiment in experiments:
        for model in experiment.models:
            alone = msgspec.structs.replace(experiment, models=(model,))
            cost[model.name] = cost.get(model.name, 0.0) + seconds(alone, environment)
            parameters[model.name] = _size(model)
            if experiment.probe == "attention":
                fixed.add(model.name)
    spent = sum(cost[name] for name in fixed)
    kept: set[str] = set(fixed)
    for name in sorted(set(cost) - fixed, key=lambda each: parameters[each]):
        if budget_s is not None and kept - fixed and spent + cost[name] > budget_s:
            break
        spent += cost[name]
        kept.add(name)
    return kept
