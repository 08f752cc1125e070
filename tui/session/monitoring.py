"""What the Monitor view is to watch: which cards, how often, or what was recorded of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from llmprof.core.devices.sampler import INTERVAL_S
from llmprof.core.state.view import RunView


class Watched(Protocol):
    """What gives views of the machine; core.monitor.watch.Watch, or a stand-in."""

    def poll(self, timeout_s: float = 0.0) -> bool:
        """Take what has come."""

    def view(self) -> RunView:
        """What is known now."""

    @property
    def recording(self) -> str:
        """How far a recording has come; "" for what is live."""

    def show_activity(self, on: bool) -> None:
        """Have the activity counters read, or not."""

    def close(self) -> None:
        """End it."""


def watch_machine(interval_s: float, gpus: str | None) -> Watched:
    """A sampler process of this machine, followed."""
    from llmprof.core.devices.sampler_client import (  # not needed for the first frame
        SamplerProcess,
    )
    from llmprof.core.monitor.watch import Watch

    return Watch(SamplerProcess(interval_s, gpus))


@dataclass(frozen=True)
class Monitoring:
    """Which cards are watched and how often; open makes the watch.

    recorded tells of a recording on which card and when it was made, as far as that is known;
    None for this machine now. With of_run nothing is watched but the run in sight shown.
    """

    interval_s: float = INTERVAL_S
    gpus: str | None = None
    open: Callable[[float, str | None], Watched] = watch_machine
    recorded: tuple[str, ...] | None = None
    of_run: bool = False
