"""A training loop of one's own, watched: run it, then `llmprof` in another terminal.

python examples/own_loop.py [--steps 2000] [--device cuda]
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import torch
from torch import Tensor, nn

import llmprof

VOCABULARY, CONTEXT, BATCH, WIDTH = 256, 64, 16, 128


class Model(nn.Module):
    """A small language model."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits, (batch, context, vocabulary), of tokens, (batch, context)."""
        mask = nn.Transformer.generate_square_subsequent_mask(tokens.shape[1], tokens.device)
        logits: Tensor = self.head(self.layers(self.embed(tokens), mask=mask, is_causal=True))
        return logits


class Batches:
    """Stands for a loader: a known number of batches of random tokens."""

    def __init__(self, count: int, device: str) -> None:
        self.count, self.device = count, device

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[Tensor]:
        for _ in range(self.count):
            yield torch.randint(VOCABULARY, (BATCH, CONTEXT + 1)).to(self.device)


def main() -> None:
    """Train for a while."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()
    epochs = max(1, args.steps // 200)
    model = Model().to(args.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loader = Batches(args.steps // epochs, args.device)

    with llmprof.track("own-loop", model=model, total_steps=epochs * len(loader)) as run:
        for _ in range(epochs):
            for tokens in run.steps(loader):
                logits = model(tokens[:, :-1])
                loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
                loss.backward()
                with run.phase("clip"):
                    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
                run.log(loss=loss)
            with run.phase("evaluate"), torch.no_grad():
                model(next(iter(loader))[:, :-1])


if __name__ == "__main__":
    main()
