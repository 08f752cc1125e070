"""Two runs compared: what is different, which cases answer each other, what may be said."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from llmprof.core import events as ev
from llmprof.core.events.kernel_rows import Coverage, ShareRow
from llmprof.core.figures.comparison import CasePair, compare_together
from llmprof.core.figures.replicates import configurations
from llmprof.core.report.class_changes import explanation
from llmprof.core.report.run_comparison import RunComparison, _labels
from llmprof.core.report.run_comparison_exports import render
from llmprof.core.report.run_comparison_words import regressions
from llmprof.core.report.two_runs import TwoRuns
from llmprof.core.spec.case import Case
from llmprof.core.spec.own_model import OwnModel
from llmprof.core.state.view import CaseState, RunView
from llmprof.core.store.pack import open_view
from tests.builders.planted import GPU, Times, around, case, failed, memory, observed, run, view

FIXTURES = Path(__file__).parent.parent / "fixtures"
PROCESSES = open_view(FIXTURES / "processes-h200.llmprof")
SWITCHES = open_view(FIXTURES / "switches-h200.llmprof")
PROFILED = open_view(Path(__file__).parents[2] / "tui" / "demo-kernels.llmprof")


def of_these(recorded: RunView, states: Iterable[CaseState]) -> RunView:
    """A run of some of its cases alone."""
    numbered = (replace(state, index=at) for at, state in enumerate(states))
    return replace(recorded, cases=tuple(numbered))


def only(recorded: RunView, chosen: Callable[[Case], bool]) -> RunView:
    return of_these(recorded, (state for state in recorded.cases if chosen(state.case)))


def eager(precision: str) -> RunView:
    """The recorded cells of a precision with no other switch, as a run of their own."""
    return only(
        SWITCHES,
        lambda each: (
            (each.precision, each.attention, each.optimizer) == (precision, "naive", "foreach")
        ),
    )


def decisions(found: TwoRuns) -> set[str]:
    return {part.decision for each in found.comparisons for part in each.parts if part.decision}


def text(found: TwoRuns) -> str:
    return render(RunComparison(found, "before", "after"), "md")


# ------------------------------------------------------------------------- of one cell


def claims_a_change(states: Sequence[CaseState], luck: random.Random) -> bool:
    """Whether one half of some processes, drawn anew, is told from the other."""
    drawn = luck.sample(states, len(states))
    half = len(drawn) // 2
    (one,), (other,) = configurations(drawn[:half]), configurations(drawn[half:])
    (found,) = compare_together([CasePair(one, other, frozenset(one.case.phases))])
    return bool(found.changed("faster", "slower"))


def test_halves_of_the_processes_of_one_cell_are_not_distinguished() -> None:
    """The unit of the promise: of 1,000 pairs of equal runs at most 5 % claim a change."""
    even, odd = (
        of_these(PROCESSES, (s for s in PROCESSES.cases if s.case.process % 2 == at))
        for at in (0, 1)
    )
    found = TwoRuns(even, odd)
    assert decisions(found) == {"not distinguished"}
    assert "| step " in text(found)
    assert "Nothing is told from equal." in text(found)
    luck = random.Random(16)
    assert sum(claims_a_change(PROCESSES.cases, luck) for _ in range(1000)) <= 50


def test_several_equal_cells_claim_no_more_than_one() -> None:
    """Three cells of four processes a run: more cells are more to be wrong about."""
    luck = random.Random(17)
    called = 0
    for _ in range(120):
        drawn = luck.sample(PROCESSES.cases, 24)
        sides = [
            replace(
                PROCESSES,
                cases=tuple(
                    replace(
                        state,
                        index=at,
                        case=msgspec.structs.replace(state.case, context_length=128 << at // 4),
                    )
                    for at, state in enumerate(side)
                ),
            )
            for side in (drawn[:12], drawn[12:])
        ]
        found = TwoRuns(*sides)
        assert len(found.comparisons) == 3
        called += bool(decisions(found) & {"faster", "slower"})
    assert called <= 6


# ------------------------------------------------------------------------------ planted


def planted(
    optimizer: float,
    *,
    spread: float = 0.003,
    processes: int = 4,
    environment: ev.Environment = GPU,
    extra: Sequence[ev.Event] = (),
    seen: Callable[[int, Case], ev.Observed] = observed,
    **fields: object,
) -> RunView:
    """A run of one configuration whose optimizer takes so long, with luck between processes."""
    luck = random.Random(f"{optimizer} {fields}")
    cases: list[Case] = []
    events: list[ev.Event] = []
    for process in range(processes):
        of = case(process=process, **fields)
        own, rest = luck.gauss(1, spread), luck.gauss(1, spread)
        times: Times = {
            "forward": around(20 * rest),
            "loss": around(0.1),
            "backward": around(40 * rest),
            "optimizer": around(optimizer * own),
        }
        cases.append(of)
        events += run(process, of, times, seen(process, of), *extra)
    return view(cases, events, environment)


def test_a_planted_change_is_found_and_named() -> None:
    found = TwoRuns(planted(16.0), planted(12.0))
    (one,) = found.comparisons
    told = {part.part: part.decision for part in one.parts}
    assert told == {
        "forward": "not distinguished",
        "loss": "",
        "backward": "not distinguished",
        "optimizer": "faster",
        "total": "faster",
    }
    (line,) = RunComparison(found, "a", "b").sentences
    assert "optimizer faster: -25" in line
    assert "% of the step's change; step faster" in line


def test_less_than_one_percent_does_not_count() -> None:
    found = TwoRuns(planted(16.0, spread=1e-6), planted(15.9, spread=1e-6))
    assert decisions(found) == {"not distinguished"}


def test_one_process_is_not_judged() -> None:
    found = TwoRuns(planted(16.0, processes=1), planted(4.0))
    assert decisions(found) == {"not judged"}
    said = text(found)
    assert "one process: not judged" in said
    assert "Counted: 1 and 4 processes, 10 and 40 steps of either run" in said
    assert "told from equal." not in said


def test_precisions_of_two_recorded_runs_by_phase() -> None:
    """fp32 against bf16 as recorded on an H200, three processes a cell."""
    found = TwoRuns(eager("fp32"), eager("bf16"))
    assert [(each.what, each.base, each.other) for each in found.differences] == [
        ("Precision", "fp32", "bf16")
    ]
    assert [each.base.case.model.name for each in found.comparisons] == ["small", "medium", "large"]
    *slow_host, large = found.comparisons
    told = {part.part: part.decision for part in large.parts}
    assert told["backward"] == told["total"] == "faster"
    assert told["optimizer"] == ""  # a precision does not act on it
    assert {each.not_judged for each in slow_host} == {"not judged: failed check host-pace in B"}
    said = text(found)
    assert "large · train · ctx 512 · fp32: forward faster: -62.4 % (-70.9 to -51.5)" in said
    assert "| untouched, not judged " in said
    assert not any(found.unanswered)


def test_cells_that_a_check_has_failed_claim_no_change() -> None:
    def seen(index: int, of: Case) -> ev.Observed:
        return observed(index, of, context_length=64)

    fine, failing = planted(16.0), planted(4.0, seen=seen)
    for base, other, side in ((fine, failing, "B"), (failing, fine, "A")):
        found = TwoRuns(base, other)
        (one,) = found.comparisons
        assert one.not_judged == f"not judged: failed check requested-observed in {side}"
        assert decisions(found) == {"not judged"}
        compared = RunComparison(found, "before", "after")
        assert compared.sentences == ()
        assert regressions(found.comparisons, 1.0) == []
        (changes,) = (table for table in compared.tables if table.key == "changes")
        assert {row[-1] for row in changes.rows} == {one.not_judged}


def test_runs_of_other_software_may_differ_in_every_phase() -> None:
    newer = msgspec.structs.replace(GPU, torch="2.12.0")
    found = TwoRuns(planted(16.0), planted(12.0, environment=newer, precision="bf16"))
    assert {each.what: (each.base, each.other) for each in found.differences} == {
        "Precision": ("fp32", "bf16"),
        "PyTorch": ("2.11.0", "2.12.0"),
    }
    (one,) = found.comparisons
    assert {part.part: part.decision for part in one.parts}["optimizer"] == "faster"


def test_a_changed_model_of_ones_own_is_what_is_compared() -> None:
    before = OwnModel("mine", "/home/a/model.py", "/home/a", "model", "build", content="1" * 64)
    after = before._replace(path="/srv/model.py", folder="/srv", content="2" * 64)
    found = TwoRuns(planted(16.0, model=before), planted(12.0, model=after))
    assert [(each.what, each.base, each.other) for each in found.differences] == [
        ("Model's code", "1" * 12, "2" * 12)
    ]
    assert len(found.comparisons) == 1
    other = after._replace(factory="another")
    assert TwoRuns(planted(16.0, model=before), planted(12.0, model=other)).pairs == ()


# ------------------------------------------------------------------------------- refused


def test_unlike_devices_warm_ups_and_profiled_steps_are_refused() -> None:
    other = msgspec.structs.replace(GPU, device_name="NVIDIA H200")
    device = TwoRuns(planted(16.0), planted(12.0, environment=other))
    assert device.obstacles == ("not the same device (NVIDIA H100 80GB HBM3 against NVIDIA H200)",)
    assert "Forced: not the same device" in text(device)
    warm = TwoRuns(planted(16.0), planted(12.0, warmup_steps=5))
    assert warm.obstacles == ("unequal warm-up (1 steps against 5 steps)",)
    profiled = TwoRuns(planted(16.0, probe="kernels"), planted(12.0))
    assert profiled.obstacles == ("measured under the profiler, which slows a step",)
    assert TwoRuns(planted(16.0), planted(12.0)).obstacles == ()


def test_a_smaller_share_of_the_processor_is_another_device() -> None:
    whole = ev.Environment(t=3, device="cpu", device_name="X", cpu_name="X", threads=8)
    part = msgspec.structs.replace(whole, threads=4)
    found = TwoRuns(planted(16.0, environment=whole), planted(12.0, environment=part))
    assert found.obstacles == ("not the same share of the CPU (Threads 8 against 4)",)


def test_what_runs_are_measured_with_is_named() -> None:
    variables = msgspec.structs.replace(GPU, variables={"OMP_NUM_THREADS": "2"})
    others = msgspec.structs.replace(GPU, variables={}, host="elsewhere")
    found = TwoRuns(
        planted(16.0, environment=variables), planted(12.0, environment=others, seed=3, processes=3)
    )
    assert {each.what: (each.base, each.other) for each in found.differences} == {
        "Processes": ("4", "3"),
        "Seed": ("0", "3"),
        "Host": ("unknown", "elsewhere"),
        "OMP_NUM_THREADS": ("2", "unset"),
    }


# ---------------------------------------------------------------------- kernels and memory


def test_kernel_classes_explain_what_changed() -> None:
    before = {("backward", "GEMM"): 26.0, ("backward", "norm"): 3.0, ("forward", "GEMM"): 13.0}
    after = {**before, ("backward", "GEMM"): 29.1, ("forward", "GEMM"): 10.0}
    assert explanation("backward", before, after, faster=False) == (
        "backward in the kernel profiles: GEMM +12 % (+3.10 of +3.10 ms), the rest unchanged "
        "within 1 %"
    )
    assert explanation("backward", before, after, faster=True) == ""  # it contradicts the times
    assert explanation("optimizer", before, after, faster=True) == ""


def profiled(backward: float, gemm: float) -> RunView:
    """Four timed processes and a kernel profile of the same steps; milliseconds."""
    luck = random.Random(f"{backward}")
    timed = [case(process=process) for process in range(4)]
    cases = [*timed, case(probe="kernels")]
    events: list[ev.Event] = []
    for at, of in enumerate(timed):
        rest = luck.gauss(1, 0.003)
        times: Times = {
            "forward": around(20 * rest),
            "backward": around(backward * rest),
            "optimizer": around(16 * rest),
        }
        events += run(at, of, times, observed(at, of))
    shares = {"GEMM": gemm, "norm": 6.0}
    classes = [
        ShareRow(phase="backward", label=label, calls=2, total_ms=2 * ms)
        for label, ms in shares.items()
    ]
    table = ev.KernelTable(
        case=4, source="cuda", steps=2, rows=(), classes=tuple(classes), ops=(), modules=(),
        gemms=(), launches=(),
        coverage=Coverage(activities=1, launches=1, launches_without_kernel=0, to_phase=None,
                          to_op=None, to_module=None, backward_to_module=None, outside_steps=0),
    )  # fmt: skip
    events += [ev.CaseStarted(case=4, pid=1), table, ev.CaseDone(case=4)]
    return view(cases, events)


def test_a_changed_phase_is_explained_by_profiles_of_the_same_steps() -> None:
    found = RunComparison(TwoRuns(profiled(40.0, 26.0), profiled(44.0, 29.1)), "a", "b")
    changed, why = found.sentences
    assert "backward slower: 9." in changed or "backward slower: 10." in changed
    assert why == (
        "medium · train · ctx 128 · fp32 · warm-up 1: backward in the kernel profiles: GEMM +12 % "
        "(+3.10 of +3.10 ms), the rest unchanged within 1 %."
    )
    (classes,) = (table for table in found.tables if table.key == "kernel-classes")
    assert [row[:2] for row in classes.rows] == [("backward", "GEMM"), ("backward", "norm")]


def test_profiles_and_recordings_stand_beside_the_times() -> None:
    found = RunComparison(TwoRuns(PROFILED, PROFILED), "a", "b")
    tables = {table.key: table for table in found.tables}
    assert {"differences", "changes", "kernel-classes", "peaks"} == set(tables)
    assert tables["kernel-classes"].rows[0][:3] == ("small", "forward", "GEMM")
    recorded = open_view(Path(__file__).parents[2] / "tui" / "demo-memory.llmprof")
    (categories,) = (
        table
        for table in RunComparison(TwoRuns(recorded, recorded), "a", "b").tables
        if table.key == "memory-categories"
    )
    assert "parameters" in {cell for row in categories.rows for cell in row}


def test_runs_of_other_experiments_say_so_and_name_the_cases_of_either() -> None:
    recorded = open_view(Path(__file__).parents[2] / "tui" / "demo-memory.llmprof")
    found = RunComparison(TwoRuns(recorded, planted(16.0, processes=1)), "a", "b")
    assert found.runs.pairs == ()
    assert found.runs.differences[0].what == "Experiment"
    (alone,) = (table for table in found.tables if table.key == "unanswered")
    assert {row[0] for row in alone.rows} == {"A", "B"}
    both = RunComparison(TwoRuns(recorded, recorded), "a", "b")
    assert "unanswered" not in {table.key for table in both.tables}


def test_unlike_sources_of_memory_are_not_compared() -> None:
    level = memory(0, {"forward": 2 << 30})
    resident = memory(0, {"forward": 3 << 30}, "process resident set")
    alike = RunComparison(
        TwoRuns(planted(16.0, extra=[level]), planted(12.0, extra=[level])), *"ab"
    )
    assert "peaks" in {table.key for table in alike.tables}
    found = RunComparison(
        TwoRuns(planted(16.0, extra=[level]), planted(12.0, extra=[resident])), *"ab"
    )
    assert "peaks" not in {table.key for table in found.tables}


def test_a_case_without_figures_in_one_run_is_named() -> None:
    gone = view([case()], failed(0, kind="oom", message="out of memory", phase="forward"))
    found = TwoRuns(planted(16.0, processes=1), gone)
    assert len(found.lost) == 1
    (line,) = RunComparison(found, "a", "b").sentences
    assert line.endswith("no figures in B (out of memory in forward), measured in A.")


# ------------------------------------------------------------------------------- formats


def test_formats_agree() -> None:
    found = RunComparison(TwoRuns(planted(16.0), planted(12.0)), "before", "after")
    said = json.loads(render(found, "json"))
    parts = {part["part"]: part for part in said["cases"][0]["parts"]}
    assert parts["optimizer"]["verdict"] == "faster"
    assert parts["optimizer"]["change_percent"] == pytest.approx(-25, abs=0.5)
    assert parts["loss"]["judged"] is False
    assert said["findings"] == list(found.sentences)
    cells = render(found, "csv")
    assert 'changes,"Step by phase, from A to B: medium' in cells
    assert ",Verdict,,faster" in cells
    lines = render(found, "md").splitlines()
    assert max(len(line) for line in lines if line.startswith("|")) <= 160


@pytest.mark.parametrize(
    ("one", "other", "told"),
    [
        ("tiny · ctx 128 · bf16", "tiny · ctx 128 · bf16", "tiny · ctx 128 · bf16"),
        ("tiny · ctx 128 · bf16", "tiny · ctx 128 · fp32", "tiny · ctx 128 · bf16 → fp32"),
        ("tiny · bf16", "tiny · bf16 · sdpa", "tiny · bf16 → tiny · bf16 · sdpa"),
    ],
)
def test_a_title_says_what_differs_between_the_two(one: str, other: str, told: str) -> None:
    assert _labels(one, other) == told
