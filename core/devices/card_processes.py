"""Processes on a card: who holds memory there, who they are, and whether they are ours."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from llmprof.core.devices.host_use import HostUse, HostUseReader
from llmprof.core.devices.nvml_binding import NOT_FOUND, SUCCESS, Api, Call, Unavailable
from llmprof.core.events import CardProcess, Metric
from llmprof.core.system.text import clean

_HIGHEST_PID = 2**22  # PID_MAX_LIMIT of 64-bit Linux
_HOST_NAMESPACE = "pid:[4026531836]"  # PROC_PID_INIT_INO: pids there are the machine's own
_KINDS = ("Compute", "Graphics", "MPSCompute")
_VERSIONS = ("_v3", "_v2")


@dataclass(frozen=True)
class Identity:
    """What the operating system says of a pid.

    local is False when the pid is of another namespace; gone when the process has ended since
    the driver listed it.
    """

    user: str | None = None
    command: str | None = None
    ours: bool = False
    local: bool = False
    gone: bool = False


class ProcessReader:
    """Reads one card's processes; remembers who they are while they stay."""

    def __init__(self, owner: int | None, identify: Callable[[int, int | None], Identity]) -> None:
        self._owner = owner
        self._identify = identify
        self._known: dict[int, Identity] = {}
        self._foreign: set[int] = set()
        self._listed: set[int] | None = None  # pids of the last reading
        self._since = 0
        self._host = HostUseReader()

    def read(self, api: Api, handle: Any, total: float | None) -> tuple[CardProcess, ...]:
        """The processes, largest first; total is the card's memory in bytes.

        Raises Unavailable when the driver gives no list.
        """
        rows = self._rows(api, handle, total)
        shares = self._shares(api, handle) if rows else {}
        known = {
            pid: self._known.get(pid) or _named(api, pid, self._identify(pid, self._owner))
            for pid in rows
            if pid > 0
        }
        self._drop_ended(rows, known)
        self._known = known = self._claim(known)
        use = self._host.read(pid for pid, who in known.items() if who.local)
        listed = [
            CardProcess(
                pid=pid if pid > 0 else None,
                memory_bytes=size,
                user=who.user,
                command=who.command,
                ours=who.ours,
                local=who.local,
                sm_percent=_share(shares, pid),
                cpu_percent=of_host.cpu_percent,
                rss_bytes=of_host.rss_bytes,
                running_s=of_host.running_s,
            )
            for pid, size in rows.items()
            for who in (known.get(pid, Identity()),)
            for of_host in (use.get(pid, HostUse()),)
        ]
        return tuple(sorted(listed, key=lambda p: -(p.memory_bytes or 0)))

    def _drop_ended(self, rows: dict[int, int | None], known: dict[int, Identity]) -> None:
        """Leave out processes that ended between the driver's answer and the look at them.

        In another namespace that can't be seen: there a pid counts from its second reading on,
        or when it was there from the first.
        """
        before, self._listed = self._listed, set(rows)
        for pid, who in list(known.items()):
            fresh = before is not None and pid not in before
            if who.gone or (fresh and not who.local):
                del rows[pid], known[pid]

    def _rows(self, api: Api, handle: Any, total: float | None) -> dict[int, int | None]:
        """Memory by pid; impossible pids are kept under keys of 0 and below."""
        rows: dict[int, int | None] = {}
        failed: Unavailable | None = None
        lists = 0
        for kind in _KINDS:
            name = f"nvmlDeviceGet{kind}RunningProcesses"
            calls = [Call(name + version) for version in _VERSIONS]
            try:
                found = api.first(handle, *calls, Call(name))
            except Unavailable as error:
                if error.lost:
                    raise
                failed = failed or error
                continue
            lists += 1
            for item in found or ():
                _add(rows, getattr(item, "pid", None), getattr(item, "usedGpuMemory", None), total)
        if failed is not None and not lists:
            raise failed
        return rows

    def _shares(self, api: Api, handle: Any) -> dict[int, float | None] | None:
        """SM share by pid, None of an impossible one, and None when this card does not tell."""
        try:
            samples = api.call("nvmlDeviceGetProcessUtilization", handle, self._since)
        except Unavailable as error:
            if error.lost:
                raise
            # NotFound is the driver's answer while all are idle, success with no rows the
            # binding's.
            return {} if error.code in (NOT_FOUND, SUCCESS) else None
        newest: dict[int, tuple[int, float | None]] = {}
        for sample in samples or ():
            stamp, share = int(sample.timeStamp), float(sample.smUtil)
            if stamp >= newest.get(int(sample.pid), (0, 0.0))[0]:
                newest[int(sample.pid)] = (stamp, share if share <= 100 else None)
        self._since = max((stamp for stamp, _ in newest.values()), default=self._since)
        return {pid: share for pid, (_, share) in newest.items()}

    def _claim(self, known: dict[int, Identity]) -> dict[int, Identity]:
        """Tell ours from others among pids of another namespace.

        Such a pid says nothing by itself. Those seen while no process of ours held a card are
        others'; of the rest the newest are taken as ours, as many as ours are without a pid.
        """
        distant = [pid for pid, who in known.items() if not who.local]
        if not distant or self._owner is None:
            return known
        holders = count_holders(self._owner) - sum(who.local and who.ours for who in known.values())
        if holders <= 0:
            self._foreign.update(distant)
        self._foreign.intersection_update(distant)
        candidates = [pid for pid in distant if pid not in self._foreign]
        mine = candidates[-holders:] if holders > 0 else []
        return {
            pid: Identity(who.user, who.command, pid in mine, local=False)
            if pid in distant
            else who
            for pid, who in known.items()
        }


def _share(shares: dict[int, float | None] | None, pid: int) -> float | None:
    """SM share of a process; one that the driver leaves out was idle, if it is one at all."""
    return None if shares is None or pid <= 0 else shares.get(pid, 0.0)


def other_metrics(processes: Iterable[CardProcess]) -> dict[str, Metric]:
    """Figures of the processes that are not ours, so that their history is kept."""
    others = [process for process in processes if not process.ours]
    shares = [process.sm_percent for process in others]
    sizes = [process.memory_bytes for process in others]
    unknown = "the driver does not tell it of every process"
    return {
        "other_processes": Metric(float(len(others))),
        "other_utilization": Metric(None, unknown)
        if None in shares
        else Metric(min(100.0, sum(share or 0.0 for share in shares))),
        "other_memory": Metric(None, unknown)
        if None in sizes
        else Metric(float(sum(size or 0 for size in sizes))),
    }


def identify(pid: int, owner: int | None) -> Identity:
    """User, command and ancestry of a process, if the pid is one of this namespace."""
    try:
        process = psutil.Process(pid)
        if not (shares_namespace() or holds_card(pid)):
            return Identity()
        ours = owner is not None and (
            pid == owner or owner in (parent.pid for parent in process.parents())
        )
    except psutil.NoSuchProcess:
        return Identity(gone=shares_namespace())
    except (psutil.Error, OSError, ValueError):
        return Identity()
    return Identity(_user(process), _command(process), ours, local=True)


def shares_namespace() -> bool:
    """Whether pids here are the machine's own."""
    try:
        return str(Path("/proc/self/ns/pid").readlink()) == _HOST_NAMESPACE
    except OSError:
        return False


def holds_card(pid: int) -> bool:
    """Whether a process has an NVIDIA device file open; False when it may not be known."""
    with contextlib.suppress(OSError):
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                if str(entry.readlink()).startswith("/dev/nvidia"):
                    return True
    return False


def count_holders(owner: int) -> int:
    """Descendants of a process that hold a card."""
    try:
        children = psutil.Process(owner).children(recursive=True)
    except (psutil.Error, OSError):
        return 0
    return sum(child.pid != os.getpid() and holds_card(child.pid) for child in children)


def _add(rows: dict[int, int | None], pid: Any, size: Any, total: float | None) -> None:
    valid = isinstance(pid, int) and 0 < pid < _HIGHEST_PID
    key = pid if valid else -len(rows)
    highest = 2.0**46 if total is None else total
    known = isinstance(size, int) and 0 <= size <= highest
    # A process in two lists holds one amount of memory.
    if key not in rows or rows[key] is None:
        rows[key] = size if known else None


def _named(api: Api, pid: int, who: Identity) -> Identity:
    if who.command is not None:
        return who
    with contextlib.suppress(Unavailable):
        name = api.text("nvmlSystemGetProcessName", pid)
        return Identity(who.user, name or None, who.ours, who.local)
    return who


def _command(process: psutil.Process) -> str | None:
    try:
        return clean(" ".join(process.cmdline()) or process.name()) or None
    except (psutil.Error, OSError):  # a zombie has no command line
        return None


def _user(process: psutil.Process) -> str | None:
    try:
        return clean(process.username())
    except (psutil.Error, OSError, KeyError):
        return None
