"""Two runs side by side: what is different between them, which of their cases answer each other,
and why they should not be compared, if so.

Cases answer each other that run the same; of what is left, those that are the only ones alike but
for their warm-up, their switches or both. So a run in fp32 is compared with one in bf16.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import PurePath
from typing import Any

import msgspec

from llmprof.core.events import Environment
from llmprof.core.figures.comparison import CasePair, Comparison, compare_together
from llmprof.core.figures.host_pace import host_pace
from llmprof.core.figures.outcomes import outcome_of
from llmprof.core.figures.replicates import configurations, processes_of
from llmprof.core.report.subject import Subject, subject_of
from llmprof.core.spec.axes import AXES, BY_FIELD, SWITCHES, Axis, apart, neutral
from llmprof.core.spec.case import Case, Phase, Probe
from llmprof.core.spec.own_model import OwnModel
from llmprof.core.state.view import CaseState, RunView
from llmprof.core.system.numbers import as_given

TIMED: tuple[Probe, ...] = ("timing", "attention")
WARMUP = BY_FIELD["warmup_steps"]
# What is looked at besides the times, in the order in which a reader asks.
_ENVIRONMENT: tuple[tuple[str, str], ...] = (
    ("Device", "device_name"),
    ("Card", "device_uuid"),
    ("Driver", "driver"),
    ("CUDA", "cuda"),
    ("PyTorch", "torch"),
    ("Python", "python"),
    ("System", "system"),
    ("Host", "host"),
    ("CPU", "cpu_name"),
    ("CPUs", "cpu_count"),
    ("Usable CPUs", "cpus_usable"),
    ("CPU quota", "cpu_quota"),
    ("Threads", "threads"),
)
_SOFTWARE = ("driver", "cuda", "torch", "python")
_HOST = ("cpu_name", "cpus_usable", "cpu_quota", "threads")  # which a CPU's times depend on
UNKNOWN = "unknown"


@dataclass(frozen=True)
class Difference:
    """One thing that is not the same in both runs, each as text."""

    what: str
    base: str
    other: str


@dataclass(frozen=True)
class Pair:
    """Two cases that answer each other."""

    base: CaseState
    other: CaseState

    @property
    def axes(self) -> tuple[Axis, ...]:
        """The axes on which they differ."""
        return apart(self.base.case, self.other.case)


@dataclass(frozen=True)
class TwoRuns:
    """other against base; both are as a journal tells them."""

    base: RunView
    other: RunView

    @cached_property
    def pairs(self) -> tuple[Pair, ...]:
        """The timed cases that answer each other; profiled ones where nothing else was timed."""
        return self._matched(_probes(self.base, self.other))

    @cached_property
    def unanswered(self) -> tuple[tuple[CaseState, ...], tuple[CaseState, ...]]:
        """The cases that have no like in the other run, of either: timed, profiled, recorded."""
        probes: tuple[Probe, ...] = (*TIMED, "kernels", "memory")
        pairs = [*self.pairs, *self._matched(("kernels",)), *self._matched(("memory",))]
        mine = {pair.base.index for pair in pairs}, {pair.other.index for pair in pairs}
        left, right = (
            tuple(state for state in found if state.index not in taken)
            for found, taken in zip(self._cases(probes), mine, strict=True)
        )
        return left, right

    @cached_property
    def profiles(self) -> tuple[Pair, ...]:
        """The kernel profiles that answer each other."""
        found = self._matched(("kernels",))
        return tuple(p for p in found if p.base.kernels is not None and p.other.kernels is not None)

    @cached_property
    def recordings(self) -> tuple[Pair, ...]:
        """The memory recordings that answer each other."""
        found = self._matched(("memory",))
        return tuple(
            pair
            for pair in found
            if pair.base.memory_timeline is not None and pair.other.memory_timeline is not None
        )

    @cached_property
    def comparisons(self) -> tuple[Comparison, ...]:
        """The pairs that have figures on both sides, judged together."""
        return compare_together(
            [
                CasePair(pair.base, pair.other, self._acts_on(pair), self._failed_checks(pair))
                for pair in self.pairs
            ]
        )

    @cached_property
    def _subjects(self) -> tuple[Subject, Subject]:
        return subject_of(self.base), subject_of(self.other)

    def _failed_checks(self, pair: Pair) -> tuple[str, ...]:
        """The checks that say no to either case: warming in A and B, disturbed in B."""
        failed: dict[str, list[str]] = {}
        for name, subject, state in zip("AB", self._subjects, (pair.base, pair.other), strict=True):
            for rule in subject.failed_checks(state):
                failed.setdefault(rule, []).append(name)
        return tuple(f"{rule} in {' and '.join(names)}" for rule, names in failed.items())

    @cached_property
    def one_sided(self) -> tuple[Pair, ...]:
        """Pairs of which one alone has figures: it was out of memory, crashed or was left out."""
        return tuple(p for p in self.pairs if (p.base.total is None) != (p.other.total is None))

    @cached_property
    def lost(self) -> tuple[Pair, ...]:
        """Pairs that the other run has tried and has no figures of, though the base has."""
        gone = ("OOM", "OOM (predicted)", "unsupported", "failed", "killed")
        return tuple(
            p for p in self.one_sided if p.other.total is None and outcome_of(p.other) in gone
        )

    @cached_property
    def obstacles(self) -> tuple[str, ...]:
        """Why their times should not be compared, a line each; empty where they may be."""
        said: list[str] = []
        for pair in self.pairs:
            said += _devices_apart(pair)
            if _warmup(pair.base.case) != _warmup(pair.other.case):
                words = f"{_warmup(pair.base.case)} against {_warmup(pair.other.case)}"
                said.append(f"unequal warm-up ({words})")
            if "kernels" in (pair.base.case.probe, pair.other.case.probe):
                said.append("measured under the profiler, which slows a step")
        return tuple(dict.fromkeys(said))

    @cached_property
    def differences(self) -> tuple[Difference, ...]:
        """Everything that is known to differ: configuration, machine, software, settings."""
        return (*self._configuration(), *self._machine(), *self._variables())

    @cached_property
    def paces(self) -> tuple[str, str] | None:
        """The host's pace in both, a median over the compared cases; None where one is unknown."""
        sides = [self._pace(pair.base for pair in self.pairs),
                 self._pace(pair.other for pair in self.pairs)]  # fmt: skip
        return None if None in sides else (str(sides[0]), str(sides[1]))

    @staticmethod
    def _pace(states: Iterable[CaseState]) -> str | None:
        known = sorted(
            (pace for state in states if (pace := host_pace(state)) is not None),
            key=lambda pace: pace.us,
        )
        return known[len(known) // 2].text if known else None

    def _cases(
        self, probes: Sequence[Probe]
    ) -> tuple[tuple[CaseState, ...], tuple[CaseState, ...]]:
        mine, theirs = (
            configurations(state for state in view.cases if state.case.probe in probes)
            for view in (self.base, self.other)
        )
        return mine, theirs

    def _matched(self, probes: Sequence[Probe]) -> tuple[Pair, ...]:
        left, right = map(list, self._cases(probes))
        found: list[Pair] = []
        for axes in ((), (WARMUP,), SWITCHES, (*SWITCHES, WARMUP)):
            key = _alike_but_for(axes)
            for state in list(left):
                mine = [each for each in left if key(each) == key(state)]
                theirs = [each for each in right if key(each) == key(state)]
                if len(mine) == len(theirs) == 1:
                    found.append(Pair(mine[0], theirs[0]))
                    left.remove(mine[0])
                    right.remove(theirs[0])
        return tuple(sorted(found, key=lambda pair: pair.base.index))

    def _acts_on(self, pair: Pair) -> frozenset[Phase]:
        """The phases that a difference of switches acts on; all where anything else differs."""
        phases = frozenset(pair.other.case.phases)
        switches = apart(pair.base.case, pair.other.case, SWITCHES)
        one, other = (state.environment for state in (pair.base, pair.other))
        software = any(getattr(one, name, None) != getattr(other, name, None) for name in _SOFTWARE)
        if not switches or software or _version(self.base) != _version(self.other):
            return phases
        return frozenset(p for p in phases if any(p in axis.touches for axis in switches))

    def _configuration(self) -> Iterable[Difference]:
        if not self.pairs:
            yield from _unlike("Experiment", _experiment(self.base), _experiment(self.other))
        for axis in AXES:
            if any(axis in pair.axes for pair in self.pairs):
                yield Difference(
                    axis.label,
                    _listed(axis.shown(axis.of(pair.base.case)) for pair in self.pairs),
                    _listed(axis.shown(axis.of(pair.other.case)) for pair in self.pairs),
                )
        told: tuple[tuple[str, Callable[[CaseState], object]], ...] = (
            ("Measured steps", _measured),
            ("Processes", lambda state: len(processes_of(state))),
            ("Steps in turns", lambda state: "yes" if state.case.interleaved else "no"),
            ("Seed", lambda state: state.case.seed),
            ("Model's code", _code),
        )
        for what, read in told:
            yield from _unlike(what, *(_listed(map(read, side)) for side in self._sides()))

    def _machine(self) -> Iterable[Difference]:
        for what, name in _ENVIRONMENT:
            yield from _unlike(what, *(_of_environments(s, name) for s in self._environments()))
        yield from _unlike("llmprof", _version(self.base), _version(self.other))

    def _variables(self) -> Iterable[Difference]:
        one, other = (
            next((each.variables for each in reversed(found) if each.variables is not None), None)
            for found in self._environments()
        )
        if one is not None and other is not None:  # an older version did not write them down
            for name in sorted(one.keys() | other.keys()):
                yield from _unlike(name, one.get(name, "unset"), other.get(name, "unset"))

    def _sides(self) -> tuple[list[CaseState], list[CaseState]]:
        return [pair.base for pair in self.pairs], [pair.other for pair in self.pairs]

    def _environments(self) -> tuple[list[Environment], list[Environment]]:
        """Those of the compared cases, without repeats; else the run's own."""
        left, right = (
            [state.environment for state in side] or [view.environment]
            for side, view in zip(self._sides(), (self.base, self.other), strict=True)
        )
        return [e for e in left if e is not None], [e for e in right if e is not None]


def began(view: RunView) -> str:
    """When a run began, UTC; "" where it did not."""
    if not view.segments:
        return ""
    return f"{datetime.fromtimestamp(view.segments[0].wall_ns / 1e9, UTC):%Y-%m-%d %H:%M} UTC"


def _probes(one: RunView, other: RunView) -> tuple[Probe, ...]:
    """Which cases give the times: profiled ones only where a run has no others."""
    timed = all(any(state.case.probe in TIMED for state in view.cases) for view in (one, other))
    return TIMED if timed else (*TIMED, "kernels")


def _alike_but_for(axes: Sequence[Axis]) -> Callable[[CaseState], str]:
    """A key that is equal for cases that differ in some axes alone, however they were measured.

    A profile stands for the timing of the same steps. A model of one's own stays itself where its
    code has changed or lies elsewhere: that is what is compared.
    """

    def key(state: CaseState) -> str:
        case = state.case.configuration()
        auto = case.warmup_auto and WARMUP not in axes
        model = case.model
        if isinstance(model, OwnModel):
            model = model._replace(path=PurePath(model.path).name, folder="", content="")
        plain = msgspec.structs.replace(case, model=model, device="auto", seed=0, warmup_auto=auto)
        return neutral(plain, axes).key

    return key


def _devices_apart(pair: Pair) -> list[str]:
    one, other = pair.base.environment, pair.other.environment
    if one is None or other is None:
        return []
    if one.device_name != other.device_name:
        return [f"not the same device ({one.device_name} against {other.device_name})"]
    if one.device != "cpu":
        return []
    labels = {name: what for what, name in _ENVIRONMENT}
    told = [(labels[name], getattr(one, name), getattr(other, name)) for name in _HOST]
    return [
        f"not the same share of the CPU ({what} {_text(mine)} against {_text(theirs)})"
        for what, mine, theirs in told
        if mine != theirs
    ]


def _warmup(case: Case) -> str:
    return "until steady" if case.warmup_auto else f"{case.warmup_steps} steps"


def _measured(state: CaseState) -> str:
    target = state.case.target_percent
    return str(state.case.measure_steps) if target is None else f"until ±{as_given(target)} %"


def _code(state: CaseState) -> str:
    """What tells one state of the file of a model of one's own from another."""
    model = state.case.model
    return model.content[:12] if isinstance(model, OwnModel) else "llmprof's"


def _experiment(view: RunView) -> str:
    return UNKNOWN if view.experiment is None else view.experiment.name


def _version(view: RunView) -> str:
    return view.segments[-1].version if view.segments else UNKNOWN


def _of_environments(environments: Iterable[Environment], name: str) -> str:
    return _listed(_text(getattr(each, name)) for each in environments)


def _text(value: Any) -> str:
    if isinstance(value, float):
        return as_given(value)
    return UNKNOWN if value in (None, "") else str(value)


def _listed(values: Iterable[object]) -> str:
    return ", ".join(dict.fromkeys(map(str, values))) or UNKNOWN


def _unlike(what: str, one: str, other: str) -> Iterable[Difference]:
    if one != other:
        yield Difference(what, one, other)
