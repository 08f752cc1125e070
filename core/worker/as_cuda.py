"""Stands in for CUDA while fake CPU tensors are traced: fused attention, autocast's fp32 ops,
and what ops hold only while they run.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from llmprof.core.predict import fused_attention as kernels
from llmprof.core.predict.reductions import sum_scratch
from llmprof.core.worker.storage_tracker import Scratch

# What CUDA's autocast computes in fp32 and the CPU's does not (autocast_mode.h), of the ops that
# language models use.
FP32_OPS: frozenset[Callable[..., Any]] = frozenset(
    (
        torch.softmax, F.softmax, Tensor.softmax,
        torch.log_softmax, F.log_softmax, Tensor.log_softmax,
        torch.exp, Tensor.exp, torch.pow, Tensor.pow, Tensor.__pow__,
        torch.sum, Tensor.sum, torch.rsqrt, Tensor.rsqrt,
        torch.logsumexp, Tensor.logsumexp, torch.norm, Tensor.norm,
        F.layer_norm, torch.layer_norm, F.rms_norm, torch.rms_norm,
    )
)  # fmt: skip

_SOFTMAX_BACKWARD = torch.ops.aten._softmax_backward_data.default
_SUM = torch.ops.aten.sum.dim_IntList


def cuda_scratch(capability: tuple[int, int]) -> Scratch:
    """What CUDA's ops hold beside their results: a product of softmax's backward, parts of sums."""

    def scratch(op: Any, args: tuple[Any, ...], made: int) -> int:
        if op is _SOFTMAX_BACKWARD:
            return made
        return _parts_of_sum(args[0], args[1], capability) if op is _SUM else 0

    return scratch


def _parts_of_sum(x: Tensor, dims: list[int] | None, capability: tuple[int, int]) -> int:
    """Of a sum over a tensor's leading dimensions, as that of a bias's gradient is."""
    summed = sorted(dim % x.ndim for dim in dims or ())
    if not summed or summed != list(range(len(summed))) or len(summed) == x.ndim:
        return 0
    if not x.is_contiguous():
        return 0
    rows = math.prod(x.shape[: len(summed)])
    return sum_scratch(rows, math.prod(x.shape[len(summed) :]), capability)


class CudaHabits(TorchFunctionMode):
    """Calls that behave otherwise on CUDA are redirected to ops with CUDA's tensors."""

    def __init__(self, capability: tuple[int, int]) -> None:
        super().__init__()
        self._capability = capability

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Run func, or what CUDA would run in its place."""
        kwargs = kwargs or {}
        if func is F.scaled_dot_product_attention:
            return self._attention(*args)
        if torch.is_autocast_enabled("cpu"):
            if func is F.cross_entropy:
                return _cross_entropy(*args, **kwargs)
            if func in FP32_OPS and args[0].dtype != torch.float32:
                return func(args[0].float(), *args[1:], **kwargs)
        return func(*args, **kwargs)

    def _attention(self, q: Tensor, k: Tensor, v: Tensor, *_: Any) -> Tensor:
        if torch.is_autocast_enabled("cpu"):
            dtype = torch.get_autocast_dtype("cpu")
            q, k, v = q.to(dtype), k.to(dtype), v.to(dtype)
        kernel = kernels.choose(q.element_size(), q.shape[-1], self._capability)
        out: Tensor = _FusedAttention.apply(q, k, v, kernel)  # type: ignore[no-untyped-call]
        return out


def _cross_entropy(logits: Tensor, target: Tensor, **options: Any) -> Tensor:
    """CUDA's autocast keeps log_softmax in the width of the logits and casts before the loss."""
    known = {name: options[name] for name in ("weight", "ignore_index") if name in options}
    with torch.autocast("cpu", enabled=False):
        logs = torch.log_softmax(logits, -1)
        return F.nll_loss(logs.float(), target, reduction=options["reduction"], **known)


class _FusedAttention(torch.autograd.Function):
    """Allocates what a fused kernel allocates; computes nothing."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, kernel: kernels.Kernel) -> Tensor:
        """Output, saved statistics and scratch of the forward kernel."""
        at = kernels.Heads(q.shape[0], q.shape[1], q.shape[2], q.shape[3], q.element_size())
        out = torch.empty_like(q) if kernel == "cudnn" else _strided_like(q)
        grad = any(ctx.needs_input_grad)
        kept = [_bytes(size) for size in kernels.saved_statistics(kernel, at, grad)]
        _bytes(kernels.forward_scratch(kernel, at))
        ctx.save_for_backward(q, k, v, out, *kept)
        ctx.kernel, ctx.at = kernel, at
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients of Q, K and V and the backward kernel's scratch."""
        q, k, v, *_ = ctx.saved_tensors
        if ctx.kernel == "cudnn":
            made = [torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)]
        else:
            made = [_strided_like(each) for each in (q, k, v)]
        _bytes(kernels.backward_scratch(ctx.kernel, ctx.at))
        return *made, None


def _strided_like(x: Tensor) -> Tensor:
    """In memory (batch, length, heads, dim), as flash and the efficient kernel write."""
    batch, heads, length, dim = x.shape
    return x.new_empty(batch, length, heads, dim).transpose(1, 2)


def _bytes(size: int) -> Tensor:
    return torch.empty(size, dtype=torch.uint8)
