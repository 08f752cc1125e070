"""Whole files: links, modes and other names survive, and so does the old content."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from llmprof.core import events as ev
from llmprof.core.report.formats import check_writable, export
from llmprof.core.state.view import RunView
from llmprof.core.store.calibrations import save_ceilings
from llmprof.core.store.pack import pack
from llmprof.core.store.run import Run, RunStore
from llmprof.core.system import atomic
from llmprof.core.system.atomic import whole_file, write_file
from llmprof.tui.session.choices import Choices
from llmprof.tui.session.remembered import remember
from tests.builders import planted
from tests.builders.handmade import whole_run

WRITERS: dict[str, Callable[[Path], object]] = {
    "export": lambda path: export(RunView(), path),
    "calibration": lambda path: save_ceilings(planted.CPU, ev.Ceilings(), path),
    "choices": lambda path: remember(Choices(), path),
    "pack": lambda path: pack(_packed(path.parent), path),
    "any": lambda path: write_file(path, "new"),
}


def _packed(folder: Path) -> Run:
    run = RunStore(folder / "runs").create("a")
    whole_run(run.journal)
    return run


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("name", WRITERS)
def test_a_link_stays_and_its_target_changes(tmp_path: Path, name: str) -> None:
    target, link = tmp_path / "deep" / "real.md", tmp_path / "link.md"
    target.parent.mkdir()
    target.write_text("old")
    target.chmod(0o640)
    link.symlink_to("deep/real.md")
    WRITERS[name](link)
    assert link.is_symlink()
    assert target.read_bytes() != b"old"
    assert mode(target) == 0o640
    assert [path.name for path in target.parent.iterdir()] == ["real.md"]


@pytest.mark.parametrize("name", WRITERS)
def test_other_names_of_a_file_see_what_is_written(tmp_path: Path, name: str) -> None:
    target, other = tmp_path / "deep" / "real.md", tmp_path / "other.md"
    target.parent.mkdir()
    target.write_text("old" * 10_000)
    target.chmod(0o600)
    os.link(target, other)
    WRITERS[name](target)
    assert target.samefile(other)
    assert b"oldold" not in other.read_bytes()
    assert mode(other) == 0o600
    assert {path.name for path in target.parent.iterdir()} - {"runs"} == {"real.md"}


def test_a_link_to_what_is_not_there_yet_is_followed(tmp_path: Path) -> None:
    link = tmp_path / "link.md"
    link.symlink_to("real.md")
    check_writable(link)
    export(RunView(), link)
    assert link.is_symlink()
    assert (tmp_path / "real.md").is_file()


def test_links_that_lead_nowhere_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(OSError, match="Too many levels"):
        write_file(tmp_path / "a", "x")
    assert (tmp_path / "a").is_symlink()


@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002])
def test_a_new_file_has_the_mode_that_the_mask_gives_and_the_mask_is_left_alone(
    tmp_path: Path, mask: int
) -> None:
    code = (
        "import os, sys, pathlib\n"
        "from llmprof.core.system.atomic import write_file\n"
        "masks = []\n"
        "os.umask(int(sys.argv[2]))\n"
        "os.umask = masks.append\n"
        "write_file(pathlib.Path(sys.argv[1]), 'x')\n"
        "assert not masks\n"
    )
    target = tmp_path / "new"
    subprocess.run([sys.executable, "-c", code, str(target), str(mask)], check=True)
    assert mode(target) == 0o666 & ~mask


def test_a_longest_name_can_be_written(tmp_path: Path) -> None:
    target = tmp_path / ("ü" * 126 + ".md")
    write_file(target, "x")
    assert list(tmp_path.iterdir()) == [target]


def test_a_device_and_a_pipe_are_written_to(tmp_path: Path) -> None:
    null = tmp_path / "null.md"
    null.symlink_to("/dev/null")
    check_writable(null)
    export(RunView(), null)
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)
    pipe = tmp_path / "pipe.md"
    os.mkfifo(pipe)
    got: list[str] = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_text()))
    reader.start()
    write_file(pipe, "through")
    reader.join(10)
    assert got == ["through"]


def small_disk(monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    """Writing over a file fails half way, so many times."""
    pour = atomic._pour
    left = [times]

    def failing(source: Path, file: object) -> None:
        if left[0]:
            left[0] -= 1
            file.write(b"half")  # type: ignore[attr-defined]
            file.flush()  # type: ignore[attr-defined]
            raise OSError(28, os.strerror(28))
        pour(source, file)  # type: ignore[arg-type]

    monkeypatch.setattr(atomic, "_pour", failing)


def test_a_full_disk_loses_nothing_of_a_file_with_other_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "a"
    target.write_text("what it held")
    os.link(target, tmp_path / "b")
    small_disk(monkeypatch, 1)
    with pytest.raises(OSError, match="No space left"):
        write_file(target, "new")
    assert target.read_text() == "what it held"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


def test_what_cannot_be_put_back_is_kept_beside_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "a"
    target.write_text("what it held")
    os.link(target, tmp_path / "b")
    small_disk(monkeypatch, 2)
    with pytest.raises(OSError, match="what it held is in ") as caught:
        write_file(target, "new")
    kept = Path(str(caught.value.strerror).rpartition(" is in ")[2])
    assert kept.read_text() == "what it held"


def test_a_failure_while_a_draft_is_written_changes_nothing(tmp_path: Path) -> None:
    for name in ("plain", "linked"):
        (tmp_path / name).write_text("old")
    os.link(tmp_path / "linked", tmp_path / "again")

    def fail(path: Path) -> None:
        with whole_file(path) as draft:
            draft.write_text("half")
            raise KeyboardInterrupt

    for name in ("plain", "linked", "new"):
        with pytest.raises(KeyboardInterrupt):
            fail(tmp_path / name)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["again", "linked", "plain"]
    assert {path.read_text() for path in tmp_path.iterdir()} == {"old"}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_the_owner_survives(tmp_path: Path) -> None:
    target = tmp_path / "a"
    target.write_text("old")
    os.chown(target, 12345, 54321)
    write_file(target, "new")
    assert (target.stat().st_uid, target.stat().st_gid) == (12345, 54321)


WRITE_IN_PLACE = {
    "engine/client.py": "a log",
    "engine/workers.py": "a log",
    "kernels/column_files.py": "a draft",
    "store/lock.py": "the lock",
    "store/pack.py": "a member, into a new folder",
    "store/packed_writeup.py": "members of a draft",
    "store/redact.py": "a draft",
    "system/atomic.py": "",
    "track/identity.py": "a draft",
    "track/writer.py": "the lock of a file that only grows",
    "worker/allocation_recorders.py": "a draft",
    "worker/kernel_trace.py": "a draft",
    "worker/main.py": "/proc",
    "worker/memory_edges.py": "/proc",
    "worker/trace.py": "a pipe",
}


def test_whole_files_have_one_writer() -> None:
    core = Path(atomic.__file__).parents[1]
    opening = re.compile(r"""write_text\(|write_bytes\(|mkstemp|["'][wax]b?\+?["']""")
    writing = {
        str(path.relative_to(core))
        for path in core.rglob("*.py")
        if opening.search(path.read_text("utf-8"))
    }
    assert writing <= WRITE_IN_PLACE.keys()
