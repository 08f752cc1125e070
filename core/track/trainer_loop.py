"""What the callbacks of trainers have in common: a loop that a trainer owns."""

from __future__ import annotations

import os

from llmprof.core.system.text import cause
from llmprof.core.track.tracked import DISABLED
from llmprof.core.track.tracker import say
from llmprof.core.track.watching import Setting, Watching, watch


class TrainerLoop:
    """Steps are found by the optimizer's updates; the trainer says what lies beside them."""

    def __init__(self, label: str | None, *, sample_devices: bool) -> None:
        self._label = label or ""
        self._sample_devices = sample_devices
        self._watching: Watching | None = None
        self._aside: str | None = None

    def begin(self, total_steps: int | None) -> None:
        """The training begins. With LLMPROF_DISABLED=1 nothing does."""
        if os.environ.get(DISABLED, "0") not in ("", "0"):
            return
        try:
            self._watching = watch(Setting(self._label, self._sample_devices, total_steps))
        except Exception as error:
            say(f"this training is not watched: {cause(error)}")

    def aside(self, part: str) -> None:
        """Something that is no step begins: EVALUATION or CHECKPOINT."""
        self.aside_ended()
        if self._watching is not None:
            self._aside = self._watching.tracker.begin_aside(part)

    def aside_ended(self) -> None:
        """It ended."""
        if self._watching is not None:
            self._watching.tracker.end_phase(self._aside)
        self._aside = None

    def log(self, **values: object) -> None:
        """Keep numbers of this step; tensors of one element as well."""
        tracked = None if self._watching is None else self._watching.tracked
        if tracked is not None:
            tracked.log(**values)

    def finish(self, error: BaseException | None = None) -> None:
        """The training ended, perhaps by an exception."""
        watching, self._watching = self._watching, None
        if watching is None:
            return
        if watching.tracked is not None:
            watching.tracked.finish(error)
        watching.remove()
