"""SM, tensor-core and DRAM activity: NVML's GPU performance monitoring, Hopper and later."""

from __future__ import annotations

import contextlib
from typing import Any

from llmprof.core.devices.nvml_binding import Api, Unavailable, checked, guarded
from llmprof.core.devices.schedule import Slot
from llmprof.core.devices.source import Clock
from llmprof.core.events import Metric

# nvmlGpmMetricId_t
METRIC_IDS = {"sm_activity": 2, "sm_occupancy": 3, "tensor_activity": 5, "dram_activity": 10}
SHORTEST_S, LONGEST_S = 0.1, 120.0  # between the two samples that a figure is made of
GPM_PERIOD_S = 1.0


class ActivityReader:
    """Keeps two counter samples of one card; a figure is the difference between them."""

    def __init__(self, api: Api, handle: Any) -> None:
        self._api = api
        self._handle = handle
        self._samples: list[Any] = []
        self._taken_at: float | None = None

    def read(self, now_s: float) -> dict[str, Metric]:
        """The activity since the last read; empty at the first one.

        Raises Unavailable when the card has no such counters.
        """
        if not self._samples:
            self._open()
        older, newer = self._samples
        self._api.call("nvmlGpmSampleGet", self._handle, older)
        self._samples = [newer, older]
        last, self._taken_at = self._taken_at, now_s
        if last is None or not SHORTEST_S <= now_s - last <= LONGEST_S:
            return {}
        return self._difference()

    def close(self) -> None:
        """Free the samples."""
        for sample in self._samples:
            with contextlib.suppress(Unavailable):
                self._api.call("nvmlGpmSampleFree", sample)
        self._samples = []
        self._taken_at = None

    def _open(self) -> None:
        support = self._api.call("nvmlGpmQueryDeviceSupport", self._handle)
        if not support.isSupportedDevice:
            raise Unavailable("this card has no activity counters (Hopper and later do)", 3)
        self._samples = [self._api.call("nvmlGpmSampleAlloc") for _ in range(2)]

    def _difference(self) -> dict[str, Metric]:
        request = self._api.call("c_nvmlGpmMetricsGet_t")
        request.version = self._api.constant("NVML_GPM_METRICS_GET_VERSION", 1)
        request.numMetrics = len(METRIC_IDS)
        request.sample1, request.sample2 = self._samples
        for position, identity in enumerate(METRIC_IDS.values()):
            request.metrics[position].metricId = identity
        self._api.call("nvmlGpmMetricsGet", request)
        return {
            name: _metric(request.metrics[position]) for position, name in enumerate(METRIC_IDS)
        }


class Activity:
    """The activity metrics of a card while somebody looks at them; an error becomes a reason."""

    def __init__(self, api: Api, clock: Clock) -> None:
        self._api = api
        self._clock = clock
        self._slot = Slot(GPM_PERIOD_S)
        self._reader: ActivityReader | None = None

    def open(self, handle: Any) -> None:
        """Read from now on, unless they are read already."""
        if self._reader is None:
            self._reader = ActivityReader(self._api, handle)
            self._slot = Slot(GPM_PERIOD_S)

    def close(self) -> None:
        """Read no more, and free what the driver holds for us."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def read_due(self) -> dict[str, Metric]:
        """The figures when they are due, else nothing."""
        start = self._clock()
        if self._reader is None or not self._slot.is_due(start / 1e9):
            return {}
        try:
            metrics = guarded(self._reader.read, start / 1e9)
        except Unavailable as error:
            self._slot.failed(start / 1e9, 0.0, permanent=error.permanent)
            return {name: Metric(None, error.reason) for name in METRIC_IDS}
        now = self._clock()
        self._slot.done(now / 1e9, (now - start) / 1e9)
        return metrics


def _metric(reading: Any) -> Metric:
    if reading.nvmlReturn != 0:
        return Metric(None, f"NVML error {reading.nvmlReturn}")
    try:
        return Metric(round(checked(reading.value, 100.5), 2))
    except Unavailable as error:
        return Metric(None, error.reason)
