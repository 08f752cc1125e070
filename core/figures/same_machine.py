"""Whether two environments are the same machine and software, so that times may be compared."""

from __future__ import annotations

from llmprof.core.events import Environment

_FIELDS = {
    "device_name": "device",
    "driver": "driver",
    "cuda": "CUDA",
    "torch": "PyTorch",
    "cpu_name": "CPU",
}


def machine_differences(one: Environment, other: Environment) -> list[str]:
    """What differs between two environments of the things that times depend on."""
    return [
        f"{label} {getattr(one, field) or 'unknown'} against {getattr(other, field) or 'unknown'}"
        for field, label in _FIELDS.items()
        if getattr(one, field) != getattr(other, field)
    ]
