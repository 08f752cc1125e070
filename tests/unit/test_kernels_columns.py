"""Raw events into columns, and their file, which may come from a stranger."""

from __future__ import annotations

import io
import zipfile
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import numpy as np
import pytest

from llmprof.core.kernels import columns as columns_file
from llmprof.core.kernels import extract as extraction
from llmprof.core.kernels.column_files import Limits
from llmprof.core.kernels.columns import COLUMN_DTYPES, EventColumns, Kind
from llmprof.core.kernels.extract import extract
from tests.builders.kernel_events import FIXTURES, two_phases


class Device(Enum):
    CPU = 0
    CUDA = 1


@dataclass(frozen=True)
class Raw:
    """Answers like kineto's raw events."""

    text: str
    device: Device = Device.CPU
    at: int = 0
    lasting: int = 1
    thread: int = 1
    stream: int = 0
    id: int = 0
    link: int = 0
    number: int = -1
    forward: int = 0
    kind: int = 0
    annotation: bool = False

    def name(self) -> str:
        return self.text

    def device_type(self) -> Device:
        return self.device

    def start_ns(self) -> int:
        return self.at

    def duration_ns(self) -> int:
        return self.lasting

    def start_thread_id(self) -> int:
        return self.thread

    def device_resource_id(self) -> int:
        return self.stream

    def correlation_id(self) -> int:
        return self.id

    def linked_correlation_id(self) -> int:
        return self.link

    def sequence_nr(self) -> int:
        return self.number

    def fwd_thread_id(self) -> int:
        return self.forward

    def scope(self) -> int:
        return self.kind

    def is_user_annotation(self) -> bool:
        return self.annotation


CUDA = Device.CUDA
EVENTS = [
    Raw("llmprof step", id=1),
    Raw("aten::mm", id=2, number=7, at=5, lasting=9),
    Raw("cudaLaunchKernel", id=900, link=2),
    Raw("void gemm<1>(int)", CUDA, id=900, link=2, stream=7, at=11),
    Raw("sm90_gemm", CUDA, id=901, link=2, stream=7),
    Raw("Memcpy HtoD (Pageable -> Device)", CUDA, id=902, stream=7),
    Raw("Memset (Device)", CUDA, id=903, stream=7),
    Raw("Optimizer.step#AdamW.step", id=3, annotation=True),
    Raw("Optimizer.step#AdamW.step", CUDA, id=3, stream=7, annotation=True),
    Raw("MmBackward0", thread=2, number=7, forward=1, kind=1),
    Raw("triton_poi_fused_0", id=4),
    Raw("triton_poi_fused_0", CUDA, id=904, link=4, stream=7),
    Raw("Activity Buffer Request"),
    Raw("Stream Wait Event", CUDA, stream=7),
    Raw("cudaMyKernel(int)", CUDA, stream=7),
]
KINDS = [
    Kind.OP,
    Kind.OP,
    Kind.RUNTIME,
    Kind.KERNEL,
    Kind.KERNEL,
    Kind.MEMCPY,
    Kind.MEMSET,
    Kind.RANGE,
    Kind.OTHER,
    Kind.OP,
    Kind.OP,
    Kind.KERNEL,
    Kind.OTHER,
    Kind.OTHER,
    Kind.KERNEL,
]


@pytest.mark.parametrize("chunk", [1, 4, 1000])
def test_kinds_and_fields(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extraction, "EVENTS_AT_ONCE", chunk)
    columns = extract(EVENTS)
    assert [Kind(kind) for kind in columns.kind] == KINDS
    assert [columns.names[name] for name in columns.name] == [event.text for event in EVENTS]
    assert columns.start.tolist() == [event.at for event in EVENTS]
    assert columns.end.tolist() == [event.at + event.lasting for event in EVENTS]
    assert columns.correlation.tolist() == [event.id for event in EVENTS]
    on_card = [event.device is CUDA for event in EVENTS]
    assert columns.place[on_card].tolist() == [7] * sum(on_card)
    assert columns.linked[3] == 2
    assert (columns.sequence[9], columns.forward_thread[9], columns.scope[9]) == (7, 1, 1)
    assert columns.place[9] == 2


def test_no_events() -> None:
    columns = extract([])
    assert len(columns) == 0
    assert columns.names == ()


def test_names_from_outside_are_cleaned() -> None:
    (name,) = extract([Raw("bad\x1b[31mname\n")]).names
    assert name == "bad[31mname"


def test_file_keeps_everything(tmp_path: Path) -> None:
    columns = two_phases().columns()
    columns.save(tmp_path / "profile.npz")
    again = EventColumns.load(tmp_path / "profile.npz")
    assert again.names == columns.names
    for field in COLUMN_DTYPES:
        assert np.array_equal(getattr(again, field), getattr(columns, field))


def test_the_recorded_profile_is_read() -> None:
    columns = EventColumns.load(FIXTURES / "kernels-tiny-h100.npz")
    assert len(columns) == 14_444
    assert len(columns.of_kind(Kind.KERNEL)) > 1_000


def rewritten(tmp_path: Path, **members: np.ndarray) -> Path:
    """A good file with some members replaced."""
    path = tmp_path / "made.npz"
    columns = two_phases().columns()
    good = {field: getattr(columns, field) for field in COLUMN_DTYPES}
    names = np.frombuffer(b'["a"]' if "names" not in members else b"", np.uint8)
    np.savez_compressed(path, **{**good, "names": names, **members})
    return path


@pytest.mark.parametrize(
    "members",
    [
        {"start": np.array([object()], dtype=object)},
        {"start": np.zeros(3, np.int64)},
        {"start": np.zeros((4, 4), np.int64)},
        {"start": np.zeros(4, np.float64)},
        {"names": np.frombuffer(b"[1, 2", np.uint8)},
        {"names": np.frombuffer(b'{"a": 1}', np.uint8)},
        {},  # its events' names point beyond its one name
    ],
)
def test_a_strangers_file_is_refused(tmp_path: Path, members: dict[str, np.ndarray]) -> None:
    with pytest.raises(ValueError, match=r"made\.npz|column|Object"):
        EventColumns.load(rewritten(tmp_path, **members))


def test_a_file_that_claims_too_much_is_not_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(columns_file, "COLUMN_LIMITS", Limits(rows=1_000, names=100))
    path = tmp_path / "bomb.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in (*COLUMN_DTYPES, "names"):
            archive.writestr(f"{name}.npy", bytes(1_000_000) if name == "name" else b"")
    with pytest.raises(ValueError, match="too large"):
        EventColumns.load(path)


@pytest.mark.parametrize("data", [b"", b"not a zip", b"PK\x03\x04broken"])
def test_what_is_no_zip_is_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "x.npz"
    path.write_bytes(data)
    with pytest.raises(ValueError, match=r"x\.npz"):
        EventColumns.load(path)


def test_a_truncated_file_is_refused(tmp_path: Path) -> None:
    whole = io.BytesIO((FIXTURES / "kernels-tiny-h100.npz").read_bytes()).getvalue()
    path = tmp_path / "cut.npz"
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=r"cut\.npz"):
        EventColumns.load(path)


def test_any_damaged_byte_of_a_strip_is_one_kind_of_error(tmp_path: Path) -> None:
    whole = (FIXTURES / "kernels-tiny-h100.npz").read_bytes()
    path = tmp_path / "damaged.npz"
    refused = 0
    for position in range(0, len(whole), len(whole) // 150):
        path.write_bytes(whole[:position] + bytes([whole[position] ^ 0x55]) + whole[position + 1 :])
        try:
            EventColumns.load(path)
        except (ValueError, OSError):
            refused += 1
    assert refused > 50


@pytest.mark.parametrize("shape", ["(100000000000000,)", "(" + 23 * "9" + ",)", 90 * "-"])
def test_a_column_that_says_too_much_is_refused(tmp_path: Path, shape: str) -> None:
    path = tmp_path / "big.npz"
    header = f"{{'descr': '<i8', 'fortran_order': False, 'shape': {shape}, }}".encode()
    header += b" " * (117 - len(header) % 64) + b"\n"
    member = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(64)
    with zipfile.ZipFile(path, "w") as archive:
        for name in zipfile.ZipFile(FIXTURES / "kernels-tiny-h100.npz").namelist():
            archive.writestr(name, member)
    with pytest.raises(ValueError, match=r"column|header|big\.npz"):
        EventColumns.load(path)


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [
        ("start", 2**63 - 1, "beyond all bounds"),
        ("duration", -1, "below 0"),
        ("kind", 200, "no known kind"),
        ("name", -1, "name is missing"),
        ("name", 10_000, "name is missing"),
    ],
)
def test_a_file_that_is_well_formed_and_impossible_is_refused(
    tmp_path: Path, column: str, value: int, words: str
) -> None:
    made = two_phases().columns()
    getattr(made, column)[2] = value
    made.save(tmp_path / "made.npz")
    with pytest.raises(ValueError, match=rf"made\.npz: .*{words}"):
        EventColumns.load(tmp_path / "made.npz")
