"""What this machine is: device, driver, torch, capabilities, and a short matmul."""

from __future__ import annotations

import hashlib
import math
import os
import platform
import socket
import time
from pathlib import Path
from typing import Any

import msgspec
import torch

from llmprof.core import events as ev
from llmprof.core.store.calibrations import load_ceilings
from llmprof.core.system.host_memory import available_bytes, limit_bytes
from llmprof.core.system.processors import cpu_name, quota, ranges, usable_cpus
from llmprof.core.system.text import clean
from llmprof.core.system.variables import relevant
from llmprof.core.worker.card import measure_context
from llmprof.core.worker.failures import Unsupported

MATMUL_S = 0.3


def read_environment(device_name: str) -> ev.Environment:
    """The environment of a device name ("auto" prefers CUDA).

    Raises Unsupported for a device that isn't there.
    """
    device = resolve(device_name)
    common: dict[str, Any] = {
        "torch": str(torch.__version__),
        "python": platform.python_version(),
        "system": clean(f"{platform.system()} {platform.release()}"),
        "host": clean(socket.gethostname(), 80),
        "cpu_name": cpu_name(),
        "cpu_count": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "cpus_usable": len(usable_cpus()),
        "affinity": ranges(usable_cpus()),
        "cpu_quota": quota(),
        "memory_limit_bytes": limit_bytes(),
        "variables": relevant(os.environ),
        "worker_source": source_hash(),
    }
    own = _cuda(device) if device.type == "cuda" else _cpu()
    rate = quick_matmul_tflops(device)
    found = ev.Environment(device=str(device), matmul_tflops=rate, **common, **own)
    return msgspec.structs.replace(found, ceilings=load_ceilings(found))


def source_hash() -> str:
    """Hash of this room's source: runs whose hashes are equal were measured by the same code."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def resolve(name: str) -> torch.device:
    """A torch device with its index. Raises Unsupported for one that isn't there."""
    there = torch.cuda.is_available()
    if name == "auto":
        return torch.device("cuda", 0) if there else torch.device("cpu")
    device = torch.device(name)
    if device.type == "cpu":
        return torch.device("cpu")
    if not there:
        build = "" if torch.version.cuda else " (this torch is a CPU build)"
        raise Unsupported(f"device {name} isn't there: no CUDA device was found{build}")
    index = device.index or 0
    if index >= torch.cuda.device_count():
        raise Unsupported(
            f"device {name} isn't there: cuda:0 to cuda:{torch.cuda.device_count() - 1} are"
        )
    return torch.device("cuda", index)


def create_context(device: torch.device) -> None:
    """Make the CUDA context and wait for it."""
    torch.cuda.set_device(device)
    torch.zeros(1, device=device)
    torch.cuda.synchronize(device)


def quick_matmul_tflops(device: torch.device, seconds: float = MATMUL_S) -> float:
    """Rate of fp32 matrix products, TFLOP/s: the best of bursts that take about `seconds` in all.

    The best, since what else runs on the machine can only slow a burst.
    """
    torch.set_float32_matmul_precision("highest")
    size = 4096 if device.type == "cuda" else 512
    a, b = torch.randn(size, size, device=device), torch.randn(size, size, device=device)
    (a @ b).sum().item()
    deadline = time.perf_counter() + seconds
    best = math.inf
    bursts = 0
    while time.perf_counter() < deadline or bursts < 3:
        start = time.perf_counter()
        for _ in range(4):
            c = a @ b
        c[0, 0].item()
        best = min(best, time.perf_counter() - start)
        bursts += 1
    return 4 * 2 * size**3 / best / 1e12


def _cuda(device: torch.device) -> dict[str, Any]:
    took_ns: list[int] = []

    def make() -> None:
        start = time.monotonic_ns()
        create_context(device)
        took_ns.append(time.monotonic_ns() - start)

    context_bytes = measure_context(device, make)
    properties = torch.cuda.get_device_properties(device)
    free, total = torch.cuda.mem_get_info(device)
    uuid = getattr(properties, "uuid", None)
    return {
        "device_name": clean(properties.name, 80),
        "device_uuid": None if uuid is None else f"GPU-{uuid}",
        "pci_bus_id": _pci_bus_id(properties),
        "capability": (properties.major, properties.minor),
        "memory_total_bytes": total,
        "memory_free_bytes": free,
        "driver": _driver(),
        "cuda": torch.version.cuda,
        "unsupported": _unsupported_on_cuda(properties.major),
        "context_ms": took_ns[0] / 1e6,
        "context_bytes": context_bytes,
    }


def _cpu() -> dict[str, Any]:
    return {
        "device_name": cpu_name(),
        "memory_total_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        "memory_free_bytes": available_bytes(),
        "unsupported": {
            "tf32": "TF32 is a number format of NVIDIA's tensor cores; a CPU has none",
        },
    }


def _unsupported_on_cuda(major: int) -> dict[str, str]:
    reasons = {}
    if major < 8:
        reasons["tf32"] = "TF32 needs tensor cores of compute capability 8.0 (Ampere) or later"
    if not _real_bf16():
        reasons["bf16"] = "this card has no bf16 arithmetic, torch would emulate it"
    return reasons


def _real_bf16() -> bool:
    try:
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    except TypeError:  # an older signature
        return torch.cuda.get_device_capability()[0] >= 8


def _pci_bus_id(properties: Any) -> str | None:
    parts = [getattr(properties, f"pci_{name}_id", None) for name in ("domain", "bus", "device")]
    if any(part is None for part in parts):
        return None
    domain, bus, slot = parts
    return f"{domain:08x}:{bus:02x}:{slot:02x}.0"


def _driver() -> str | None:
    try:
        return clean(Path("/sys/module/nvidia/version").read_text(), 40) or None
    except OSError:
        return None
