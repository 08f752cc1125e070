"""What a card is: name, UUID, bus id and slices."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any

from llmprof.core.devices.nvml_binding import Api, Unavailable, checked
from llmprof.core.events import MigInstance
from llmprof.core.system.text import clean

_MOST_SLICES = 16


@dataclass(frozen=True)
class CardIdentity:
    """What does not change while a card is there; each part may be unknown by itself."""

    uuid: str | None = None
    pci_bus_id: str | None = None
    name: str = ""
    mig: tuple[MigInstance, ...] = ()


def read_identity(api: Api, handle: Any, old: CardIdentity) -> CardIdentity:
    """The identity of a card; what can't be read now stays as in old."""
    uuid, bus, name = old.uuid, old.pci_bus_id, old.name
    with contextlib.suppress(Unavailable):
        uuid = api.text("nvmlDeviceGetUUID", handle) or uuid
    with contextlib.suppress(Unavailable):
        name = api.text("nvmlDeviceGetName", handle) or name
    with contextlib.suppress(Unavailable, AttributeError):
        raw = api.call("nvmlDeviceGetPciInfo", handle).busId
        bus = clean(raw.decode("ascii", "replace") if isinstance(raw, bytes) else str(raw))
    return CardIdentity(uuid, bus, name, mig_instances(api, handle))


def mig_instances(api: Api, handle: Any) -> tuple[MigInstance, ...]:
    """The instances of a card, empty when MIG is off or the card has none."""
    try:
        current, _pending = api.call("nvmlDeviceGetMigMode", handle)
        count = int(api.call("nvmlDeviceGetMaxMigDeviceCount", handle)) if current == 1 else 0
    except (Unavailable, TypeError, ValueError):
        return ()
    found = []
    for position in range(min(count, _MOST_SLICES)):
        with contextlib.suppress(Unavailable):
            part = api.call("nvmlDeviceGetMigDeviceHandleByIndex", handle, position)
            found.append(_instance(api, part))
    return tuple(found)


def _instance(api: Api, part: Any) -> MigInstance:
    uuid, name = None, ""
    used = total = None
    with contextlib.suppress(Unavailable):
        uuid = api.text("nvmlDeviceGetUUID", part)
    with contextlib.suppress(Unavailable):
        name = api.text("nvmlDeviceGetName", part)
    with contextlib.suppress(Unavailable, AttributeError):
        memory = api.call("nvmlDeviceGetMemoryInfo", part)
        total = int(checked(memory.total, 2.0**46))
        used = int(checked(memory.used, total))
    return MigInstance(uuid=uuid, name=name, memory_used_bytes=used, memory_total_bytes=total)
