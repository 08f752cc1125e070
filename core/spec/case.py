"""A case: one configuration of a model, and the steps and phases that it is measured in."""

from __future__ import annotations

from typing import Literal, get_args

import msgspec

from llmprof.core.spec.axes import AXES, Axis, CaseAxes, Mode, option_name
from llmprof.core.spec.own_model import Model
from llmprof.core.spec.shape import LARGEST, MOST_SEED, ModelShape, SpecError

Probe = Literal["timing", "memory", "kernels", "attention", "calibrate"]
Phase = Literal["forward", "loss", "backward", "optimizer", "zero_grad"]
PHASES: tuple[Phase, ...] = get_args(Phase)

PHASES_OF: dict[Mode, tuple[Phase, ...]] = {
    "forward": ("forward",),
    "forward-grad": ("forward",),
    "forward-backward": ("forward", "loss", "backward", "zero_grad"),
    "train": PHASES,
}
REPEATED_PHASES: tuple[Phase, ...] = ("forward", "loss", "backward")  # of each micro-batch
MOST_PROCESSES = 100  # of one configuration
USUAL_WARMUP: dict[Probe, int] = {"memory": 2}  # where it is not the axis's: labels leave it out
ATTENTION_PHASES: tuple[Phase, ...] = ("forward", "backward")


class Case(CaseAxes, frozen=True, kw_only=True):
    """One configuration, measured in one fresh process.

    The attention probe measures one attention without heads: d_model is its d and
    context_length its L; with a cold cache its tensors have the case's dtype, without autocast.
    With warmup_auto, warmup_steps is the most there may be; with a target, measure_steps is.
    Raises SpecError for numbers that cannot be measured.
    """

    model: Model
    probe: Probe = "timing"
    measure_steps: int = 10
    device: str = "auto"
    seed: int = 0
    process: int = 0  # which of several fresh processes of one configuration
    warmup_auto: bool = False  # warm up until the steps are steady
    target_percent: float | None = None  # measure until the mean is known within this (95 %)
    interleaved: bool = False  # its steps alternate with those of the cases it is compared to
    stacks: bool = False  # kernels: find the Python line of each launch
    trace: bool = False  # kernels: keep a Chrome trace; memory: keep a snapshot for memory_viz
    cold_cache: bool = False  # attention: the L2 cache is flushed before each call
    nvtx: bool = False  # kernels: NVTX ranges for Nsight

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.probe == "attention" and (self.checkpoint is not None or self.accumulate > 1):
            raise SpecError(
                "one attention alone has neither blocks to checkpoint nor a loss to accumulate: "
                "--checkpoint and --accumulate are for whole models"
            )
        if self.sdpa_backend is not None and self.probe != "attention":
            raise SpecError(
                "--sdpa-backend is for one attention alone (llmprof run attention-kernels); a "
                "whole model runs the kernel that torch picks"
            )
        if not 1 <= self.measure_steps <= LARGEST:
            raise SpecError(f"{option_name('measure_steps')} must be between 1 and {LARGEST:,}")
        if self.target_percent is not None and not 0.01 <= self.target_percent <= 100:
            raise SpecError("--target must be between 0.01 % and 100 %")
        if not 0 <= self.process < MOST_PROCESSES:
            raise SpecError(f"--processes must be between 1 and {MOST_PROCESSES}")
        if not 0 <= self.seed <= MOST_SEED:
            raise SpecError(f"--seed must be between 0 and {MOST_SEED:,}")

    def configuration(self) -> Case:
        """What is run, whatever measures it: equal for all probes of the same steps.

        The attention probe runs another thing and stays itself.
        """
        return msgspec.structs.replace(
            self,
            probe="attention" if self.probe == "attention" else "timing",
            measure_steps=1,
            process=0,
            target_percent=None,
            interleaved=False,
            stacks=False,
            trace=False,
            nvtx=False,
        )

    @property
    def shape(self) -> ModelShape | None:
        """The dimensions of the reference model; None for a model of the user's own."""
        return self.model if isinstance(self.model, ModelShape) else None

    @property
    def has_own_attention(self) -> bool:
        """Whether the model's factory chooses an attention where none is asked for."""
        return not isinstance(self.model, ModelShape) and not self.model.is_configuration

    @property
    def reference(self) -> ModelShape:
        """The dimensions, for what is computed from them. Raises TypeError for an own model."""
        if isinstance(self.model, ModelShape):
            return self.model
        raise TypeError(f"{self.model.name} is not the reference model: its dimensions are unknown")

    @property
    def tokens(self) -> int:
        """Tokens of one step."""
        return self.batch_size * self.context_length

    @property
    def phases(self) -> tuple[Phase, ...]:
        """The phases that a step of this case has, in order."""
        if self.probe == "attention":
            return ATTENTION_PHASES if self.mode != "forward" else ATTENTION_PHASES[:1]
        return PHASES_OF[self.mode]

    @property
    def sequence(self) -> tuple[Phase, ...]:
        """The phases in the order in which a step goes through them, once a micro-batch."""
        repeated = tuple(phase for phase in self.phases if phase in REPEATED_PHASES)
        return repeated * self.accumulate + self.phases[len(repeated) :]

    @property
    def micro_batch(self) -> Case:
        """The case that one micro-batch is on its own."""
        size = self.batch_size // self.accumulate
        return msgspec.structs.replace(self, batch_size=size, accumulate=1)

    @property
    def blocks_a_checkpoint(self) -> int | None:
        """How many blocks one checkpoint covers; None where there are none or nothing is saved."""
        if self.checkpoint is None or self.mode == "forward" or self.shape is None:
            return None
        layers = self.shape.num_layers
        return layers if self.checkpoint == "all" else min(self.checkpoint, layers)

    @property
    def key(self) -> str:
        """Hash of the whole configuration: equal keys, and only these, may be compared.

        What has its default is left out, so that a further axis changes no key.
        """
        import hashlib  # loads OpenSSL, which the screen's first frame has no use for

        given = {
            name: value
            for name, value in msgspec.to_builtins(self).items()
            if name == "model" or value != _DEFAULTS[name]
        }
        return hashlib.sha256(msgspec.json.encode(given, order="deterministic")).hexdigest()[:16]

    @property
    def label(self) -> str:
        """Short name for progress lines: model, mode and what is not the default."""
        parts = [self.model.name, self.mode, f"ctx {self.context_length}", self.precision]
        if self.probe != "timing":
            parts.insert(0, self.probe)
        parts += filter(None, (axis.brief(axis.of(self)) for axis in self._unusual()))
        if self.warmup_auto:
            parts.append("warm-up auto")
        elif self.warmup_steps != USUAL_WARMUP.get(self.probe, 5):
            parts.append(f"warm-up {self.warmup_steps}")
        if self.process:
            parts.append(f"process {self.process + 1}")
        return " · ".join(parts)

    def _unusual(self) -> list[Axis]:
        """The axes on which the case is not neutral; the optimizer only where it runs."""
        return [
            axis
            for axis in AXES
            if axis.of(self) != axis.neutral
            and (axis.field != "optimizer" or "optimizer" in self.phases)
        ]


_DEFAULTS = dict(
    zip(
        Case.__struct_fields__[-len(Case.__struct_defaults__) :],
        Case.__struct_defaults__,
        strict=True,
    )
)
