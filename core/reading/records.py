"""What a run holds, as frozen records whose fields name their units.

Every record has row(), a flat dict of text, numbers, booleans and None that data frames take.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from pathlib import Path
from types import MappingProxyType

Value = str | int | float | bool | None
Row = dict[str, Value]


@dataclass(frozen=True)
class Times:
    """Measured times of a phase or of whole steps.

    std_ms is the sample standard deviation of steps (n - 1), ci95_ms the half-width of the mean's
    95 % confidence interval by Student's t: between processes where there are several, else
    between steps. None where n is 1.
    """

    n_steps: int
    n_processes: int
    mean_ms: float
    std_ms: float | None
    median_ms: float
    min_ms: float
    max_ms: float
    ci95_ms: float | None

    def row(self) -> Row:
        """The fields."""
        return _plain(self)


@dataclass(frozen=True)
class Step:
    """One step. Times of phases by the device's clock, None where the mode has no such phase."""

    index: int  # from 0, warm-up and measured steps counted apart
    warmup: bool
    forward_ms: float | None
    loss_ms: float | None
    backward_ms: float | None
    optimizer_ms: float | None
    zero_grad_ms: float | None
    total_ms: float  # first phase edge to last, device clock
    wall_ms: float  # between two synchronisations, host clock
    loss: float | None
    allocated_bytes: int | None

    def row(self) -> Row:
        """The fields."""
        return _plain(self)


@dataclass(frozen=True)
class Kernel:
    """One kernel of one phase in a profiled case; times and calls of one step."""

    phase: str
    name: str
    kernel_class: str
    calls_per_step: float
    total_ms_per_step: float
    mean_us: float
    op: str | None
    module: str | None
    source: str | None

    def row(self) -> Row:
        """The fields."""
        return _plain(self)


@dataclass(frozen=True)
class MemoryLevel:
    """Memory at the end of a phase of one extra, untimed step; the peak is of that phase alone."""

    phase: str
    allocated_bytes: int
    peak_bytes: int
    requested_peak_bytes: int | None
    reserved_bytes: int | None

    def row(self) -> Row:
        """The fields."""
        return _plain(self)


@dataclass(frozen=True)
class Check:
    """What a check says of a case; of level "error" where its figures cannot be used."""

    rule: str
    level: str
    text: str

    def row(self) -> Row:
        """The fields."""
        return _plain(self)


@dataclass(frozen=True)
class Machine:
    """The device and the software that a run was measured with; None where not known."""

    device: str  # "cuda:0" or "cpu"
    device_name: str
    device_uuid: str | None
    device_memory_bytes: int | None
    driver_version: str | None
    cuda_version: str | None
    torch_version: str
    python_version: str
    system: str
    host_name: str
    cpu_name: str
    cpu_count: int | None
    threads: int | None

    def row(self) -> Row:
        """The fields."""
        return _plain(self)


@dataclass(frozen=True)
class Case:
    """One configuration: measured in one fresh process, or, in Run.configurations, in several.

    phases holds the times of forward, loss, backward, optimizer and zero_grad as far as the mode
    has them; step and wall are of whole steps by the device's and the host's clock.
    """

    number: int  # from 1, as in tables and exports
    label: str
    model: str
    parameters: int | None  # counted; None of a model of one's own that was not built
    probe: str  # what was done: timing, memory, kernels, attention, calibrate
    mode: str
    precision: str
    attention: str
    optimizer: str
    compile: str | None
    sdpa_backend: str | None  # of attention kernels; None: the one that torch picks
    checkpoint: str | int | None  # of how many blocks one is, or "all"
    accumulate: int  # micro-batches a step
    context_length_tokens: int
    batch_size_sequences: int
    warmup_steps: int
    process: int  # which of several fresh processes, from 0
    seed: int
    status: str  # pending, running, ok, oom, error, killed, stopped, timeout, unsupported, skipped
    failure: str | None
    phases: Mapping[str, Times] = field(default_factory=lambda: MappingProxyType({}))
    step: Times | None = None
    wall: Times | None = None
    tokens_per_s: float | None = None
    tflop_per_s: float | None = None
    mfu: float | None = None  # a fraction of the dense peak of the precision
    peak_memory_bytes: int | None = None
    memory: tuple[MemoryLevel, ...] = ()
    memory_at_peak_bytes: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    kernels: tuple[Kernel, ...] = ()
    checks: tuple[Check, ...] = ()
    steps: tuple[Step, ...] = field(default=(), repr=False)

    def row(self) -> Row:
        """The plain fields, then the times as forward_mean_ms … wall_ci95_ms, None without them."""
        times = {**dict.fromkeys(PHASES), **self.phases, "step": self.step, "wall": self.wall}
        row = _plain(self)
        for name, found in times.items():
            for each in fields(Times):
                row[f"{name}_{each.name}"] = None if found is None else getattr(found, each.name)
        return row

    def rows(self) -> list[Row]:
        """One row a step, with the case's number."""
        return [{"case": self.number, **step.row()} for step in self.steps]


PHASES = ("forward", "loss", "backward", "optimizer", "zero_grad")


@dataclass(frozen=True)
class Run:
    """One run. cases are as measured; configurations have the processes of each as one case."""

    name: str
    path: Path
    experiment: str | None
    command: tuple[str, ...]
    started: datetime | None  # UTC
    outcome: str | None  # complete, stopped, failed; None: interrupted, or it goes on
    llmprof_version: str | None
    machine: Machine | None
    cases: tuple[Case, ...] = field(default=(), repr=False)
    configurations: tuple[Case, ...] = field(default=(), repr=False)
    damaged_lines: int = 0  # of the file, left out

    def rows(self) -> list[Row]:
        """One row a case, as measured."""
        return [case.row() for case in self.cases]

    def configuration_rows(self) -> list[Row]:
        """One row a configuration, its processes together."""
        return [case.row() for case in self.configurations]

    def step_rows(self) -> list[Row]:
        """One row a step of every case, with the case's number."""
        return [row for case in self.cases for row in case.rows()]

    def kernel_rows(self) -> list[Row]:
        """One row a kernel of every profiled case, with the case's number."""
        return [
            {"case": case.number, **kernel.row()} for case in self.cases for kernel in case.kernels
        ]


def _plain(record: object) -> Row:
    """The fields of a record that are values of their own."""
    row: Row = {}
    for each in fields(record):  # type: ignore[arg-type]
        value = getattr(record, each.name)
        if value is None or isinstance(value, str | int | float):
            row[each.name] = value
    return row
