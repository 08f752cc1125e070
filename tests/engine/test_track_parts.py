"""Parts of a step against timers placed by hand in the same process, in all ways to train."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.builders.tracked_scripts import agree, told

PLAIN = """
model = net()
optimizer = torch.optim.AdamW(model.parameters())
with track("plain") as run:
    hand.begin("input")
    for x in run.steps(batches(24, 0.004)):
        hand.at("forward")
        loss = model(x).square().mean()
        hand.at("backward")
        loss.backward()
        hand.at("before")
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        busy(1)
        hand.at("optimizer")
        optimizer.step()
        hand.at("after")
        optimizer.zero_grad()
        run.log(loss=loss, ratio=0.5)
        busy(1)
        hand.end()
        hand.begin("input")
hand.tell(loss=loss.item())
"""
ALL = ("input", "forward", "backward", "before", "optimizer", "after")


def test_a_plain_loop(tmp_path: Path) -> None:
    found = told(tmp_path, PLAIN)
    agree(found, ALL)
    rows = found.loop.rows
    assert rows.index() == list(range(24))
    assert rows.values == ("loss", "ratio")
    assert rows.value("loss")[-1] == pytest.approx(found.said["loss"], rel=1e-5)
    walls = [sum(rows.part_ms(part)[at] for part in rows.parts) for at in range(24)]
    assert walls == pytest.approx(rows.wall_ms(), abs=2e-3)
    assert found.view.outcome == "complete"
    assert found.view.damaged_lines == 0
    assert "llmprof attach plain" in found.errors
    assert found.run.label == "plain"


def test_parts_sum_to_the_wall_time_of_the_whole_loop(tmp_path: Path) -> None:
    found = told(
        tmp_path,
        """
        before = time.monotonic_ns()
        with track("whole") as run:
            start = time.monotonic_ns()
            for epoch in range(3):
                for x in run.steps(batches(5, 0.002)):
                    busy(1)
                    end = time.monotonic_ns()
                after = time.monotonic_ns()
                busy(3)
        hand.tell(least_ms=(end - start) / 1e6, most_ms=(after - before) / 1e6)
        """,
    )
    rows = found.loop.rows
    assert len(rows) == 15
    assert [row for row, _ in rows.epochs] == [0, 5, 10]
    assert found.said["least_ms"] <= sum(rows.wall_ms()) <= found.said["most_ms"]
    assert min(rows.part_ms("between")[5::5]) > 2.9  # evaluation between epochs is no input wait


def test_accumulation_with_amp_in_one_step(tmp_path: Path) -> None:
    found = told(
        tmp_path,
        """
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
        data = list(batches(4))
        def slow(data):
            for x in data:
                time.sleep(0.002)
                yield x
        with track("accumulation") as run:
            for at in range(12):
                with run.step():
                    hand.begin("input")
                    for x in run.steps(slow(data)):
                        hand.at("forward")
                        with torch.autocast("cpu", torch.bfloat16):
                            loss = model(x).float().square().mean()
                        if at == 5:
                            loss = loss * float("inf")
                        scaled = scaler.scale(loss)
                        hand.at("backward")
                        scaled.backward()
                        hand.at("input")
                    hand.at("before")
                    scaler.unscale_(optimizer)
                    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                    hand.at("optimizer")
                    scaler.step(optimizer)
                    hand.at("after")
                    scaler.update()
                    optimizer.zero_grad()
                    hand.end()
        hand.tell()
        """,
    )
    agree(found, ("input", "forward", "backward", "before", "after"))
    assert found.loop.beat is not None
    assert found.loop.beat.updates_skipped == 1
    assert found.loop.rows.part_ms("optimizer")[5] == 0


def test_a_model_compiled_whole_gets_no_break(tmp_path: Path) -> None:
    found = told(
        tmp_path,
        """
        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.net = net()
            def forward(self, x):
                return self.net(x)
        plain = Model()
        model = torch.compile(plain, fullgraph=True, backend="aot_eager")
        optimizer = torch.optim.AdamW(model.parameters())
        for given in (model, plain):
            seen = []
            with track("compiled", model=given) as run:
                hand.rows = []
                for x in run.steps(list(batches(24))):
                    hand.begin("forward")
                    y = model(x)
                    hand.at("loss")
                    loss = y.square().mean()
                    hand.at("backward")
                    loss.backward()
                    hand.at("before")
                    hand.at("optimizer")
                    optimizer.step()
                    hand.at("after")
                    optimizer.zero_grad()
                    hand.end()
            seen.append(run.id)
            if given is model:
                first, rows = run.id, hand.rows
        hand.rows = rows
        explained = torch._dynamo.utils.counters["graph_break"]
        hand.tell(first=first, breaks=sum(explained.values()))
        """,
    )
    assert found.said["breaks"] == 0
    assert found.view.log
    assert "saw no forward" in found.view.log[-1].message  # on the plain one, within the graph
    assert found.loop.rows.part_ms("loss") == [0.0] * 24
    from llmprof.core.store.journal import replay
    from llmprof.core.store.run import RunStore

    found.run = RunStore(tmp_path / "runs").find(found.said["first"])
    found.view = replay(found.run.journal)
    agree(found, ("forward", "loss", "backward", "optimizer", "after"))


def test_a_closure_of_manual_optimization(tmp_path: Path) -> None:
    found = told(
        tmp_path,
        """
        model = net()
        optimizer = torch.optim.AdamW(model.parameters())
        with track("closure") as run:
            for x in run.steps(list(batches(24))):
                hand.begin("other")
                def closure():
                    hand.at("forward")
                    loss = model(x).square().mean()
                    hand.at("backward")
                    loss.backward()
                    hand.at("optimizer")
                    return loss
                optimizer.step(closure=closure)
                hand.at("after")
                optimizer.zero_grad()
                hand.end()
        hand.tell()
        """,
    )
    agree(found, ("forward", "backward", "optimizer", "after"))


def test_lbfgs_calls_its_closure_many_times(tmp_path: Path) -> None:
    found = told(
        tmp_path,
        """
        model = net(96)
        optimizer = torch.optim.LBFGS(model.parameters(), max_iter=4)
        with track("lbfgs") as run:
            for x in run.steps(list(batches(20, width=96))):
                hand.begin("optimizer")
                def closure():
                    hand.at("forward")
                    optimizer.zero_grad()
                    loss = model(x).square().mean()
                    hand.at("backward")
                    loss.backward()
                    hand.at("optimizer")
                    return loss
                optimizer.step(closure)
                hand.end()
        hand.tell()
        """,
    )
    agree(found, ("forward", "backward", "optimizer"))


def test_several_optimizers_and_backwards_in_a_step(tmp_path: Path) -> None:
    found = told(
        tmp_path,
        """
        one, two = net(), net()
        first, second = (torch.optim.AdamW(m.parameters()) for m in (one, two))
        with track("two") as run:
            for x in run.steps(list(batches(20))):
                hand.begin("forward")
                loss = one(x).square().mean()
                hand.at("backward")
                loss.backward()
                hand.at("optimizer")
                first.step()
                hand.at("forward")
                first.zero_grad()
                loss = two(one(x).detach()).square().mean()
                hand.at("backward")
                gradients = torch.autograd.grad(loss, two.parameters())
                hand.at("before")
                for p, g in zip(two.parameters(), gradients):
                    p.grad = g
                busy(2)
                hand.at("optimizer")
                second.step()
                hand.at("after")
                hand.end()
        hand.tell()
        """,
    )
    agree(found, ("forward", "backward", "before", "optimizer"))


def test_phases_of_ones_own_win(tmp_path: Path) -> None:
    found = told(
        tmp_path,
        """
        model = net()
        optimizer = torch.optim.AdamW(model.parameters())
        with track("phases") as run:
            for x in run.steps(list(batches(20))):
                hand.begin("forward")
                loss = model(x).square().mean()
                hand.at("backward")
                loss.backward()
                hand.at("clip")
                with run.phase("clip"):
                    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                    busy(1)
                hand.at("optimizer")
                optimizer.step()
                hand.at("evaluate")
                with run.phase("evaluate"):
                    model(x).square().mean().backward()
                    optimizer.step()
                hand.at("after")
                optimizer.zero_grad()
                hand.end()
            with run.phase("save"):
                busy(5)
            with run.step():
                hand.begin("forward")
                hand.end()
        hand.tell()
        """,
    )
    agree(found, ("forward", "backward", "clip", "optimizer", "evaluate", "after"))
    assert found.loop.rows.part_ms("save")[-1] >= 5
