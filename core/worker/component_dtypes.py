"""Data types in a running step by component, seen by hooks in a step that is not timed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from llmprof.core import events as ev
from llmprof.core.worker.model import NaiveAttention, RMSNorm, TransformerLM
from llmprof.core.worker.trainer import Trainer

IN_KERNEL = "inside the fused kernel"
TERMS = 1_000
TERM = 0.01


class _Statistics(TorchFunctionMode):
    """Notes the dtype of a norm's statistics, which no module returns."""

    def __init__(self, note: Callable[[str, Any], None]) -> None:
        super().__init__()
        self._note = note

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the call."""
        out = func(*args, **(kwargs or {}))
        if func is torch.rsqrt:
            self._note("norm statistics", out)
        return out


@contextlib.contextmanager
def watched(trainer: Trainer) -> Iterator[dict[str, str]]:
    """Note the dtypes of the steps within: those of the first module of each kind.

    Of the reference model alone; nothing of another. It must not be compiled: hooks break its
    graph.
    """
    found: dict[str, str] = {}
    if not isinstance(trainer.model, TransformerLM):
        yield found
        return

    def note(component: str, value: Any) -> None:
        if isinstance(value, Tensor):
            found.setdefault(component, name_of(value.dtype))

    with contextlib.ExitStack() as stack:
        for module, component in _first_of_each(trainer.model):
            hook = module.register_forward_hook(_noting(note, component))
            stack.callback(hook.remove)
        for core in (m for m in trainer.model.modules() if isinstance(m, NaiveAttention)):
            _note_stages(core, note, stack)
            break
        else:
            found |= {"attention scores": IN_KERNEL, "softmax": IN_KERNEL}
        stack.enter_context(_Statistics(note))
        yield found


def held(trainer: Trainer) -> dict[str, str]:
    """Dtypes of what is held between steps: parameters and optimizer state."""
    found = {"parameters": name_of(next(trainer.model.parameters()).dtype)}
    if trainer.optimizer is not None:
        states = trainer.optimizer.state.values()
        moments = (s["exp_avg"] for s in states if isinstance(s.get("exp_avg"), Tensor))
        first = next(moments, None)
        if first is not None:
            found["optimizer state"] = name_of(first.dtype)
    return found


def sums_in(dtype: torch.dtype, device: torch.device) -> tuple[ev.SumSeen, ...]:
    """TERMS times TERM added one by one: with terms and sum in fp32, in a dtype, and mixed."""
    wide = torch.float32
    pairs = dict.fromkeys(((wide, wide), (dtype, dtype), (dtype, wide)))
    return tuple(_sum(terms, total, device) for terms, total in pairs)


def _sum(terms: torch.dtype, total: torch.dtype, device: torch.device) -> ev.SumSeen:
    term = torch.tensor(TERM, dtype=terms, device=device)
    found = torch.zeros((), dtype=total, device=device)
    for _ in range(TERMS):
        found += term
    return ev.SumSeen(
        terms=name_of(terms), total=name_of(total), count=TERMS, term=TERM, result=found.item()
    )


def name_of(dtype: torch.dtype) -> str:
    """Short name of a dtype: float32, bfloat16."""
    return str(dtype).removeprefix("torch.")


def _first_of_each(model: TransformerLM) -> Iterator[tuple[nn.Module, str]]:
    yield model.embedding, "embedding"
    for kind, component in ((nn.Linear, "linear output"), (RMSNorm, "norm output")):
        yield next(m for m in model.blocks.modules() if isinstance(m, kind)), component
    yield model.blocks[0], "residual stream"


def _noting(note: Callable[[str, Any], None], component: str) -> Callable[..., None]:
    def hook(module: nn.Module, args: Any, output: Any) -> None:
        note(component, output)

    return hook


def _note_stages(
    core: NaiveAttention, note: Callable[[str, Any], None], stack: contextlib.ExitStack
) -> None:
    for stage, component in (("scores", "attention scores"), ("softmax", "softmax")):
        plain = getattr(core, stage)

        def noted(
            *args: Any, plain: Callable[..., Tensor] = plain, component: str = component
        ) -> Tensor:
            out = plain(*args)
            note(component, out)
            return out

        setattr(core, stage, noted)
        stack.callback(delattr, core, stage)
