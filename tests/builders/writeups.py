"""Write-ups of recorded or handmade runs: a folder as `llmprof run writeup` leaves it."""

from __future__ import annotations

from pathlib import Path

from llmprof.core.catalog.experiments import build_experiment
from llmprof.core.store.journal import replay
from llmprof.core.store.pack import unpack
from llmprof.core.store.run import Run
from llmprof.core.store.writeup import Entry, Manifest, Writeup
from tests.builders.handmade import whole_run

NOT_BEGUN = "memory"


def writeup_of(folder: Path, *runs: Run) -> Writeup:
    """Runs of a folder as its write-up, in which one more experiment has not begun."""
    writeup = Writeup(folder)
    entries = [
        Entry(experiment=experiment, estimate_s=1.0, run=run.id)
        for run in runs
        if (experiment := replay(run.journal).experiment) is not None
    ]
    rest = Entry(experiment=build_experiment(NOT_BEGUN, {}, smoke=True), estimate_s=2.0)
    writeup.save(Manifest(entries=(*entries, rest), left_out=("2.7B",)))
    return writeup


def recorded_writeup(folder: Path, *recordings: Path) -> Writeup:
    """A write-up of packed runs."""
    store, runs = Writeup(folder).store, []
    for recording in recordings:
        runs.append(store.create(recording.stem))
        unpack(recording, runs[-1])
    return writeup_of(folder, *runs)


def small_writeup(folder: Path, runs: int = 2) -> Writeup:
    """A write-up of runs that take no time to read, each with an artifact."""
    store, made = Writeup(folder).store, []
    for at in range(runs):
        made.append(store.create(f"bench {at}"))
        whole_run(made[-1].journal)
        (made[-1].artifacts / "timeline-0.npz").write_bytes(b"strip" * 100)
    return writeup_of(folder, *made)
