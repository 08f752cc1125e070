"""A callback for the Trainer of transformers: `Trainer(…, callbacks=[LoopCallback()])`."""

from __future__ import annotations

from typing import Any

from transformers import TrainerCallback

from llmprof.core.events.loop import CHECKPOINT, EVALUATION
from llmprof.core.track.trainer_loop import TrainerLoop

KEPT = ("loss", "learning_rate", "grad_norm")  # of what the Trainer logs


class LoopCallback(TrainerCallback):  # type: ignore[misc]
    """Watches the training of a Hugging Face Trainer.

    label names the run, by default the script does; sample_devices has the cards read once a
    second. Steps are updates of the optimizer; evaluation and checkpoints are parts of their own.
    What the Trainer logs of the training is kept, with the step after which it was logged.
    """

    def __init__(self, label: str | None = None, *, sample_devices: bool = True) -> None:
        self._loop = TrainerLoop(label, sample_devices=sample_devices)

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Begin to watch."""
        self._loop.begin(state.max_steps if state.max_steps > 0 else None)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """The Trainer evaluates and saves after this, if it has decided to."""
        self._aside(control)

    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """As after a step."""
        self._aside(control)

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """The evaluation ended; the checkpoint follows, if there is one."""
        self._loop.aside_ended()
        if control.should_save:
            self._loop.aside(CHECKPOINT)

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """The checkpoint is written."""
        self._loop.aside_ended()

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        """Keep the numbers of the training, not those of an evaluation."""
        numbers = {name: as_number(value) for name, value in (logs or {}).items()}
        if numbers.get("loss") is not None:
            self._loop.log(
                **{name: numbers[name] for name in KEPT if numbers.get(name) is not None}
            )

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """The run is whole."""
        self._loop.finish()

    def _aside(self, control: Any) -> None:
        if control.should_evaluate:
            self._loop.aside(EVALUATION)
        elif control.should_save:
            self._loop.aside(CHECKPOINT)


def as_number(value: Any) -> float | None:
    """A number, which some versions give as text; NaN and infinities are numbers too."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return None
