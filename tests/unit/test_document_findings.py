"""What documents say first, what caps a gain, which checks veto what, and how often a cell ran."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace as replace_struct

from llmprof.core import events as ev
from llmprof.core.document.changes import shares_of
from llmprof.core.document.closing import limits
from llmprof.core.document.finding import Finding
from llmprof.core.document.findings import findings
from llmprof.core.document.gains import Bound, host_floor
from llmprof.core.document.next_step import NextStep, Target
from llmprof.core.document.next_steps import outlook
from llmprof.core.document.own_loop import SETTINGS, setting
from llmprof.core.document.profiles import part_of, waits_between_kernels
from llmprof.core.document.quotes import Quote, number, plain
from llmprof.core.document.sources import Source, sources_of
from llmprof.core.document.steps import step_key
from llmprof.core.document.tables import Tables, tables_of
from llmprof.core.document.warmups import warmup_key
from llmprof.core.lint import EXPLAINED
from llmprof.core.lint.in_short import IN_SHORT
from llmprof.core.report.subject import DISQUALIFYING, Subject, subject_of
from llmprof.core.spec.axes import BY_FIELD
from llmprof.core.spec.case import Case
from llmprof.core.state.view import RunView
from llmprof.core.store.pack import open_view
from tests.builders.planted import GPU, SHAPE, Times, around, case, failed, memory, run, view

FIXTURES = Path(__file__).parents[1] / "fixtures"
HOST = 1.0  # share of a phase in which the host launches: the card has caught up with it
CARD = 0.3
SMALL = replace_struct(SHAPE, name="small", d_model=768, d_ff=3072, num_layers=12, num_heads=12)


def step(forward: float, backward: float, optimizer: float) -> Times:
    return {
        "forward": around(forward),
        "backward": around(backward),
        "optimizer": around(optimizer),
    }


Planted = tuple[Case, Times, Any]


def planted(*cells: Planted) -> RunView:
    """Cases in order, each with its times and the share of them in which the host launches."""
    cases = [each for each, _, _ in cells]
    events = [
        event
        for index, (each, times, host) in enumerate(cells)
        for event in run(index, each, times, host=host)
    ]
    return view(cases, events)


def processes(of: Case, times: Times, host: Any, count: int = 3) -> list[Planted]:
    return [(replace_struct(of, process=at), times, host) for at in range(count)]


def made_of(*views: RunView) -> Tables:
    return tables_of(sources_of([(each, None) for each in views]))


def of_kind(made: Tables, kind: str) -> list[str]:
    return [plain(each.text) for each in findings(made) if each.kind == kind]


def mostly_host() -> Tables:
    return made_of(
        planted(
            (case(model=SMALL, context_length=128), step(15, 25, 5), HOST),
            (case(model=SMALL, context_length=256), step(18, 28, 5), HOST),
            (case(model=SMALL, context_length=512), step(20, 33, 3), CARD),
            (case(context_length=128), step(35, 60, 13), HOST),
            (case(context_length=512), step(50, 90, 9), CARD),
        )
    )


def test_what_sets_the_pace_of_most_steps_is_said_first() -> None:
    made = mostly_host()
    found = findings(made)
    assert found[0].kind == "pace"
    assert "small (up to 256 tokens) and medium (128 tokens)" in plain(found[0].text)
    verdict = plain(outlook(made).verdict)
    assert verdict.startswith("Consistent with a launch-bound step, by one measurement: small (up")
    assert "The card sets the pace of small and medium (512 tokens)" in verdict
    assert "% of its dense peak (fp32 without tensor cores, 66.9 TFLOP/s)" in verdict


def test_where_the_card_sets_the_pace_of_most_steps_the_verdict_begins_with_it() -> None:
    made = made_of(
        planted(
            (case(context_length=128), step(35, 60, 13), HOST),
            (case(context_length=256), step(38, 70, 9), CARD),
            (case(context_length=512), step(50, 90, 9), CARD),
        )
    )
    verdict = plain(outlook(made).verdict)
    assert verdict.startswith("The card sets the pace of medium (from 256 tokens);")
    assert verdict.endswith("launch-bound step, by one measurement: medium (128 tokens).")


# --------------------------------------------------------------------------- pace


def paces(made: Tables) -> dict[int, str]:
    assert made.steps is not None
    return {
        state.case.context_length: made.steps.quote(step_key(source, state), "Pace set by").text
        for source, state in made.step_cells
    }


def test_the_process_of_which_the_host_sets_most_decides_on_the_pace() -> None:
    of = case(context_length=512)
    forward_waits = {"forward": HOST, "backward": 0.6, "optimizer": 0.6}
    cells = processes(of, step(20, 33, 3), CARD, 2)
    cells.append((replace_struct(of, process=2), step(20, 33, 3), forward_waits))
    assert paces(made_of(planted(*cells))) == {512: "card, except forward"}


def test_an_update_that_takes_longer_than_its_work_is_the_host_s() -> None:
    waits = {"forward": HOST, "backward": HOST, "optimizer": 0.7}
    short = case(context_length=128), step(15, 25, 5), waits
    long = case(context_length=1024), step(36, 66, 3), CARD
    assert paces(made_of(planted(short, long)))[128] == "host: forward, backward, optimizer"
    alike = case(context_length=1024), step(36, 66, 4.9), CARD
    assert paces(made_of(planted(short, alike)))[128] == "host: forward, backward"
    other = case(context_length=1024, optimizer="fused"), step(36, 66, 1), CARD
    assert paces(made_of(planted(short, other)))[128] == "host: forward, backward"


def test_a_verdict_says_which_phases_of_the_card_s_steps_are_the_host_s() -> None:
    """As the table of steps does: card, except forward."""
    waits = {"forward": HOST, "backward": 0.4, "optimizer": 0.4}
    made = made_of(
        planted(
            (case(model=SMALL, context_length=512), step(20, 33, 3), waits),
            (case(context_length=512), step(50, 90, 9), CARD),
        )
    )
    assert made.steps is not None
    cells = {made.steps.quote(key, "Pace set by").text for key in made.steps.keys}
    assert cells == {"card, except forward", "card"}
    verdict = plain(outlook(made).verdict)
    assert "small and medium (512 tokens), but for the forward of small (512 tokens);" in verdict
    alone = made_of(planted((case(context_length=512), step(50, 90, 9), waits)))
    assert "(512 tokens), but for the forward; it comes to" in plain(outlook(alone).verdict)


def test_fewer_launches_help_where_the_card_waits_for_many_of_them() -> None:
    """Not where a phase's idle time is one gap before its first kernel."""
    path = FIXTURES / "writeup-h200" / "kernels.llmprof"
    made = tables_of(sources_of([(open_view(path), path)]))
    (text,) = of_kind(made, "pace")
    (profiled,) = [state for _, state in made.profiled]
    waits = {
        phase: waits_between_kernels(part)
        for phase in ("forward", "backward", "optimizer")
        if (part := part_of(profiled, phase)) is not None
    }
    assert waits == {"forward": True, "backward": True, "optimizer": False}
    assert "help its forward and backward, faster kernels do not" in text


@pytest.mark.parametrize(
    ("source", "device", "whole"),
    [("cuda", "cuda:0", "the card's busy time"), ("cpu", "cpu", "the time of the CPU's ops")],
)
def test_on_a_cpu_no_share_is_of_a_card(source: Any, device: str, whole: str) -> None:
    recorded = open_view(FIXTURES / "writeup-h200" / "kernels.llmprof")
    assert recorded.environment is not None
    where = replace_struct(recorded.environment, device=device)
    cases = tuple(
        replace(
            each,
            environment=where,
            kernels=each.kernels and replace_struct(each.kernels, source=source),
        )
        for each in recorded.cases
    )
    made = made_of(replace(recorded, cases=cases, environment=where))
    (text,) = of_kind(made, "products")
    assert f" % of {whole} in the forward and " in text


# --------------------------------------------------------------------------- changes


def switched(host: Any = HOST) -> RunView:
    """TF32 makes the products quicker, and the host then makes the update longer."""
    base, tf32 = case(context_length=512), case(context_length=512, precision="tf32")
    return planted(
        *processes(base, step(50, 90, 9), CARD), *processes(tf32, step(33, 53, 13), host)
    )


def test_a_saving_is_of_phases_that_got_shorter_and_others_are_told_as_longer() -> None:
    made = made_of(switched())
    assert made.changes is not None
    (change,) = made.all_changes
    told = made.changes.quote(change.key(change.found.total), "Of the step's change").text
    assert told == "backward 74 %, forward 34 %"
    (text,) = of_kind(made, "change")
    (optimizer,) = (part for part in change.found.parts if part.part == "optimizer")
    before, after = (
        made.changes.quote(change.key(optimizer), each).text for each in ("Baseline", "With it")
    )
    longer = f"; the optimizer took longer ({before} to {after} ms)"
    assert f"; the saving in medium: {told}{longer}" in text
    assert sum(shares_of(change.found).values()) == pytest.approx(1, abs=0.015)


def test_a_saving_is_not_ascribed_to_phases_that_are_not_distinguished() -> None:
    """With fused AdamW the forward of small takes 0.5 ms less, 0.91 to 1.16 times as long."""
    path = FIXTURES / "switches-h200.llmprof"
    made = tables_of(sources_of([(open_view(path), path)]))
    (text,) = [each for each in of_kind(made, "change") if each.startswith("fused AdamW shortens")]
    assert "the saving in small: optimizer 75 %, the rest not distinguished" in text


def test_a_bound_that_leaves_products_at_the_peak_alone_is_no_estimate() -> None:
    """Of forward and backward nothing is left that compiling could spare, and no card is so."""
    path = FIXTURES / "switches-h200.llmprof"
    made = tables_of(sources_of([(open_view(path), path)]))
    compiled = outlook(made).steps[1]
    assert "--compile none,reduce-overhead" in compiled.command
    assert compiled.expected.startswith("at most about 68 % off the step with bf16, by the card's")
    assert "rough" not in compiled.expected


def test_a_phase_that_a_switch_does_not_act_on_has_the_verdict_of_its_own_interval() -> None:
    made = made_of(switched())
    assert made.changes is not None
    (change,) = made.all_changes
    cells = {
        part.part: made.changes.quote(change.key(part), "Verdict").text
        for part in change.found.parts
    }
    assert cells["optimizer"] == "slower (by its own interval)"
    assert cells["forward"] == cells["total"] == "faster"


def test_a_switch_after_which_the_host_sets_the_pace_says_so() -> None:
    assert "with it the host sets the pace of medium" in of_kind(made_of(switched()), "change")[0]
    assert "the host sets" not in of_kind(made_of(switched(CARD)), "change")[0]


def test_the_host_s_phases_are_those_of_the_table_of_steps() -> None:
    """An update that takes longer than its work is the host's in sentences as in the table."""
    waits = {"forward": HOST, "backward": HOST, "optimizer": 0.7}
    (text,) = of_kind(made_of(switched(waits)), "change")
    assert "sets the pace of medium (forward, backward and optimizer), so" in text


def fused(optimizer: float, others: float) -> RunView:
    base, other = case(), case(optimizer="fused")
    cells = []
    for at in range(4):
        luck = 1 + 0.02 * (-1) ** at
        cells += [
            (replace_struct(base, process=at), step(others * luck, others, 10), CARD),
            (replace_struct(other, process=at), step(others, others * luck, optimizer), CARD),
        ]
    return planted(*cells)


def test_where_a_step_is_not_distinguished_the_gain_that_is_excluded_is_said() -> None:
    made = made_of(fused(6.0, 300.0))
    (text,) = of_kind(made, "change")
    assert "the step is not distinguished (in medium a gain above " in text
    (change,) = made.all_changes
    total = change.found.total
    assert made.changes is not None
    assert total.time.low is not None
    excluded = number(made.changes.quote(change.key(total), "Gain excluded above"))
    assert excluded == max(1, round(100 * (1 - total.time.low)))


# --------------------------------------------------------------------------- several runs


def repeated(*others: float, compiled: float = 80.0) -> Tables:
    """A compiled step beside an eager one, each of one process, and the eager one in other runs."""
    pair = planted((case(), thirds(220), HOST), (case(compile="default"), thirds(compiled), HOST))
    return made_of(pair, *(planted((case(), thirds(ms), HOST)) for ms in others))


def thirds(ms: float) -> Times:
    return step(0.3 * ms, 0.6 * ms, 0.1 * ms)


def test_processes_that_failed_stand_behind_no_figure() -> None:
    """Two of three crashed: cost and growth are of one, whose steps say nothing of another."""
    cases = [
        case(process=at, batch_size=4, context_length=length)
        for length in (1024, 2048, 4096)
        for at in range(3)
    ]
    events = []
    for at, each in enumerate(cases):
        ms = 80.0 * (each.context_length / 1024) ** 1.4
        events += (
            failed(at, kind="killed", message="gone", phase="forward")
            if each.process
            else run(at, each, step(ms, 2 * ms, 10), host=CARD)
        )
    made = made_of(view(cases, events))
    assert made.cost is not None
    assert made.growth is not None
    for table in (made.cost, made.growth):
        assert {table.quote(key, "n").text for key in table.keys} - {""} == {"1"}
    (grown,) = of_kind(made, "growth")
    assert grown.endswith("(steps of one process).")


def test_a_change_of_single_processes_far_beyond_all_of_its_baseline_is_told() -> None:
    (text,) = of_kind(repeated(180.0, 200.0, 240.0), "unjudged")
    assert text.startswith("torch.compile, in one process and so not judged: it takes the step of")
    assert "that its baseline took in all runs" in text
    assert "--compile none,default --processes 3` judges it" in text


@pytest.mark.parametrize(
    "made",
    [
        pytest.param(repeated, id="nothing to compare the baseline with"),
        pytest.param(lambda: repeated(100.0, 200.0, 240.0), id="the baseline comes near it"),
        pytest.param(lambda: repeated(180.0, 200.0, 240.0, compiled=160.0), id="within the spread"),
    ],
)
def test_a_change_that_the_baseline_s_spread_may_explain_is_not(made) -> None:  # type: ignore[no-untyped-def]
    assert of_kind(made(), "unjudged") == []


def test_a_baseline_came_out_as_far_apart_as_the_table_of_the_same_cells_says() -> None:
    """One set of processes for both, however long each was warmed up."""
    longer = planted((case(warmup_steps=5), thirds(250), HOST))
    cold = planted((case(warmup_steps=0), thirds(400), HOST))
    pair = planted((case(), thirds(220), HOST), (case(compile="default"), thirds(80), HOST))
    made = made_of(pair, longer, cold, planted((case(), thirds(200), HOST)),
                   planted((case(), thirds(210), HOST)))  # fmt: skip
    assert made.changes is not None
    assert made.same is not None
    (change,) = made.all_changes
    told = made.changes.quote(change.key(change.found.total), "Baseline in all runs").text
    (row,) = made.same.keys
    assert told == " to ".join(made.same.quote(row, end).text for end in ("Least", "Most"))
    assert number(made.same.quote(row, "n")) == 4


def test_a_change_against_a_baseline_of_several_runs_comes_with_its_range() -> None:
    again = planted((case(context_length=512), step(60, 90, 9), CARD))
    (text,) = of_kind(made_of(switched(), again), "change")
    assert "; the baseline of medium took 149.1 to 159.1 ms in all runs" in text
    assert "in all runs" not in of_kind(made_of(switched()), "change")[0]


# --------------------------------------------------------------------------- checks


class Failed(Subject):
    """A run in which one check says no to everything."""

    check = "device"

    def failed_checks(self, *states: object) -> tuple[str, ...]:
        return (self.check,)


class NotAsAsked(Failed):
    check = "requested-observed"


def with_peaks(kind: type[Subject]) -> Tables:
    cases = [case(attention=each, context_length=512) for each in ("naive", "sdpa")]
    levels = (11_000 << 20, 9_000 << 20)
    events = []
    for index, (each, level) in enumerate(zip(cases, levels, strict=True)):
        read = memory(index, {"forward": level, "backward": level})
        edges = tuple(replace_struct(e, requested_peak_bytes=e.peak_bytes) for e in read.edges)
        read = replace_struct(read, edges=edges)
        events += run(index, each, step(50, 90, 9), read, host=CARD)
    subject = subject_of(view(cases, events))
    known = {name: getattr(subject, name) for name in subject.__dataclass_fields__}
    return tables_of([Source("planted", kind(**known))])


def test_a_check_on_clocks_vetoes_no_bytes() -> None:
    (text,) = of_kind(with_peaks(Failed), "memory")
    assert text.startswith("SDPA lowers the peak of requested bytes of medium, train (512 tokens)")
    assert of_kind(with_peaks(NotAsAsked), "memory") == []
    assert of_kind(with_peaks(Failed), "change") == []


def test_every_check_is_named_in_plain_words() -> None:
    assert set(IN_SHORT) == set(EXPLAINED) >= DISQUALIFYING
    made = tables_of(sources_of([(open_view(FIXTURES / "scaling-h200.llmprof"), None)]))
    said = " ".join(plain(line) for line in limits(made))
    assert "warming (the first measured step was still cold)" in said
    assert "few-samples (" in said


@pytest.mark.parametrize("name", ["warmup-h100", "warmup-forward-backward-h100"])
def test_a_cold_first_step_is_told_by_its_own_process_alone(name: str) -> None:
    made = tables_of(sources_of([(open_view(FIXTURES / f"{name}.llmprof"), None)]))
    (found,) = [each for each in findings(made) if each.kind == "warm-up"]
    text = plain(found.text)
    own = found.text[next(at for at, each in enumerate(found.text) if "In the one" in str(each)) :]
    assert len({piece.row for piece in own if isinstance(piece, Quote)}) == 1
    table = made.warmups
    assert table is not None
    (source, group), *_ = made.warmup_cells
    firsts = [table.quote(warmup_key(source, each), "First step") for each in group]
    firsts.sort(key=number)
    assert f" takes {firsts[0].text} to {firsts[-1].text} ms in four processes. In the" in text


def test_what_is_said_of_attention_alone_comes_last() -> None:
    views = [
        open_view(FIXTURES / f"{name}.llmprof") for name in ("attention-h100", "switches-h100")
    ]
    found: list[Finding] = findings(tables_of(sources_of([(each, None) for each in views])))
    alone = [each.alone for each in found]
    assert True in alone
    assert alone == sorted(alone)


# --------------------------------------------------------------------------- to try


def tried(made: Tables) -> list[NextStep]:
    return list(outlook(made).steps)


def test_what_was_measured_to_help_comes_first_then_what_adds_to_it() -> None:
    first, second = tried(made_of(switched()))[:2]
    assert first.command == ""
    assert re.fullmatch(r"−3\d(\.\d+)? % \[95 %: −\S+ to −\S+\], already measured", first.expected)
    told = plain(first.told)
    assert 'in a loop of one\'s own `torch.set_float32_matmul_precision("high")`' in told
    assert "ten bits of mantissa" in told
    assert "--precision tf32" in second.command
    assert "--compile none,reduce-overhead" in second.command
    assert plain(second.evidence).startswith("With TF32 the host sets the pace of medium")


def test_switches_that_help_alone_are_tried_together() -> None:
    base = case(context_length=512)
    cells = [
        *processes(base, step(50, 90, 19), CARD),
        *processes(replace_struct(base, attention="sdpa"), step(45, 80, 19), CARD),
        *processes(replace_struct(base, optimizer="fused"), step(50, 90, 9), CARD),
    ]
    together = tried(made_of(planted(*cells)))[0]
    assert "--attention sdpa" in together.command
    assert "--optimizer foreach,fused" in together.command
    assert together.bound == pytest.approx(1 - 149 / 159, abs=0.01)
    assert "with SDPA, already measured; the others at most about 6 % off" in together.expected
    assert "`torch.optim.AdamW(..., fused=True)`" in plain(together.told)


def test_they_are_tried_together_though_the_host_then_sets_the_pace() -> None:
    base, tf32 = case(context_length=512), case(context_length=512, precision="tf32")
    cells = [
        *processes(base, step(50, 90, 19), CARD),
        *processes(tf32, step(30, 50, 19), HOST),
        *processes(replace_struct(base, optimizer="fused"), step(50, 90, 9), CARD),
    ]
    first, second = tried(made_of(planted(*cells)))[:2]
    assert "--precision tf32 --optimizer foreach,fused" in first.command
    assert "as far as the host, which sets its pace, allows it" in first.expected
    assert "--compile none,reduce-overhead" in second.command


def test_settings_of_one_s_own_loop_are_of_values_that_there_are() -> None:
    for field, value in SETTINGS:
        assert value in BY_FIELD[field].values
    base = case()
    assert setting(base, replace_struct(base, precision="tf32", optimizer="fused")).count("`") == 4
    assert setting(base, replace_struct(base, precision="tf32", accumulate=2)) == ""


def test_a_lead_of_one_process_is_to_be_judged_before_a_larger_batch() -> None:
    found = tried(repeated(180.0, 200.0, 240.0))
    assert found[0].command.endswith("--compile none,default --processes 3")
    assert "in one process" in plain(found[0].evidence)
    assert "if other processes bear it out" in found[0].expected


def test_a_lead_speaks_for_compiling_what_the_host_sets_the_pace_of() -> None:
    small = case(model=SMALL, context_length=128)
    pair = planted(
        (small, thirds(220), HOST), (replace_struct(small, compile="default"), thirds(80), HOST)
    )
    again = [planted((small, thirds(ms), HOST)) for ms in (180.0, 200.0, 240.0)]
    found = [each for each in tried(made_of(switched(), pair, *again)) if "compile" in each.command]
    (compiled,) = found
    assert "--precision tf32 --compile none,default" in compiled.command
    text = plain(compiled.evidence)
    assert text.startswith("torch.compile took the step of small")
    assert ". With TF32 the host sets the pace of medium" in text
    assert compiled.expected.endswith("% by that one process")


def test_what_another_step_tells_is_a_rough_estimate_and_no_bound() -> None:
    target = Target(*_of_first(made_of(switched())))
    own, other = Bound(50.0, "by this"), Bound(50.0, "by another", rough=True)
    assert target.at_most(own)[0].startswith("at most about ")
    told = target.at_most(other)[0]
    assert told.startswith("about ")
    assert "a rough estimate by another" in told
    assert told.count("at most") == 0


def _of_first(made: Tables) -> tuple[Tables, tuple[Source, Any]]:
    return made, made.step_cells[0]


def test_a_lower_precision_is_capped_by_the_host() -> None:
    """Quicker products bring nothing where the host needs as long to enqueue a step."""
    subject = case(context_length=512), step(50, 90, 9), {"forward": 0.5, "backward": 0.5,
                                                         "optimizer": 0.5}  # fmt: skip
    alone = [each for each in tried(made_of(planted(subject))) if "fp32,bf16" in each.command]
    assert "if the host enqueues it no faster" in alone[0].expected
    short = case(context_length=128), step(48, 85, 13), HOST
    made = made_of(planted(short, subject))
    floor = host_floor(made, replace_struct(subject[0], precision="bf16"))
    assert floor is not None
    assert floor.ms == pytest.approx(146, rel=0.01)
    assert not [each for each in tried(made) if "fp32,bf16" in each.command]
    quick = case(context_length=128), step(20, 40, 5), HOST
    (capped,) = [
        each for each in tried(made_of(planted(quick, subject))) if "fp32,bf16" in each.command
    ]
    assert capped.bound == pytest.approx(1 - 65 / 149, abs=0.02)
    assert "by the host" in capped.expected


def test_a_larger_batch_is_tried_where_the_host_sets_the_pace_and_it_fits() -> None:
    room = replace_struct(GPU, memory_free_bytes=79 << 30, capability=(9, 0))
    cases = [case(context_length=128), case(context_length=512)]
    times = [(step(35, 60, 13), HOST), (step(50, 90, 9), CARD)]

    def made(environment: ev.Environment) -> Tables:
        events = [
            event
            for index, (each, (taken, host)) in enumerate(zip(cases, times, strict=True))
            for event in run(index, each, taken, host=host)
        ]
        return made_of(view(cases, events, environment))

    (larger,) = [each for each in tried(made(room)) if "--batch-size 4,16" in each.command]
    assert larger.expected.startswith("about 2.9 × the tokens a second by single processes")
    assert larger.expected.endswith("and a larger batch changes the training")
    little = replace_struct(room, memory_free_bytes=9 << 30)
    (smaller,) = [each for each in tried(made(little)) if "--batch-size 4," in each.command]
    assert "--batch-size 4,8 " in smaller.command
    assert "batch 8 fits by prediction" in smaller.expected


def test_what_a_larger_batch_brings_has_the_range_of_both_intervals() -> None:
    room = replace_struct(GPU, memory_free_bytes=79 << 30, capability=(9, 0))
    short, long = case(context_length=128), case(context_length=512)
    cells: list[Planted] = [
        *((replace_struct(short, process=at), thirds(ms), HOST)
          for at, ms in enumerate((95.0, 104.0, 110.0))),
        *((replace_struct(long, process=at), thirds(ms), CARD)
          for at, ms in enumerate((151.0, 152.0, 151.5))),
    ]  # fmt: skip
    events = [
        event
        for index, (each, taken, host) in enumerate(cells)
        for event in run(index, each, taken, host=host)
    ]
    made = made_of(view([each for each, _, _ in cells], events, room))
    (larger,) = [each for each in tried(made) if "--batch-size 4,16" in each.command]
    low, high = map(float, re.findall(r"\d\.\d", larger.expected)[:2])
    halves = [state.total.ci95 for _, state in made.step_cells if state.total is not None]
    assert halves[0] is not None
    assert low == pytest.approx(4 * (103 - halves[0]) / 151.5, abs=0.1)
    assert high == pytest.approx(4 * (103 + halves[0]) / 151.5, abs=0.1)
    assert "ms a step" in plain(larger.evidence)
    assert " ± " in plain(larger.evidence)
