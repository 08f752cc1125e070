"""Functions that attend causally, under the names by which attention kernels are compared."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional as F

from llmprof.core.spec.axes import SdpaBackend
from llmprof.core.system.text import clean
from llmprof.core.worker.failures import Unsupported

_SWITCHES: dict[SdpaBackend, Callable[[bool], None]] = {
    "flash": torch.backends.cuda.enable_flash_sdp,
    "efficient": torch.backends.cuda.enable_mem_efficient_sdp,
    "cudnn": torch.backends.cuda.enable_cudnn_sdp,
    "math": torch.backends.cuda.enable_math_sdp,
}

_REFUSALS = ("No available kernel", "No viable backend", "Invalid backend")  # in torch's words


class AttentionFunction(Protocol):
    """Softmax(QKᵀ/√d + causal mask)·V, differentiable: what can be compared with the kernels."""

    def __call__(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attend; all tensors of one shape (batch, ..., length, d) and one dtype."""


def sdpa_with(backend: SdpaBackend, device: torch.device) -> AttentionFunction:
    """scaled_dot_product_attention with one of its kernels and no other, in this process.

    The kernels are switched for good and not around each call, whose time that would add to.
    """
    if device.type != "cuda" and backend in ("efficient", "cudnn"):
        raise Unsupported(f"SDPA's {backend} kernel is for CUDA cards, not for {device.type}")
    for name, switch in _SWITCHES.items():
        switch(name == backend)
    return _sdpa


def refuse_unless_runs(
    attend: AttentionFunction, backend: SdpaBackend, q: Tensor, k: Tensor, v: Tensor
) -> None:
    """Raises Unsupported, with torch's reasons, where SDPA's kernel does not take these inputs."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            attend(q, k, v)
        except RuntimeError as error:
            if not any(words in str(error) for words in _REFUSALS):
                raise
            reasons = dict.fromkeys(_reason(str(each.message)) for each in caught)
            own = [each for each in reasons if each and "user" not in each.lower()]
            said = "; ".join(own) or clean(str(error), 200)
            raise Unsupported(f"SDPA's {backend} kernel does not take this: {said}") from error


def _sdpa(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def _reason(warning: str) -> str:
    """A warning without the place in torch's sources; empty for the headings between them."""
    text = warning.split(" (Triggered", maxsplit=1)[0]
    return "" if "not used because" in text else clean(text, 160)
