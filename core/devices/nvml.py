"""All NVIDIA cards of the machine: one initialisation, off the polling thread, retried slowly."""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llmprof.core.devices import nvml_binding
from llmprof.core.devices.card_processes import Identity, identify
from llmprof.core.devices.host import PsutilHost
from llmprof.core.devices.nvml_binding import Api, Unavailable
from llmprof.core.devices.nvml_card import NvmlCard
from llmprof.core.devices.source import CardsNow, Clock, DeviceSource
from llmprof.core.events import CardSample
from llmprof.core.events.matching import Selection
from llmprof.core.system.text import clean

RETRY_S = 60.0  # between attempts to initialise
CATCH_UP_S = 0.03  # of one poll, for readings that take long
_LIBRARY = re.compile(r"libnvidia-ml\.so\.([\d.]*\d{2,}[\d.]*)")
_MODULE = Path("/proc/driver/nvidia/version")
_NO_LIBRARY = (
    "NVML is missing: no libnvidia-ml.so.1 here. It comes with the NVIDIA driver; in a container, "
    "start it with the NVIDIA runtime (docker run --gpus all)"
)
_NO_DRIVER = (
    "the NVIDIA kernel module is not loaded. Load it (sudo modprobe nvidia) or reinstall the driver"
)
_NO_BINDING = "the Python package nvidia-ml-py is missing: pip install nvidia-ml-py"
_NO_CARD = "the NVIDIA driver works but sees no GPU"


@dataclass(frozen=True)
class _Opened:
    api: Api | None
    cards: tuple[NvmlCard, ...] = ()
    reason: str | None = None
    absent: tuple[str, ...] = ()


class NvmlCards:
    """Reads every selected card; a card that fails never disturbs the others.

    Where one that was asked for is not there, none is read: what was asked for can't be had.

    The library is initialised once, in a thread: with persistence mode off it takes up to 24 s.
    """

    def __init__(
        self,
        selection: Selection | None = None,
        *,
        owner: int | None = None,
        load: Callable[[], Any] = lambda: importlib.import_module("pynvml"),
        who: Callable[[int, int | None], Identity] = identify,
        clock: Clock = time.monotonic_ns,
        wait_s: float = 0.0,
    ) -> None:
        self._selection = selection or Selection()
        self._owner = owner
        self._load = load
        self._identify = who
        self._clock = clock
        self._activity = False
        self._turn = -1  # the card that caught up last
        self._opened: _Opened | None = None
        self._closed = False
        self._begin(wait_s)

    def read(self) -> CardsNow:
        """What is due on each card, or why there are none."""
        if self._pid != os.getpid():  # handles do not survive a fork
            self._begin(0.0)
        opened = self._opened
        if opened is None:
            waited = (self._clock() - self._began) / 1e9
            return CardsNow(reason=f"NVML is starting, {waited:.0f} s so far")
        if opened.reason is not None and not opened.cards:
            if opened.api is None and self._clock() - self._ended >= RETRY_S * 1e9:
                self._begin(0.0)
            return CardsNow(reason=opened.reason, absent=opened.absent)
        self._apply_activity(opened)
        return CardsNow(tuple(card.read() for card in opened.cards), opened.reason)

    def catch_up(self) -> None:
        """The readings that take long, on as many cards as a moment allows, in turn."""
        cards = self._opened.cards if self._opened else ()
        start = self._clock()
        for _ in cards:
            self._turn = (self._turn + 1) % len(cards)
            cards[self._turn].catch_up()
            if self._clock() - start > CATCH_UP_S * 1e9:
                break

    def show_activity(self, on: bool) -> None:
        """Read SM, tensor-core and DRAM activity from the next poll on, or stop. Thread-safe."""
        self._activity = on

    def close(self) -> None:
        """Let go of the library; fine after a failed or unfinished start."""
        opened, self._closed = self._opened, True
        self._opened = _Opened(None, reason="closed")
        if opened is None or opened.api is None or self._pid != os.getpid():
            return
        for card in opened.cards:
            card.close()
        with contextlib.suppress(Unavailable):
            opened.api.call("nvmlShutdown")

    def _apply_activity(self, opened: _Opened) -> None:
        for card in opened.cards:
            card.show_activity(self._activity)

    def _begin(self, wait_s: float) -> None:
        self._pid = os.getpid()
        self._opened = None
        self._began = self._ended = self._clock()
        thread = threading.Thread(target=self._open, name="nvml-start", daemon=True)
        thread.start()
        if wait_s:
            thread.join(wait_s)

    def _open(self) -> None:
        try:
            opened = self._try_open()
        except Exception as error:  # else the thread would end unseen and NVML "start" for ever
            opened = _Opened(None, reason=f"NVML did not start: {type(error).__name__}: {error}")
        self._ended = self._clock()
        if self._closed:
            return
        self._opened = opened

    def _try_open(self) -> _Opened:
        try:
            api = Api(self._load())
        except ImportError:
            return _Opened(None, reason=_NO_BINDING)
        try:
            api.call("nvmlInit")
        except Unavailable as error:
            return _Opened(None, reason=_why_not(api, error))
        try:
            count = int(api.call("nvmlDeviceGetCount"))
        except (Unavailable, TypeError, ValueError) as error:
            reason = error.reason if isinstance(error, Unavailable) else str(error)
            return self._shut(api, f"the driver does not list its GPUs: {reason}")
        if count <= 0:
            return self._shut(api, _NO_CARD, self._selection.names)
        cards = tuple(
            NvmlCard(api, index, owner=self._owner, identify=self._identify, clock=self._clock)
            for index in range(count)
        )
        there = [card.identified for card in cards]
        absent = self._selection.absent(there)
        if absent:
            return self._shut(api, _none_such(absent, there), absent)
        chosen = [card for card in cards if self._selection.has(card.identified)]
        return _Opened(api, tuple(chosen))

    def _shut(self, api: Api, reason: str, absent: tuple[str, ...] = ()) -> _Opened:
        with contextlib.suppress(Unavailable):
            api.call("nvmlShutdown")
        return _Opened(None, reason=reason, absent=absent)


def _none_such(absent: Sequence[str], there: Sequence[CardSample]) -> str:
    """Which of the names asked for are no cards, and what there is."""
    named = any(not name.isdigit() for name in absent)
    has = [f"{card.index} ({card.uuid})" if named else str(card.index) for card in there]
    verb = "is" if len(has) == 1 else "are"
    return f"no GPU {', '.join(absent)} here; there {verb} {', '.join(has)}"


def _why_not(api: Api, error: Unavailable) -> str:
    if error.code == nvml_binding.LIBRARY_NOT_FOUND:
        return _NO_LIBRARY
    if error.code == nvml_binding.DRIVER_NOT_LOADED:
        return _NO_DRIVER
    if error.code == nvml_binding.VERSION_MISMATCH:
        return (
            f"driver and library differ: kernel module {_module_version()}, library "
            f"{_library_version(api)}. Reboot, or unload and load the nvidia modules"
        )
    if error.code == nvml_binding.NO_PERMISSION:
        return "the NVIDIA driver refuses access: check the permissions of /dev/nvidiactl"
    return f"NVML did not start: {error.reason}"


def _module_version() -> str:
    try:
        text = _MODULE.read_text("utf-8", "replace")
    except OSError:
        return "unknown"
    found = re.search(r"(?:Kernel Module|x86_64|aarch64)\s+(\d+\.[\d.]+)", text)
    return found.group(1) if found else "unknown"


def _library_version(api: Api) -> str:
    with contextlib.suppress(Unavailable):
        return api.text("nvmlSystemGetNVMLVersion")
    with contextlib.suppress(OSError):
        found = _LIBRARY.search(Path("/proc/self/maps").read_text("utf-8", "replace"))
        if found:
            return clean(found.group(1))
    return "unknown"


def open_source(
    gpus: str | None = None, *, owner: int | None = None, wait_s: float = 0.0
) -> DeviceSource:
    """Cards through NVML and the host through psutil; without NVML the host alone, and why.

    gpus selects cards (see Selection.parse, which raises ValueError); processes below owner are
    marked as ours; wait_s is how long to wait for NVML to start before the first sample.
    """
    selection = Selection.parse(gpus)
    return DeviceSource(NvmlCards(selection, owner=owner, wait_s=wait_s), PsutilHost())
