"""Cards: figures, names, the user's own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from llmprof.core.catalog.cards import find_card, load_cards, match_device
from llmprof.core.spec.shape import SpecError


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("LLMPROF_PRESETS", str(tmp_path))
    load_cards.cache_clear()
    yield tmp_path
    load_cards.cache_clear()


def test_every_card_has_memory_and_a_source_and_plausible_peaks() -> None:
    for card in load_cards().values():
        assert card.memory_bytes > 4 << 30, card.name
        assert card.source, card.name
        if card.bf16 is not None:
            assert card.fp32 is not None
            assert card.fp32 <= card.bf16, card.name
            assert card.capability >= (8, 0), card.name  # no bf16 tensor cores before


@pytest.mark.parametrize(
    ("device", "name"),
    [
        ("NVIDIA H100 80GB HBM3", "H100-80GB"),
        ("NVIDIA H200", "H200"),
        ("Tesla T4", "T4"),
        ("NVIDIA GeForce RTX 4090", "RTX-4090"),
        ("NVIDIA A100-SXM4-80GB", "A100-80GB"),
        ("NVIDIA GeForce RTX 3090 Ti", None),
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", None),
        ("", None),
    ],
)
def test_device_names_match_whole(device: str, name: str | None) -> None:
    card = match_device(device)
    assert (card.name if card else None) == name


def test_cards_by_name_alias_and_memory() -> None:
    assert find_card("h100").name == "H100-80GB"
    assert find_card("RTX 4090").peak("bf16") == 165.2
    assert find_card("T4").peak("bf16") is None
    assert find_card("24GiB").memory_bytes == 24 << 30
    assert find_card("24GB").memory_bytes == 24 * 10**9


@pytest.mark.parametrize("name", ["RTX-9999", "", "0GiB", "x\x1b[31m"])
def test_unknown_card_says_what_else_to_give(name: str) -> None:
    with pytest.raises(SpecError, match="give its memory") as caught:
        find_card(name)
    assert "\x1b" not in str(caught.value)


def test_own_cards_come_over_the_packages(own_folder: Path) -> None:
    (own_folder / "cards.toml").write_text(
        "[Mine]\ncapability = [8, 0]\nmemory_gib = 12\n[T4]\ncapability = [7, 5]\nmemory_gib = 14\n"
    )
    load_cards.cache_clear()
    assert find_card("mine").memory_gib == 12
    assert find_card("T4").memory_gib == 14


def test_a_bad_file_is_named(own_folder: Path) -> None:
    (own_folder / "cards.toml").write_text("[Mine]\nmemory = 12\n")
    load_cards.cache_clear()
    with pytest.raises(SpecError, match=r"cards\.toml: Mine"):
        find_card("mine")
