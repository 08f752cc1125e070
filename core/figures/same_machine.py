"""Whether two environments are the same machine, software and settings, so that times compare."""

from __future__ import annotations

from llmprof.core.events import Environment
from llmprof.core.system import variables
from llmprof.core.system.numbers import as_given

MOVED = "not resumed, this is not where or how it was measured"  # how the refusal begins
_FIELDS = {
    "device_name": "device",
    "driver": "driver",
    "cuda": "CUDA",
    "torch": "PyTorch",
    "cpu_name": "CPU",
}


def machine_differences(one: Environment, other: Environment) -> list[str]:
    """What differs between two environments of the things that times depend on.

    What an older version did not write down can't be told apart.
    """
    named = [
        f"{label} {getattr(one, field) or 'unknown'} against {getattr(other, field) or 'unknown'}"
        for field, label in _FIELDS.items()
        if getattr(one, field) != getattr(other, field)
    ]
    known = (one.variables, other.variables)
    changed = [] if None in known else variables.differences(*(each or {} for each in known))
    return [*named, *_processors(one, other), *changed]


def _processors(one: Environment, other: Environment) -> list[str]:
    """How much of the host's processors each may use; a card's work needs no threads of them."""
    told: list[tuple[str, object, object]] = []
    if one.device == other.device == "cpu" and None not in (one.threads, other.threads):
        told.append(("threads", one.threads, other.threads))
    if None not in (one.cpus_usable, other.cpus_usable):
        told.append(("usable CPUs", one.cpus_usable, other.cpus_usable))
        told.append(("CPU quota", _quota(one), _quota(other)))
    return [f"{what} {mine} against {theirs}" for what, mine, theirs in told if mine != theirs]


def _quota(environment: Environment) -> str:
    return "none" if environment.cpu_quota is None else as_given(environment.cpu_quota)
