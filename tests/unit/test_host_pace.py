"""How fast the host was, and what the checks say of it."""

from __future__ import annotations

from typing import Any

import pytest

from llmprof.core import events as ev
from llmprof.core.figures.host_pace import host_pace, host_sets_pace
from llmprof.core.lint import lint
from llmprof.core.spec.case import Case
from llmprof.core.state.view import RunView
from tests.builders.planted import CPU, GPU, Times, around, case, observed, run, steps, view

TIMES: Times = {"forward": around(20.0), "backward": around(40.0)}


def paced(
    paces: list[float], environment: ev.Environment = GPU, host: float = 1.0, **seen: Any
) -> RunView:
    """Cases whose hosts had these paces."""
    cases: list[Case] = [case(batch_size=at + 1) for at in range(len(paces))]
    made: list[ev.Event] = []
    for at, (of, pace) in enumerate(zip(cases, paces, strict=True)):
        made += run(at, of, TIMES, observed(at, of, host_pace_us=(pace, pace), **seen), host=host)
    return view(cases, made, environment)


def said(state: RunView, rule: str) -> dict[int, str]:
    return {
        index: verdict.text
        for index, verdicts in lint(state).items()
        for verdict in verdicts
        if verdict.rule == rule
    }


def test_a_slower_host_is_named_beside_the_fastest() -> None:
    found = said(paced([12.1, 6.4, 7.9]), "host-pace")
    assert found == {
        0: "host 1.9 × slower than in case 2 (12.1 µs a launch against 6.4 µs a launch)"
    }


def test_where_the_card_sets_the_pace_the_hosts_does_not_matter() -> None:
    assert said(paced([12.1, 6.4], host=0.3), "host-pace") == {}


def test_on_a_cpu_the_host_always_sets_the_pace() -> None:
    state = paced([900.0, 300.0], CPU, host=0.3)
    assert host_sets_pace(state.cases[0])
    assert said(state, "host-pace") == {
        0: "host 3.0 × slower than in case 2 (900 µs a product against 300 µs a product)"
    }


def test_stolen_time_is_said_from_five_percent_on() -> None:
    assert said(paced([6.0], steal_percent=4.9), "stolen-time") == {}
    found = said(paced([6.0], steal_percent=31.0), "stolen-time")
    assert found == {0: "other guests of the hypervisor took 31 % of this machine's processor time"}


def test_a_recording_without_a_pace_says_nothing() -> None:
    of = case()
    state = view([of], run(0, of, TIMES))
    assert host_pace(state.cases[0]) is None
    assert said(state, "host-pace") == {}


@pytest.mark.parametrize(("shift", "heard"), [(1e-7, False), (0.01, True)])
def test_a_switch_that_trains_differently_is_a_warning(shift: float, heard: bool) -> None:
    cases = [case(warmup_steps=0), case(warmup_steps=0, attention="sdpa")]
    made: list[ev.Event] = []
    for at, of in enumerate(cases):
        losses = [9.3 - 0.3 * n + at * shift * 9 for n in range(10)]
        rows = [
            ev.StepDone(**{name: getattr(step, name) for name in step.__struct_fields__}
                        | {"loss": loss})
            for step, loss in zip(steps(at, TIMES), losses, strict=True)
        ]  # fmt: skip
        made += [ev.CaseStarted(case=at, pid=1), *rows, observed(at, of), ev.CaseDone(case=at)]
    found = said(view(cases, made), "trains-differently")
    assert bool(found) is heard
    if heard:
        assert "from that of case 1 over 10 steps; rounding explains 0.01 %" in found[1]
