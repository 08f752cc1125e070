"""A write-up is a folder of ordinary runs; killed in the middle, it goes on where it was."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import msgspec
import pytest

from llmprof.core.catalog.experiments import build_experiment, writeup_names
from llmprof.core.engine.writeup import left_of, left_s, planned
from llmprof.core.events import CaseStarted, Segment, decode
from llmprof.core.state.view import RunView
from llmprof.core.store.journal import replay
from llmprof.core.store.packed_writeup import writeup_at
from llmprof.core.store.run import Run
from llmprof.core.store.writeup import Entry, Writeup
from tests.builders.planted import GPU
from tests.engine.runs import llmprof, started
from tests.waiting import wait_for

SHORT = ["run", "writeup", "--smoke", "--device=cpu", "--experiments=end-to-end,scaling"]


def views(folder: Path) -> list[RunView]:
    writeup = Writeup(folder)
    return [replay(run.journal) for run in writeup.runs()] if writeup.there else []


def measured_anew(run: Run) -> set[int]:
    """Cases that were started after a run was resumed."""
    events = [decode(line) for line in run.journal.read_bytes().splitlines()]
    segments = [at for at, event in enumerate(events) if isinstance(event, Segment)]
    later = events[segments[1] :] if len(segments) > 1 else []
    return {event.case for event in later if isinstance(event, CaseStarted)}


@pytest.mark.timeout(400)  # three engines load torch, one after another
def test_a_killed_write_up_goes_on_and_writes_its_document(tmp_path: Path) -> None:
    folder = tmp_path / "w"
    with started(tmp_path, *SHORT, f"--into={folder}") as process:
        wait_for(lambda: any(view.cases_done for view in views(folder)), seconds=120)
        os.kill(process.pid, signal.SIGKILL)
        wait_for(lambda: not any(run.alive() for run in Writeup(folder).runs()))
    (first,) = Writeup(folder).runs()
    there = {state.index for state in replay(first.journal).cases if state.status == "ok"}
    carried = tmp_path / "w.llmprof"
    done = llmprof(
        tmp_path, *SHORT, f"--into={folder}", f"--export={tmp_path / 'd.md'}", f"--pack={carried}",
        timeout=200,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert f"packed {carried}" in done.stderr
    assert "in all" in done.stdout
    again, second = Writeup(folder).runs()
    assert again.id == first.id
    assert (left_of(first), left_of(second)) == ((), ())
    assert there
    assert not there & measured_anew(first)
    text = (tmp_path / "d.md").read_text("utf-8")
    assert text.count("## ") > 10
    assert "Not measured: `llmprof run switches`" in text
    html = tmp_path / "again.html"
    told = llmprof(tmp_path, "report", str(folder), f"--export={html}")
    assert told.returncode == 0, told.stderr
    assert "(2 of 2), about " in done.stderr
    assert html.stat().st_size > 10_000
    from_file = llmprof(tmp_path, "report", str(carried))
    assert (from_file.returncode, from_file.stderr) == (0, "")
    assert from_file.stdout == llmprof(tmp_path, "report", str(folder)).stdout


@pytest.mark.timeout(300)  # two engines load torch
def test_a_write_up_whose_machine_is_taken_away_packs_itself(tmp_path: Path) -> None:
    folder, carried = tmp_path / "w", tmp_path / "home" / "w.llmprof"
    carried.parent.mkdir()
    with started(tmp_path, *SHORT, f"--into={folder}", f"--pack={carried}") as process:
        wait_for(lambda: any(view.cases_done for view in views(folder)), seconds=120)
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 143
    assert f"packed {carried}" in said
    assert "go on with `llmprof run writeup --into" in said
    with writeup_at(carried) as found:
        assert found is not None
        (run,) = found.runs()
        assert replay(run.journal).outcome == "stopped"
        assert replay(run.journal).cases_done


def test_sizes_are_taken_from_the_smallest_on_within_the_budget() -> None:
    environment = msgspec.structs.replace(GPU, matmul_tflops=50.0, memory_free_bytes=79 << 30)
    experiments = [build_experiment(name, {}, writeup=True) for name in writeup_names()]
    everything = planned(experiments, environment, None)
    assert everything.left_out == ()
    assert len(everything.entries) == len(experiments) >= 8
    short = planned(experiments, environment, 300.0)
    assert "2.7B" in short.left_out
    spent = sum(entry.estimate_s or 0.0 for entry in short.entries)
    total = sum(entry.estimate_s or 0.0 for entry in everything.entries)
    assert 0 < spent < total
    kept = {model.name for entry in short.entries for model in entry.experiment.models}
    assert "tiny" in kept
    assert not kept & set(short.left_out)


def test_every_run_of_a_write_up_starts_an_engine() -> None:
    environment = msgspec.structs.replace(GPU, matmul_tflops=50.0, memory_free_bytes=79 << 30)
    experiments = [build_experiment(name, {}, writeup=True) for name in writeup_names()]

    def estimates(start_s: float, budget_s: float | None = None) -> list[float]:
        made = planned(experiments, environment, budget_s, start_s)
        return [entry.estimate_s or 0.0 for entry in made.entries]

    for bare, whole in zip(estimates(0.0), estimates(7.0), strict=True):
        assert whole == pytest.approx(bare + 7.0)
    assert sum(estimates(15.0, 900.0)) <= 900.0


def test_what_is_left_follows_the_pace_so_far() -> None:
    entries = [Entry(experiment=build_experiment("kernels", {}), estimate_s=10.0)]
    assert left_s(entries, 0.0, 0.0) == 10.0  # none has ended
    assert left_s(entries, 20.0, 60.0) == pytest.approx(30.0)


def test_attention_alone_is_kept_to_lengths_that_take_a_share() -> None:
    slow = msgspec.structs.replace(GPU, matmul_tflops=0.05, memory_free_bytes=79 << 30)
    attention = [build_experiment("attention", {}, writeup=True)]
    short = planned(attention, slow, 600.0)
    (entry,) = short.entries
    assert len(entry.experiment.context_lengths) < len(attention[0].context_lengths)
    assert short.left_out[0].startswith("attention above ")


def test_mistakes_are_one_line(tmp_path: Path) -> None:
    wrong = llmprof(tmp_path, "run", "writeup", "--experiments=swiches")
    assert wrong.returncode == 2
    assert "did you mean switches" in wrong.stderr or "switches" in wrong.stderr
    (tmp_path / "w").mkdir()
    (tmp_path / "w" / "writeup.json").write_text("{", "utf-8")
    damaged = llmprof(tmp_path, "run", "writeup", f"--into={tmp_path / 'w'}")
    assert damaged.returncode == 2
    assert len(damaged.stderr.splitlines()) == 1
    export = tmp_path / "new" / "d.html"  # into the folder that is made for the write-up
    ahead = llmprof(
        tmp_path, "run", "writeup", "--smoke", "--dry-run", "--experiments=warmup",
        f"--into={tmp_path / 'new'}", f"--export={export}",
    )  # fmt: skip
    assert ahead.returncode == 0, ahead.stderr
    plain = llmprof(tmp_path, "run", "writeup", "--mode", "train")
    assert plain.returncode == 2
