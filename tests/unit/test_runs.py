from __future__ import annotations

import json
import multiprocessing
import zipfile
from datetime import datetime
from pathlib import Path

import pytest

from llmprof.core import events as ev
from llmprof.core.store import pack as packing
from llmprof.core.store.files import JOURNAL
from llmprof.core.store.listing import summaries
from llmprof.core.store.pack import adopt, open_view, pack, unpack
from llmprof.core.store.run import Run, RunNotFound, RunStore
from llmprof.core.system.archive import PackError
from tests.builders.handmade import experiment, whole_run, write

NOON = datetime(2026, 1, 2, 12, 0, 0)


@pytest.fixture
def store(tmp_path: Path) -> RunStore:
    return RunStore(tmp_path / "runs")


def test_runs_made_in_the_same_second_have_names_of_their_own(store: RunStore) -> None:
    made = [store.create("end-to-end", NOON).id for _ in range(3)]
    assert made == [
        "20260102-120000-end-to-end",
        "20260102-120000-end-to-end-2",
        "20260102-120000-end-to-end-3",
    ]


def test_a_name_with_slashes_stays_in_the_folder(store: RunStore) -> None:
    run = store.create("../../etc/passwd", NOON)
    assert run.path.parent == store.root


def test_a_run_is_found_by_id_label_and_beginning(store: RunStore) -> None:
    first = store.create("alpha", NOON)
    second = store.create("beta", NOON)
    second.rename("my nice run")
    assert store.find(first.id) == first
    assert store.find("my nice run") == second
    assert store.find("20260102-120000-a") == first
    with pytest.raises(RunNotFound, match="could be"):
        store.find("20260102")
    with pytest.raises(RunNotFound, match="no run is called"):
        store.find("gamma")


def test_labels_are_cleaned(store: RunStore) -> None:
    run = store.create("alpha", NOON)
    run.rename("a\x1b[31m\nb\u202e" + "x" * 500)
    assert run.label.startswith("a[31m b")
    assert len(run.label) <= 200
    run.rename("")
    assert run.label == run.id


def test_an_unreadable_label_is_no_reason_to_fail(store: RunStore) -> None:
    run = store.create("alpha", NOON)
    (run.path / "label").write_bytes(b"\xff\xfe\x00")
    assert run.label


def _hold(path: Path, ready: multiprocessing.synchronize.Event) -> None:
    with Run(path).lock():
        ready.set()
        multiprocessing.Event().wait(60)


def test_a_held_run_is_alive_and_cannot_be_deleted_or_held_twice(store: RunStore) -> None:
    run = store.create("alpha", NOON)
    context = multiprocessing.get_context("spawn")
    ready = context.Event()
    holder = context.Process(target=_hold, args=(run.path, ready))
    holder.start()
    try:
        assert ready.wait(30)
        assert run.engine_pid() == holder.pid
        with pytest.raises(RuntimeError, match="still running"):
            run.delete()
        with pytest.raises(BlockingIOError), run.lock():
            pass
    finally:
        holder.kill()
        holder.join()
    assert not run.alive()
    run.delete()
    assert store.list() == []


def test_nothing_to_stop(store: RunStore) -> None:
    assert store.create("alpha", NOON).stop() is False


def test_a_list_survives_runs_that_cannot_be_read(store: RunStore) -> None:
    whole_run(store.create("good", NOON).journal)
    store.create("empty", NOON)
    store.create("garbage", NOON).journal.write_bytes(b"\xff\x00garbage\n")
    store.create("folder", NOON).journal.mkdir()
    (store.root / "stray-file").write_text("x")
    statuses = {summary.id.split("-", 2)[2]: summary.status for summary in summaries(store)}
    assert statuses == {
        "good": "complete",
        "empty": "empty",
        "garbage": "empty",
        "folder": "empty",
    }
    assert json.dumps([summary.as_json() for summary in summaries(store)])


@pytest.mark.parametrize("name", ["a\x1b[31mb", "a\x1b]0;owned\x07", "a\u202eb", "a\nb", "a\x9bb"])
def test_a_folder_whose_name_would_act_on_a_terminal_is_no_run(store: RunStore, name: str) -> None:
    good = store.create("good", NOON)
    whole_run(good.journal)
    good.path.with_name(name).mkdir()
    (good.path.with_name(name) / "artifacts").mkdir()
    assert [run.id for run in store.list()] == [good.id]
    with pytest.raises(RunNotFound):
        store.find(name)


def test_a_packed_run_opens_elsewhere(store: RunStore, tmp_path: Path) -> None:
    run = store.create("alpha", NOON)
    whole_run(run.journal)
    (run.artifacts / "trace.json").write_text("{}")
    target = tmp_path / "a.llmprof"
    pack(run, target)
    assert zipfile.ZipFile(target).namelist() == [JOURNAL, "artifacts/trace.json"]
    assert open_view(target).outcome == "complete"
    assert open_view(run.path).outcome == "complete"
    assert open_view(run.journal).outcome == "complete"


def test_a_journal_that_unpacks_to_too_much_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packing, "MAX_JOURNAL_BYTES", 1 << 20)
    target = tmp_path / "bomb.llmprof"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(JOURNAL, b"\0" * (4 << 20))
    with pytest.raises(PackError, match="over"):
        open_view(target)


def test_a_zip_without_a_journal_is_no_run(tmp_path: Path) -> None:
    target = tmp_path / "other.zip"
    with zipfile.ZipFile(target, "w") as archive:
        archive.writestr("../../evil", b"x")
    with pytest.raises(PackError, match="no packed run"):
        open_view(target)
    assert [path.name for path in tmp_path.iterdir()] == ["other.zip"]


def packed_run(store: RunStore, tmp_path: Path, **members: bytes) -> Path:
    run = store.create("bench")
    whole_run(run.journal)
    (run.artifacts / "timeline-0.npz").write_bytes(b"strip")
    target = tmp_path / "carried.llmprof"
    pack(run, target)
    with zipfile.ZipFile(target, "a") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return target


def test_a_packed_run_is_unpacked_with_its_artifacts(store: RunStore, tmp_path: Path) -> None:
    nasty = {
        "artifacts/../out": b"no",
        "artifacts/deep/er": b"no",
        "artifacts/..": b"no",
        "/artifacts/root": b"no",
        "label": b"no",
    }
    carried, run = packed_run(store, tmp_path, **nasty), store.create("other")
    before = {path for path in tmp_path.rglob("*") if run.path not in path.parents}
    unpack(carried, run)
    assert open_view(run.path).experiment == open_view(carried).experiment
    assert [path.name for path in run.artifacts.iterdir()] == ["timeline-0.npz"]
    assert (run.artifacts / "timeline-0.npz").read_bytes() == b"strip"
    assert not (run.path / "label").exists()
    assert {path for path in tmp_path.rglob("*") if run.path not in path.parents} == before
    bare = store.create("third")
    unpack(carried, bare, journal=False)
    assert not bare.journal.exists()
    assert (bare.artifacts / "timeline-0.npz").exists()


def test_artifacts_that_unpack_to_too_much_are_refused(
    store: RunStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    big = {"artifacts/a": bytes(3_000), "artifacts/b": bytes(3_000)}
    carried, run = packed_run(store, tmp_path, **big), store.create("other")
    monkeypatch.setattr(packing, "MAX_ARTIFACT_BYTES", 5_005)  # with the 5 of the timeline
    with pytest.raises(PackError, match="artifacts/b is over 2,000 bytes"):
        unpack(carried, run)
    whole = carried.read_bytes()
    carried.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(PackError, match="damaged"):
        unpack(carried, run)


def taken_in(path: Path, store: RunStore) -> str:
    """Why a packed run is not taken in; "" where it was."""
    try:
        run = adopt(path, store)
    except PackError as error:
        return str(error)
    return "" if open_view(run.path).events else "nothing in it"


def test_a_damaged_pack_is_taken_whole_or_refused_in_one_line(
    store: RunStore, tmp_path: Path
) -> None:
    carried = packed_run(store, tmp_path, **{"artifacts/points": bytes(range(256)) * 8})
    whole = carried.read_bytes()
    refused = 0
    for at in range(0, len(whole), 5):
        carried.write_bytes(whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :])
        here = RunStore(tmp_path / f"here-{at}")
        said = taken_in(carried, here)
        refused += bool(said)
        assert "\n" not in said
        assert len(list(here.root.glob("*"))) == (not said), said
    assert refused > 100


def test_a_packed_run_from_elsewhere_has_a_name_that_fits(store: RunStore, tmp_path: Path) -> None:
    run = store.create("bench")
    plan = experiment()
    started = ev.RunStarted(
        t=2, run_id="../" + "x" * 300, experiment=plan, cases=plan.cases(), command=()
    )
    write(run.journal, [started])
    pack(run, tmp_path / "a.llmprof")
    taken = adopt(tmp_path / "a.llmprof", RunStore(tmp_path / "here"))
    assert taken.id == "x" * 100
    assert RunStore(tmp_path / "here").list() == [taken]


def test_what_is_being_taken_in_is_no_run_yet(store: RunStore) -> None:
    (store.root / ".x.partial" / "artifacts").mkdir(parents=True)
    assert store.list() == []
