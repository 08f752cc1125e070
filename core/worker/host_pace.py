"""How fast this host is right now: a short fixed load, outside all steps.

On rented and shared machines a host's speed changes by a factor within minutes, and launch-bound
steps with it. The load explains factors, not ten per cent.
"""

from __future__ import annotations

import time
from pathlib import Path

import torch

LAUNCHES = 2_000
WARM_LAUNCHES = 50
PRODUCTS = 32
PRODUCT_SIZE = 256
_STAT = Path("/proc/stat")


def host_pace_us(device: torch.device) -> float:
    """Microseconds of one launch (a card) or of one small matrix product (a CPU).

    On a card the host's time to enqueue one-element additions, 12 to 26 ms in all on an H200's
    hosts; on a CPU the time of fp32 products, about 15 ms on two cores.
    """
    if device.type == "cuda":
        return _launch_us(device)
    a = torch.full((PRODUCT_SIZE, PRODUCT_SIZE), 1e-3)
    torch.mm(a, a)
    start = time.perf_counter_ns()
    for _ in range(PRODUCTS):
        torch.mm(a, a)
    return (time.perf_counter_ns() - start) / 1e3 / PRODUCTS


def _launch_us(device: torch.device) -> float:
    counter = torch.zeros(1, device=device)
    for _ in range(WARM_LAUNCHES):
        counter.add_(1)
    torch.cuda.synchronize(device)
    start = time.perf_counter_ns()
    for _ in range(LAUNCHES):
        counter.add_(1)
    spent = time.perf_counter_ns() - start
    torch.cuda.synchronize(device)
    return spent / 1e3 / LAUNCHES


def steal_ticks() -> tuple[int, int] | None:
    """Ticks that the hypervisor ran others in place of this machine's processors, and all ticks.

    From /proc/stat (proc(5)); None where it cannot be read.
    """
    try:
        fields = [int(word) for word in _STAT.read_text().splitlines()[0].split()[1:9]]
    except (OSError, ValueError, IndexError):
        return None
    return (fields[7], sum(fields)) if len(fields) == 8 else None
