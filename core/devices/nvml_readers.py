"""What can be read from a card: each metric by itself, with how often it is worth its cost.

Costs beside the readers are medians of one H200, driver 580.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from llmprof.core.devices.nvml_binding import Api, Call, checked

FAST, SECOND, SLOW, RARE = 0.0, 1.0, 2.0, 30.0  # seconds; FAST: every poll
Values = dict[str, float]

_SENSOR_GPU = 0  # NVML_TEMPERATURE_GPU
_SLOWDOWN = 1  # NVML_TEMPERATURE_THRESHOLD_SLOWDOWN
_SM, _MEM = 1, 2  # nvmlClockType_t
_UNCORRECTED, _VOLATILE = 1, 0
_TX, _RX = 0, 1  # nvmlPcieUtilCounter_t
_GPU_UTILIZATION_SAMPLES = 1  # nvmlSamplingType_t
_MEMORY_V2 = 0x02000028
_MAX_WATTS, _MAX_MHZ, _MAX_BYTES = 20_000.0, 20_000.0, 2.0**46


@dataclass(frozen=True)
class Reader:
    """One call: the metrics it gives, its period and whether it waits until a poll is done."""

    metrics: tuple[str, ...]
    read: Callable[[Api, Any], Values]
    period_s: float = FAST
    deferred: bool = False


def _utilization(api: Api, handle: Any) -> Values:
    rates = api.call("nvmlDeviceGetUtilizationRates", handle)
    return {
        "utilization": checked(rates.gpu, 100),
        "memory_utilization": checked(rates.memory, 100),
    }


def _power(api: Api, handle: Any) -> Values:
    return {"power": api.number(handle, Call("nvmlDeviceGetPowerUsage"), highest=2e7) / 1e3}


def _clock(metric: str, kind: int, function: str) -> Callable[[Api, Any], Values]:
    def read(api: Api, handle: Any) -> Values:
        return {metric: api.number(handle, Call(function, (kind,)), highest=_MAX_MHZ)}

    return read


def _throttle(api: Api, handle: Any) -> Values:
    calls = (
        Call("nvmlDeviceGetCurrentClocksEventReasons"),
        Call("nvmlDeviceGetCurrentClocksThrottleReasons"),
    )
    return {"throttle": api.number(handle, *calls, highest=2.0**52)}


def _memory(api: Api, handle: Any) -> Values:
    version = api.constant("nvmlMemory_v2", _MEMORY_V2)
    name = "nvmlDeviceGetMemoryInfo"
    memory = api.first(handle, Call(name, (version,)), Call(name))
    total = checked(memory.total, _MAX_BYTES)
    return {"memory_used": checked(memory.used, total), "memory_total": total}


def _temperature(api: Api, handle: Any) -> Values:
    calls = (
        Call("nvmlDeviceGetTemperatureV", (_SENSOR_GPU,)),
        Call("nvmlDeviceGetTemperature", (_SENSOR_GPU,)),
    )
    return {"temperature": api.number(handle, *calls, highest=200)}


def _energy(api: Api, handle: Any) -> Values:
    call = Call("nvmlDeviceGetTotalEnergyConsumption")
    return {"energy": api.number(handle, call, highest=2.0**62) / 1e3}


def _power_limit(api: Api, handle: Any) -> Values:
    calls = (
        Call("nvmlDeviceGetEnforcedPowerLimit"),
        Call("nvmlDeviceGetPowerManagementLimit"),
    )
    return {"power_limit": api.number(handle, *calls, highest=_MAX_WATTS * 1e3) / 1e3}


def _slowdown(api: Api, handle: Any) -> Values:
    call = Call("nvmlDeviceGetTemperatureThreshold", (_SLOWDOWN,))
    return {"temperature_slowdown": api.number(handle, call, highest=200)}


def _fan(api: Api, handle: Any) -> Values:
    # Above 100 is in range: fans may run faster than their nominal full speed.
    return {"fan": api.number(handle, Call("nvmlDeviceGetFanSpeed"), highest=1000)}


def _ecc(api: Api, handle: Any) -> Values:
    call = Call("nvmlDeviceGetTotalEccErrors", (_UNCORRECTED, _VOLATILE))
    return {"ecc_errors": api.number(handle, call, highest=2.0**52)}


def _pcie(metric: str, counter: int) -> Callable[[Api, Any], Values]:
    def read(api: Api, handle: Any) -> Values:
        call = Call("nvmlDeviceGetPcieThroughput", (counter,))
        return {metric: api.number(handle, call, highest=1e9) * 1024}  # KiB/s over 20 ms

    return read


def _window(api: Api, handle: Any) -> Values:
    samples = api.call("nvmlDeviceGetSamples", handle, _GPU_UTILIZATION_SAMPLES, 0)[1]
    times = sorted({int(sample.timeStamp) for sample in samples})
    gaps = sorted(after - before for before, after in itertools.pairwise(times))
    return {"utilization_window": checked(gaps[len(gaps) // 2] / 1e3, 10_000)}


READERS: tuple[Reader, ...] = (
    Reader(("utilization", "memory_utilization"), _utilization),  # 1.5 µs, worst 3.8 ms
    Reader(("power",), _power),  # 1.6 µs
    Reader(("sm_clock",), _clock("sm_clock", _SM, "nvmlDeviceGetClockInfo")),  # 1.4 µs
    Reader(("memory_clock",), _clock("memory_clock", _MEM, "nvmlDeviceGetClockInfo"), SECOND),
    Reader(("throttle",), _throttle),  # 1.4 µs
    Reader(("memory_used", "memory_total"), _memory, SECOND),  # 9 µs
    Reader(("temperature",), _temperature, SECOND),  # 1.4 µs
    Reader(("energy",), _energy, SLOW),  # 3.1 ms, worst 9.7 ms
    Reader(("power_limit",), _power_limit, RARE),
    Reader(("sm_clock_max",), _clock("sm_clock_max", _SM, "nvmlDeviceGetMaxClockInfo"), RARE),
    Reader(
        ("memory_clock_max",), _clock("memory_clock_max", _MEM, "nvmlDeviceGetMaxClockInfo"), RARE
    ),
    Reader(("temperature_slowdown",), _slowdown, RARE),
    Reader(("fan",), _fan, 2 * SLOW),
    Reader(("ecc_errors",), _ecc, RARE),
    Reader(("pcie_tx",), _pcie("pcie_tx", _TX), 4 * SLOW, deferred=True),  # 21 ms
    Reader(("pcie_rx",), _pcie("pcie_rx", _RX), 4 * SLOW, deferred=True),  # 21 ms
    Reader(("utilization_window",), _window, 20 * RARE, deferred=True),  # 2.5 ms
)
