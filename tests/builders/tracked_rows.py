"""Rows and events of loops that never took place, made by the code that writes real ones."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from llmprof.core import events as ev
from llmprof.core.store.files import loop_file
from llmprof.core.store.journal import JournalWriter
from llmprof.core.store.run import Run, RunStore
from llmprof.core.system.boot import boot_id
from llmprof.core.track.batches import FULL_STEPS, Batches
from llmprof.core.track.parts import Mark
from llmprof.core.track.tracker import Row

MS = 1_000_000
SECOND = 1_000_000_000
USUAL = (("input", 2.0), ("", 5.0), ("backward", 9.0), ("", 0.5), ("optimizer", 3.0), ("", 0.5))


def row(
    index: int, start_ns: int, parts: Sequence[tuple[str, float]] = USUAL, **values: float
) -> Row:
    """A step of parts with their milliseconds, one after the other."""
    marks: list[Mark] = []
    t = start_ns
    for part, ms in parts:
        marks.append((t, part, None))
        t += round(ms * MS)
    made = Row(index, 0, marks, t)
    made.values.update(values)
    return made


def rows(
    count: int,
    start_ns: int = SECOND,
    parts: Sequence[tuple[str, float]] = USUAL,
    first: int = 0,
) -> list[Row]:
    """Steps that follow each other, with a falling loss."""
    out: list[Row] = []
    for index in range(first, first + count):
        start_ns = out[-1].end_ns if out else start_ns
        out.append(row(index, start_ns, parts, loss=4 / (1 + index)))
    return out


def started(run: Run, rank: int = 0, world: int = 1, restart: int = 0) -> ev.LoopStarted:
    """What a rank says first."""
    return ev.LoopStarted(
        t=SECOND, run_id=run.id, label="my-run", rank=rank, world_size=world, restart=restart,
        node="box", pid=1,
    )  # fmt: skip


def write_loop(
    root: Path,
    count: int = 100,
    ranks: Sequence[Sequence[tuple[str, float]]] = (USUAL,),
    *,
    start_ns: int = SECOND,
    done: bool = True,
    full_steps: int = FULL_STEPS,
) -> Run:
    """A run of as many ranks as there are lists of parts."""
    run = RunStore(root).create("my-run")
    run.rename("my-run")
    for rank, parts in enumerate(ranks):
        journal = JournalWriter(run.path / loop_file(rank, 0))
        journal.append(
            ev.Segment(t=start_ns, boot_id=boot_id(), wall_ns=1_764_000_000 * SECOND, pid=1,
                       version="0")
        )  # fmt: skip
        journal.append(started(run, rank, len(ranks)))
        found = rows(count, start_ns, parts)
        batches = Batches(rank, 0, full_steps)
        for at in range(0, count, 10):
            for event in batches.events(found[at : at + 10], last=at + 10 >= count):
                journal.append(event)
        end = found[-1].end_ns
        journal.append(ev.LoopBeat(t=end, rank=rank, part="input", since_ns=end, index=count))
        if done:
            journal.append(ev.LoopDone(t=end, rank=rank, outcome="complete"))
        journal.close()
    return run
