"""A redacted run holds no name of a machine or a person, no folder, serial number or UUID."""

from __future__ import annotations

import gzip
import re
import shutil
import string
import tempfile
import zipfile
from pathlib import Path
from typing import IO

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmprof.cli.main import main
from llmprof.core import events as ev
from llmprof.core.events.kernel_rows import Coverage, KernelRow
from llmprof.core.kernels.timeline_strip import open_strip
from llmprof.core.spec.experiment import Experiment
from llmprof.core.spec.own_model import OwnModel
from llmprof.core.state.view import RunView
from llmprof.core.store.pack import open_view, unpack
from llmprof.core.store.packed_writeup import pack_redacted_writeup, writeup_at
from llmprof.core.store.redact import pack_redacted
from llmprof.core.store.run import Run, RunStore
from llmprof.core.store.writeup import Entry, Manifest, Writeup
from llmprof.core.system.redaction import Redactor
from tests.builders.planted import SHAPE, case

DEMO = Path(__file__).parents[2] / "tui"

# Names that no word of the journal's own contains, and none another, so that finding one means that
# it was left.
name = st.text(string.ascii_lowercase, min_size=6, max_size=6).map(lambda text: f"zq{text}")
folder = st.lists(name, min_size=1, max_size=4).map("/".join)
uuid = st.uuids().map(str).filter(lambda text: not text.startswith("0000"))


class Secrets(msgspec.Struct, frozen=True, kw_only=True):
    host: str
    user: str
    folder: str
    card: str
    boot: str
    serial: str


secrets = st.builds(
    Secrets, host=name, user=name, folder=folder, card=uuid, boot=uuid, serial=st.just("no uuid 17")
)


def written(root: Path, of: Secrets) -> Run:
    """A run in which everything secret stands everywhere that it may."""
    run = RunStore(root).create("shared")
    path = f"/home/{of.user}/{of.folder}/train.py"
    blank = f"/data/{of.folder} with blanks/{of.host}.log"
    own = OwnModel(
        name=f"{of.folder}/theirs", path=path, folder=f"/home/{of.user}/{of.folder}",
        module="train", factory="build", content="c0ffee",
        arguments=(("weights", f"/data/{of.folder}/w.pt"),),
    )  # fmt: skip
    plan = Experiment(name="shared", models=(SHAPE, own))
    process = ev.CardProcess(pid=7, user=of.user, command=f"{path} --token zqsecret")
    card = ev.CardSample(
        index=0,
        uuid=f"GPU-{of.card}",
        processes=(process,),
        mig=(ev.MigInstance(uuid=f"MIG-{of.card.upper()}"),),
    )
    row = KernelRow(
        phase="forward",
        name="gemm",
        full_name="gemm",
        group="GEMM",
        calls=1,
        total_ms=1.0,
        min_ms=1.0,
        max_ms=1.0,
        source=f"{path}:12 in forward",
    )
    table = ev.KernelTable(
        case=0, source="cuda", steps=1, rows=(row,), classes=(), ops=(), modules=(), gemms=(),
        launches=(), notes=(f"stack: ['{blank}', line 3]",),
        coverage=Coverage(activities=1, launches=1, launches_without_kernel=0, to_phase=None,
                          to_op=None, to_module=None, backward_to_module=None, outside_steps=0),
    )  # fmt: skip
    message = (
        f"{of.user}@{of.host}:{path}: cannot open file:{path} or file://{path} or '{blank}', "
        f"~/{of.folder}/x ../{of.folder}/y; see {of.host}.example.org, 4.2 tokens/s on {of.card}"
    )
    events: list[ev.Event] = [
        ev.Segment(boot_id=of.boot, wall_ns=10**18, pid=1, version="0"),
        ev.RunStarted(
            run_id="shared",
            experiment=plan,
            cases=(case(), case(model=own)),
            command=(
                "llmprof",
                f"--export=/mnt/{of.folder} b/r.md",
                f"{of.folder}/zqrelative/r.md",
            ),
        ),
        ev.Environment(
            device="cuda:0",
            device_name="NVIDIA H100",
            device_uuid=f"GPU-{of.card}",
            host=of.host,
            system=f"Linux {of.host} 6.1",
            variables={"CUDA_VISIBLE_DEVICES": f"GPU-{of.card},GPU-{of.card[:13]}"},
        ),
        ev.DeviceSample(host=ev.HostSample(cpu_percent=1.0), cards=(card,)),
        ev.Log(message=message),
        ev.CaseFailed(case=0, failure=ev.Failure(kind="error", message=f"no module in {blank}")),
        table,
    ]
    lines = [
        *map(ev.encode, events),
        b'{"kind":"Later","serial":"%s","node":"%s"}\n' % (of.serial.encode(), of.host.encode()),
    ]
    run.journal.write_bytes(b"".join([*lines, b"torn " + path.encode() + b"\n"]))
    trace = {"traceName": path, "events": [{"name": f"{path}(3): f", "host": of.host}]}
    (run.artifacts / "trace-0.json.gz").write_bytes(gzip.compress(msgspec.json.encode(trace)))
    (run.artifacts / "snapshot-0.pickle").write_bytes(path.encode())
    (run.artifacts / f"trace-1-{of.user}.json.gz").write_bytes(b"")
    return run


def everything(packed: Path | IO[bytes]) -> bytes:
    """All bytes of a packed file: of the zip file itself, and of what it holds, unpacked."""
    found = [packed.read_bytes() if isinstance(packed, Path) else packed.read()]
    with zipfile.ZipFile(packed) as archive:
        for member in archive.namelist():
            data = archive.read(member)
            found += [
                member.encode(),
                data,
                gzip.decompress(data) if member.endswith("gz") else b"",
            ]
            if member.endswith(".llmprof"):
                with archive.open(member) as run:
                    found.append(everything(run))
            if member.endswith(".npz"):
                with archive.open(member) as file, zipfile.ZipFile(file) as inner:
                    found += [inner.read(each) for each in inner.namelist()]
    return b"\n".join(found)


@given(secrets)
@settings(max_examples=60, deadline=None)
def test_nothing_secret_is_left_in_any_byte(of: Secrets) -> None:
    with tempfile.TemporaryDirectory() as root:
        run = written(Path(root), of)
        packed = Path(root) / "shared.llmprof"
        left_out = pack_redacted(run, packed)
        data = everything(packed).lower()
        wanted = [
            of.host,
            of.user,
            of.card,
            of.card[:8],
            of.boot,
            of.serial,
            "zqsecret",
            "zqrelative",
        ]
        wanted += of.folder.split("/")
        found = [each for each in wanted if each.encode() in data]
        assert found == []
        assert len(left_out) == 2
        view = open_view(packed)
        assert (view.events, view.unknown_events) == (7, 1)
        assert view.environment is not None
        assert view.environment.host.startswith("host-")
        assert view.cases[1].case.model[:3] == ("folder-1:theirs", "train.py", "")  # type: ignore[index]
        assert view.environment.device_uuid == view.cards[0].last.uuid  # type: ignore[union-attr]
        assert b"tokens/s" in data
        assert b"train.py:12 in forward" in data


def test_recorded_runs_stay_readable(tmp_path: Path) -> None:
    for recording in ("demo", "demo-kernels", "demo-memory"):
        run = RunStore(tmp_path).create(recording)
        unpack(DEMO / f"{recording}.llmprof", run)
        packed = tmp_path / f"{recording}.llmprof"
        assert pack_redacted(run, packed) == ()
        before, after = open_view(DEMO / f"{recording}.llmprof"), open_view(packed)
        assert after.damaged_lines == before.damaged_lines
        assert [s.status for s in after.cases] == [s.status for s in before.cases]
        assert [s.total for s in after.cases] == [s.total for s in before.cases]
        again = RunStore(tmp_path).create("again")
        unpack(packed, again)
        assert {each.name for each in again.artifacts.iterdir()} == {
            each.name for each in run.artifacts.iterdir()
        }
        for state in after.cases:
            if state.timeline is not None and state.timeline.strip is not None:
                open_strip(again.artifacts, state.timeline.strip)


def test_a_host_called_like_a_word_of_the_journal_damages_nothing(tmp_path: Path) -> None:
    run = written(tmp_path, Secrets(host="forward", user="train", folder="zqa", card="x", boot="y",
                                    serial="no uuid"))  # fmt: skip
    packed = tmp_path / "shared.llmprof"
    pack_redacted(run, packed)
    view = open_view(packed)
    assert (view.events, view.damaged_lines) == (7, 0)
    assert view.environment is not None
    assert view.environment.host.startswith("host-")


def test_things_stay_apart_and_ratios_stay_ratios() -> None:
    redactor = Redactor()
    redactor.learn({"cards": [{"user": "zqann"}, {"user": "zqbob"}, {"user": "zqann"}]})
    said = redactor.data([{"user": "zqann"}, {"user": "zqbob"}, "zqbob waits for zqann"])
    assert said == [{"user": "user-1"}, {"user": "user-2"}, "user-2 waits for user-1"]
    for text in (
        "GPU-bound",
        "12 tokens/s",
        "https://pytorch.org/memory_viz",
        "1/2",
        "a / b",
        "blocks.*.ffn",
    ):
        assert redactor.text(text) == text


def written_writeup(root: Path, *of: Secrets) -> Writeup:
    """A write-up of such runs, of someone's own models and sizes that are left out."""
    entries = []
    for each in of:
        run = written(root, each)
        named = run.path.with_name(f"{run.id}-{each.user}")
        run.path.rename(named)
        plan = open_view(named).experiment
        assert plan is not None
        entries.append(Entry(experiment=plan, run=named.name))
    writeup = Writeup(root)
    writeup.save(Manifest(entries=tuple(entries), left_out=(f"/home/{of[0].user}/x.py:big",)))
    return writeup


def test_a_redacted_write_up_tells_apart_without_names(tmp_path: Path) -> None:
    of = [
        Secrets(
            host=f"zqhost{letter}", user=f"zquser{letter}", folder=f"zqdeep{letter}/zqer{letter}",
            card=f"{number}2345678-1234-1234-1234-123456789abc", boot=f"zqboot{letter}",
            serial=f"no uuid {number}",
        )
        for number, letter in enumerate("ab", 1)
    ]  # fmt: skip
    writeup, target = written_writeup(tmp_path / "wu", *of), tmp_path / "shared.llmprof"
    left_out = pack_redacted_writeup(writeup, target)
    assert len(left_out) == 4
    assert left_out[0].startswith(next(writeup.runs()).id)
    held = everything(target)
    secrets = [value for each in of for value in msgspec.structs.astuple(each)]
    words = [word for value in secrets for word in value.split("/")]
    assert [word for word in words if word.encode() in held] == []
    with writeup_at(target) as found:
        assert found is not None
        manifest = found.load()
        runs = [entry.run for entry in manifest.entries]
        assert all(re.search(r"-user-\d+$", run) for run in runs)
        assert len(set(runs)) == 2
        hosts = [view.environment.host for view in map(opened, found.runs()) if view.environment]
        assert len(set(hosts)) == 2  # as in one file, not host-1 in each
        own = manifest.entries[0].experiment.models[1]
        assert own[0] == "folder-1:theirs"  # type: ignore[index]
        assert own[1:3] == ("train.py", "")  # type: ignore[index]
        assert manifest.left_out == ("x.py:big",)


def opened(run: Run) -> RunView:
    return open_view(run.path)


def test_a_user_called_like_a_word_of_the_manifest_damages_nothing(tmp_path: Path) -> None:
    of = Secrets(host="forward", user="train", folder="zqa", card="x", boot="y", serial="no uuid")
    writeup, target = written_writeup(tmp_path / "wu", of), tmp_path / "shared.llmprof"
    pack_redacted_writeup(writeup, target)
    with writeup_at(target) as found:
        assert found is not None
        assert len(list(found.runs())) == 1


def test_the_command_packs_and_redacts_also_a_packed_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LLMPROF_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    of = Secrets(
        host="zqhost", user="zquser", folder="zqdeep/zqer", card="1", boot="2", serial="no uuid 3"
    )
    run = written(tmp_path / "runs", of)
    assert main(["pack", "last", "-o", "whole.llmprof"]) == 0
    assert b"zqhost" in everything(Path("whole.llmprof"))
    assert main(["pack", "whole.llmprof", "--redact", "-o", "shared.llmprof"]) == 0
    captured = capsys.readouterr()
    assert captured.out.splitlines() == ["whole.llmprof", "shared.llmprof"]
    assert "snapshot-0.pickle is left out: it cannot be redacted" in captured.err
    shared = everything(Path("shared.llmprof"))  # compressed bytes hold any two letters by chance
    for secret in ("zqhost", "zquser", "zqdeep", "zqsecret", "zqrelative"):
        assert secret.encode() not in shared
    assert main(["pack", "--redact"]) == 0
    assert Path(f"{run.id}-redacted.llmprof").is_file()
    assert main(["pack", "-o", "nowhere/x.llmprof"]) == 2
    assert main(["pack", "-o", str(tmp_path)]) == 2
    shutil.rmtree(run.path)
    assert main(["pack"]) == 2


def test_the_name_of_an_own_model_keeps_its_arguments_apart_from_its_folders() -> None:
    redactor = Redactor()

    def told(name: str, **arguments: str) -> str:
        model = [name, "/p/gpt.py", "/p", "gpt", "build", [*arguments.items()], ""]
        return str(redactor.data({"model": model})["model"][0])

    assert told("gpt:build data=/zq secret/w.pt n=3", data="/zq secret/w.pt", n="3") == (
        "gpt:build data=w.pt n=3"
    )
    assert told("zq secret/gpt:build n=3", n="3") == "folder-1:gpt:build n=3"
    assert told("zq n=3/gpt:build") == "folder-2:gpt:build"
