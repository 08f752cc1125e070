"""Factories that do what they should not."""

from __future__ import annotations

import os
import sys
import threading
import time
from typing import Any

import torch
from torch import nn


def _model() -> nn.Module:
    return nn.Sequential(nn.Embedding(50, 16), nn.Linear(16, 50))


def raises() -> nn.Module:
    raise ValueError("no such width")


def exits() -> nn.Module:
    sys.exit(7)


def ends() -> nn.Module:
    os._exit(9)


def forks() -> nn.Module:
    os.fork()
    return _model()


def threads() -> nn.Module:
    threading.Thread(target=time.sleep, args=(3600,)).start()
    return _model()


def seeds() -> nn.Module:
    torch.manual_seed(123)
    torch.set_default_dtype(torch.float64)
    torch.set_grad_enabled(False)
    return _model()


def nothing() -> None:
    return None


def on_meta() -> nn.Module:
    with torch.device("meta"):
        return _model()


def frozen() -> nn.Module:
    return _model().requires_grad_(False)


def misspelt() -> dict[str, Any]:
    return {"module": _model(), "losss": None}


def prints() -> nn.Module:
    for _ in range(500):
        print("hello " * 2000)  # 6 MB in all
    return _model()


def hangs() -> nn.Module:
    print("hostile:hangs sleeps", flush=True)
    threading.Event().wait()
    return _model()


def moves() -> nn.Module:
    os.chdir("/")
    sys.path.clear()
    return _model()


def touches_a_card() -> nn.Module:
    return _model().to(torch.zeros(1, device="cuda").device)


def batch_on_meta() -> dict[str, Any]:
    return {
        "module": _model(),
        "batch": lambda size, context, device: torch.zeros(size, context, device="meta"),
        "loss": lambda output, given: output.sum(),
    }


def no_ids() -> nn.Module:
    return nn.Linear(16, 50)


def interrupts() -> nn.Module:
    raise KeyboardInterrupt


class _Leaving(nn.Module):
    """A model that ends the process in its forward."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.inner, self.error = _model(), error

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        raise self.error


def exits_in_forward() -> nn.Module:
    return _Leaving(SystemExit("no data"))


def interrupts_in_forward() -> nn.Module:
    return _Leaving(KeyboardInterrupt())


def loss_of_many() -> dict[str, Any]:
    return {"module": _model(), "loss": lambda output, given: output}
