"""`llmprof watch` on a card: what it costs a small GPT, no synchronisation, planted causes."""

from __future__ import annotations

import statistics
from pathlib import Path

import pytest

from llmprof.core.lint.loops import loop_verdicts
from llmprof.core.store.journal import replay
from tests.builders import watched_scripts
from tests.builders.tracked_scripts import newest
from tests.builders.watched_scripts import told

pytestmark = pytest.mark.gpu

GPT = """
WIDTH, CONTEXT, BATCH = 768, 512, 8

class GPT(torch.nn.Module):
    def __init__(self, layers=6):
        super().__init__()
        self.embed = torch.nn.Embedding(5000, WIDTH)
        layer = torch.nn.TransformerEncoderLayer(
            WIDTH, 12, 4 * WIDTH, dropout=0.0, batch_first=True)
        self.layers = torch.nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = torch.nn.Linear(WIDTH, 5000)
        self.register_buffer("mask", torch.nn.Transformer.generate_square_subsequent_mask(CONTEXT))
    def forward(self, x):
        return self.head(self.layers(self.embed(x), mask=self.mask, is_causal=True))

class Tokens(torch.utils.data.IterableDataset):
    def __init__(self, n, wait_s=0.0):
        self.n, self.wait_s = n, wait_s
        self.one = torch.randint(5000, (BATCH, CONTEXT + 1), device="cuda")
    def __iter__(self):
        for _ in range(self.n):
            time.sleep(self.wait_s)
            yield self.one

def tokens(n, wait_s=0.0):
    return DataLoader(Tokens(n, wait_s), batch_size=None)

def step(model, optimizer, x):
    with torch.autocast("cuda", torch.bfloat16):
        y = model(x[:, :-1])
        loss = torch.nn.functional.cross_entropy(y.flatten(0, 1), x[:, 1:].flatten())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss.detach()

model = GPT().cuda()
optimizer = torch.optim.AdamW(model.parameters(), fused=True)
"""


def test_cost_on_a_small_gpt(tmp_path: Path) -> None:
    """Blocks of steps off, on, off again in one process, the difference within the budget."""
    found = told(
        tmp_path,
        GPT
        + """
from llmprof.core.track import watching
tracker = watching.watch(watching.Setting()).tracker
blocks = []
source = iter(tokens(10**9))
for _ in range(10):
    step(model, optimizer, next(source))
for block in range(181):
    tracker.working = block % 2 == 1
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(3):
        step(model, optimizer, next(source))
    torch.cuda.synchronize()
    blocks.append((time.perf_counter() - start) / 3 * 1e6)
tracker.working = True
print(json.dumps({"rows": [], "blocks": blocks}))
""",
    )
    blocks = found.said["blocks"]
    off, on, again = blocks[0:-1:2], blocks[1::2], blocks[2::2]
    cost = [b - (a + c) / 2 for a, b, c in zip(off, on, again, strict=True)]
    alike = [c - a for a, c in zip(off, again, strict=True)]
    median = statistics.median(off)
    spread = statistics.stdev(alike) / len(alike) ** 0.5
    print(f"step {median:.0f} µs, cost {statistics.median(cost):+.0f} µs, ± {2 * spread:.0f} µs")
    assert statistics.median(cost) <= max(0.005 * median, 100.0) + 2 * spread
    assert found.loop.beat is not None
    assert found.loop.beat.own_us <= 100.0


def test_nothing_synchronises(tmp_path: Path) -> None:
    found = told(
        tmp_path,
        GPT
        + """
for at, x in enumerate(tokens(60)):
    if at == 10:
        torch.cuda.set_sync_debug_mode("error")
    step(model, optimizer, x)
torch.cuda.set_sync_debug_mode("default")
torch.cuda.synchronize()
print("{}")
""",
    )
    rows = found.loop.rows
    assert rows.index() == list(range(60))
    assert {"input", "forward", "backward", "optimizer"} <= set(rows.device_parts)


CAUSES = {
    "healthy": ("for x in tokens(400):\n    step(model, optimizer, x)", []),
    "slow loader": ("for x in tokens(200, 0.1):\n    step(model, optimizer, x)", ["input-bound"]),
    "item": (  # of steps that the card takes longer for than the host to launch
        "BATCH = 64\nfor x in tokens(200):\n    loss = step(model, optimizer, x)\n    loss.item()",
        ["host-blocked"],
    ),
    "launches": (
        "BATCH, CONTEXT = 1, 16\n"
        "model = GPT(24).cuda()\n"
        "optimizer = torch.optim.AdamW(model.parameters(), foreach=False)\n"
        "for x in tokens(400):\n    step(model, optimizer, x)",
        ["launch-bound"],
    ),
    "leak": (
        "kept = []\nfor x in tokens(300):\n    step(model, optimizer, x)\n"
        "    kept.append(torch.ones(10 * 2**18, device='cuda'))",
        ["memory creep"],
    ),
}


@pytest.mark.parametrize("cause", CAUSES)
def test_planted_causes(tmp_path: Path, cause: str) -> None:
    body, rules = CAUSES[cause]
    soon = "import llmprof.core.track.writer as w\nw.BEAT_NS, w.TICK_S = 50_000_000, 0.05\n"
    done = watched_scripts.run(tmp_path, GPT + soon + body, sampled=True)
    assert done.returncode == 0, done.stderr
    view = replay(newest(tmp_path).journal)
    found = loop_verdicts(view)
    print(*(f"{each.rule}: {each.finding}" for each in found), sep="\n")
    assert [each.rule for each in found] == rules


def test_out_of_memory_names_the_part_and_the_last_readings(tmp_path: Path) -> None:
    body = """
for at, x in enumerate(tokens(50)):
    if at == 30:
        hog = torch.empty(10**15, device="cuda")
    step(model, optimizer, x)
    time.sleep(0.1)
"""
    done = watched_scripts.run(tmp_path, GPT + body)
    assert done.returncode == 1
    (verdict, *_) = loop_verdicts(replay(newest(tmp_path).journal))
    assert verdict.rule == "out of memory"
    assert "allocated" in verdict.finding
