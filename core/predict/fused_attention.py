"""What torch's fused attention kernels allocate: outputs, saved statistics, backward scratch.

Which kernel scaled_dot_product_attention takes follows torch 2.11's order of preference
(aten/src/ATen/native/transformers/cuda/sdp_utils.cpp): cuDNN on compute capability 9.0 and 10.0,
flash from 8.0, the memory-efficient kernel otherwise; the first two take 16-bit inputs only.
Scratch sizes follow the kernels' own workspace formulas.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kernel = Literal["cudnn", "flash", "efficient"]

FLASH_HEAD_DIM = 256
CUDNN_HEAD_DIM = {(9, 0): 256, (10, 0): 128}  # where cuDNN comes first, and up to which size
EFFICIENT_REGISTERS = 128  # head size above which its output is accumulated in memory
CUDNN_WORKSPACE = 256  # bytes beside the accumulators, in forward and backward
SEED_BYTES = 16  # philox seed and offset, kept on the card by cuDNN and flash
_FP32 = 4


def _up(value: int, step: int) -> int:
    return -(-value // step) * step


@dataclass(frozen=True, slots=True)
class Heads:
    """Sizes of one attention call after K and V were repeated: B x H x L x D, bytes an element."""

    batch: int
    heads: int
    length: int
    dim: int
    item: int

    @property
    def elements(self) -> int:
        """Elements of Q, and of K, V and the output."""
        return self.batch * self.heads * self.length * self.dim

    @property
    def rows(self) -> int:
        """Rows of the score matrices."""
        return self.batch * self.heads * self.length


def choose(item: int, dim: int, capability: tuple[int, int]) -> Kernel:
    """The kernel that torch picks for causal attention without a mask."""
    if item == 2 and dim % 8 == 0:
        if dim <= CUDNN_HEAD_DIM.get(capability, 0):
            return "cudnn"
        if capability >= (8, 0) and dim <= FLASH_HEAD_DIM:
            return "flash"
    return "efficient"


def saved_statistics(kernel: Kernel, at: Heads, grad: bool) -> tuple[int, ...]:
    """Bytes of the tensors that the forward returns beside its output."""
    if kernel == "efficient":
        lse = at.batch * at.heads * _up(at.length, 32) * _FP32
        return (lse,) if grad else ()
    lse = at.rows * _FP32
    if kernel == "cudnn":
        return (*((lse,) if grad else ()), SEED_BYTES)
    return (lse, SEED_BYTES)


def forward_scratch(kernel: Kernel, at: Heads) -> int:
    """Bytes that the forward holds only while it runs."""
    if kernel == "cudnn":
        return CUDNN_WORKSPACE
    if kernel == "efficient" and at.item == 2 and at.dim > EFFICIENT_REGISTERS:
        return at.elements * _FP32  # the output is accumulated in fp32
    return 0


def backward_scratch(kernel: Kernel, at: Heads) -> int:
    """Bytes that the backward holds while it runs, beside the gradients of Q, K and V."""
    if kernel == "cudnn":
        return (at.elements + at.rows) * _FP32 + CUDNN_WORKSPACE
    if kernel == "flash":
        return _flash_backward(at)
    return max(_efficient_delta(at), _efficient_workspace(at) + at.rows * _FP32)


def _flash_backward(at: Heads) -> int:
    """Row sums and dQ in fp32, length and head size rounded up (flash_api.cpp, mha_bwd)."""
    rows = at.batch * at.heads * _up(at.length, 128)
    return rows * (1 + (_up(at.dim, 32) if at.dim <= 192 else 256)) * _FP32


def _efficient_delta(at: Heads) -> int:
    """rowsum(dO·O), made by elementwise ops before the kernel starts when it is fp32."""
    return (at.elements + 2 * at.rows) * _FP32 if at.item == _FP32 else 0


def _efficient_workspace(at: Heads) -> int:
    """Workspace of the memory-efficient backward (kernel_backward.h, workspace_size)."""
    small = at.dim <= 64
    block_i, block_j = (64, 64) if small else (128, 64)
    columns = 1 if small else -(-at.dim // 64)
    floats = -(-at.length // block_i) * columns * (block_i * 64 + 4)  # dQ tiles and their locks
    if at.item == 2 and at.dim > EFFICIENT_REGISTERS:
        splits = min(-(-at.length // block_j), 200 // (at.batch * at.heads))
        floats += 2 * max(1, splits) * block_j * _up(at.dim, block_i)  # dK and dV in fp32
    return at.batch * at.heads * _up(floats, 4) * _FP32
