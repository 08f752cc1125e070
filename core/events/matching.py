"""Which card is meant: torch's device, --gpus and CUDA_VISIBLE_DEVICES against NVML's cards."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from llmprof.core.events import CardSample

_PCI = re.compile(r"(?:([0-9a-f]{4,8}):)?([0-9a-f]{1,2}):([0-9a-f]{1,2})(?:\.([0-7]))?", re.I)
_HEX = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.I)
_INDEX = re.compile(r"\d{1,4}", re.ASCII)
_NAME = re.compile(r"(gpu|mig)-[0-9a-z/-]{1,100}", re.I | re.ASCII)
PciAddress = tuple[int, int, int, int]


def pci_address(text: str | None) -> PciAddress | None:
    """Domain, bus, device and function; None for what is no bus id.

    NVML writes the domain with eight digits, CUDA with four, some tools leave it out.
    """
    found = _PCI.fullmatch(text.strip()) if text else None
    if found is None:
        return None
    domain, bus, device, function = found.groups(default="0")
    return int(domain, 16), int(bus, 16), int(device, 16), int(function)


def uuid_key(text: str | None) -> str | None:
    """A UUID without "GPU-" (torch leaves it out) and in lower case; a MIG one keeps "mig-"."""
    if not text:
        return None
    key = text.strip().lower()
    return key.removeprefix("gpu-") or None


def parent_uuid(text: str) -> str | None:
    """The card's UUID in the old form of a MIG name: MIG-GPU-<card's UUID>/<gi>/<ci>."""
    if not text.lower().startswith("mig-gpu-"):
        return None
    found = _HEX.search(text)
    return None if found is None else found.group().lower()


def match(
    cards: Iterable[CardSample], uuid: str | None, pci_bus_id: str | None
) -> CardSample | None:
    """The card that torch calls by this UUID or bus id; None when neither settles it.

    A UUID goes before a bus id, and a MIG instance's leads to its card.
    """
    cards = tuple(cards)
    wanted = uuid_key(uuid)
    if wanted is not None:
        parent = parent_uuid(uuid or "")
        for card in cards:
            key = uuid_key(card.uuid)
            slices = {uuid_key(instance.uuid) for instance in card.mig}
            if key is not None and (key in (wanted, parent) or wanted in slices):
                return card
            if wanted.removeprefix("mig-") in {(s or "").removeprefix("mig-") for s in slices}:
                return card
    address = pci_address(pci_bus_id)
    if address is None:
        return None
    return next((card for card in cards if pci_address(card.pci_bus_id) == address), None)


@dataclass(frozen=True)
class Selection:
    """Which cards are asked for, by index, by UUID or its beginning, or by the name of a slice.

    Without a name all are.
    """

    names: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str | None) -> Selection:
        """From "0,2", "GPU-1a2b..." or "MIG-...": raises ValueError naming what it can't read."""
        if text is None or text.strip().lower() in ("", "all"):
            return cls()
        names = [part.strip() for part in text.split(",")]
        for name in names:
            if not _INDEX.fullmatch(name) and not _NAME.fullmatch(name):
                raise ValueError(
                    f'"{name}" is neither a GPU index nor a UUID that begins GPU- or MIG-'
                )
        return cls(tuple(names))

    def has(self, card: CardSample) -> bool:
        """Whether a card is among those asked for."""
        return not self.names or any(_means(name, card) for name in self.names)

    def absent(self, cards: Sequence[CardSample]) -> tuple[str, ...]:
        """The names that none of a machine's cards has."""
        return tuple(name for name in self.names if not any(_means(name, card) for card in cards))


def _means(name: str, card: CardSample) -> bool:
    if _INDEX.fullmatch(name):
        return int(name) == card.index
    if name.lower().startswith("mig-"):
        return match([card], name, None) is not None
    return (uuid_key(card.uuid) or "").startswith(name.lower().removeprefix("gpu-"))


def visible(
    cards: Sequence[CardSample], value: str | None, order: str | None = None
) -> tuple[int, ...] | None:
    """NVML indices of CUDA's devices 0, 1, ... under CUDA_VISIBLE_DEVICES and _DEVICE_ORDER.

    As the CUDA programming guide has it: the list ends at the first entry that names no device,
    a device named twice makes the whole list empty, and names are UUIDs or unambiguous
    beginnings of them. None when it can't be known without CUDA: plain indices count cards
    fastest first by default, which differs from NVML's bus order once the cards differ.
    """
    by_bus = sorted(cards, key=lambda card: pci_address(card.pci_bus_id) or (0, 0, card.index, 0))
    ordered = (order or "").upper() == "PCI_BUS_ID" or len({card.name for card in cards}) <= 1
    if value is None:
        return tuple(card.index for card in by_bus) if ordered else None
    chosen: list[int] = []
    for part in (part.strip() for part in value.split(",")):
        if _INDEX.fullmatch(part):
            if not ordered:
                return None
            found = by_bus[int(part)] if int(part) < len(by_bus) else None
        else:
            found = _named(by_bus, part)
        if found is None:
            break
        chosen.append(found.index)
    is_mig = "mig-" in value.lower()  # two slices of one card are two devices
    return () if len(set(chosen)) < len(chosen) and not is_mig else tuple(chosen)


def _named(cards: Sequence[CardSample], name: str) -> CardSample | None:
    lower = name.lower()
    if lower.startswith("mig-"):
        return match(cards, name, None)
    if not lower.startswith("gpu-") or len(lower) == 4:
        return None
    found = [card for card in cards if (uuid_key(card.uuid) or "").startswith(lower[4:])]
    return found[0] if len(found) == 1 else None
