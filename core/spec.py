"""What to measure: a model's shape, a case, an experiment that expands to cases."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Literal, get_args

import msgspec

Mode = Literal["forward", "forward-grad", "forward-backward", "train"]
Precision = Literal["fp32", "tf32", "bf16", "fp16"]
Attention = Literal["naive", "sdpa"]
OptimizerKind = Literal["foreach", "fused", "loop"]
Probe = Literal["timing", "memory", "kernels", "attention", "calibrate"]
CompileMode = Literal["default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"]
Phase = Literal["forward", "loss", "backward", "optimizer", "zero_grad"]

MODES: tuple[Mode, ...] = get_args(Mode)
PRECISIONS: tuple[Precision, ...] = get_args(Precision)
ATTENTIONS: tuple[Attention, ...] = get_args(Attention)
OPTIMIZERS: tuple[OptimizerKind, ...] = get_args(OptimizerKind)
COMPILE_MODES: tuple[CompileMode, ...] = get_args(CompileMode)
PHASES: tuple[Phase, ...] = get_args(Phase)

PHASES_OF: dict[Mode, tuple[Phase, ...]] = {
    "forward": ("forward",),
    "forward-grad": ("forward",),
    "forward-backward": ("forward", "loss", "backward", "zero_grad"),
    "train": PHASES,
}
ATTENTION_PHASES: tuple[Phase, ...] = ("forward", "backward")
MOST_WARMUP_STEPS = 300  # of --warmup-steps auto
MOST_MEASURE_STEPS = 1000  # of --measure-steps auto
TARGET_PERCENT = 1.0  # of --measure-steps auto without --target
MOST_PROFILE_STEPS = 100  # a step of a large model is 40,000 events, which are kept in memory
TURN_STEPS = 2  # measured steps of one turn of an interleaved case
RECORDING_WARMUP = 2  # of the memory probe: optimizer state and cuBLAS's workspaces are there then
RECORDED_STEPS = 2


MOST = 10_000_000  # of any dimension or number of steps
MOST_SEED = 2**63 - 1  # of torch.manual_seed


class SpecError(ValueError):
    """A specification that cannot be measured; its text is one line for the user."""


class ModelShape(msgspec.Struct, frozen=True, kw_only=True):
    """A decoder-only transformer: pre-norm RMSNorm, RoPE attention, SwiGLU, no biases.

    Raises SpecError when the dimensions do not fit each other.
    """

    name: str
    d_model: int
    d_ff: int
    num_layers: int
    num_heads: int
    kv_heads: int = 0  # 0: as many as num_heads
    vocab_size: int = 10_000
    tie_embeddings: bool = False
    qkv_bias: bool = False
    rope_theta: float = 10_000.0
    edition: str = ""

    def __post_init__(self) -> None:
        for field in ("d_model", "d_ff", "num_layers", "num_heads", "vocab_size"):
            if not 1 <= getattr(self, field) <= MOST:
                raise SpecError(f"{self.name}: {field} must be between 1 and {MOST:,}")
        if not 0 < self.rope_theta < math.inf:
            raise SpecError(f"{self.name}: rope_theta must be a positive number")
        if self.d_model % self.num_heads:
            raise SpecError(
                f"{self.name}: num_heads {self.num_heads} does not divide d_model {self.d_model}"
            )
        if self.head_dim % 2:
            raise SpecError(f"{self.name}: head size {self.head_dim} is odd, which RoPE cannot use")
        if self.kv_heads < 0 or self.num_heads % self.num_kv_heads:
            raise SpecError(
                f"{self.name}: kv_heads {self.kv_heads} does not divide num_heads {self.num_heads}"
            )

    @property
    def head_dim(self) -> int:
        """Size of one attention head."""
        return self.d_model // self.num_heads

    @property
    def num_kv_heads(self) -> int:
        """Heads of K and V: num_heads unless the model groups its queries."""
        return self.kv_heads or self.num_heads

    @property
    def kv_dim(self) -> int:
        """Width of K and of V."""
        return self.num_kv_heads * self.head_dim

    @property
    def parameters(self) -> int:
        """Counted parameters: V·d (twice if untied) + L·(attention + 3·d·d_ff + 2d) + d."""
        d, kv = self.d_model, self.kv_dim
        attention = 2 * d * d + 2 * d * kv + (d + 2 * kv if self.qkv_bias else 0)
        block = attention + 3 * d * self.d_ff + 2 * d
        embeddings = self.vocab_size * d * (1 if self.tie_embeddings else 2)
        return embeddings + self.num_layers * block + d

    @property
    def parameter_tensors(self) -> int:
        """Number of parameter tensors: 9L + 3 for the reference model."""
        per_block = 12 if self.qkv_bias else 9
        return per_block * self.num_layers + (2 if self.tie_embeddings else 3)


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One configuration, measured in one fresh process.

    The attention probe measures one attention without heads: d_model is its d and
    context_length its L. With warmup_auto, warmup_steps is the most there may be; with a
    target, measure_steps is. Raises SpecError for numbers that cannot be measured.
    """

    model: ModelShape
    probe: Probe = "timing"
    mode: Mode = "train"
    precision: Precision = "fp32"
    attention: Attention = "naive"
    optimizer: OptimizerKind = "foreach"
    compile: CompileMode | None = None
    context_length: int = 128
    batch_size: int = 4
    warmup_steps: int = 5
    measure_steps: int = 10
    device: str = "auto"
    seed: int = 0
    warmup_auto: bool = False  # warm up until the steps are steady
    target_percent: float | None = None  # measure until the 95 % interval is within ± this
    interleaved: bool = False  # its steps alternate with those of the cases it is compared to
    stacks: bool = False  # kernels: find the Python line of each launch
    trace: bool = False  # kernels: keep a Chrome trace; memory: keep a snapshot for memory_viz
    nvtx: bool = False  # kernels: NVTX ranges for Nsight

    def __post_init__(self) -> None:
        for field in ("context_length", "batch_size", "measure_steps"):
            if not 1 <= getattr(self, field) <= MOST:
                raise SpecError(f"{option_name(field)} must be between 1 and {MOST:,}")
        if not 0 <= self.warmup_steps <= MOST:
            raise SpecError(f"--warmup-steps must be between 0 and {MOST:,}")
        if self.target_percent is not None and not 0.01 <= self.target_percent <= 100:
            raise SpecError("--target must be between 0.01 % and 100 %")
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
            target_percent=None,
            interleaved=False,
            stacks=False,
            trace=False,
            nvtx=False,
        )

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
    def key(self) -> str:
        """Hash of the whole configuration: equal keys, and only these, may be compared."""
        import hashlib  # loads OpenSSL, which the screen's first frame has no use for

        return hashlib.sha256(msgspec.json.encode(self, order="deterministic")).hexdigest()[:16]

    @property
    def label(self) -> str:
        """Short name for progress lines: model, mode and what is not the default."""
        parts = [self.model.name, self.mode, f"ctx {self.context_length}", self.precision]
        if self.probe != "timing":
            parts.insert(0, self.probe)
        if self.attention != "naive":
            parts.append(self.attention)
        if self.optimizer != "foreach" and self.mode == "train":
            parts.append(self.optimizer)
        if self.compile:
            parts.append("compiled" if self.compile == "default" else f"compiled {self.compile}")
        if self.batch_size != 4:
            parts.append(f"batch {self.batch_size}")
        if self.warmup_auto:
            parts.append("warm-up auto")
        elif self.warmup_steps != 5 and self.probe != "memory":
            parts.append(f"warm-up {self.warmup_steps}")
        return " · ".join(parts)


class Variant(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Named changes to every case of a grid: one switch of an A/B experiment."""

    label: str = ""
    precision: Precision | None = None
    attention: Attention | None = None
    optimizer: OptimizerKind | None = None
    compile: CompileMode | None = None
    warmup_steps: int | None = None
    probe: Probe | None = None

    def apply(self, case: Case) -> Case:
        """The case with this variant's fields in place of its own."""
        changes = {
            name: value
            for name in ("precision", "attention", "optimizer", "compile", "warmup_steps", "probe")
            if (value := getattr(self, name)) is not None
        }
        return msgspec.structs.replace(case, **changes) if changes else case


class Experiment(msgspec.Struct, frozen=True, kw_only=True):
    """A grid of cases: the product of its axes, models outermost, variants innermost."""

    name: str
    title: str = ""
    models: tuple[ModelShape, ...]
    probe: Probe = "timing"
    modes: tuple[Mode, ...] = ("train",)
    precisions: tuple[Precision, ...] = ("fp32",)
    attentions: tuple[Attention, ...] = ("naive",)
    optimizers: tuple[OptimizerKind, ...] = ("foreach",)
    compiles: tuple[CompileMode | None, ...] = (None,)
    context_lengths: tuple[int, ...] = (128,)
    batch_sizes: tuple[int, ...] = (4,)
    warmup_steps: tuple[int, ...] = (5,)
    measure_steps: int = 10
    warmup_auto: bool = False
    target_percent: float | None = None
    interleave: bool = False  # alternate the cases that differ only in switches
    variants: tuple[Variant, ...] = (Variant(),)
    device: str = "auto"
    seed: int = 0
    cpu_budget_s: float | None = None  # on a CPU, leave out the sizes that would take longer
    profile_steps: int = 3  # steps of a case whose probe is kernels
    stacks: bool = False
    trace: bool = False
    nvtx: bool = False
    snapshot: bool = False
    tables: tuple[str, ...] = ()  # which a report shows, in order; none: all that apply
    peak_tflops: float | None = None  # dense peak to divide by, in place of the card's
    force: bool = False  # try what is predicted not to fit
    silence_s: float = 600.0  # a worker silent for so long is ended

    def cases(self) -> tuple[Case, ...]:
        """Every case once, in the order in which they run.

        Raises SpecError for a case that cannot be measured or an experiment without any.
        """
        unique = {case.key: case for case in self._product()}
        if not unique:
            raise SpecError(f"experiment {self.name} has no cases")
        return tuple(unique.values())

    def _product(self) -> Iterator[Case]:
        for (
            model,
            context,
            batch,
            mode,
            precision,
            attention,
            optimizer,
            compiled,
            warmup,
        ) in itertools.product(
            self.models,
            self.context_lengths,
            self.batch_sizes,
            self.modes,
            self.precisions,
            self.attentions,
            self.optimizers,
            self.compiles,
            self.warmup_steps,
        ):
            case = Case(
                model=model,
                probe=self.probe,
                mode=mode,
                precision=precision,
                attention=attention,
                optimizer=optimizer,
                compile=compiled,
                context_length=context,
                batch_size=batch,
                warmup_steps=warmup,
                measure_steps=self.measure_steps,
                device=self.device,
                seed=self.seed,
                warmup_auto=self.warmup_auto,
                target_percent=self.target_percent,
                interleaved=self.interleave,
            )
            for variant in self.variants:
                yield self._profiled(variant.apply(case))

    def _profiled(self, case: Case) -> Case:
        """A case of a probe that does not time, with the options that only this probe has."""
        if case.probe == "memory":
            return msgspec.structs.replace(
                case,
                warmup_steps=RECORDING_WARMUP,
                measure_steps=RECORDED_STEPS,
                warmup_auto=False,
                target_percent=None,
                interleaved=False,
                trace=self.snapshot,
            )
        if case.probe != "kernels":
            return case
        if not 1 <= self.profile_steps <= MOST_PROFILE_STEPS:
            raise SpecError(f"--profile-steps must be between 1 and {MOST_PROFILE_STEPS}")
        return msgspec.structs.replace(
            case,
            measure_steps=self.profile_steps,
            target_percent=None,
            interleaved=False,
            stacks=self.stacks,
            trace=self.trace,
            nvtx=self.nvtx,
        )


def option_name(field: str) -> str:
    """The command-line option that sets a field of a case."""
    return "--" + field.replace("_", "-")
