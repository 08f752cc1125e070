"""Attention's tables: one fit a quantity, kernels by what ran, what the host's pace leaves out."""

from __future__ import annotations

from pathlib import Path

from llmprof.core.document.growth import growths
from llmprof.core.document.sources import Source
from llmprof.core.report.attention import attention, exponents
from llmprof.core.report.attention_kernels import (
    attention_kernels,
    in_rows,
    kernel_groups,
    kernel_of,
    ran_as,
    ranking,
)
from llmprof.core.report.growth_fits import stands
from llmprof.core.report.sentences import is_launch_bound
from llmprof.core.report.subject import subject_of
from llmprof.core.report.table import Table, format_cell
from llmprof.core.state.view import RunView
from llmprof.core.store.pack import open_view
from tests.builders.planted import around, case, observed, run, view

FIXTURES = Path(__file__).parent.parent / "fixtures"


def recording(name: str) -> RunView:
    return open_view(FIXTURES / f"{name}.llmprof")


def cells(table: Table, heading: str) -> list[str]:
    at = [column.heading for column in table.columns].index(heading)
    return [format_cell(row[at]) for row in table.rows]


def test_a_check_of_clocks_does_not_touch_the_growth_of_counted_bytes() -> None:
    subject = subject_of(recording("attention-h100"))
    slow = [state for state in subject.cases if subject.failed_checks(state) == ("device",)]
    assert slow
    assert not any(stands(subject, state, timed=True) for state in slow)
    assert all(stands(subject, state, timed=False) for state in slow)


def test_a_quantity_has_one_fit_in_a_run_s_table_and_in_a_document() -> None:
    subject = subject_of(recording("attention-h100"))
    table = exponents(subject)
    assert table is not None
    grown = {(each.what, each.way): each.fit for each in growths([Source("attention", subject)])}
    for quantity in ("forward", "backward", "memory kept"):
        shown = zip(cells(table, "Way"), cells(table, f"{quantity} exponent"), strict=True)
        for way, text in shown:
            fit = grown[(f"attention {quantity}, d=64", way)]
            assert text == ("n/a" if fit is None else f"{fit.exponent:.2f}")


def kernel_cells(**medians: float) -> RunView:
    """Attention kernels by the name that is asked for, SDPA running as cudnn."""
    asked = {"SDPA": None, "naive": None}
    cases = [
        case(
            probe="attention",
            mode="forward-backward",
            cold_cache=True,
            attention="naive" if name == "naive" else "sdpa",
            sdpa_backend=asked.get(name, name),
        )
        for name in medians
    ]
    events = [
        event
        for at, (of, ms) in enumerate(zip(cases, medians.values(), strict=True))
        for event in run(
            at,
            of,
            {"forward": around(ms / 2), "backward": around(ms / 2)},
            observed(at, of, attention_backend=of.sdpa_backend or "cudnn"),
        )
    ]
    return view(cases, events)


def test_one_kernel_asked_for_by_two_names_is_ranked_once_and_its_spread_is_what_ranks() -> None:
    subject = subject_of(kernel_cells(SDPA=20.0, flash=26.0, cudnn=24.0, efficient=22.0))
    found = ranking(subject, subject.cases)
    assert found is not None
    assert list(map(ran_as, found.fastest)) == ["cudnn", "efficient", "flash"]
    assert [kernel_of(each.case) for each in found.again] == ["cudnn"]
    assert list(map(ran_as, found.alike)) == ["efficient"]
    (rows,) = in_rows(subject.cases)
    assert [kernel_of(each.case) for each in rows] == ["SDPA", "cudnn", "flash", "efficient"]


def test_a_kernel_whose_pace_the_host_sets_is_marked_and_not_ranked() -> None:
    view_of = recording("attention-kernels-h200")
    subject = subject_of(view_of)
    bound = [state for state in subject.cases if is_launch_bound(state)]
    assert bound
    for states in kernel_groups(subject).values():
        found = ranking(subject, states)
        assert found is None or not any(map(is_launch_bound, found.fastest))
    for table in attention_kernels(subject):
        paces = zip(cells(table, "Context (tokens)"), cells(table, "Pace set by"), strict=True)
        assert "host" in {pace for _, pace in paces}
        assert ", causal" in table.title


def test_nothing_is_told_of_the_growth_of_times_that_a_check_says_no_to() -> None:
    subject = subject_of(open_view(FIXTURES / "writeup-h200" / "attention.llmprof"))
    notes = {
        note.split(":")[0]: note
        for table in attention(subject)
        for note in table.notes
        if "tokens (2 ×) a step" in note
    }
    assert "takes" not in notes["compiled"]  # the check device says no to its longest
    assert "a step keeps 8,224 MiB for the backward, 4 × as much" in notes["compiled"]
    assert "a step takes 3.83 × as long and keeps 8,224 MiB" in notes["raw"]
    (fastest,) = (note for table in attention(subject) for note in table.notes if "fast as" in note)
    assert fastest.startswith("At 16,384 tokens SDPA is 3.00 × as fast as raw (one process")


def test_no_ratio_stands_beside_a_pace_that_the_host_sets() -> None:
    subject = subject_of(open_view(FIXTURES / "writeup-h200" / "attention-kernels.llmprof"))
    (table,) = attention_kernels(subject)
    rows = zip(*(cells(table, each) for each in ("Context (tokens)", "Kernel", "Pace set by",
                                                "Over naive (×)")), strict=True)  # fmt: skip
    told = list(rows)
    naive = {context: pace for context, kernel, pace, _ in told if kernel == "naive"}
    for context, _, pace, ratio in told:
        assert (ratio == "n/a") == ("host" in (pace, naive[context]))
    assert {ratio == "n/a" for *_, ratio in told} == {True, False}
