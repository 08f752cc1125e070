"""What is published about cards: memory, bandwidth, dense peaks; the user's own over these."""

from __future__ import annotations

import math
import re
from functools import cache

import msgspec

from llmprof.core.catalog.files import preset, preset_tables, preset_text
from llmprof.core.catalog.models import builtin, user_folder
from llmprof.core.spec.axes import Precision
from llmprof.core.spec.shape import SpecError
from llmprof.core.system.text import clean, spoken
from llmprof.core.system.units import GIB

_SIZE = re.compile(r"(\d{1,4}(?:\.\d+)?)\s*(gib|gb)?", re.IGNORECASE)
_UNNAMED_CAPABILITY = (8, 0)
_LARGEST_BARE = 1000  # GiB: a larger number without a unit is a card's, as in 4090
_ALIKE = 0.75  # difflib's ratio from which another name is suggested
_MOST_NEAR = 3


class CardSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A card: memory in GiB as the driver reports it, bandwidth in GB/s, peaks in TFLOP/s.

    Peaks are dense; one that is None is not published or not there.
    """

    name: str
    aliases: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    capability: tuple[int, int]
    memory_gib: float
    bandwidth_gbs: float | None = None
    fp32: float | None = None
    tf32: float | None = None
    bf16: float | None = None
    fp16: float | None = None
    source: str = ""

    @property
    def memory_bytes(self) -> int:
        """Total memory in bytes."""
        return int(self.memory_gib * GIB)

    def peak(self, precision: Precision) -> float | None:
        """Dense peak in TFLOP/s of the matrix products of a precision, None if unknown."""
        peaks = {"fp32": self.fp32, "tf32": self.tf32, "bf16": self.bf16, "fp16": self.fp16}
        return peaks[precision]


@cache
def load_cards() -> dict[str, CardSpec]:
    """Every card by name, the user's cards.toml over the package's. Raises SpecError."""
    cards = _cards_from(builtin("cards.toml"), "cards.toml")
    own = user_folder() / "cards.toml"
    if own.is_file():
        cards |= _cards_from(preset_text(own, "cards"), f"cards file {own}")
    return cards


def find_card(name: str) -> CardSpec:
    """A card by name, alias or memory ("24GiB"), in upper or lower case, with or without blanks.

    Raises SpecError that names cards written nearly so and says what else to give.
    """
    wanted = _plain(name).replace(" ", "")
    for card in load_cards().values():
        if any(wanted == _plain(spelled).replace(" ", "") for spelled in _spellings(card)):
            return card
    size = _SIZE.fullmatch(name.strip())
    if size and 0 < float(size[1]) < (_LARGEST_BARE if size[2] is None else math.inf):
        return _of_memory(float(size[1]), (size[2] or "GiB").lower() == "gb")
    near = _near(_plain(name))
    meant = f"did you mean {spoken(list(map(repr, near)), 'or')}? Otherwise " if near else ""
    raise SpecError(
        f"unknown card {clean(name, 40)!r}: {meant}give its memory (24GiB), add it to "
        f"{user_folder() / 'cards.toml'}, or name one that `llmprof presets --cards` lists"
    )


def _spellings(card: CardSpec) -> tuple[str, ...]:
    return (card.name, *card.aliases, *card.devices)


def _near(wanted: str) -> list[str]:
    """Names of cards that have all the words of `wanted` in theirs, else that look like it."""
    import difflib  # rarely needed

    names = {_plain(each): card.name for card in load_cards().values() for each in _spellings(card)}
    words = set(wanted.split())
    having = [spelled for spelled in names if words and words <= set(spelled.split())]
    found = [names[spelled] for spelled in sorted(having, key=len)]
    if not found:
        found = [names[each] for each in difflib.get_close_matches(wanted, names, cutoff=_ALIKE)]
    return list(dict.fromkeys(found))[:_MOST_NEAR]


def match_device(device_name: str) -> CardSpec | None:
    """The card that a driver's device name belongs to, None if it is not known.

    Only whole names count: an "RTX 3090 Ti" or a MIG slice has other figures.
    """
    wanted = _plain(device_name)
    return next(
        (card for card in load_cards().values() if wanted in map(_plain, card.devices)), None
    )


def _of_memory(size: float, decimal: bool) -> CardSpec:
    gib = size * 1e9 / GIB if decimal else size
    return CardSpec(
        name=f"{size:g}{'GB' if decimal else 'GiB'}",
        capability=_UNNAMED_CAPABILITY,
        memory_gib=gib,
        source="memory given on the command line",
    )


def _plain(name: str) -> str:
    lower = re.sub(r"[^a-z0-9]+", " ", name.lower())
    return " ".join(word for word in lower.split() if word not in ("nvidia", "geforce", "tesla"))


def _cards_from(text: str, source: str) -> dict[str, CardSpec]:
    tables = {clean(key, 40): table for key, table in preset_tables(text, source).items()}
    return {
        name: preset({**table, "name": name}, CardSpec, f"{source}: {name}")
        for name, table in tables.items()
    }
