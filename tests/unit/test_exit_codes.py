"""An exit code that the C library wrote beside a loop's journal: read, packed, redacted."""

from __future__ import annotations

from pathlib import Path

import pytest

from llmprof.core.state.view import RunView
from llmprof.core.store.files import exit_file, exit_of
from llmprof.core.store.journal import Follower, replay
from llmprof.core.store.pack import open_view, pack
from llmprof.core.store.redact import pack_redacted
from tests.builders.tracked_rows import USUAL, write_loop


def ends(view: RunView) -> list[tuple[str, str]]:
    return [(loop.done.outcome, loop.done.error) for loop in view.loops if loop.done is not None]


@pytest.mark.parametrize(
    ("code", "outcome", "said"),
    [(0, "complete", ""), (7, "failed", "the script exited with code 7")],
)
def test_it_is_how_the_loop_ended(tmp_path: Path, code: int, outcome: str, said: str) -> None:
    run = write_loop(tmp_path, done=False)
    before = replay(run.journal)
    (run.path / exit_file(0, 0)).write_bytes(bytes([code]))
    view = replay(run.journal)
    assert (before.outcome, view.outcome) == (None, outcome)
    assert ends(view) == [(outcome, said)]
    assert view.loops[0].last_t == before.loops[0].last_t
    pack(run, tmp_path / "packed.llmprof")
    pack_redacted(run, tmp_path / "redacted.llmprof")
    for name in ("packed", "redacted"):
        assert ends(open_view(tmp_path / f"{name}.llmprof")) == [(outcome, said)]


def test_a_rank_that_failed_is_told_from_the_others(tmp_path: Path) -> None:
    run = write_loop(tmp_path, ranks=(USUAL, USUAL))
    (run.path / exit_file(1, 0)).write_bytes(b"\x03")
    assert ends(replay(run.journal)) == [
        ("complete", ""),
        ("failed", "the script exited with code 3"),
    ]


def test_a_file_without_a_code_says_nothing_until_it_has_one(tmp_path: Path) -> None:
    run = write_loop(tmp_path, done=False)
    code = run.path / exit_file(0, 0)
    code.write_bytes(b"")
    follower = Follower(run.journal)
    while follower.poll():
        pass
    assert follower.view().outcome is None
    code.write_bytes(b"\x02")
    assert follower.poll()
    assert follower.view().outcome == "failed"
    assert not follower.poll()
    follower.close()


def test_a_run_without_locks_is_over_with_its_code(tmp_path: Path) -> None:
    run = write_loop(tmp_path, done=False)
    assert not run._ended(run.journal)
    (run.path / exit_file(0, 0)).write_bytes(b"\x00")
    assert run._ended(run.journal)


def test_names_of_its_files() -> None:
    assert exit_of(exit_file(3, 0)) == (3, 0)
    assert exit_of(exit_file(3, 12)) == (3, 12)
    assert [exit_of(name) for name in ("exit-", "exit-1.txt", "exit-x", "journal.jsonl")] == (
        [None] * 4
    )
