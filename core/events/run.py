"""A run as a whole: its plan, its machine, its end."""

from __future__ import annotations

from typing import Literal

import msgspec

from llmprof.core.events.base import JOURNAL_SCHEMA, Event, Ns
from llmprof.core.spec.case import Case
from llmprof.core.spec.experiment import Experiment

Outcome = Literal["complete", "stopped", "interrupted", "failed"]


class Segment(Event, frozen=True, kw_only=True):
    """An engine began to write: ties this boot's monotonic clock to the wall clock."""

    boot_id: str
    wall_ns: Ns  # time.time_ns() at t
    pid: int
    version: str
    schema: int = JOURNAL_SCHEMA


class RunStarted(Event, frozen=True, kw_only=True):
    """The whole plan: the experiment, its cases in order, and the command that asked for it."""

    run_id: str
    experiment: Experiment
    cases: tuple[Case, ...]
    command: tuple[str, ...]


class Ceilings(msgspec.Struct, frozen=True, kw_only=True):
    """What `llmprof calibrate` reached on a device: the best of repeated runs."""

    matmul_tflops: dict[str, float] = {}  # by precision
    copy_gbs: float | None = None  # bytes read and written, 1e9 bytes a second
    torch: str = ""
    wall_ns: int | None = None  # when


class Environment(Event, frozen=True, kw_only=True):
    """The device and software that the run's workers use, read by the probe worker."""

    device: str  # "cuda:0" or "cpu"
    device_name: str
    device_uuid: str | None = None
    pci_bus_id: str | None = None
    capability: tuple[int, int] | None = None
    memory_total_bytes: int | None = None
    memory_free_bytes: int | None = None
    driver: str | None = None
    cuda: str | None = None
    torch: str = ""
    python: str = ""
    system: str = ""
    host: str = ""
    cpu_name: str = ""
    cpu_count: int | None = None
    threads: int | None = None
    cpus_usable: int | None = None  # that the process may run on
    affinity: str = ""  # which these are: 0-3,8
    cpu_quota: float | None = None  # CPUs' time that a cgroup allows; None without a limit
    memory_limit_bytes: int | None = None  # of the host's, by a cgroup; None without a limit
    variables: dict[str, str] | None = None  # of the environment, see system/variables.py
    unsupported: dict[str, str] = {}  # precision or feature -> why it cannot run here
    matmul_tflops: float | None = None  # fp32, a 0.3 s measurement
    context_ms: float | None = None  # creating the CUDA context
    context_bytes: int | None = None  # of the card, right after it was made
    import_ms: float | None = None
    worker_source: str | None = None  # a hash of the code that measured; None before it was kept
    ceilings: Ceilings | None = None  # of an earlier calibration of this device


class Planned(Event, frozen=True, kw_only=True):
    """What the engine expects of a case before it runs."""

    case: int
    estimate_s: float | None = None


class Log(Event, frozen=True, kw_only=True):
    """A line for whoever watches."""

    message: str
    level: Literal["info", "warning", "error"] = "info"
    case: int | None = None


class RunDone(Event, frozen=True, kw_only=True):
    """The engine's last word."""

    outcome: Outcome
