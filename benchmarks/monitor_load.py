"""Records the sampler while a load goes up and down; writes a recording without names."""

from __future__ import annotations

import argparse
import subprocess
import sys
import threading
import time
from pathlib import Path

import msgspec

from llmprof.core import events as ev
from llmprof.core.devices.sampler_client import SamplerProcess

# (name, seconds): what this process does, in turn
SCRIPT = (
    ("idle", 5.0),
    ("matmul", 8.0),
    ("copy", 6.0),
    ("idle", 4.0),
    ("shared", 8.0),
    ("idle", 4.0),
)
STRANGER = """
import sys, time, torch
a = torch.randn(4096, 4096, device="cuda")
end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    for _ in range(10):
        a = (a @ a).clamp_(-1, 1)
    torch.cuda.synchronize()
"""


class Recorder:
    """Drains the sampler in a thread of its own."""

    def __init__(self, path: Path) -> None:
        self._sampler = SamplerProcess(0.25, activity=True)
        self._path = path
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._drain)
        self._thread.start()

    def _drain(self) -> None:
        with self._path.open("wb") as file:
            file.write(ev.encode(began()))
            while not self._stop.wait(0.1):
                for line in self._sampler.read().splitlines():
                    event = ev.decode(line)
                    if isinstance(event, ev.DeviceSample):
                        file.write(ev.encode(anonymous(event)))

    def close(self) -> None:
        """Stop recording."""
        self._stop.set()
        self._thread.join()
        self._sampler.close()


def began() -> ev.Segment:
    """Ties the samples' clock to the date, and names no machine."""
    return ev.Segment(boot_id="recorded", wall_ns=time.time_ns(), pid=1, version="")


def anonymous(sample: ev.DeviceSample) -> ev.DeviceSample:
    """The sample without UUIDs, users and commands; pids become small numbers."""
    return msgspec.structs.replace(sample, cards=tuple(map(_anonymous_card, sample.cards)))


_pids: dict[int | None, int] = {}


def _anonymous_card(card: ev.CardSample) -> ev.CardSample:
    processes = card.processes
    if processes is not None:
        processes = tuple(
            msgspec.structs.replace(
                process,
                pid=_pids.setdefault(process.pid, 4001 + len(_pids)),
                user=process.user and "user",
                command=process.command
                and ("python train.py" if process.ours else "python other.py"),
            )
            for process in processes
        )
    uuid = card.uuid and f"GPU-00000000-0000-0000-0000-{card.index:012d}"
    bus = card.pci_bus_id and f"00000000:{card.index + 1:02X}:00.0"
    return msgspec.structs.replace(card, uuid=uuid, pci_bus_id=bus, processes=processes)


def work(kind: str, seconds: float) -> None:
    import torch

    if kind == "idle":
        time.sleep(seconds)
        return
    a = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    b = torch.empty_like(a)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for _ in range(20):
            if kind == "copy":
                b.copy_(a)
            else:
                torch.mm(a, a, out=b)
        torch.cuda.synchronize()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    recorder = Recorder(parser.parse_args().out)
    try:
        for kind, seconds in SCRIPT:
            print(f"{kind} {seconds:.0f} s", flush=True)
            if kind == "shared":  # through a shell that ends: an orphan is nobody's child
                command = [sys.executable, "-c", STRANGER, str(seconds)]
                subprocess.run(["sh", "-c", '"$@" & ', "sh", *command], check=True)
            work("matmul" if kind == "shared" else kind, seconds)
    finally:
        recorder.close()


if __name__ == "__main__":
    main()
