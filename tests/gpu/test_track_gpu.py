"""A tracked loop on a card: no synchronisation, graphs captured inside it, times of both clocks."""

from __future__ import annotations

import math
import statistics
from pathlib import Path

import pytest

from tests.builders.tracked_scripts import agree, told

pytestmark = pytest.mark.gpu

ON_CARD = """
def card_net(width=1024):
    return torch.nn.Sequential(
        *[torch.nn.Sequential(torch.nn.Linear(width, width), torch.nn.GELU()) for _ in range(8)]
    ).cuda()

def card_batches(n, wait_s=0.0, width=1024):
    data = torch.randn(2048, width, device="cuda")
    for _ in range(n):
        time.sleep(wait_s)
        yield data
"""


def test_nothing_synchronises(tmp_path: Path) -> None:
    found = told(
        tmp_path,
        ON_CARD
        + """
model = card_net()
optimizer = torch.optim.AdamW(model.parameters())
data = list(card_batches(3))
model(data[0]).square().mean().backward()
optimizer.step()
optimizer.zero_grad()
torch.cuda.synchronize()
losses = []
with track("sync", model=model) as run:
    torch.cuda.set_sync_debug_mode("error")
    for x in run.steps(card_batches(40)):
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        run.log(loss=loss)
        losses.append(loss.detach())
        loss.detach().zero_()  # changed in place after it was logged
    torch.cuda.set_sync_debug_mode("default")
    torch.cuda.synchronize()
    with run.step():
        pass
    with run.step():
        pass
hand.tell()
""",
    )
    rows = found.loop.rows
    assert len(rows) == 42
    assert found.view.log == ()
    known = [value for value in rows.value("loss") if not math.isnan(value)]
    assert len(known) >= 20
    assert min(known) > 0  # as it was when it was logged
    assert found.loop.device is not None
    assert found.loop.beat is not None
    assert {"forward", "backward", "optimizer"} <= set(rows.device_parts)


def test_the_device_clock_tells_what_the_device_did(tmp_path: Path) -> None:
    found = told(
        tmp_path,
        ON_CARD
        + """
model = card_net(2048)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
with track("clock") as run:
    for x in run.steps(card_batches(200, width=2048)):
        events = [torch.cuda.Event(enable_timing=True) for _ in range(4)]
        events[0].record()
        loss = model(x).square().mean()
        events[1].record()
        loss.backward()
        events[2].record()
        optimizer.step()
        events[3].record()
        optimizer.zero_grad()
        torch.cuda.synchronize()
        hand.rows.append({name: a.elapsed_time(b) for name, a, b in zip(
            ("forward", "backward", "optimizer"), events, events[1:])})
hand.tell()
""",
    )
    rows = found.loop.rows
    for part in ("forward", "backward", "optimizer"):
        pairs = [
            (ours, row[part])
            for ours, row in zip(rows.device_ms(part), found.said["rows"], strict=True)
            if not math.isnan(ours)
        ][1:]
        assert len(pairs) >= 2
        apart = statistics.median(abs(a - b) for a, b in pairs)
        assert apart <= max(0.05 * statistics.median(b for _, b in pairs), 0.1), part


def test_a_graph_captured_inside_a_tracked_loop_works(tmp_path: Path) -> None:
    found = told(
        tmp_path,
        ON_CARD
        + """
model = card_net(256)
optimizer = torch.optim.AdamW(model.parameters(), capturable=True)
x = torch.randn(64, 256, device="cuda")
def train():
    optimizer.zero_grad(set_to_none=True)
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    return loss
with track("graph") as run:
    side = torch.cuda.Stream()
    for at, _ in enumerate(run.steps(range(30))):
        if at < 5:
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                train()
            torch.cuda.current_stream().wait_stream(side)
        elif at == 5:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                loss = train()
        else:
            graph.replay()
            run.log(loss=loss)
    torch.cuda.synchronize()
hand.tell(first=loss.item())
""",
    )
    rows = found.loop.rows
    assert rows.index() == list(range(30))
    known = [value for value in rows.value("loss") if not math.isnan(value)]
    assert known
    assert known[-1] < known[0]


def test_host_parts_against_timers_by_hand(tmp_path: Path) -> None:
    found = told(
        tmp_path,
        ON_CARD
        + """
model = card_net()
optimizer = torch.optim.AdamW(model.parameters())
with track("host") as run:
    hand.begin("input")
    for x in run.steps(card_batches(40, 0.003)):
        hand.at("forward")
        loss = model(x).square().mean()
        hand.at("backward")
        loss.backward()
        hand.at("optimizer")
        optimizer.step()
        hand.at("after")
        optimizer.zero_grad()
        hand.end()
        hand.begin("input")
hand.tell()
""",
    )
    agree(found, ("input", "forward", "backward", "optimizer", "after"))
