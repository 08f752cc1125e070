"""What each op of a step allocates on a card, for the tests of the closed form.

    python benchmarks/predict_ops.py OUT.json

For small shapes of every kind, one step to the end of its backward under a dispatch mode: the
highest level of requested bytes in every op that allocates, above the level before the step.
Under the mode autograd adds gradients out of place, which the test's tape is told.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from llmprof.core.spec.case import Case
from llmprof.core.spec.shape import ModelShape
from llmprof.core.worker.trainer import Trainer

BACKWARD_ENDS = 3  # the edge at which the backward phase ends

PLAIN = ModelShape(name="plain", d_model=256, d_ff=704, num_layers=2, num_heads=4, vocab_size=1000)
ODD = ModelShape(
    name="odd",
    d_model=320,
    d_ff=832,
    num_layers=2,
    num_heads=4,
    kv_heads=2,
    vocab_size=1000,
    tie_embeddings=True,
    qkv_bias=True,
)
WIDE = ModelShape(name="wide", d_model=640, d_ff=384, num_layers=2, num_heads=2, vocab_size=1000)


def cases() -> Iterator[Case]:
    for model in (PLAIN, ODD):
        for precision in ("fp32", "bf16"):
            for attention in ("naive", "sdpa"):
                for mode in ("forward", "train"):
                    yield _case(model, precision, attention, mode)
    for precision in ("fp32", "bf16"):
        yield _case(WIDE, precision, "sdpa", "train", 100)


def _case(model: ModelShape, precision: str, attention: str, mode: str, context: int = 192) -> Case:
    return msgspec.convert(
        {
            "model": msgspec.to_builtins(model),
            "precision": precision,
            "attention": attention,
            "mode": mode,
            "context_length": context,
            "batch_size": 2,
        },
        Case,
    )


class Levels(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Highest level of each op that allocates."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.base = _requested("current")
        self.levels: list[int] = []
        self._on = True

    def edge(self, index: int) -> None:
        """Stop at the end of backward."""
        self._on = index < BACKWARD_ENDS

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        before = _requested("current")
        torch.cuda.reset_peak_memory_stats()
        out = func(*args, **(kwargs or {}))
        peak = _requested("peak")
        if peak > before and self._on:
            self.levels.append(peak - self.base)
        return out


def _requested(kind: str) -> int:
    stats: dict[str, int] = torch.cuda.memory_stats()
    return stats[f"requested_bytes.all.{kind}"]


def levels_of(case: Case) -> list[int]:
    trainer = Trainer(case, torch.device("cuda:0"))
    for _ in range(2):
        trainer.step(lambda index: None)
    with Levels() as log:
        trainer.step(log.edge)
    levels: list[int] = log.levels
    return levels


def _fields(case: Case) -> dict[str, Any]:
    names = ("model", "precision", "attention", "mode", "context_length", "batch_size")
    everything = msgspec.to_builtins(case)
    return {name: everything[name] for name in names}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("out", type=Path, metavar="OUT.json")
    out: Path = parser.parse_args().out
    rows = [[_fields(case), levels_of(case)] for case in cases()]
    lines = ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows)
    card = torch.cuda.get_device_name()
    out.write_text(f'{{"card": "{card}", "cases": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    main()
