"""What a step computes: a module, its batch, and how its output becomes a loss."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import Optimizer
from torch.utils import _pytree as pytree

from llmprof.core.spec.case import Case
from llmprof.core.worker.model import build_model

Call = Callable[..., Any]


@dataclass(frozen=True)
class Task:
    """A module and all that a step needs beside the case.

    run(call, batch) is the forward, of the module or of what was compiled from it; its output
    goes to loss(output, batch). With loss_inside the forward has computed the loss already and
    `loss` takes it out. optimizer makes one from the parameters; None: the case's. form says how
    the module is called; "" for the reference model.
    """

    module: nn.Module
    batch: Any
    run: Callable[[Call, Any], Any]
    loss: Callable[[Any, Any], Tensor]
    loss_inside: bool = False
    optimizer: Callable[[Iterable[nn.Parameter]], Optimizer] | None = None
    form: str = ""
    unit: Literal["tokens", "samples"] = "tokens"

    @property
    def tensors(self) -> Iterator[tuple[str, Tensor]]:
        """The batch's tensors with their names."""
        leaves, _ = pytree.tree_flatten_with_path(self.batch)
        for path, leaf in leaves:
            if isinstance(leaf, Tensor):
                yield f"batch{pytree.keystr(path)}", leaf

    def micro_batches(self, size: int, count: int) -> tuple[Any, ...]:
        """The batch of `size` samples in `count` equal parts: tensors are cut along samples."""
        if count == 1:
            return (self.batch,)
        leaves, form = pytree.tree_flatten(self.batch)
        parts = [
            torch.tensor_split(leaf, count)
            if isinstance(leaf, Tensor) and leaf.ndim and leaf.shape[0] == size
            else (leaf,) * count
            for leaf in leaves
        ]
        return tuple(pytree.tree_unflatten(each, form) for each in zip(*parts, strict=True))


@dataclass(frozen=True)
class TokenBatch:
    """Token ids and the ids that follow them, both of shape (batch, context)."""

    tokens: Tensor
    targets: Tensor


pytree.register_dataclass(TokenBatch, field_names=["tokens", "targets"])


def random_tokens(case: Case, vocab_size: int, device: torch.device) -> TokenBatch:
    """Random ids from the case's seed, made on the CPU: every device gets the same."""
    generator = torch.Generator().manual_seed(case.seed)
    size = (case.batch_size, case.context_length + 1)
    sample = torch.randint(vocab_size, size, generator=generator).to(device)
    return TokenBatch(sample[:, :-1].contiguous(), sample[:, 1:].contiguous())


def language_model_loss(logits: Tensor, batch: TokenBatch) -> Tensor:
    """Cross-entropy of logits of shape (batch, context, vocabulary) against the targets."""
    return F.cross_entropy(logits.flatten(0, 1), batch.targets.flatten())


def on_tokens(call: Call, batch: TokenBatch) -> Any:
    """The forward of a language model: ids in."""
    return call(batch.tokens)


def reference_task(case: Case, device: torch.device) -> Task:
    """The reference model of the case's shape on random tokens."""
    shape = case.reference
    module = build_model(
        shape, case.attention, case.context_length, device, case.blocks_a_checkpoint
    )
    batch = random_tokens(case, shape.vocab_size, device)
    return Task(module, batch, on_tokens, language_model_loss)
