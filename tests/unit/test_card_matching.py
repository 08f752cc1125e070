"""torch's device against NVML's, under every form of CUDA_VISIBLE_DEVICES."""

from __future__ import annotations

import pytest

from llmprof.core.events import CardSample, MigInstance
from llmprof.core.events.matching import Selection, match, pci_address, uuid_key, visible

UUIDS = (
    "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6",
    "GPU-8932ffff-0000-4106-c12f-20bd9faed9f6",
    "GPU-1a2b3c4d-d72c-4106-c12f-20bd9faed9f6",
)


def card(index: int, bus: int, name: str = "H100", **more: object) -> CardSample:
    return CardSample(
        index=index,
        uuid=UUIDS[index],
        pci_bus_id=f"00000000:{bus:02X}:00.0",
        name=name,
        **more,  # type: ignore[arg-type]
    )


CARDS = (card(0, 0x1A), card(1, 0x3B), card(2, 0xCA))


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("00000000:3B:00.0", (0, 0x3B, 0, 0)),
        ("0000:3b:00.0", (0, 0x3B, 0, 0)),
        ("3B:00", (0, 0x3B, 0, 0)),
        ("00010000:CA:1F.1", (0x10000, 0xCA, 0x1F, 1)),
        ("", None),
        (None, None),
        ("cuda:0", None),
    ],
)
def test_bus_ids_in_the_forms_of_nvml_and_cuda(text: str | None, address: object) -> None:
    assert pci_address(text) == address


def test_uuids_with_and_without_their_prefix() -> None:
    assert uuid_key(UUIDS[0]) == uuid_key("8932F937-d72c-4106-c12f-20bd9faed9f6")
    assert uuid_key("") is None


def test_torch_is_matched_by_uuid_before_bus_id() -> None:
    torch_uuid = UUIDS[1].removeprefix("GPU-")
    assert match(CARDS, torch_uuid, "0000:CA:00.0") is CARDS[1]
    assert match(CARDS, None, "0000:ca:00.0") is CARDS[2]
    assert match(CARDS, "feed", None) is None
    assert match(CARDS, None, None) is None
    assert match((), torch_uuid, "0000:ca:00.0") is None


def test_a_mig_slice_leads_to_its_card() -> None:
    sliced = card(1, 0x3B, mig=(MigInstance(uuid="MIG-c7384736-a75d-5afc-978f-d2f1294409fd"),))
    cards = (CARDS[0], sliced)
    assert match(cards, "MIG-c7384736-a75d-5afc-978f-d2f1294409fd", None) is sliced
    assert match(cards, "c7384736-a75d-5afc-978f-d2f1294409fd", None) is sliced
    assert match(cards, f"MIG-{UUIDS[0]}/1/0", None) is cards[0]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, (0, 1, 2)),
        ("0,1,2", (0, 1, 2)),
        ("2,0", (2, 0)),
        (" 1 , 2 ", (1, 2)),
        ("", ()),
        ("-1", ()),
        ("1,-1,0", (1,)),
        ("1,9,0", (1,)),
        ("0,0", ()),
        ("nonsense", ()),
        (UUIDS[2], (2,)),
        (f"{UUIDS[2]},{UUIDS[0]}", (2, 0)),
        ("GPU-1a2b", (2,)),
        ("GPU-8932f9", (0,)),
        ("GPU-8932f", ()),
        ("GPU-", ()),
        (f"MIG-{UUIDS[1]}/3/0", (1,)),
        ("MIG-unknown", ()),
    ],
)
def test_forms_of_cuda_visible_devices(value: str | None, expected: tuple[int, ...]) -> None:
    assert visible(CARDS, value) == expected


def test_two_slices_of_one_card_are_two_devices() -> None:
    assert visible(CARDS, f"MIG-{UUIDS[1]}/3/0,MIG-{UUIDS[1]}/4/0") == (1, 1)


def test_plain_indices_follow_the_bus_only_when_that_is_certain() -> None:
    mixed = (card(0, 0xCA, "T400"), card(1, 0x1A, "H100"))
    assert visible(mixed, "0") is None
    assert visible(mixed, None) is None
    assert visible(mixed, "0", "PCI_BUS_ID") == (1,)
    assert visible(mixed, UUIDS[0]) == (0,)


@pytest.mark.parametrize(
    ("text", "chosen"),
    [
        (None, (0, 1, 2)),
        ("all", (0, 1, 2)),
        ("0, 2", (0, 2)),
        ("GPU-1a2b", (2,)),
        ("1,GPU-1A2B", (1, 2)),
        ("7", ()),
    ],
)
def test_selection(text: str | None, chosen: tuple[int, ...]) -> None:
    selection = Selection.parse(text)
    assert tuple(c.index for c in CARDS if selection.has(c)) == chosen


@pytest.mark.parametrize("text", ["x", "0,,1", "-1", "GPU-", "1.5", "0-2"])
def test_a_selection_that_cannot_be_read_is_named(text: str) -> None:
    with pytest.raises(ValueError, match="neither a GPU index nor"):
        Selection.parse(text)


def test_what_is_asked_for_and_not_there_is_named() -> None:
    selection = Selection.parse("0,5,GPU-1A2B,GPU-ffff,MIG-nowhere")
    assert selection.absent(CARDS) == ("5", "GPU-ffff", "MIG-nowhere")
    assert Selection.parse(None).absent(()) == ()
    assert Selection.parse("0").absent(()) == ("0",)


def test_a_slice_selects_its_card() -> None:
    sliced = CardSample(index=4, uuid="GPU-77", mig=(MigInstance(uuid="MIG-ab12"),))
    selection = Selection.parse("MIG-AB12")
    assert selection.has(sliced)
    assert not any(selection.has(card) for card in CARDS)
    assert selection.absent((*CARDS, sliced)) == ()
