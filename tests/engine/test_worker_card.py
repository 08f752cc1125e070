"""What a CUDA context takes of a card, read from a fake driver."""

from __future__ import annotations

import os
from types import SimpleNamespace

import pynvml
import pytest
import torch

from llmprof.core.devices.card_processes import Identity
from llmprof.core.devices.nvml import NvmlCards
from llmprof.core.worker import card, environment
from llmprof.core.worker.card import context_bytes, measure_context
from tests.unit.fake_binding import GIB, FakeNvml

MIB = 1 << 20
UUID = "00000000-0000-0000-0000-000000000000"
DEVICE = torch.device("cuda", 0)
HOST_PID = 4_000_000  # of a process whose pid here is another


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    """A driver with another's 10 GiB on the card; torch's context is `make_context`."""
    fake = FakeNvml()
    monkeypatch.setattr(card, "NvmlCards", lambda owner, wait_s: _reader(fake, owner))
    properties = SimpleNamespace(uuid=UUID)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: properties)
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 2 * MIB)
    return fake


def _reader(fake: FakeNvml, owner: int) -> NvmlCards:
    def who(pid: int, owner: int | None) -> Identity:
        return Identity(ours=pid == owner, local=pid < HOST_PID)

    return NvmlCards(load=lambda: fake, owner=owner, who=who, wait_s=10.0)


def use(fake: FakeNvml, used: int) -> None:
    memory = SimpleNamespace(total=80 * GIB, used=used, free=80 * GIB - used)
    fake.set("nvmlDeviceGetMemoryInfo", lambda handle, version=None: memory)


def test_the_drivers_figure_for_this_process_less_what_torch_reserved(driver: FakeNvml) -> None:
    def make() -> None:
        mine = SimpleNamespace(pid=os.getpid(), usedGpuMemory=520 * MIB)
        driver.set("nvmlDeviceGetComputeRunningProcesses_v3", [mine])
        use(driver, 12 * GIB)  # another process grew meanwhile

    assert measure_context(DEVICE, make) == 518 * MIB


def test_in_a_container_the_growth_of_the_card(driver: FakeNvml) -> None:
    hidden = SimpleNamespace(pid=HOST_PID, usedGpuMemory=530 * MIB)
    driver.set("nvmlDeviceGetComputeRunningProcesses_v3", [hidden])
    use(driver, 10 * GIB)
    assert measure_context(DEVICE, lambda: use(driver, 10 * GIB + 530 * MIB)) == 528 * MIB


def test_no_growth_and_no_driver_are_unknown(driver: FakeNvml) -> None:
    assert measure_context(DEVICE, lambda: use(driver, 9 * GIB)) is None
    driver.set("nvmlInit", pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND))
    made: list[int] = []
    assert measure_context(DEVICE, lambda: made.append(1)) is None
    assert made == [1]
    assert context_bytes(None, None, 0) is None


def test_the_environment_says_it(driver: FakeNvml, monkeypatch: pytest.MonkeyPatch) -> None:
    properties = SimpleNamespace(
        name="NVIDIA H100 80GB HBM3", uuid=UUID, major=9, minor=0, pci_domain_id=0
    )
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: properties)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (70 * GIB, 80 * GIB))
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda **how: True)
    use(driver, 10 * GIB)
    monkeypatch.setattr(
        environment, "create_context", lambda device: use(driver, 10 * GIB + 530 * MIB)
    )
    found = environment._cuda(DEVICE)
    assert found["context_bytes"] == 528 * MIB
    assert found["context_ms"] >= 0
