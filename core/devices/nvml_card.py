"""One NVIDIA card: its readings when they are due, its state when they fail."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Literal

from llmprof.core.devices.card_processes import Identity, ProcessReader, other_metrics
from llmprof.core.devices.energy import EnergyMeter
from llmprof.core.devices.gpm import Activity
from llmprof.core.devices.identity import CardIdentity, read_identity
from llmprof.core.devices.nvml_binding import Api, Unavailable, guarded
from llmprof.core.devices.nvml_readers import READERS, SLOW, Reader
from llmprof.core.devices.schedule import Slot
from llmprof.core.devices.source import Clock
from llmprof.core.devices.unified_memory import shares_host_memory, unified_memory
from llmprof.core.events import CardProcess, CardSample, Metric, throttle

REOPEN_S = 5.0  # between attempts to find a lost card again
POLL_BUDGET_S = 0.1  # a poll over it leaves what is not due every time to the next one
_NOT_YOURS = "the driver refuses this user access to the card: it is another's"
Identify = Callable[[int, int | None], Identity]


class NvmlCard:
    """Reads one card. No method raises; what fails is a Metric with a reason."""

    def __init__(
        self,
        api: Api,
        index: int,
        *,
        owner: int | None,
        identify: Identify,
        clock: Clock = time.monotonic_ns,
    ) -> None:
        self._api = api
        self.index = index
        self._clock = clock
        self._handle: Any = None
        self.identity = CardIdentity()
        self._state: Literal["ok", "lost", "stale"] = "lost"
        self._reason = ""
        self._denied = False
        self._slots = {reader.metrics: Slot(reader.period_s) for reader in READERS}
        self._process_slot = Slot(SLOW)
        self._processes = ProcessReader(owner, identify)
        self._energy = EnergyMeter()
        self._activity = Activity(api, clock)
        self._late: dict[str, Metric] = {}
        self._latest: dict[str, Metric] = {}
        self._no_memory = False
        self._told = False  # whether name, bus id and the like were handed on
        self._reopen_s = 0.0
        self._open()

    @property
    def identified(self) -> CardSample:
        """The card by name, without a reading."""
        known = self.identity
        return CardSample(
            index=self.index, uuid=known.uuid, pci_bus_id=known.pci_bus_id, mig=known.mig
        )

    def read(self) -> CardSample:
        """What is due now. The first sample after a change of state names the card."""
        now_ns = self._clock()
        if self._state != "ok" and now_ns / 1e9 >= self._reopen_s:
            self._open()
        metrics, self._late = self._late, {}
        processes = None
        if self._handle is not None:
            metrics.update(self._read_due(deferred=False))
            processes = self._read_processes(metrics)
            metrics.update(self._activity.read_due())
            self._energy.settle(now_ns, metrics)
            self._unify(metrics, processes)
        self._latest.update(metrics)
        return self._sample(metrics, processes)

    def catch_up(self) -> None:
        """The readings that take long; the next sample carries them."""
        if self._handle is not None and self._state == "ok":
            found = self._read_due(deferred=True)  # losing the card replaces what was late
            self._late.update(found)

    def show_activity(self, on: bool) -> None:
        """Read the activity counters from now on, or let go of them."""
        if not on:
            self._activity.close()
        elif self._handle is not None:
            self._activity.open(self._handle)

    def close(self) -> None:
        """Free what the driver holds for us."""
        self._activity.close()

    def _sample(
        self, metrics: dict[str, Metric], processes: tuple[CardProcess, ...] | None
    ) -> CardSample:
        identity = CardIdentity() if self._told else self.identity
        self._told = True
        mask = metrics.get("throttle")
        known = mask is not None and mask.value is not None
        return CardSample(
            index=self.index,
            uuid=identity.uuid,
            pci_bus_id=identity.pci_bus_id,
            name=identity.name,
            state=self._state,
            denied=self._denied,
            metrics=metrics,
            throttle=throttle.names(int(mask.value or 0)) if mask and known else (),
            processes=processes,
            mig=identity.mig,
            unified=self._unified,
        )

    def _open(self) -> None:
        """Get a handle; a card that can't be opened stays as a lost row."""
        now_s = self._clock() / 1e9
        self._reopen_s = now_s + REOPEN_S
        try:
            if self.identity.uuid is not None:
                handle = self._api.call("nvmlDeviceGetHandleByUUID", self.identity.uuid)
            else:
                handle = self._api.call("nvmlDeviceGetHandleByIndex", self.index)
        except Unavailable as error:
            self._denied = error.denied
            self._lose(_NOT_YOURS if error.denied else error.reason)
            return
        self._denied = False
        self._handle = handle
        self._reason = ""
        self.identity = read_identity(self._api, handle, self.identity)
        if self._state == "lost":
            self._state = "ok"
            self._slots = {reader.metrics: Slot(reader.period_s) for reader in READERS}
        self._told = False

    def _lose(self, reason: str) -> None:
        """Mark the card lost and drop the handle: every known metric becomes unknown."""
        self.close()
        self._handle = None
        if reason != self._reason:
            names = self._latest or [name for reader in READERS for name in reader.metrics]
            self._late = {name: Metric(None, reason) for name in names}
        self._state, self._reason = "lost", reason

    def _read_due(self, *, deferred: bool) -> dict[str, Metric]:
        start = self._clock()
        metrics: dict[str, Metric] = {}
        failed = read = 0
        for reader in READERS:
            slot = self._slots[reader.metrics]
            now = self._clock()
            costly = now - start > POLL_BUDGET_S * 1e9 and reader.period_s > 0
            if reader.deferred is not deferred or costly or not slot.is_due(now / 1e9):
                continue
            outcome = self._read_one(reader, slot)
            if outcome is None:
                late, self._late = self._late, {}
                return late
            got, passing = outcome
            metrics.update(got)
            read += 1
            failed += passing
        if not deferred and read:
            self._judge(read, failed)
        return metrics

    def _read_one(self, reader: Reader, slot: Slot) -> tuple[dict[str, Metric], bool] | None:
        """A reading and whether it failed for now; None when the card was lost by it."""
        start = self._clock()
        try:
            values = guarded(reader.read, self._api, self._handle)
        except Unavailable as error:
            if error.lost:
                self._lose(error.reason)
                return None
            reason, permanent = error.reason, error.permanent
        else:
            now = self._clock()
            slot.done(now / 1e9, (now - start) / 1e9)
            return {name: Metric(value) for name, value in values.items()}, False
        now = self._clock()
        slot.failed(now / 1e9, (now - start) / 1e9, permanent=permanent)
        if permanent and "energy" in reader.metrics:
            self._energy.missing()
        if permanent and "memory_used" in reader.metrics:
            self._no_memory = True
        return {name: Metric(None, reason) for name in reader.metrics}, not permanent

    def _judge(self, read: int, failed: int) -> None:
        """Stale when all of several readings failed at once, well again after a success."""
        if failed == read > 1:
            self._state = "stale"
        elif failed < read and self._state == "stale":
            self._state = "ok"

    def _read_processes(self, metrics: dict[str, Metric]) -> tuple[CardProcess, ...] | None:
        start = self._clock()
        if self._handle is None or not self._process_slot.is_due(start / 1e9):
            return None
        total = (metrics.get("memory_total") or self._latest.get("memory_total") or _NONE).value
        try:
            processes = guarded(self._processes.read, self._api, self._handle, total)
        except Unavailable as error:
            now = self._clock()
            self._process_slot.failed(now / 1e9, (now - start) / 1e9, permanent=error.permanent)
            metrics.update({name: Metric(None, error.reason) for name in _OTHERS})
            if error.lost:
                self._lose(error.reason)
                metrics.update(self._late)
            return None
        now = self._clock()
        self._process_slot.done(now / 1e9, (now - start) / 1e9)
        metrics.update(other_metrics(processes))
        return processes

    @property
    def _unified(self) -> bool:
        # The name alone is not enough: a card that reports its memory has memory.
        return self._no_memory and shares_host_memory(self.identity.name)

    def _unify(self, metrics: dict[str, Metric], processes: tuple[CardProcess, ...] | None) -> None:
        """On a card without memory of its own its processes' and the host's stand for it."""
        if self._unified:
            for name in ("memory_used", "memory_total"):
                metrics.pop(name, None)
            if processes is not None:
                metrics.update(unified_memory(processes))


_NONE = Metric(None)
_OTHERS = tuple(other_metrics(()))
