"""What kind of work a kernel does."""

from __future__ import annotations

import re

from llmprof.core.events.kernel_rows import KernelClass
from llmprof.core.kernels.columns import Kind
from llmprof.core.kernels.op_tree import GEMM_OPS

_ATTENTION = re.compile(
    r"flash|fmha|mem_eff|_sdpa|sdpa_|scaled_dot_product|attention_(?:for|back)ward", re.I
)
_GEMM = re.compile(
    r"gemm|gemv|nvjet|cutlass\w*_(?:tensorop|simt|wmma)|xmma|splitk|wgmma|dot_kernel|matmul", re.I
)
_NORM = re.compile(r"(?:layer|rms|group|batch|instance)_?norm|RowwiseMoments|triton_\w*rsqrt", re.I)
_COPY = re.compile(r"(?:\b|_)copy_kernel|direct_copy|CatArray|float(?:8|16)_copy", re.I)
_REDUCE = re.compile(
    r"reduce_kernel|triton_(?:red|per)_|\bcub::\w*Reduce|DeviceReduce|block_reduce", re.I
)
_ELEMENTWISE = re.compile(r"elementwise|pointwise|triton_poi", re.I)
_COPY_OPS = re.compile(
    r"aten::(?:copy_|_?to_copy|clone|contiguous|cat|stack|_foreach_copy_|_reshape_copy)$"
)
_REDUCE_OPS = re.compile(
    r"aten::(?:sum|mean|max|min|amax|amin|prod|norm|logsumexp|argmax|var|std|cumsum"
    r"|nll_loss\w*|cross_entropy\w*)$"
)
_ELEMENTWISE_OPS = re.compile(
    r"aten::(?:add|sub|mul|div|neg|pow|sqrt|rsqrt|exp|log|reciprocal|sigmoid|silu|gelu|relu|tanh"
    r"|where|masked_fill|fill|zero|addcmul|addcdiv|lerp|cos|sin|maximum|minimum|clamp"
    r"|silu_backward|gelu_backward|eq|ne|lt|gt|le|ge|bitwise_\w+|logical_\w+|triu|tril)_?$"
)


def classify(
    kind: Kind, name: str, op: str | None, phase: str | None, place: str | None
) -> KernelClass:
    """The class of an activity, from its own name, its op, its phase and its module.

    The kernel's own name counts before the op's, the op's before the module's. Of CPU ops only
    the leaves that multiply are GEMMs: aten::matmul calls one and is none. The optimizer is
    a class by phase, since its kernels do nothing else. A composite norm (a module called
    ...norm) is a norm although elementwise kernels and reductions do it.
    """
    if kind == Kind.MEMCPY:
        return "copy"
    if kind == Kind.MEMSET:
        return "memset"
    if phase == "optimizer":
        return "optimizer"
    op = op or ""
    product = kind != Kind.OP and _GEMM.search(name) is not None
    named = _by_name(name, op, product=product)
    return named or _by_module(place or "") or _by_form(name, op)


def _by_name(name: str, op: str, *, product: bool) -> KernelClass | None:
    if op in GEMM_OPS:
        return "GEMM"
    for text in (name, op):
        if _ATTENTION.search(text):
            return "attention"
        if "softmax" in text.lower():
            return "softmax"
        if _NORM.search(text):
            return "norm"
    if product:
        return "GEMM"
    return "copy" if _COPY.search(name) or _COPY_OPS.match(op) else None


def _by_module(place: str) -> KernelClass | None:
    return "norm" if place.rsplit(".", 1)[-1].lower().endswith("norm") else None


def _by_form(name: str, op: str) -> KernelClass:
    if _REDUCE.search(name) or _REDUCE_OPS.match(op):
        return "reduction"
    if _ELEMENTWISE.search(name) or _ELEMENTWISE_OPS.match(op):
        return "elementwise"
    return "other"
