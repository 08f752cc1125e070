"""The newest run is the one that was started last, whatever its name and the clock say."""

from __future__ import annotations

import os
import time
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from llmprof.core import events as ev
from llmprof.core.store.opening import opened_at
from llmprof.core.store.run import Run, RunStore
from llmprof.core.system.boot import boot_id
from tests.builders.handmade import write

NOON = datetime(2026, 1, 2, 12, 0, 0)
MINUTE_NS = 60 * 10**9
HOUR_NS = 60 * MINUTE_NS


@pytest.fixture
def store(tmp_path: Path) -> RunStore:
    return RunStore(tmp_path / "runs")


def begun(run: Run, wall_ns: int, boot: str = "b", t: int = 1) -> Run:
    write(run.journal, [ev.Segment(t=t, boot_id=boot, wall_ns=wall_ns, pid=1, version="0")])
    return run


def test_a_run_started_in_another_zone_has_its_place_in_time(store: RunStore) -> None:
    noon = int(NOON.timestamp()) * 10**9
    east = begun(store.create("tokyo", NOON + timedelta(hours=8)), noon)
    west = begun(store.create("lisbon", NOON), noon + HOUR_NS)
    assert store.list() == [west, east]
    assert store.find(None) == store.find("last") == west


def test_a_clock_that_was_set_back_changes_no_order(store: RunStore) -> None:
    now, wall = time.monotonic_ns(), time.time_ns()
    before = begun(store.create("a", NOON), wall + HOUR_NS, boot_id(), now - 2 * MINUTE_NS)
    after = begun(store.create("a", NOON), wall, boot_id(), now - MINUTE_NS)
    assert store.list() == [after, before]


def test_a_resumed_run_stays_where_it_began(store: RunStore) -> None:
    first = begun(store.create("a", NOON), HOUR_NS)
    second = begun(store.create("a", NOON), 2 * HOUR_NS)
    with first.journal.open("ab") as file:
        file.write(ev.encode(ev.Segment(boot_id="b", wall_ns=9 * HOUR_NS, pid=1, version="0")))
    assert store.list() == [second, first]


@pytest.mark.parametrize("journal", [None, b"", b"garbage\n", b'{"kind":"Segment","t":1'])
def test_a_run_that_has_not_begun_is_as_old_as_its_folder(
    store: RunStore, journal: bytes | None
) -> None:
    long_ago = store.create("z", NOON)
    os.utime(long_ago.path, (1_000, 1_000))
    begun_since = begun(store.create("a", NOON), 2_000 * 10**9)
    if journal is not None:
        long_ago.journal.write_bytes(journal)
        os.utime(long_ago.path, (1_000, 1_000))
    assert opened_at(long_ago.journal) is None
    assert store.list() == [begun_since, long_ago]
    now = store.create("b", NOON)
    assert store.list() == [now, begun_since, long_ago]


def test_a_run_that_begins_after_it_was_listed_takes_its_place(store: RunStore) -> None:
    first, second = store.create("a", NOON), store.create("a", NOON)
    os.utime(first.path, (1_000, 1_000))
    os.utime(second.path, (2_000, 2_000))
    assert store.list() == [second, first]
    begun(first, 3_000 * 10**9)
    os.utime(second.path, (2_000, 2_000))
    assert store.list() == [first, second]
