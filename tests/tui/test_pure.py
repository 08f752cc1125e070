from __future__ import annotations

import math
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmprof.cli.main import Parser
from llmprof.cli.options import add_case_options, experiment_from
from llmprof.core.catalog.models import load_models
from llmprof.core.figures.case_device import run_card
from llmprof.core.state.reducer import Reducer
from llmprof.core.stats.summary import summarize
from llmprof.core.store.run import RunStore
from llmprof.tui.bench.progress import progress
from llmprof.tui.kit import format as fmt
from llmprof.tui.kit.canvas import changed_span, heading, row_length
from llmprof.tui.kit.look import ASCII, UNICODE, choose_look
from llmprof.tui.session.choices import (
    NUMBERS,
    Choices,
    check,
    command,
    command_line,
    parse_numbers,
)
from llmprof.tui.session.curves import CaseCurves, RunningMean, outliers
from llmprof.tui.session.remembered import recall, remember
from tests.tui import journals

MODELS = load_models()


# Numbers


def test_intervals_show_two_digits_of_the_uncertainty() -> None:
    assert fmt.mean_interval(156.2134, 0.834) == "156.21 ± 0.83"
    assert fmt.mean_interval(156.2134, 6.7) == "156.2 ± 6.7"
    assert fmt.mean_interval(156.2134, None) == "156.2"
    assert fmt.mean_interval(None, None) == "–"
    assert fmt.mean_interval(2.0, 0.0) == "2.000 ± 0.000"


@pytest.mark.parametrize("bad", [math.nan, math.inf, None])
def test_unknown_numbers_are_dashes(bad: float | None) -> None:
    assert {fmt.number(bad), fmt.memory(bad), fmt.milliseconds(bad), fmt.clock(bad)} == {"–"}
    assert fmt.percent(None) == "–"
    assert fmt.count(None) == "–"


def test_numbers_read_well() -> None:
    assert fmt.memory(5 * 2**30) == "5.00 GiB"
    assert fmt.memory(3 * 2**20) == "3 MiB"
    assert fmt.count(128_625_408) == "129 M"
    assert fmt.count(22_696_448) == "22.7 M"
    assert [fmt.clock(s) for s in (7.6, 125, 3725)] == ["8 s", "2:05", "1:02:05"]


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=30), st.integers(1, 12))
def test_sparkline_never_fails_and_fits(values: list[float], width: int) -> None:
    line = fmt.sparkline(values, width, UNICODE.spark)
    assert len(line) <= width
    assert set(line) <= {*UNICODE.spark, " "}
    known = [math.isfinite(value) for value in values[-width:]]
    assert [char != " " for char in line] == (known if any(known) else [])


def test_sparkline_spans_more_than_the_largest_number() -> None:
    first, last = UNICODE.spark[0], UNICODE.spark[-1]
    assert fmt.sparkline([-9.9e291, 1.79e308], 8, UNICODE.spark) == first + last
    assert fmt.sparkline([-1.79e308, 1.79e308], 8, UNICODE.spark) == first + last


def test_sparkline_shows_a_rise() -> None:
    assert fmt.sparkline([1, 2, 3, 4, 5, 6, 7, 8], 8, UNICODE.spark) == UNICODE.spark


def test_steady_values_make_a_flat_sparkline() -> None:
    assert len(set(fmt.sparkline([100.0, 100.1, 99.9], 8, UNICODE.spark))) == 1


# Look


def test_ascii_text_is_ascii() -> None:
    assert ASCII.text("5 ± 1 · µs – naïve 模型").isascii()
    assert ASCII.text("5 ± 1") == "5 +- 1"
    assert UNICODE.text("5 ± 1") == "5 ± 1"


@pytest.mark.parametrize(
    ("variables", "plain"),
    [
        ({"LANG": "C.UTF-8"}, False),
        ({"LANG": "en_US.utf8"}, False),
        ({"LANG": "C"}, True),
        ({}, True),
        ({"LANG": "C.UTF-8", "LC_ALL": "POSIX"}, True),
        ({"LANG": "de_DE.ISO-8859-1@euro"}, True),
    ],
)
def test_locale_decides_between_unicode_and_ascii(
    variables: dict[str, str], plain: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("LC_ALL", "LC_CTYPE", "LANG"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert choose_look().ascii is plain
    assert choose_look(ascii_only=not plain).ascii is not plain


# Rows


def test_changed_span_is_as_narrow_as_the_change() -> None:
    old = [("abc", "text"), ("def", "muted")]
    assert changed_span(old, [("abXdef", "text")], 10) == (2, 6)
    assert changed_span(old, [("abc", "text"), ("deX", "muted")], 10) == (5, 6)
    assert changed_span(old, [*old, ("!", "text")], 10) == (6, 7)
    assert changed_span([("模型", "text")], [("模x", "text")], 10) == (0, 4)


@pytest.mark.parametrize("width", [1, 5, 12, 40, 120])
def test_headings_fit(width: int) -> None:
    row = heading(UNICODE, width, "Steps", "ms", [("r", "key")])
    assert row_length(row) <= max(width, len("Steps ms"))


# Choices


def checked_experiment(choices: Choices):  # type: ignore[no-untyped-def]
    checked = check(choices, MODELS)
    assert checked.experiment is not None, checked.errors
    return checked.experiment


@pytest.mark.parametrize(
    "choices",
    [
        Choices(),
        Choices(models=("tiny", "xl"), modes=("forward", "train"), precisions=("bf16", "tf32"),
                attentions=("naive", "sdpa"), optimizers=("loop",), context="128, 256",
                batch="1,2", warmup="0,5", steps="3"),
    ],
)  # fmt: skip
def test_the_command_asks_for_the_same_experiment(choices: Choices) -> None:
    experiment = checked_experiment(choices)
    parser = Parser()
    add_case_options(parser)
    words = command(experiment)
    assert words[:2] == ("llmprof", "run")
    assert experiment_from(parser.parse_args(list(words[2:]))) == experiment
    assert command_line(experiment).startswith("llmprof run --model-size")


@pytest.mark.parametrize(
    ("text", "problem"),
    [("", "missing"), (",", "missing"), ("1.5", "whole"), ("-1", "whole"), ("x", "whole"),
     ("0", "between"), ("99999999999999999999", "between"), ("\x1b[31m", "whole"), ("٣", "whole")],
)  # fmt: skip
def test_bad_numbers_are_said_in_one_line(text: str, problem: str) -> None:
    checked = check(Choices(context=text), MODELS)
    assert checked.experiment is None
    assert problem in checked.message
    assert checked.message.isprintable()
    assert list(checked.errors) == ["context"]


def test_number_lists() -> None:
    assert parse_numbers("128, 256,128,", "Context", 1, True) == (128, 256)
    with pytest.raises(ValueError, match="one number"):
        parse_numbers("1,2", "Steps", 1, False)


def test_nothing_ticked_and_too_many_cases() -> None:
    assert "tick" in check(Choices(models=()), MODELS).message
    many = ",".join(str(n) for n in range(1, 12))
    wide = Choices(models=tuple(MODELS), context=many, batch=many, warmup=many)
    assert "too many" in check(wide, MODELS).message


def test_choices_are_remembered(tmp_path: Path) -> None:
    path = tmp_path / "state" / "screen.json"
    chosen = Choices(models=("tiny", "medium"), steps="7")
    remember(chosen, path)
    assert recall(MODELS, path) == chosen
    assert [p.name for p in path.parent.iterdir()] == ["screen.json"]


@pytest.mark.parametrize("data", [b"", b"[]", b"{", b'{"models": 3}', b'{"modes": ["no"]}'])
def test_unreadable_choices_are_the_defaults(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "screen.json"
    path.write_bytes(data)
    assert recall(MODELS, path) == Choices()
    assert recall(MODELS, tmp_path / "missing") == Choices()


def test_remembered_names_are_cleaned_and_known(tmp_path: Path) -> None:
    path = tmp_path / "screen.json"
    path.write_bytes(msgspec.json.encode(Choices(models=("gone", "tiny"), batch="4\x1b[2J")))
    found = recall(MODELS, path)
    assert found.models == ("tiny",)
    assert found.batch == "4[2J"


def test_every_number_field_exists() -> None:
    assert {name for name, *_ in NUMBERS} <= set(Choices.__struct_fields__)


# Curves


@given(st.lists(st.floats(0.01, 1e5), min_size=2, max_size=60))
def test_running_mean_agrees_with_the_summary(values: list[float]) -> None:
    running = RunningMean()
    for value in values:
        running.extend([value])
    together = RunningMean()
    together.extend(values[:7])
    together.extend([])
    together.extend(values[7:])
    assert together.mean == pytest.approx(running.mean)
    assert together.std == pytest.approx(running.std, rel=1e-6, abs=1e-6 * running.mean)
    summary = summarize(values)
    assert running.mean == pytest.approx(summary.mean)
    assert running.std == pytest.approx(summary.std, rel=1e-6, abs=1e-6 * summary.mean)
    assert running.ci95 == pytest.approx(summary.ci95, rel=1e-6, abs=1e-6 * summary.mean)


def views_of(tmp_path: Path, steps: int = 40) -> Reducer:
    plan = journals.experiment(("small",), steps)
    run = RunStore(tmp_path).create("bench")
    writer = journals.Writer(run)
    writer.begin(plan)
    writer.case(0, plan.cases()[0], 100.0)
    writer.journal.close()
    reducer = Reducer()
    from llmprof.core import events as ev

    for row in run.journal.read_bytes().splitlines():
        reducer.apply(ev.decode(row))
    return reducer


def test_curves_taken_in_parts_equal_curves_taken_at_once(tmp_path: Path) -> None:
    whole = views_of(tmp_path).view().cases[0]
    at_once = CaseCurves(whole)
    at_once.update(whole)
    in_parts = CaseCurves(whole)
    run = next((tmp_path).glob("*/journal.jsonl"))
    from llmprof.core import events as ev

    reducer = Reducer()
    for row in run.read_bytes().splitlines():
        reducer.apply(ev.decode(row))
        view = reducer.view()
        if view.cases and view.cases[0].status == "running":
            in_parts.update(view.cases[0])
    assert in_parts.total.n == at_once.total.n == 40
    assert in_parts.phases["forward"].points() == at_once.phases["forward"].points()
    assert in_parts.warmup_end == at_once.warmup_end
    assert in_parts.scale_top() == at_once.scale_top()


def test_the_interval_narrows(tmp_path: Path) -> None:
    case = views_of(tmp_path, 200).view().cases[0]
    curves = CaseCurves(case)
    curves.update(case)
    _, lows = curves.low.points()
    _, highs = curves.high.points()
    widths = [h[1] - low[0] for h, low in zip(highs, lows, strict=True) if h and low]
    assert widths[-1] < widths[20] / 2


def test_outliers_are_those_of_the_statistics(tmp_path: Path) -> None:
    case = views_of(tmp_path).view().cases[0]
    assert case.total is not None
    assert 17 in outliers(case)
    assert set(outliers(case)) == {*case.total.mild, *case.total.severe}


def test_the_card_is_found_by_uuid(tmp_path: Path) -> None:
    view = views_of(tmp_path).view()
    assert run_card(view) is view.cards[0]


# Progress


def test_progress_from_start_to_end(tmp_path: Path) -> None:
    from llmprof.core import events as ev

    views_of(tmp_path)
    reducer = Reducer()
    told: list[str] = []
    shares: list[float] = []
    for row in next(tmp_path.glob("*/journal.jsonl")).read_bytes().splitlines():
        reducer.apply(ev.decode(row))
        state = progress(reducer.view())
        if not told or told[-1] != state.doing:
            told.append(state.doing)
        shares.append(state.run_share or 0.0)
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    assert told[:3] == ["waiting for the engine", "looking at the device", "starting a worker"]
    assert "building the model" in told
    assert "warm-up step 3 of 5" in told
    assert "step 40 of 40" not in told
    assert "reading memory" in told
