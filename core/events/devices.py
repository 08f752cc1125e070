"""What the sampler reads of cards and host."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from llmprof.core.events.base import Bytes, Event, Ms


class Metric(msgspec.Struct, frozen=True, array_like=True):
    """One reading: a value, or the reason why there is none."""

    value: Annotated[float, msgspec.Meta(ge=-1e18, le=1e18)] | None
    reason: str | None = None


class CardProcess(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A process that holds memory on a card; what could not be read is None."""

    pid: int | None  # None: the driver gave an impossible one
    memory_bytes: int | None = None
    user: str | None = None
    command: str | None = None
    ours: bool = False  # belongs to this run
    local: bool = True  # False: a pid of another namespace, such as the container's host
    sm_percent: float | None = None  # share of the driver's window in which it used the SMs
    cpu_percent: float | None = None  # of one core, since the reading before
    rss_bytes: int | None = None  # its memory of the host
    running_s: float | None = None


class MigInstance(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One slice of a card in MIG mode."""

    uuid: str | None = None
    name: str = ""
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None


class CardSample(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One card at one instant: the metrics that were due. Names and units: devices/metrics.py."""

    index: int
    uuid: str | None = None
    pci_bus_id: str | None = None
    name: str = ""
    state: Literal["ok", "lost", "stale"] = "ok"
    denied: bool = False  # lost to this user alone: the driver refuses access to it
    metrics: dict[str, Metric] = {}
    throttle: tuple[str, ...] = ()
    processes: tuple[CardProcess, ...] | None = None  # None: not read in this sample
    mig: tuple[MigInstance, ...] = ()
    unified: bool = False  # its memory is the host's


class HostSample(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The host at one instant."""

    cpu_percent: Ms | None = None
    memory_used_bytes: Bytes | None = None
    memory_total_bytes: Bytes | None = None
    memory_limit_bytes: Bytes | None = None  # that a cgroup allows; None without a limit
    load1: Ms | None = None


class DeviceSample(Event, frozen=True, kw_only=True, omit_defaults=True):
    """What the sampler read: every visible card and the host."""

    host: HostSample
    cards: tuple[CardSample, ...] = ()
    cards_reason: str | None = None  # why there are no cards
    cards_absent: tuple[str, ...] = ()  # asked for by these names, but not of this machine
    cost_ms: float | None = None  # what this poll took
