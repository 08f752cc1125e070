"""What each NVML call of the sampler costs here: a Markdown table, idle and under load."""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pynvml

from llmprof.core.devices.card_processes import ProcessReader, identify
from llmprof.core.devices.gpm import ActivityReader
from llmprof.core.devices.nvml_binding import Api, Unavailable
from llmprof.core.devices.nvml_readers import READERS

LOAD = """
import torch
a = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
while True:
    for _ in range(50):
        a = (a @ a).clamp_(-1, 1)
    torch.cuda.synchronize()
    print("busy", flush=True)
"""
FIELDS = {83: "total energy by field value", 186: "instant power by field value"}


def calls(api: Api, handle: Any) -> dict[str, Callable[[], object]]:
    """Every call by its name."""
    found: dict[str, Callable[[], object]] = {
        ", ".join(reader.metrics): partial(reader.read, api, handle) for reader in READERS
    }
    processes = ProcessReader(None, identify)
    activity = ActivityReader(api, handle)
    found["processes"] = partial(processes.read, api, handle, None)
    found["activity (GPM)"] = lambda: activity.read(time.monotonic())
    found["MIG mode"] = partial(api.call, "nvmlDeviceGetMigMode", handle)
    for field, name in FIELDS.items():
        found[name] = partial(field_value, api, handle, field)
    return found


def field_value(api: Api, handle: Any, field: int) -> int:
    value = api.call("nvmlDeviceGetFieldValues", handle, [field])[0]
    if value.nvmlReturn:
        raise Unavailable(f"NVML error {value.nvmlReturn}", value.nvmlReturn)
    return int(value.value.ullVal)


def cost_us(call: Callable[[], object], rounds: int) -> tuple[list[float], str]:
    """Microseconds of each round, and the result or the reason."""
    times, result = [], ""
    for _ in range(rounds):
        start = time.perf_counter_ns()
        try:
            result = str(call())
        except Unavailable as error:
            result = error.reason
        times.append((time.perf_counter_ns() - start) / 1e3)
    return times, result


def table(api: Api, handle: Any, rounds: int, title: str) -> None:
    print(f"\n{title}, {rounds} calls each\n\n| call | median µs | worst µs | result |")
    print("|---|---:|---:|---|")
    for name, call in calls(api, handle).items():
        times, result = cost_us(call, 5 if name.startswith("pcie") else rounds)
        print(f"| {name} | {statistics.median(times):.1f} | {max(times):.0f} | {result[:90]} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=40)
    rounds = parser.parse_args().rounds
    api = Api(pynvml)
    start = time.perf_counter()
    api.call("nvmlInit")
    handle = api.call("nvmlDeviceGetHandleByIndex", 0)
    name = api.text("nvmlDeviceGetName", handle)
    driver = api.text("nvmlSystemGetDriverVersion")
    print(f"{name}, driver {driver}; NVML started in {1e3 * (time.perf_counter() - start):.0f} ms")
    table(api, handle, rounds, "Idle")
    load = subprocess.Popen([sys.executable, "-c", LOAD], stdout=subprocess.PIPE)
    try:
        assert load.stdout is not None
        load.stdout.readline()
        table(api, handle, rounds, "While bf16 matmuls run")
    finally:
        load.kill()
        load.wait()


if __name__ == "__main__":
    main()
