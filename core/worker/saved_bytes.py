"""Bytes saved for backward, by the module that saved them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from llmprof.core.events import SavedBytes
from llmprof.core.memory.timeline import starred

OUTSIDE = "(outside modules)"


def saved_bytes(model: nn.Module, forward: Callable[[], Any]) -> tuple[SavedBytes, ...]:
    """Run `forward` and count what autograd saves, by the innermost module that was running.

    Storages are counted once, by the first module that saves them; parameters and buffers are
    left out. Modules are in the order in which they first saved something.
    """
    own = {t.untyped_storage()._cdata for t in (*model.parameters(), *model.buffers())}
    kept: list[Tensor] = []  # a storage that went would give its address to another
    seen: set[int] = set()
    found: dict[str, tuple[list[int], set[str]]] = {}
    with _stack(model) as running:

        def pack(tensor: Tensor) -> Tensor:
            storage = tensor.untyped_storage()
            if storage._cdata not in own | seen:
                seen.add(storage._cdata)
                kept.append(tensor.detach())
                counts, modules = found.setdefault(starred(running[-1]), ([0, 0], set()))
                counts[0] += storage.nbytes()
                counts[1] += 1
                modules.add(running[-1])
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            result = forward()
    del result
    return tuple(
        SavedBytes(module=name, bytes=size, tensors=count, modules=len(modules))
        for name, ((size, count), modules) in found.items()
    )


@contextlib.contextmanager
def _stack(model: nn.Module) -> Iterator[list[str]]:
    running = [OUTSIDE]
    with contextlib.ExitStack() as hooks:
        for name, module in model.named_modules():
            for handle in _hooks(module, name or "(model)", running):
                hooks.callback(handle.remove)
        yield running


def _hooks(
    module: nn.Module, name: str, running: list[str]
) -> tuple[torch.utils.hooks.RemovableHandle, ...]:
    def enter(module: nn.Module, args: Any) -> None:
        running.append(name)

    def leave(module: nn.Module, args: Any, output: Any) -> None:
        running.pop()

    return module.register_forward_pre_hook(enter), module.register_forward_hook(leave)
