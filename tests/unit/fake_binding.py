"""A table-driven stand-in for the module pynvml: function x error x kind of card."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pynvml

from llmprof.core.devices.card_processes import Identity
from llmprof.core.devices.nvml import NvmlCards

MISMATCH = pynvml.NVMLLibraryMismatchError("no such version")
GIB = 2**30


def error(code: int) -> Exception:
    """What the binding raises for an NVML return code."""
    made: Exception = pynvml.NVMLError(code)
    return made


class Clock:
    """A clock that stands still until it is moved, nanoseconds."""

    def __init__(self) -> None:
        self.now = 1_000_000_000_000

    def __call__(self) -> int:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += int(seconds * 1e9)


class _Request(SimpleNamespace):
    def __init__(self) -> None:
        rows = [SimpleNamespace(metricId=0, nvmlReturn=0, value=0.0) for _ in range(16)]
        super().__init__(version=0, numMetrics=0, sample1=None, sample2=None, metrics=rows)


def _usual(count: int) -> dict[str, Any]:
    """What a datacenter card without a fan answers."""
    return {
        "nvmlInit": None,
        "nvmlShutdown": None,
        "nvmlSystemGetNVMLVersion": "13.580.1",
        "nvmlSystemGetProcessName": error(6),
        "nvmlDeviceGetCount": count,
        "nvmlDeviceGetHandleByIndex": lambda index: f"card{index}",
        "nvmlDeviceGetHandleByUUID": lambda uuid: f"card{int(uuid[-1])}",
        "nvmlDeviceGetUUID": lambda handle: f"GPU-00000000-0000-0000-0000-00000000000{handle[-1]}",
        "nvmlDeviceGetName": "NVIDIA H100 80GB HBM3",
        "nvmlDeviceGetPciInfo": lambda handle: SimpleNamespace(
            busId=f"00000000:{int(handle[-1]) + 16:02X}:00.0".encode()
        ),
        "nvmlDeviceGetMigMode": error(3),
        "nvmlDeviceGetUtilizationRates": SimpleNamespace(gpu=37, memory=12),
        "nvmlDeviceGetPowerUsage": 350_500,
        "nvmlDeviceGetClockInfo": lambda _handle, kind: {1: 1755, 2: 2619}[kind],
        "nvmlDeviceGetMaxClockInfo": lambda _handle, kind: {1: 1980, 2: 2619}[kind],
        "nvmlDeviceGetCurrentClocksEventReasons": 0x4,
        "nvmlDeviceGetMemoryInfo": lambda _handle, version=None: SimpleNamespace(
            total=80 * GIB, used=(10 if version else 11) * GIB, free=70 * GIB
        ),
        "nvmlDeviceGetTemperatureV": lambda _handle, _sensor: 54,
        "nvmlDeviceGetTemperature": lambda _handle, _sensor: 53,
        "nvmlDeviceGetTotalEnergyConsumption": 12_345_678,
        "nvmlDeviceGetEnforcedPowerLimit": 700_000,
        "nvmlDeviceGetTemperatureThreshold": 92,
        "nvmlDeviceGetFanSpeed": error(3),
        "nvmlDeviceGetTotalEccErrors": 0,
        "nvmlDeviceGetPcieThroughput": lambda _handle, counter: 1000 + counter,
        "nvmlDeviceGetSamples": lambda *_: (
            2,
            [SimpleNamespace(timeStamp=at * 166_000) for at in range(8)],
        ),
        "nvmlDeviceGetComputeRunningProcesses_v3": [
            SimpleNamespace(pid=4242, usedGpuMemory=2 * GIB),
        ],
        "nvmlDeviceGetGraphicsRunningProcesses_v3": [],
        "nvmlDeviceGetMPSComputeRunningProcesses_v3": [],
        "nvmlDeviceGetProcessUtilization": [
            SimpleNamespace(pid=4242, timeStamp=7, smUtil=33, memUtil=5)
        ],
        "nvmlGpmQueryDeviceSupport": SimpleNamespace(isSupportedDevice=1),
        "nvmlGpmSampleAlloc": SimpleNamespace,
        "nvmlGpmSampleGet": lambda _handle, sample: sample,
        "nvmlGpmSampleFree": None,
        "nvmlGpmMetricsGet": _fill,
        "c_nvmlGpmMetricsGet_t": _Request,
    }


def _fill(request: _Request) -> _Request:
    for row in request.metrics[: request.numMetrics]:
        row.value = 10.0 + row.metricId
    return request


class FakeNvml:
    """Looks like pynvml; set(function, answer) changes one answer, for one card if named.

    An answer is a value, an exception to raise, or a function of the arguments. A function set
    to None in `missing` does not exist at all.
    """

    def __init__(self, count: int = 1) -> None:
        self._answers: dict[tuple[str, str | None], Any] = {
            (name, None): answer for name, answer in _usual(count).items()
        }
        self.missing: set[str] = set()
        self.calls: Counter[str] = Counter()
        self.before: Callable[[str], None] = lambda name: None

    def set(self, name: str, answer: Any, card: int | None = None) -> FakeNvml:
        """Change an answer."""
        self._answers[name, None if card is None else f"card{card}"] = answer
        return self

    def lose(self, card: int, code: int = 15) -> None:
        """Every call on a card fails from now on."""
        for name, _ in list(self._answers):
            if name.startswith(("nvmlDevice", "nvmlGpm")):
                self.set(name, error(code), card)
        self.set("nvmlDeviceGetHandleByUUID", error(code))

    def __getattr__(self, name: str) -> Any:
        if name in self.missing or not any(name == known for known, _ in self._answers):
            raise AttributeError(name)

        def function(*arguments: Any) -> Any:
            self.calls[name] += 1
            self.before(name)
            first = arguments[0] if arguments and isinstance(arguments[0], str) else None
            answer = self._answers.get((name, first), self._answers.get((name, None), error(3)))
            if isinstance(answer, BaseException):
                raise answer
            return answer(*arguments) if callable(answer) else answer

        return function


def nobody(pid: int, owner: int | None) -> Identity:
    """A resolver that knows no process."""
    return Identity()


def cards_of(
    fake: FakeNvml,
    clock: Clock | None = None,
    who: Callable[[int, int | None], Identity] = nobody,
    **more: Any,
) -> NvmlCards:
    """The reader over a fake, its start awaited."""
    return NvmlCards(load=lambda: fake, clock=clock or Clock(), who=who, wait_s=10.0, **more)
