"""A callback for Lightning: `Trainer(callbacks=[LoopCallback()])`."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from typing import Any

from llmprof.core.events.loop import EVALUATION
from llmprof.core.track.trainer_loop import TrainerLoop

PACKAGES = ("lightning.pytorch", "pytorch_lightning")  # the same under two names


def _package() -> Any:
    """The one that the program uses, else one that is installed. Raises ImportError."""
    for name in PACKAGES:
        if name in sys.modules:
            return sys.modules[name]
    for name in PACKAGES:
        if importlib.util.find_spec(name.partition(".")[0]) is not None:
            return importlib.import_module(name)
    raise ImportError("Lightning is not installed: `pip install lightning`")


Callback: Any = _package().Callback


class LoopCallback(Callback):  # type: ignore[misc]
    """Watches the training of a Lightning Trainer, automatic and manual optimization alike.

    label names the run, by default the script does; sample_devices has the cards read once a
    second. Steps are updates of the optimizer; validation and checkpoints are parts of their own.
    The loss that backward is called with is kept.
    """

    def __init__(self, label: str | None = None, *, sample_devices: bool = True) -> None:
        super().__init__()
        self._loop = TrainerLoop(label, sample_devices=sample_devices)

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Begin to watch, before the first batch is asked for."""
        if stage != "fit":
            return
        steps = trainer.max_steps
        self._loop.begin(steps if steps and steps > 0 else None)

    def on_before_backward(self, trainer: Any, pl_module: Any, loss: Any) -> None:
        """Keep the loss of this step."""
        parts = trainer.accumulate_grad_batches
        self._loop.log(loss=loss.detach() if parts == 1 else loss.detach() * parts)

    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        """What follows is no step."""
        self._loop.aside(EVALUATION)

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        """Back to the steps."""
        self._loop.aside_ended()

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """The run is whole."""
        self._loop.finish()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """The run says what ended it."""
        self._loop.finish(exception)
