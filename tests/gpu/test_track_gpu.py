"""A tracked loop on a card: no synchronisation, graphs captured inside it, times of both clocks."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.builders.tracked_scripts import Told, agree, told

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


TOGETHER = """
from llmprof.core.track import device_clock
device_clock.ALLOWED_NS = 1  # so that a copy at once is dear wherever this runs
"""


def same(found: Told, names: Sequence[str]) -> None:
    """Every value that is shown is the one of a copy that the script kept, and most are shown."""
    assert found.said["together"]
    for name in names:
        pairs = [
            (ours, theirs)
            for ours, theirs in zip(found.loop.rows.value(name), found.said[name], strict=True)
            if theirs is not None and not math.isnan(ours)
        ]
        assert len(pairs) >= 0.8 * sum(theirs is not None for theirs in found.said[name])
        kept = [theirs for _, theirs in pairs]
        assert [ours for ours, _ in pairs] == pytest.approx(kept, rel=1e-5)  # six digits are kept


def test_values_that_are_fetched_together_are_those_that_were_logged(tmp_path: Path) -> None:
    found = told(
        tmp_path,
        ON_CARD
        + TOGETHER
        + """
model = card_net(256)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
losses, changed = [], []
data = list(card_batches(1, width=256))
model(data[0]).square().mean().backward()
torch.cuda.synchronize()
with track("together") as run:
    torch.cuda.set_sync_debug_mode("error")
    for x in run.steps(data * 300):
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        other = loss.detach() * 2
        losses.append(loss.detach().clone())
        changed.append(other.clone())
        run.log(loss=loss, changed=other)
        other.data.zero_()  # which torch does not count as a change
    torch.cuda.set_sync_debug_mode("default")
    together = run._card.together
    torch.cuda.synchronize()
hand.tell(together=together, loss=[one.item() for one in losses],
          changed=[one.item() for one in changed])
""",
    )
    same(found, ("loss", "changed"))
    assert found.view.log == ()


def test_values_of_a_graph_that_is_replayed_are_those_that_were_logged(tmp_path: Path) -> None:
    found = told(
        tmp_path,
        ON_CARD
        + TOGETHER
        + """
model = card_net(256)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, capturable=True)
x = torch.randn(64, 256, device="cuda")
def train():
    optimizer.zero_grad(set_to_none=True)
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    return loss
losses = []
with track("replayed") as run:
    side = torch.cuda.Stream()
    for at, _ in enumerate(run.steps(range(300))):
        losses.append(None)
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
            losses[-1] = loss.detach().clone()
            run.log(loss=loss)
            if at % 32 == 0:  # or the host is hundreds of steps ahead, whose values are given up
                torch.cuda.synchronize()
    together = run._card.together
    torch.cuda.synchronize()
hand.tell(together=together, loss=[None if one is None else one.item() for one in losses])
""",
    )
    same(found, ("loss",))


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
