"""Cards: figures, names, the user's own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from llmprof.core.catalog.cards import find_card, load_cards, match_device
from llmprof.core.spec.axes import PRECISIONS, Precision
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
        assert "http" not in card.source, card.name
        assert (card.bf16 is None) == (card.tf32 is None), card.name
        if card.bf16 is not None:
            assert card.fp32 is not None
            assert card.fp32 <= card.bf16 == card.fp16, card.name
            assert card.capability >= (8, 0), card.name  # no bf16 tensor cores before


def test_a_device_name_belongs_to_one_card() -> None:
    names = [device for card in load_cards().values() for device in card.devices]
    assert len(names) == len(set(names))


def test_geforce_sums_in_fp32_at_half_the_rate_of_fp16() -> None:
    """Their tensor cores take twice the fp32 rate then: published figures are often the other."""
    for card in load_cards().values():
        if card.name.startswith(("RTX-3", "RTX-4", "RTX-5")) and card.fp32 is not None:
            assert card.bf16 == pytest.approx(2 * card.fp32, rel=0.01), card.name
            assert card.tf32 == card.fp32, card.name
            assert card.bandwidth_gbs is None or 200 < card.bandwidth_gbs < 2000


@pytest.mark.parametrize(
    "name",
    ["P100", "T4", "V100", "A100", "L4", "A10G"]
    + ["RTX 3060", "RTX 3070", "RTX 3080", "RTX 3090", "RTX 4060", "RTX 4060 Ti", "RTX 4070"]
    + ["RTX 4080", "RTX 4090", "RTX 5060", "RTX 5070", "RTX 5080", "RTX 5090"]
    + [f"NVIDIA GeForce RTX {n} Laptop GPU" for n in (3060, 3070, 3080, 4050, 4060, 4070, 4090)]
    + [f"NVIDIA GeForce RTX {n} Laptop GPU" for n in (5060, 5070, 5080, 5090)],
)
def test_cards_that_people_train_on_are_there(name: str) -> None:
    assert find_card(name).memory_gib > 4
    assert find_card(name.lower()) is find_card(name.upper())


@pytest.mark.parametrize("name", ["P100", "V100", "T4", "RTX 2080 Ti"])
@pytest.mark.parametrize("precision", ["bf16", "tf32"])
def test_what_came_before_ampere_has_neither_bf16_nor_tf32(name: str, precision: Precision) -> None:
    assert find_card(name).peak(precision) is None


def test_a_laptops_clocks_are_its_makers_so_it_has_no_peak() -> None:
    for card in load_cards().values():
        if "Laptop" in card.name:
            assert {card.peak(precision) for precision in PRECISIONS} == {None}


@pytest.mark.parametrize(
    ("device", "name"),
    [
        ("NVIDIA H100 80GB HBM3", "H100-80GB"),
        ("NVIDIA H200", "H200"),
        ("Tesla T4", "T4"),
        ("NVIDIA GeForce RTX 4090", "RTX-4090"),
        ("NVIDIA A100-SXM4-80GB", "A100-80GB"),
        ("NVIDIA GeForce RTX 3090 Ti", "RTX-3090-Ti"),
        ("NVIDIA GeForce RTX 4070 Laptop GPU", "RTX-4070-Laptop"),
        ("NVIDIA GeForce RTX 3090 Ti D", None),
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
    assert find_card("rtx4090") is find_card("NVIDIA GeForce RTX 4090")
    assert find_card("T4").peak("bf16") is None
    assert find_card("24GiB").memory_bytes == 24 << 30
    assert find_card("24GB").memory_bytes == 24 * 10**9


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("RTX-4091", "'RTX-4090'"),
        ("h100 80", "'H100-80GB'"),
        ("4070", "'RTX-4070',"),  # the plain card before its Ti; and not a card of 4,070 GiB
        ("a100 pcie", "'A100-80GB-PCIe'"),
    ],
)
def test_a_name_that_is_nearly_one_is_suggested(name: str, meant: str) -> None:
    with pytest.raises(SpecError, match=f"did you mean {meant}"):
        find_card(name)


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
