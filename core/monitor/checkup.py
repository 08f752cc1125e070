"""What llmprof needs of this machine: is it there, and what does its absence cost.

Torch is asked in a process of its own and the cards through the sampler's, so that neither can take
this process down.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from llmprof.core.devices.cuda_driver import absent
from llmprof.core.devices.nvml_binding import NEEDS_ROOT
from llmprof.core.devices.sampler_client import SamplerProcess
from llmprof.core.events import CardSample
from llmprof.core.monitor.watch import Watch
from llmprof.core.store import lock
from llmprof.core.system.homes import NoHome, state_home
from llmprof.core.system.modules_by_name import TORCH_SAYS
from llmprof.core.system.text import cause, clean

State = Literal["ok", "limited", "missing"]
TORCH_PATIENCE_S = 120.0  # a cold disk or a hundred cards
CARDS_PATIENCE_S = 30.0  # NVML takes up to 24 s without persistence mode
TOOL_PATIENCE_S = 20.0
LEAST_TORCH = (2, 11)
LEAST_BYTES = 200 << 20  # a run with kernel profiles takes some tens of MiB

# module, package, what it costs where it is not there; without msgspec and platformdirs no command
# of llmprof runs, this one included
PACKAGES = (
    ("psutil", "psutil", "nothing is known of the host and of other processes"),
    ("numpy", "numpy", "kernel profiles are neither made nor drawn"),
    ("einops", "einops", "nothing can be measured: the model is written with it"),
    ("rich", "rich", "neither progress lines nor the screen are drawn"),
    ("textual", "textual", "no screen; every command that prints works"),
    ("pynvml", "nvidia-ml-py", "nothing is seen of the cards: clocks, power, other processes"),
)
MEASURING = ("psutil", "einops")


@dataclass(frozen=True)
class Finding:
    """One thing that was looked for. costs and remedy are "" where all is well."""

    what: str
    state: State
    found: str
    costs: str = ""
    remedy: str = ""
    needed: bool = False  # to measure anything at all

    @property
    def blocks(self) -> bool:
        """Whether nothing can be measured for want of it."""
        return self.needed and self.state == "missing"


def checkup(environment: Mapping[str, str] = os.environ) -> list[Finding]:
    """Everything, in the order in which it is needed."""
    torch = _torch()
    said = _said() if torch.state != "missing" else None
    if torch.state != "missing" and isinstance(said, str):
        torch = Finding("torch", "missing", said, NOTHING_MEASURED, "reinstall torch", needed=True)
    known = said if isinstance(said, dict) else None
    return [
        *_packages(),
        torch,
        _cuda(known),
        *_nvml(),
        *_compilers(known, environment),
        *_home(),
        *_terminal(environment),
    ]


NOTHING_MEASURED = (
    "nothing can be measured here; showing, comparing, exporting, predicting and monitoring work"
)


def _packages() -> Iterator[Finding]:
    for module, package, costs in PACKAGES:
        if importlib.util.find_spec(module) is not None:
            yield Finding(package, "ok", _version(package))
            continue
        remedy = f"pip install {package}"
        needed = module in MEASURING
        yield Finding(package, "missing", "not installed", costs, remedy, needed=needed)
    yield from _extras()


def _extras() -> Iterator[Finding]:
    """The optional parts that this installation of llmprof declares, but for its tests."""
    try:
        declared = importlib.metadata.metadata("llmprof").get_all("Provides-Extra") or []
        wanted = importlib.metadata.requires("llmprof") or []
    except importlib.metadata.PackageNotFoundError:
        return
    for extra in sorted(set(declared) - {"test", "dev"}):
        names = [
            clean(line.split(";")[0].split("[")[0].rstrip("<>=!~.0123456789, "), 60)
            for line in wanted
            if f"extra == '{extra}'" in line.replace('"', "'")
        ]
        absent_ones = [name for name in names if not _installed(name)]
        if absent_ones:
            costs = f"what needs the extra {extra!r} says so when it is asked for"
            found = f"{', '.join(absent_ones)} not installed"
            yield Finding(
                f"extra {extra}", "limited", found, costs, f"pip install llmprof[{extra}]"
            )
        else:
            yield Finding(f"extra {extra}", "ok", ", ".join(names))


def _torch() -> Finding:
    if importlib.util.find_spec("torch") is None:
        return Finding("torch", "missing", "not installed", NOTHING_MEASURED, "pip install torch",
                       needed=True)  # fmt: skip
    version = _version("torch")
    parts = version.split(".")[:2]
    if all(part.isdigit() for part in parts) and tuple(map(int, parts)) < LEAST_TORCH:
        least = ".".join(map(str, LEAST_TORCH))
        return Finding("torch", "limited", version, f"llmprof is tested from {least} on",
                       f"pip install 'torch>={least}'", needed=True)  # fmt: skip
    return Finding("torch", "ok", version, needed=True)


def _said() -> dict[str, Any] | str:
    """What torch says of the machine, or why it says nothing."""
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-m", TORCH_SAYS],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=TORCH_PATIENCE_S,
            check=False,
            text=True,
        )
        if done.returncode:
            last = [line for line in done.stderr.splitlines() if line.strip()][-1:]
            return f"it does not load: {clean(last[0] if last else str(done.returncode), 200)}"
        said = json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        return f"it did not load within {TORCH_PATIENCE_S:.0f} s"
    except (OSError, ValueError) as error:
        return f"it does not load: {cause(error)}"
    return said if isinstance(said, dict) else "it does not load"


def _cuda(said: dict[str, Any] | None) -> Finding:
    costs = "no card is measured; the CPU can be, with --device cpu"
    why = absent("cuda")
    if why is not None:
        return Finding("CUDA", "missing", why.partition("there: ")[2] or why, costs,
                       "on a machine with a card: install its driver, or start the container with "
                       "--gpus all")  # fmt: skip
    if said is None:
        return Finding("CUDA", "limited", "the driver answers", "without torch no card is measured")
    if said["cuda_available"]:
        cards = ", ".join(clean(str(name), 60) for name in said["cards"])
        return Finding("CUDA", "ok", f"{cards}; torch is built for CUDA {said['cuda_build']}")
    if said["cuda_build"] is None:
        found = "there is a driver, but this torch is built without CUDA"
        return Finding("CUDA", "limited", found, costs, "install a torch that is built for CUDA")
    found = f"there is a driver, but torch (CUDA {said['cuda_build']}) cannot use it"
    return Finding("CUDA", "limited", found, costs, "a newer driver, or a torch for an older CUDA")


def _nvml() -> Iterator[Finding]:
    """The cards as the driver's library shows them, and what it keeps from this user."""
    costs = "no clocks, power, temperature, energy and other processes beside the times"
    cards, why = _cards()
    if not cards:
        yield Finding("NVML", "missing", why, costs)
        return
    names = ", ".join(dict.fromkeys(card.name for card in cards if card.name)) or "unnamed"
    refused = sorted({metric for card in cards for metric, value in card.metrics.items()
                      if value.reason == NEEDS_ROOT})  # fmt: skip
    if any(card.denied for card in cards):
        yield Finding("NVML", "limited", "the driver refuses access to a card", costs,
                      "check the permissions of /dev/nvidia*")  # fmt: skip
    elif refused:
        found = f"{names}; not for this user: {', '.join(refused)}"
        remedy = "run as root, or ask for the permission"
        yield Finding("NVML", "limited", found, "these figures are n/a", remedy)
    else:
        yield Finding("NVML", "ok", f"{len(cards)} × {names}" if len(cards) > 1 else names)


def _cards() -> tuple[tuple[CardSample, ...], str]:
    """The cards of the first sample that knows of them; else why there are none."""
    watch = Watch(SamplerProcess(activity=True))
    end = time.monotonic() + CARDS_PATIENCE_S
    try:
        while time.monotonic() < end:
            watch.poll(0.25)
            sample = watch.view().last_sample
            if sample is not None and sample.cards:
                return sample.cards, ""
            if sample is not None and "is starting" not in (sample.cards_reason or "is starting"):
                return (), sample.cards_reason or "no cards"
    finally:
        watch.close()
    return (), "the driver's library does not answer"


def _compilers(said: dict[str, Any] | None, environment: Mapping[str, str]) -> Iterator[Finding]:
    costs = "torch.compile is unsupported: its cases are rows that say so"
    on_card = said is not None and bool(said["cuda_available"])
    tools = [("C++ compiler", environment.get("CXX", "g++"))]
    if on_card:
        tools = [("C compiler", environment.get("CC", "gcc"))]
    for what, command in tools:
        version = _tool(command)
        if version is None:
            yield Finding(what, "missing", f"{clean(command, 60)} does not run", costs,
                          "install gcc and g++ (build-essential)")  # fmt: skip
        else:
            yield Finding(what, "ok", version)
    header = Path(sysconfig.get_paths()["include"]) / "Python.h"
    if header.is_file():
        yield Finding("Python headers", "ok", "there")
    else:
        yield Finding("Python headers", "missing", "Python.h is not there", costs,
                      "install python3-dev")  # fmt: skip
    if on_card and said is not None:
        yield (
            Finding("triton", "ok", _version("triton"))
            if said["triton"]
            else Finding("triton", "missing", "not installed", costs, "pip install triton")
        )


def _tool(command: str) -> str | None:
    """The first line of what a compiler says of itself; None where it does not run."""
    words = command.split()
    if not words or shutil.which(words[0]) is None:
        return None
    try:
        done = subprocess.run([*words, "--version"], stdin=subprocess.DEVNULL, capture_output=True,
                              timeout=TOOL_PATIENCE_S, check=False, text=True)  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return None
    lines = done.stdout.splitlines()
    return None if done.returncode or not lines else clean(lines[0], 80)


def _home() -> Iterator[Finding]:
    """The folder of runs: may it be written, has it locks and room."""
    costs = "no run can be kept, so that nothing is measured"
    remedy = "set LLMPROF_HOME to a folder on a local disk"
    try:
        home = state_home()
    except NoHome as error:
        yield Finding("folder of runs", "missing", str(error), costs, remedy, needed=True)
        return
    there = home
    while not there.exists() and there != there.parent:
        there = there.parent
    tried = _writes(there)
    if isinstance(tried, OSError):
        found = f"{home}: {cause(tried)}"
        yield Finding("folder of runs", "missing", found, costs, remedy, needed=True)
        return
    yield Finding("folder of runs", "ok", str(home), needed=True)
    if tried:
        yield Finding("file locks", "missing", tried, costs, remedy, needed=True)
    else:
        yield Finding("file locks", "ok", "flock works there", needed=True)
    free = shutil.disk_usage(there).free
    if free < LEAST_BYTES:
        yield Finding("disk", "limited", f"{free / 2**20:.0f} MiB free", "a run may end early",
                      "make room")  # fmt: skip


def _writes(folder: Path) -> OSError | str:
    """An error of writing, else what is wrong with locks; "" where both work."""
    try:
        with tempfile.TemporaryDirectory(dir=folder, prefix=".llmprof-") as inner:
            try:
                with lock.hold(Path(inner) / "lock"):
                    return ""
            except OSError as error:
                return cause(error)
    except OSError as error:
        return error


def _terminal(environment: Mapping[str, str]) -> Iterator[Finding]:
    term = environment.get("TERM", "")
    if term in ("", "dumb", "unknown"):
        yield Finding("terminal", "limited", "TERM is dumb", "no screen; every other command works")
        return
    colours = "16 colours"
    if environment.get("COLORTERM", "").lower() in ("truecolor", "24bit"):
        colours = "16 million colours"
    elif "256" in term:
        colours = "256 colours"
    if environment.get("NO_COLOR"):
        yield Finding(
            "terminal", "limited", f"{term}, NO_COLOR is set", "the screen has no colours"
        )
    else:
        few = colours == "16 colours"
        costs = "shades of the screen fall together" if few else ""
        remedy = "export COLORTERM=truecolor, where the terminal can" if few else ""
        yield Finding("terminal", "limited" if few else "ok", f"{term}, {colours}", costs, remedy)
    locale = next((value for name in ("LC_ALL", "LC_CTYPE", "LANG")
                   if (value := environment.get(name))), "C")  # fmt: skip
    if "utf" in locale.lower():
        yield Finding("locale", "ok", clean(locale, 60))
    else:
        costs = "the screen is drawn with ASCII alone"
        yield Finding("locale", "limited", clean(locale, 60), costs, "export LC_ALL=C.UTF-8")


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "there"


def _installed(package: str) -> bool:
    try:
        importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True
