"""Recordings that come back: every format, bad lines, hostile names, pace and end."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import msgspec
import pytest

from llmprof.core import events as ev
from llmprof.core.devices.recorded import read_recording
from llmprof.core.monitor import words
from llmprof.core.monitor.playback import Playback, whole_recording
from llmprof.core.monitor.printed import Printed, as_sample
from llmprof.core.monitor.recordings import PAUSE_NS, Recording, RecordingError
from llmprof.core.state.reducer import Reducer

FIXTURE = Path(__file__).parents[1] / "fixtures" / "monitor-load.jsonl"
S = 1_000_000_000


def as_printed(path: Path) -> Path:
    """The fixture as `llmprof monitor --json --follow` prints it."""
    reducer = Reducer()
    with path.open("w") as file:
        for sample in read_recording(FIXTURE)[:60]:
            reducer.apply(sample)
            file.write(json.dumps(words.as_object(reducer.view(), sample.t + 10**18)) + "\n")
    return path


def simple(t: int, power: float = 100.0, **more: object) -> ev.DeviceSample:
    card = ev.CardSample(index=0, metrics={"power": ev.Metric(power)}, **more)  # type: ignore[arg-type]
    return ev.DeviceSample(t=t, host=ev.HostSample(), cards=(card,))


def written(path: Path, *lines: bytes | ev.Event) -> Path:
    data = (line if isinstance(line, bytes) else ev.encode(line).strip() for line in lines)
    path.write_bytes(b"\n".join(data) + b"\n")
    return path


def test_what_the_monitor_prints_can_be_played(tmp_path: Path) -> None:
    recording = Recording(as_printed(tmp_path / "load.jsonl"))
    played, direct = whole_recording(recording), Reducer()
    for sample in read_recording(FIXTURE)[:60]:
        direct.apply(sample)
    assert words.as_object(played, 0) == words.as_object(direct.view(), 0)
    power = [view.cards[0].series["power"].points()[1] for view in (played, direct.view())]
    assert power[0][-3:] == power[1][-3:]
    assert recording.bad_lines == 0
    assert recording.when.startswith("2001-09-09 01:47")


def test_samples_of_the_sampler_and_of_a_run_can_be_played(tmp_path: Path) -> None:
    plain = Recording(FIXTURE)
    assert plain.when == "at an unknown time"
    assert len(list(plain.samples())) == len(read_recording(FIXTURE))
    anchor = ev.Segment(t=5 * S, boot_id="b", wall_ns=1_700_000_000 * S, pid=1, version="0")
    journal = written(
        tmp_path / "journal.jsonl", anchor, simple(65 * S), ev.RunDone(outcome="complete")
    )
    with zipfile.ZipFile(tmp_path / "x.llmprof", "w") as archive:
        archive.write(journal, "journal.jsonl")
    for path in (journal, tmp_path, tmp_path / "x.llmprof"):
        recording = Recording(path)
        assert recording.when == "2023-11-14 22:14 UTC"
        assert [sample.t for sample in recording.samples()] == [65 * S]
        assert recording.bad_lines == 0


def test_bad_lines_are_counted_and_passed_over(tmp_path: Path) -> None:
    deep = b"[" * 100_000
    absurd = ev.encode(simple(2 * S)).replace(b"100.0", b"1e400")
    path = written(
        tmp_path / "x", b"\xff\x00", simple(S), b"{}", b"null", deep, b'{"kind":"Later","t":1}',
        absurd.strip(), simple(3 * S), b'{"time":"soon","host":{},"cards":[]}', b"x" * (3 << 20),
    )  # fmt: skip
    recording = Recording(path)
    assert [sample.t for sample in recording.samples()] == [S, 3 * S]
    assert recording.bad_lines == 7  # an event of a later version is none of them


@pytest.mark.parametrize("content", [b"", b"\n", b"hello\n", b"PK\x03\x04broken"])
def test_what_is_no_recording_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x"
    path.write_bytes(content)
    with pytest.raises(RecordingError, match=r"holds no sample|is damaged"):
        Recording(path)
    with pytest.raises(OSError, match="No such file"):
        Recording(tmp_path / "nowhere")
    with zipfile.ZipFile(tmp_path / "no.zip", "w"):
        pass
    with pytest.raises(RecordingError, match="is no packed run"):
        Recording(tmp_path / "no.zip")


def test_names_of_a_recording_are_cleaned_and_unknown_metrics_left_out(tmp_path: Path) -> None:
    hostile = "\x1b]0;x\x07[bold]a\nb\u202e"
    card = ev.CardSample(
        index=0, name=hostile, uuid=hostile, throttle=(hostile,),
        metrics={hostile: ev.Metric(1.0), "fan": ev.Metric(None, hostile)},
        processes=(ev.CardProcess(pid=1, user=hostile, command=hostile),),
        mig=(ev.MigInstance(name=hostile),),
    )  # fmt: skip
    sample = ev.DeviceSample(t=1, host=ev.HostSample(), cards=(card,) * 300, cards_reason=hostile)
    got = next(Recording(written(tmp_path / "x", sample)).samples())
    text = str(got)
    assert len(got.cards) == 256
    assert "\\x1b" not in text
    assert "\\u202e" not in text
    assert "\\n" not in text
    assert got.cards[0].name == "]0;x[bold]a b"
    assert set(got.cards[0].metrics) == {"fan"}


def test_times_only_go_on(tmp_path: Path) -> None:
    path = written(tmp_path / "x", *(simple(t * S) for t in (10, 11, 5, 6, 5000, 5001)))
    seconds = [sample.t / S for sample in Recording(path).samples()]
    pause = PAUSE_NS / S
    assert seconds == [10, 11, 11, 12, 12 + pause, 13 + pause]


def test_a_playback_keeps_its_pace_and_stands_at_the_end(tmp_path: Path) -> None:
    now = 100.0
    path = written(tmp_path / "x", b"bad", *(simple(t * S, 10.0 * t) for t in range(5, 15)))
    playback = Playback(Recording(path), 2.0, lambda: now)
    assert playback.poll()
    assert playback.view().last_t == 5 * S
    assert not playback.poll()
    now = 102.0
    assert playback.poll()
    assert playback.view().last_t == 9 * S
    assert playback.recording == "recording, 0:04, 2 ×, 1 unreadable line"
    now = 500.0
    assert playback.poll()
    assert not playback.poll()
    assert playback.view().cards[0].series["power"].last == 140
    assert playback.recording.startswith("recording ended, 0:09")
    playback.close()


def test_a_card_that_was_not_yours_is_none_when_it_is_replayed() -> None:
    card = ev.CardSample(index=0, state="lost", denied=True)
    reducer = Reducer()
    reducer.apply(ev.DeviceSample(t=1, host=ev.HostSample(), cards=(card,)))
    printed = json.dumps(words.as_object(reducer.view(), 10**18))
    assert '"state": "denied"' in printed
    again = as_sample(msgspec.json.decode(printed, type=Printed))
    assert again.cards[0].denied
    assert words.state(again.cards[0]) == "NOT YOURS"
