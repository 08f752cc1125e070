"""What a write-up had no time for stands in its document, from its folder and from its file."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from llmprof.cli.main import main
from llmprof.cli.writeup import say
from llmprof.core.catalog.experiments import build_experiment
from llmprof.core.document.closing import left_out, limits
from llmprof.core.document.quotes import plain
from llmprof.core.document.sections import document
from llmprof.core.document.sources import sources_of
from llmprof.core.document.tables import Tables, tables_of
from llmprof.core.store.pack import open_view
from llmprof.core.store.packed_writeup import pack_writeup
from llmprof.core.store.writeup import LONGEST, Entry, Manifest, Writeup
from tests.builders.writeups import recorded_writeup

RECORDED = Path(__file__).parents[1] / "fixtures" / "precision-h200.llmprof"
NAMES = ("xl", "2.7B", "attention above 4,096 tokens")
SAID = (
    "For time the write-up left out xl, 2.7B and attention above 4,096 tokens; "
    "`llmprof run writeup` with a higher `--minutes`, or none, measures them too."
)


def writeup(folder: Path, *names: str) -> Writeup:
    """A write-up of a recorded run that left these out."""
    made = recorded_writeup(folder, RECORDED)
    made.save(msgspec.structs.replace(made.load(), left_out=names))
    return made


def tables(*names: str) -> Tables:
    return tables_of(sources_of([(open_view(RECORDED), None)]), left_out=names)


def section(text: str, title: str) -> list[str]:
    """The lines of a section."""
    return text.partition(f"## {title}\n\n")[2].partition("\n## ")[0].splitlines()


@pytest.mark.parametrize("packed", [False, True])
def test_the_document_says_in_its_limits_what_was_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], packed: bool
) -> None:
    given = tmp_path / "wu"
    made = writeup(given, *NAMES)
    if packed:
        given = tmp_path / "wu.llmprof"
        pack_writeup(made, given)
    assert main(["report", str(given)]) == 0
    text = capsys.readouterr().out
    assert section(text, "Limits")[0] == f"- {SAID}"
    assert text.count("For time the write-up left out") == 1
    assert main(["report", str(given), "--questions"]) == 0
    text = capsys.readouterr().out
    assert section(text, "Machine and command")[-1] == f"- {SAID}"
    assert text.count("For time the write-up left out") == 1


def test_two_write_ups_and_runs_beside_them_name_each_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    writeup(tmp_path / "one", "xl", "2.7B")
    writeup(tmp_path / "other", "2.7B", "large")
    given = [str(tmp_path / "one"), str(RECORDED), str(tmp_path / "other")]
    assert main(["report", *given, "--sections=limits"]) == 0
    assert "the write-up left out xl, 2.7B and large;" in capsys.readouterr().out


def test_a_document_says_nothing_where_nothing_was_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    writeup(tmp_path / "wu")
    assert main(["report", str(tmp_path / "wu"), str(RECORDED)]) == 0
    assert SAID.partition(" left out ")[0] not in capsys.readouterr().out
    assert left_out(tables()) == ()


def test_it_takes_the_place_of_no_other_limit() -> None:
    assert limits(tables(*NAMES)) == (*left_out(tables(*NAMES)), *limits(tables()))
    shown = document(tables(*NAMES), ["limits"]).sections[0].items
    assert plain(shown[0]) == SAID


def test_names_of_strangers_are_made_plain(tmp_path: Path) -> None:
    (name,) = writeup(tmp_path / "wu", "\x1b[31m`big`\u202e " + "x" * 5000).load().left_out
    assert name.startswith("[31m`big` xxx")
    assert len(name) == LONGEST
    (line,) = left_out(tables("`big`"))
    assert "left out 'big';" in plain(line)


@pytest.mark.parametrize(("minutes", "warned"), [(None, False), (5.0, False), (0.7, True)])
def test_a_writeup_that_cannot_be_as_short_as_asked_says_so(
    capsys: pytest.CaptureFixture[str], minutes: float | None, warned: bool
) -> None:
    entry = Entry(experiment=build_experiment("end-to-end", {}, smoke=True), estimate_s=180.0)
    say(Manifest(entries=(entry,)), minutes)
    assert ("more than --minutes 0.7" in capsys.readouterr().out) == warned
