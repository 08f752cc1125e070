"""What to measure: an experiment that expands to cases; with shape.py and case.py all of it."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator

import msgspec

from llmprof.core.spec.axes import AXES, GRID, SWITCHES, Axis, AxisChanges, AxisLists, Mode, neutral
from llmprof.core.spec.case import MOST_PROCESSES, Case, Probe
from llmprof.core.spec.own_model import Model
from llmprof.core.spec.shape import SpecError, attention_shape

MOST_WARMUP_STEPS = 300  # of --warmup-steps auto
MOST_MEASURE_STEPS = 1000  # of --measure-steps auto
TARGET_PERCENT = 1.0  # of --measure-steps auto without --target
MOST_PROFILE_STEPS = 100  # a step of a large model is 40,000 events, which are kept in memory
TURN_STEPS = 2  # measured steps of one turn of an interleaved case
RECORDED_STEPS = 2  # of the memory probe
REPEATED: tuple[Probe, ...] = ("timing", "attention")  # probes whose cases have processes


class Variant(AxisChanges, frozen=True, kw_only=True, omit_defaults=True):  # type: ignore[misc,call-arg]
    """Named changes to every case of a grid: one switch of an A/B experiment."""

    label: str = ""
    probe: Probe | None = None

    def apply(self, case: Case) -> Case:
        """The case with this variant's fields in place of its own."""
        changes = {
            name: value
            for name in ("probe", *(axis.field for axis in AXES))
            if (value := getattr(self, name)) is not None
        }
        return msgspec.structs.replace(case, **changes) if changes else case


class Experiment(AxisLists, frozen=True, kw_only=True):  # type: ignore[misc,call-arg]
    """A grid of cases: the product of its axes, models outermost, variants innermost."""

    name: str
    title: str = ""
    models: tuple[Model, ...]
    probe: Probe = "timing"
    measure_steps: int = 10
    warmup_auto: bool = False
    target_percent: float | None = None
    interleave: bool = False  # alternate the cases that differ only in switches
    variants: tuple[Variant, ...] = (Variant(),)
    device: str = "auto"
    seed: int = 0
    processes: int = 1  # fresh processes of every timed configuration
    cpu_budget_s: float | None = None  # on a CPU, leave out the sizes that would take longer
    profile_steps: int = 3  # steps of a case whose probe is kernels
    stacks: bool = False
    trace: bool = False
    nvtx: bool = False
    snapshot: bool = False
    cold_cache: bool = False  # of attentions: flush the L2 cache before each call
    tables: tuple[str, ...] = ()  # which a report shows, in order; none: all that apply
    peak_tflops: float | None = None  # dense peak to divide by, in place of the card's
    force: bool = False  # try what is predicted not to fit
    silence_s: float = 600.0  # a worker silent for so long is ended

    def cases(self) -> tuple[Case, ...]:
        """Every case once, in the order in which they run.

        Raises SpecError for a case that cannot be measured or an experiment without any.
        """
        unique: dict[Case, Case] = {}
        for case in self._product():
            unique.setdefault(as_used(case), case)
        if not unique:
            raise SpecError(f"experiment {self.name} has no cases")
        if not 1 <= self.processes <= MOST_PROCESSES:
            raise SpecError(f"--processes must be between 1 and {MOST_PROCESSES}")
        return tuple(in_rounds(_in_company(unique.values()), self.processes))

    def _product(self) -> Iterator[Case]:
        values = [getattr(self, axis.plural) for axis in GRID]
        for model, *chosen in itertools.product(self.models, *values):
            case = Case(
                model=model,
                probe=self.probe,
                measure_steps=self.measure_steps,
                device=self.device,
                seed=self.seed,
                warmup_auto=self.warmup_auto,
                target_percent=self.target_percent,
                interleaved=self.interleave,
                cold_cache=self.cold_cache,
                **{axis.field: value for axis, value in zip(GRID, chosen, strict=True)},
            )
            for variant in self.variants:
                yield self._profiled(_covered(variant.apply(case)))

    def _profiled(self, case: Case) -> Case:
        """A case of a probe that does not time, with the options that only this probe has."""
        if case.probe == "memory":
            return msgspec.structs.replace(
                case,
                measure_steps=RECORDED_STEPS,
                warmup_auto=False,
                target_percent=None,
                interleaved=False,
                trace=self.snapshot,
            )
        if case.probe != "kernels":
            return case
        if not 1 <= self.profile_steps <= MOST_PROFILE_STEPS:
            raise SpecError(f"--profile-steps must be between 1 and {MOST_PROFILE_STEPS}")
        return msgspec.structs.replace(
            case,
            measure_steps=self.profile_steps,
            target_percent=None,
            interleaved=False,
            stacks=self.stacks,
            trace=self.trace,
            nvtx=self.nvtx,
        )


def as_used(case: Case) -> Case:
    """The case with neutral values on the axes of which it makes no use: equal for equal work."""
    same = neutral(case, [axis for axis in SWITCHES if not _acts(axis, case)])
    if case.probe != "attention":
        return same
    mode: Mode = "forward" if case.mode == "forward" else "forward-backward"
    return msgspec.structs.replace(same, mode=mode, model=attention_shape(case.reference.d_model))


def _acts(axis: Axis, case: Case) -> bool:
    """Whether a switch changes anything of the case: a phase of it, or the graph that it keeps."""
    if axis.field == "checkpoint" and case.mode == "forward-grad":
        return True
    return not axis.touches or bool({*axis.touches} & {*case.phases})


def _covered(case: Case) -> Case:
    """The case with one checkpoint where that is to cover more blocks than the model has."""
    blocks, shape = case.checkpoint, case.shape
    if shape is None or not isinstance(blocks, int) or blocks <= shape.num_layers:
        return case
    return msgspec.structs.replace(case, checkpoint="all")


def _in_company(cases: Iterable[Case]) -> list[Case]:
    """The cases, of which none takes turns that has no other to take turns with."""
    listed = list(cases)
    alike = Counter(neutral(case, SWITCHES) for case in listed if case.interleaved)
    return [
        case
        if not case.interleaved or alike[neutral(case, SWITCHES)] > 1
        else msgspec.structs.replace(case, interleaved=False)
        for case in listed
    ]


def in_rounds(cases: Iterable[Case], processes: int) -> Iterator[Case]:
    """Every case in so many fresh processes.

    Cases that differ in their switches alone are compared: each round runs all of them once,
    beginning with the next one, so that what drifts hits all alike. Only timed cases are repeated.
    """
    if processes == 1:
        yield from cases
        return
    groups: dict[Case, list[Case]] = {}
    for case in cases:
        compared = neutral(case, SWITCHES) if case.probe in REPEATED else case
        groups.setdefault(compared, []).append(case)
    for group in groups.values():
        rounds = processes if group[0].probe in REPEATED else 1
        for number in range(rounds):
            first = number % len(group)
            for case in (*group[first:], *group[:first]):
                yield msgspec.structs.replace(case, process=number)
