"""A write-up in one file: read as its folder is, from strangers too, and made at its end."""

from __future__ import annotations

import os
import signal
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from llmprof.cli import demo, resume, screen
from llmprof.cli import writeup as command
from llmprof.cli.main import main
from llmprof.core.state.view import RunView
from llmprof.core.store import packed_writeup as packing
from llmprof.core.store.files import JOURNAL, MANIFEST
from llmprof.core.store.pack import NotOneRun, open_view
from llmprof.core.store.packed_writeup import pack_writeup, writeup_at
from llmprof.core.store.run import Run, RunStore
from llmprof.core.store.writeup import Writeup, WriteupError
from llmprof.core.system.archive import PackError
from llmprof.tui.session.starter import CannotStart, NoStarter
from tests.builders.handmade import experiment
from tests.builders.writeups import recorded_writeup, small_writeup

FIXTURES = Path(__file__).parents[1] / "fixtures"
RECORDED = FIXTURES / "switches-h200.llmprof", FIXTURES / "precision-h200.llmprof"


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary folders are made; whoever uses a packed write-up leaves nothing there."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setenv("LLMPROF_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return folder


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A small write-up's file; its folder is beside it."""
    target = tmp_path / "wu.llmprof"
    pack_writeup(small_writeup(tmp_path / "wu"), target)
    return target


def ids(folder: Path) -> list[str]:
    return [run.id for run in Writeup(folder).runs()]


def failed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(list(arguments)) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    return err


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(list(arguments)) == 0
    return capsys.readouterr().out


def rewritten(source: Path, **members: bytes | None) -> None:
    """Other bytes for members of a file; None takes one away. / is __ in a name, . is _."""
    with zipfile.ZipFile(source) as archive:
        held = {name: archive.read(name) for name in archive.namelist()}
    wanted: dict[str, bytes | None] = {**held, **members}
    with zipfile.ZipFile(source, "w") as archive:
        for name, data in wanted.items():
            if data is not None:
                archive.writestr(name, data)


def test_a_document_from_the_file_is_the_folders(
    tmp_path: Path, temporary: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded_writeup(tmp_path / "wu", *RECORDED)
    assert printed(capsys, "pack", "wu").splitlines() == ["wu.llmprof"]
    for options in ("--questions", "--sections=machine,memory"):
        whole = printed(capsys, "report", "wu", options)
        assert whole.count("## ") > 1
        assert printed(capsys, "report", "wu.llmprof", options) == whole
    assert main(["report", "wu.llmprof", str(RECORDED[0]), "wu", "--sections=machine,memory"]) == 0
    out, err = capsys.readouterr()
    assert out == whole
    first, second = ids(tmp_path / "wu")
    assert err.splitlines() == [
        f"{RECORDED[0]} is the run of {first} in wu.llmprof: it counts once",
        f"wu/{first} is the run of {first} in wu.llmprof: it counts once",
        f"wu/{second} is the run of {second} in wu.llmprof: it counts once",
    ]
    assert list(temporary.iterdir()) == []


def test_what_has_begun_is_in_the_file_and_opens_by_itself(small: Path, tmp_path: Path) -> None:
    first, second = ids(tmp_path / "wu")
    with zipfile.ZipFile(small) as archive:
        assert archive.namelist() == [MANIFEST, f"{first}.llmprof", f"{second}.llmprof"]
        archive.extract(f"{first}.llmprof")
    assert open_view(Path(f"{first}.llmprof")).outcome == "complete"
    with writeup_at(small) as writeup:
        assert writeup is not None
        assert writeup.load() == Writeup(tmp_path / "wu").load()
        assert ids(writeup.folder) == [first, second]
        strip = writeup.folder / second / "artifacts" / "timeline-0.npz"
        assert strip.read_bytes() == b"strip" * 100
    assert not writeup.folder.exists()


def test_a_packed_write_up_is_packed_again(
    small: Path, tmp_path: Path, temporary: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert printed(capsys, "pack", "wu.llmprof", "-o", "again.llmprof") == "again.llmprof\n"
    with writeup_at(tmp_path / "again.llmprof") as writeup:
        assert writeup is not None
        assert ids(writeup.folder) == ids(tmp_path / "wu")
    assert printed(capsys, "pack", "wu", "--redact") == "wu-redacted.llmprof\n"
    os.chdir(tmp_path / "wu")
    assert printed(capsys, "pack", ".", "-o", "../here.llmprof") == "../here.llmprof\n"
    assert "is a folder" in failed(capsys, "pack", ".", "-o", "..")
    assert list(temporary.iterdir()) == []


def test_a_run_that_is_no_run_yet_stays_out(tmp_path: Path) -> None:
    writeup = small_writeup(tmp_path / "wu")
    begun = writeup.begin(2)  # its engine wrote nothing
    pack_writeup(writeup, tmp_path / "wu.llmprof")
    with writeup_at(tmp_path / "wu.llmprof") as found:
        assert found is not None
        assert [bool(entry.run) for entry in found.load().entries] == [True, True, False]
        assert not (found.folder / begun.id).exists()
    with pytest.raises(WriteupError, match="no run of this write-up has begun"):
        pack_writeup(small_writeup(tmp_path / "none", runs=0), tmp_path / "none.llmprof")
    assert not (tmp_path / "none.llmprof").exists()


def what_takes(given: str) -> str:
    each = ", `unzip wu.llmprof` makes a file of each" if given == "wu.llmprof" else ""
    return (
        f"{given} is a write-up of several runs: `llmprof report {given}` writes its document, "
        f"`llmprof screen {given}` shows its runs{each}"
    )


@pytest.mark.parametrize("given", ["wu", "wu.llmprof"])
def test_a_replay_of_a_whole_write_up_is_refused_in_one_line(
    given: str, small: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "require_terminal", lambda: None)
    for words in (["demo", "--recording", given], ["monitor", "--replay", given, "--json"]):
        assert failed(capsys, *words) == f"llmprof: {what_takes(given)}\n"


@pytest.mark.parametrize("given", ["wu", "wu.llmprof"])
def test_commands_for_one_run_say_what_takes_a_write_up(
    given: str, small: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for words in (["show", given], ["compare", given, given], ["baseline", "set", given]):
        assert failed(capsys, *words) == f"llmprof: {what_takes(given)}\n"
    monkeypatch.setattr(resume, "require_torch", lambda: None)
    assert "`llmprof run writeup --into" in failed(capsys, "resume", given)
    with pytest.raises(NotOneRun):
        open_view(Path(given))


def test_its_runs_are_listed(
    small: Path, tmp_path: Path, temporary: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    listed = printed(capsys, "runs", "wu")
    assert all(name in listed for name in ids(tmp_path / "wu"))
    assert printed(capsys, "runs", "wu.llmprof") == listed
    assert "no folder of runs" in failed(capsys, "runs", str(RECORDED[0]))
    assert list(temporary.iterdir()) == []


def test_the_screen_shows_a_copy_into_which_nothing_is_measured(
    small: Path,
    tmp_path: Path,
    temporary: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def look(*, store: RunStore, watch: Run, starter: NoStarter, **_: object) -> int:
        assert sorted(run.id for run in store.list()) == ids(tmp_path / "wu")
        assert open_view(watch.path).outcome == "complete"
        with pytest.raises(CannotStart, match=r"wu\.llmprof is shown from a copy"):
            starter.start(watch, experiment(), ())
        return 143

    monkeypatch.setattr(screen, "open_screen", look)
    assert main(["screen", "wu.llmprof"]) == 143
    assert list(temporary.iterdir()) == []
    monkeypatch.setattr(screen, "open_screen", lambda *, starter, **_: int(starter is not None))
    assert main(["screen", "wu"]) == 0
    small.write_bytes(small.read_bytes()[:-30])
    assert "damaged" in failed(capsys, "screen", "wu.llmprof")


def named(run: str) -> bytes:
    entry = {"experiment": msgspec.to_builtins(experiment()), "run": run}
    return msgspec.json.encode({"entries": [entry]})


@pytest.mark.parametrize(
    ("manifest", "says"),
    [
        (b"{", "holds no write-up"),
        (b"[" * 100_000, "wu.llmprof"),
        (b'{"entries":[]}', "no run of this write-up has begun"),
        (named("gone"), "it has no gone.llmprof"),
        (named("../up"), "cannot be called '../up'"),
        (named(".."), "cannot be called '..'"),
        (named("/root"), "cannot be called"),
        (named(".hidden"), "cannot be called"),
        (named("a\x1b[31m\nb"), "cannot be called"),
        (named("x" * 201), "cannot be called"),
        (b" " * (packing.MAX_MANIFEST_BYTES + 1), "over 16,777,216 bytes"),
    ],
)
def test_a_manifest_is_not_trusted(
    manifest: bytes, says: str, small: Path, temporary: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = around(temporary)
    rewritten(small, **{MANIFEST: manifest})
    assert says in failed(capsys, "report", "wu.llmprof")
    assert around(temporary) == before


def around(temporary: Path) -> set[Path]:
    return set(temporary.parent.rglob("*"))


def test_a_folders_manifest_cannot_name_what_lies_elsewhere(tmp_path: Path) -> None:
    """A run that never began is removed before it is begun again."""
    writeup = small_writeup(tmp_path / "wu")
    (tmp_path / "wu" / MANIFEST).write_bytes(named(".."))
    with pytest.raises(WriteupError, match="cannot be called"):
        writeup.begin(0)
    assert (tmp_path / "wu").is_dir()


def test_what_is_too_much_is_refused(
    small: Path,
    temporary: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with zipfile.ZipFile(small) as archive:
        name = archive.namelist()[1]
    monkeypatch.setattr(packing, "MAX_BYTES", 1_000)
    rewritten(small, **{name: bytes(5_000)})
    assert "over" in failed(capsys, "report", "wu.llmprof")
    monkeypatch.setattr(packing, "MAX_BYTES", 100_000)
    with zipfile.ZipFile(tmp := small.parent / "inner", "w", zipfile.ZIP_DEFLATED) as inner:
        inner.writestr(JOURNAL, bytes(1_000_000))
    rewritten(small, **{name: tmp.read_bytes()})
    assert "over 100,000 bytes" in failed(capsys, "report", "wu.llmprof")
    monkeypatch.setattr("llmprof.core.store.pack.MAX_MEMBERS", 2)
    assert "more than 2 files" in failed(capsys, "report", "wu.llmprof")
    assert list(temporary.iterdir()) == []


def test_a_damaged_run_is_named_by_the_file_that_holds_it(
    small: Path, temporary: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with zipfile.ZipFile(small) as archive:
        name = archive.namelist()[1]
    rewritten(small, **{name: b"PK\x03\x04" + bytes(100)})
    said = failed(capsys, "report", "wu.llmprof")
    assert said.startswith(f"llmprof: wu.llmprof: {name} is damaged")
    assert str(temporary) not in said


def test_a_damaged_file_is_taken_whole_or_refused_in_one_line(small: Path, temporary: Path) -> None:
    whole, refused = small.read_bytes(), 0
    for at in range(0, len(whole), 11):
        small.write_bytes(whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :])
        said = refusal(small)
        refused += bool(said)
        assert "\n" not in said
        assert str(temporary) not in said
        assert list(temporary.iterdir()) == []
    assert refused > 100


def refusal(path: Path) -> str:
    """Why a file is not taken; "" where it is."""
    try:
        with writeup_at(path) as writeup:
            return "" if writeup is None or list(writeup.runs()) else "nothing in it"
    except PackError as error:
        return str(error)


def test_a_file_that_was_cut_is_not_its_last_run(small: Path) -> None:
    """The end of the last run's zip file lies near the end of the whole."""
    whole = small.read_bytes()
    with zipfile.ZipFile(small) as archive:
        last = archive.infolist()[-1].header_offset
    for length in range(last, len(whole), 7):
        small.write_bytes(whole[:length])
        assert "damaged" in refusal(small)
        with pytest.raises(PackError, match="damaged"):
            open_view(small)


def test_a_file_of_a_run_and_a_manifest_is_a_run(small: Path, tmp_path: Path) -> None:
    journal = next((tmp_path / "wu").glob(f"*/{JOURNAL}")).read_bytes()
    rewritten(small, **{JOURNAL: journal})
    assert open_view(small).outcome == "complete"


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Run], None]], None]:
    """Has a function stand for the engine of what is still missing."""

    def stand_in(engine: Callable[[Run], None]) -> None:
        def measure(run: Run, *_: object) -> tuple[RunView, None]:
            engine(run)
            return RunView(outcome="failed"), None

        monkeypatch.setattr(command, "measure_run", measure)
        monkeypatch.setattr(command, "require_torch", lambda: None)

    return stand_in


def kill_self(number: int) -> Callable[[Run], None]:
    return lambda run: os.kill(os.getpid(), number)


@pytest.mark.parametrize(
    ("engine", "code"),
    [
        (lambda run: None, 3),
        (kill_self(signal.SIGTERM), 143),
        (kill_self(signal.SIGHUP), 129),
        (kill_self(signal.SIGINT), 130),
    ],
)
def test_a_write_up_is_packed_however_it_ends(
    engine: Callable[[Run], None],
    code: int,
    tmp_path: Path,
    measured: Callable[[Callable[[Run], None]], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The signals come while no engine is there to take them, as between two runs."""
    small_writeup(tmp_path / "wu")
    measured(engine)
    target = tmp_path / "home.llmprof"
    assert main(["run", "writeup", "--into=wu", f"--pack={target}"]) == code
    said = capsys.readouterr().err.splitlines()
    assert said[-2:] == [
        f"packed {target}",
        "llmprof: not finished; go on with `llmprof run writeup --into wu`",
    ]
    with writeup_at(target) as writeup:
        assert writeup is not None
        assert len(list(writeup.runs())) == 2
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_a_finished_write_up_is_packed_and_documented(
    tmp_path: Path,
    measured: Callable[[Callable[[Run], None]], None],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    writeup = recorded_writeup(tmp_path / "wu", RECORDED[1])
    manifest = writeup.load()
    writeup.save(msgspec.structs.replace(manifest, entries=manifest.entries[:1]))
    measured(lambda run: pytest.fail("nothing is missing"))
    asked = ["run", "writeup", "--into=wu", "--pack=wu/wu.llmprof"]
    assert main(asked) == 0
    assert "the write-up left out 2.7B;" in (tmp_path / "wu" / "report.html").read_text("utf-8")
    assert f"packed {tmp_path / 'wu' / 'wu.llmprof'}" in capsys.readouterr().err
    whole = printed(capsys, "report", "wu/wu.llmprof")
    assert whole == printed(capsys, "report", "wu")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(command, "pack_writeup", full)
    assert main([*asked, "--export=d.md"]) == 1
    assert "No space left on device; `llmprof pack wu` can" in capsys.readouterr().err
    assert (tmp_path / "d.md").is_file()


@pytest.mark.parametrize(("number", "there"), [(signal.SIGTERM, True), (signal.SIGINT, False)])
def test_a_signal_waits_until_the_file_is_there_but_ctrl_c_does_not(
    number: int,
    there: bool,
    tmp_path: Path,
    measured: Callable[[Callable[[Run], None]], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def taken_away(writeup: Writeup, target: Path) -> None:
        os.kill(os.getpid(), number)
        pack_writeup(writeup, target)

    small_writeup(tmp_path / "wu")
    measured(lambda run: None)
    monkeypatch.setattr(command, "pack_writeup", taken_away)
    target = tmp_path / "home.llmprof"
    assert main(["run", "writeup", "--into=wu", f"--pack={target}"]) == 128 + number
    assert target.is_file() == there
    assert not list(tmp_path.glob(".*.part"))


def test_mistakes_about_the_file_are_told_before_anything_runs(
    small: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "there is no folder" in failed(capsys, "run", "writeup", "--pack=nowhere/x.llmprof")
    assert "no effect" in failed(capsys, "run", "writeup", "--dry-run", "--pack=x.llmprof")
    assert "is a file" in failed(capsys, "run", "writeup", "--into=wu.llmprof")
