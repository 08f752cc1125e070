"""Opens the source that suits this machine."""

from __future__ import annotations

from llmprof.core.devices.host import PsutilHost
from llmprof.core.devices.nvml import NvmlCards
from llmprof.core.devices.source import DeviceSource
from llmprof.core.events.matching import Selection


def open_source(
    gpus: str | None = None, *, owner: int | None = None, wait_s: float = 0.0
) -> DeviceSource:
    """Cards through NVML and the host through psutil; without NVML the host alone, and why.

    gpus selects cards (see Selection.parse, which raises ValueError); processes below owner are
    marked as ours; wait_s is how long to wait for NVML to start before the first sample.
    """
    selection = Selection.parse(gpus)
    return DeviceSource(NvmlCards(selection, owner=owner, wait_s=wait_s), PsutilHost())
