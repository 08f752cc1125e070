"""What sets a switch in a loop of one's own, and what that costs."""

from __future__ import annotations

from llmprof.core.report.sentences import listing
from llmprof.core.spec.axes import SWITCHES, Value, apart
from llmprof.core.spec.case import Case

SETTINGS: dict[tuple[str, Value], str] = {
    ("precision", "tf32"): '`torch.set_float32_matmul_precision("high")`, which rounds the inputs '
                           "of matrix products to ten bits of mantissa",
    ("precision", "bf16"): '`torch.autocast("cuda", torch.bfloat16)` around forward and loss, '
                           "which multiplies matrices in bf16",
    ("precision", "fp16"): '`torch.autocast("cuda", torch.float16)` around forward and loss, which '
                           "multiplies matrices in fp16, and `torch.amp.GradScaler()`",
    ("attention", "sdpa"): "`torch.nn.functional.scaled_dot_product_attention`",
    ("optimizer", "fused"): "`torch.optim.AdamW(..., fused=True)`",
    ("optimizer", "foreach"): "`torch.optim.AdamW(..., foreach=True)`",
    ("compile", "default"): "`torch.compile(model)`",
    ("compile", "reduce-overhead"): '`torch.compile(model, mode="reduce-overhead")`',
    ("compile", "max-autotune"): '`torch.compile(model, mode="max-autotune")`',
}  # fmt: skip


def setting(base: Case, other: Case) -> str:
    """What a loop sets to go from one case to another; "" where a line a switch is not all."""
    wanted = [(axis.field, axis.of(other)) for axis in apart(base, other, SWITCHES)]
    known = [SETTINGS[each] for each in wanted if each in SETTINGS]
    return listing(known) if known and len(known) == len(wanted) else ""
