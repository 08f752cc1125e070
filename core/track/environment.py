"""The machine of a tracked loop, read without torch's help and without any measuring."""

from __future__ import annotations

import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version

from llmprof.core import events as ev
from llmprof.core.system.boot import host_name
from llmprof.core.system.host_memory import available_bytes, limit_bytes
from llmprof.core.system.processors import cpu_name, quota, ranges, usable_cpus
from llmprof.core.system.text import clean
from llmprof.core.system.variables import relevant


def environment(card: ev.LoopDevice | None) -> ev.Environment:
    """The machine; with a card once the training uses one."""
    cuda = "cpu" if card is None else "cuda"
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return ev.Environment(
        device=cuda,
        device_name=cpu_name() if card is None else card.name,
        device_uuid=None if card is None else card.uuid,
        pci_bus_id=None if card is None else card.pci_bus_id,
        memory_total_bytes=total if card is None else None,
        memory_free_bytes=available_bytes() if card is None else None,
        torch=_torch(),
        python=platform.python_version(),
        system=clean(f"{platform.system()} {platform.release()}"),
        host=host_name(),
        cpu_name=cpu_name(),
        cpu_count=os.cpu_count(),
        cpus_usable=len(usable_cpus()),
        affinity=ranges(usable_cpus()),
        cpu_quota=quota(),
        memory_limit_bytes=limit_bytes(),
        variables=relevant(os.environ),
    )


def _torch() -> str:
    """torch's version: the loaded one's, else the installed one's; "" without torch."""
    loaded = getattr(sys.modules.get("torch"), "__version__", None)
    try:
        return str(loaded or version("torch"))
    except PackageNotFoundError:
        return ""
