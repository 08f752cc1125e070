"""A training that knows nothing of llmprof: hooks from its first optimizer on, then a run."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import msgspec

from llmprof.core.system.text import clean
from llmprof.core.track.automatic import AutomaticTracker
from llmprof.core.track.tracked import Tracked, is_tracked

SETTING = "LLMPROF_WATCH"  # what `llmprof watch` was told, JSON
SETTLED_STEPS = 10  # after which it is said what cannot be seen
BLIND = (
    "no batch came from a DataLoader on the thread that trains: waiting for input and what "
    "follows an update stand in forward + loss; `with llmprof.track() as run: for batch in "
    "run.steps(loader)` tells them apart"
)

_watching: Watching | None = None


class Setting(msgspec.Struct, frozen=True):
    """What the one who watches wants."""

    label: str = ""
    sample_devices: bool = True
    total_steps: int | None = None


class Watching:
    """Hooks in this process, and from the first backward on a run."""

    def __init__(self, setting: Setting) -> None:
        from llmprof.core.track.hooks import Hooks
        from llmprof.core.track.loaders import watch_loaders, watch_saves

        self.setting = setting
        self.tracked: Tracked | None = None
        self.tracker = AutomaticTracker(self._begin)
        self._said = False
        self._hooks = Hooks(self.tracker)
        self._hooks.add(watch_loaders(self.tracker) + watch_saves(self.tracker))

    def remove(self) -> None:
        """Take the hooks away from a process that did not come to train."""
        global _watching
        self._hooks.remove()
        if _watching is self:
            _watching = None

    def _begin(self) -> bool:
        """The first backward: a run begins, unless the script tracks its loop by itself."""
        from torch.utils.data import get_worker_info

        if is_tracked() or get_worker_info() is not None:
            return False
        self.tracked = Tracked(
            clean(self.setting.label or script_name(sys.argv[0]), 100) or "loop",
            model=None,
            total_steps=self.setting.total_steps,
            first_step=0,
            sample_devices=self.setting.sample_devices,
            announce=False,
            tracker=self.tracker,
            hooks=self._hooks,
        )
        self.tracked.notes = self._note
        self.tracked.start()
        return True

    def _note(self) -> None:
        """Say once what cannot be told of this loop."""
        if self._said or self.tracker.steps < SETTLED_STEPS:
            return
        self._said = True
        if not self.tracker.loaders_seen and self.tracked is not None:
            self.tracked.note(BLIND)


def watch_process() -> None:
    """Watch this process as its environment says."""
    watch(Setting())


def watch(setting: Setting) -> Watching:
    """Hooks for the training of this process; those that are there already.

    What `llmprof watch` was told goes before what a trainer's callback says.
    """
    global _watching
    text = os.environ.get(SETTING, "")
    told = msgspec.json.decode(text, type=Setting) if text else Setting()
    setting = _together(told, setting)
    if _watching is None or not _watching.tracker.working:
        _watching = Watching(setting)
    elif _watching.tracked is None:  # nothing has begun
        _watching.setting = _together(setting, _watching.setting)
    return _watching


def _together(first: Setting, other: Setting) -> Setting:
    """What two say, the first before the other."""
    return Setting(
        label=first.label or other.label,
        sample_devices=first.sample_devices and other.sample_devices,
        total_steps=other.total_steps if first.total_steps is None else first.total_steps,
    )


def script_name(path: str) -> str:
    """What a script is called: of a package that is run, the package's name."""
    script = Path(path)
    return script.parent.name if script.stem == "__main__" else script.stem
