"""Causes planted in real loops: each gets its verdict and no other, a loop in good health none."""

from __future__ import annotations

from pathlib import Path

import pytest

from llmprof.core.lint.loops import loop_verdicts
from tests.builders.watched_scripts import told

# Beats come sooner than in a long run, so that a short one has enough of them.
SOON = """
import llmprof.core.track.writer as writer
writer.BEAT_NS, writer.TICK_S = 20_000_000, 0.02
model = net()
optimizer = torch.optim.SGD(model.parameters(), 0.01)
kept = []

class Batches(torch.utils.data.IterableDataset):
    def __init__(self, n, wait_s):
        self.n, self.wait_s, self.one = n, wait_s, torch.randn(64, 320)
    def __iter__(self):
        for _ in range(self.n):
            if self.wait_s:  # a sleep of none lets others have the processor
                time.sleep(self.wait_s)
            yield self.one

def ready(n, wait_s):
    return DataLoader(Batches(n, wait_s), batch_size=None)
"""
LOOP = """
for at, x in enumerate(ready({steps}, {wait_s})):
    {body}
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
print("{{}}")
"""
RECOMPILES = """
    torch._dynamo.config.recompile_limit = 10**6
    torch._dynamo.config.accumulated_recompile_limit = 10**6
    @torch.compile(backend="eager", dynamic=False)
    def scaled(x):
        return 2 * x + 1
"""


# So that a fast machine takes long enough for several beats, too.
WORK = "torch.randn(600, 600) @ torch.randn(600, 600)"


def found(home: Path, body: str = "pass", *, steps: int = 120, wait_s: float = 0.0) -> list[str]:
    before = "" if "scaled" not in body else "\n".join(
        line.removeprefix("    ") for line in RECOMPILES.splitlines()
    )  # fmt: skip
    script = SOON + before + LOOP.format(steps=steps, wait_s=wait_s, body=body)
    return [verdict.rule for verdict in loop_verdicts(told(home, script).view)]


@pytest.mark.parametrize(
    ("cause", "rules"),
    [
        ({"wait_s": 0.0}, []),
        ({"wait_s": 0.03}, ["input-bound"]),
        ({"body": f"kept.append(torch.ones(10 * 2**18)); {WORK}", "steps": 200}, ["memory creep"]),
        (
            {"body": "scaled(torch.randn(3 + at))", "steps": 80},
            ["recompiling"],
        ),
    ],
    ids=["healthy", "slow loader", "leak", "recompiling"],
)
def test_a_planted_cause(tmp_path: Path, cause: dict[str, object], rules: list[str]) -> None:
    assert found(tmp_path, **cause) == rules  # type: ignore[arg-type]
