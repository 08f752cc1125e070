from __future__ import annotations

import itertools
import math
from pathlib import Path

import msgspec
import pytest

from llmprof.core.catalog.experiments import build_experiment
from llmprof.core.catalog.models import select_models
from llmprof.core.engine.plan import estimate_s, left_out, prediction, refusal, warnings
from llmprof.core.events import Environment
from llmprof.core.figures.eta import remaining
from llmprof.core.predict.flops import lower_bound_bytes
from llmprof.core.spec.case import Case
from llmprof.core.state.histories import Series
from llmprof.core.state.view import CaseState, RunView
from llmprof.core.store.pack import open_view
from llmprof.core.system.text import clean

FIXTURES = Path(__file__).parent.parent / "fixtures"
CPU = Environment(device="cpu", device_name="CPU", matmul_tflops=0.1, unsupported={"tf32": "none"})


def case(model: str, **changes: object) -> Case:
    return msgspec.structs.replace(Case(model=select_models([model])[0]), **changes)


def test_bigger_work_takes_longer() -> None:
    small, large = estimate_s(case("small"), CPU), estimate_s(case("large"), CPU)
    assert small is not None
    assert large is not None
    assert large > 4 * small
    assert estimate_s(case("small"), msgspec.structs.replace(CPU, matmul_tflops=None)) is None


def test_compiling_takes_about_what_it_took_on_a_recorded_card() -> None:
    compiled = 0
    for name in ("switches-h100", "switches-large-h100"):
        recorded = open_view(FIXTURES / f"{name}.llmprof")
        environment = recorded.environment
        assert environment is not None
        for state in recorded.cases:
            cold = None if state.observed is None else state.observed.compile_ms
            if cold is None:
                continue
            eager = msgspec.structs.replace(state.case, compile=None)
            with_it, without = (estimate_s(each, environment) for each in (state.case, eager))
            assert with_it is not None
            assert without is not None
            assert with_it - without == pytest.approx(cold / 1e3, rel=0.35)
            compiled += 1
    assert compiled == 6


def test_sizes_are_left_out_whole() -> None:
    cases = [case(model, mode=mode) for model in ("tiny", "small") for mode in ("forward", "train")]
    skipped = left_out(cases, [10.0, 20.0, 15.0, 40.0], 60.0)
    assert set(skipped) == {2, 3}
    assert all(failure.kind == "skipped" for failure in skipped.values())
    assert skipped[2].instead == "llmprof run --model-size small"
    assert left_out(cases, [10.0, 20.0, 15.0, 40.0], None) == {}


@pytest.mark.parametrize(
    ("mode", "bytes_a_parameter"),
    [("forward", 4), ("forward-backward", 8), ("train", 16)],
)
def test_what_cannot_fit_is_refused_by_a_lower_bound(mode: str, bytes_a_parameter: int) -> None:
    tiny = case("tiny", mode=mode)
    logits = 2 * tiny.tokens * tiny.reference.vocab_size
    need = bytes_a_parameter * tiny.reference.parameters + logits
    experiment = build_experiment("end-to-end", {"models": ["tiny"]})
    assert refusal(tiny, experiment, CPU, need) is None
    failure = refusal(tiny, experiment, CPU, need - 1)
    assert failure is not None
    assert (failure.kind, failure.predicted, failure.bytes_asked) == ("oom", True, need)
    forced = msgspec.structs.replace(experiment, force=True)
    assert refusal(tiny, forced, CPU, 0) is None


def test_unsupported_precision_names_another() -> None:
    experiment = build_experiment("end-to-end", {"models": ["tiny"]})
    failure = refusal(case("tiny", precision="tf32"), experiment, CPU, None)
    assert failure is not None
    assert failure.kind == "unsupported"
    assert failure.instead is not None
    assert "--precision bf16" in failure.instead


def test_the_runs_own_pace_corrects_the_estimates() -> None:
    done = CaseState(
        0, case("tiny"), status="ok", estimate_s=10.0, started_ns=0, ended_ns=20 * 10**9
    )
    waiting = CaseState(1, case("small"), estimate_s=30.0)
    left = remaining(RunView(cases=(done, waiting)))
    assert left == pytest.approx(60.0)
    assert remaining(RunView(cases=(CaseState(0, case("tiny")),))) is None


def test_a_series_is_bounded_and_old_views_stay() -> None:
    series = Series(recent=32, chunk=8, old=24)
    for t in range(40):
        series.append(t, float(t))
    before = series.view()
    for t in range(40, 1000):
        series.append(t, None if t % 7 == 0 else float(t))
    after = series.view()
    assert before.points() == (list(range(40)), [float(t) for t in range(40)])
    assert len(after) <= 64
    times, values = after.points()
    assert times[-32:] == list(range(968, 1000))  # all that is recent
    old = [t for t in times if t < 960]
    assert {b - a for a, b in itertools.pairwise(old)} == {64}  # evenly over all that came before
    assert all(value == t or math.isnan(value) for t, value in zip(times, values, strict=True))
    assert after.last == 999.0
    assert series.view().between(990, 994) == [990.0, 991.0, 992.0, 993.0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("a\x1b[31mb", "a[31mb"),
        ("two\n lines\t", "two lines"),
        ("\u202eright\u2066", "right"),
        ("模型 🚀", "模型 🚀"),
        ("x" * 600, "x" * 499 + "…"),
        ("\udcff", ""),
    ],
)
def test_text_from_outside_is_one_printable_line(text: str, expected: str) -> None:
    assert clean(text) == expected


def test_on_a_card_the_closed_form_refuses_and_compiled_models_are_tried() -> None:
    card = msgspec.structs.replace(CPU, device="cuda:0", capability=(9, 0), unsupported={})
    experiment = build_experiment("end-to-end", {"models": ["small"]})
    long = case("small", mode="train", context_length=2048)
    said = prediction(0, long, card)
    assert said is not None
    assert said.allocated_low > 2 * lower_bound_bytes(long)
    assert refusal(long, experiment, card, said.allocated_low) is None
    assert refusal(long, experiment, card, said.allocated_low - 1) is not None
    compiled = msgspec.structs.replace(long, compile="default")
    assert refusal(compiled, experiment, card, said.allocated_low - 1) is None
    assert prediction(0, long, CPU) is None


def test_a_snapshot_that_cannot_be_had_is_one_line() -> None:
    wanted = build_experiment("memory", {"snapshot": True})
    assert [case.trace for case in wanted.cases()] == [True] * len(wanted.cases())
    (line,) = warnings(wanted, CPU)
    assert "cpu" in line
    assert "\n" not in line
    card = msgspec.structs.replace(CPU, device="cuda:0")
    assert warnings(wanted, card) == []
    assert warnings(build_experiment("memory", {}), CPU) == []


def test_attention_on_a_cpu_takes_the_cheapest_cells_of_every_width() -> None:
    grid = build_experiment("attention", {})
    cases = grid.cases()
    skipped = left_out(cases, [estimate_s(c, CPU) for c in cases], grid.cpu_budget_s, grid.name)
    taken = [c for i, c in enumerate(cases) if i not in skipped]
    assert {c.reference.d_model for c in taken} == {16, 32, 64, 128}
    assert sum(estimate_s(c, CPU) or 0 for c in taken) <= (grid.cpu_budget_s or 0)
    cells = {(c.reference.d_model, c.context_length) for c in taken}
    assert len(taken) == 3 * len(cells)  # compiled, raw and SDPA stay together
    longest = next(i for i, c in enumerate(cases) if c.context_length == 16384)
    assert "the cheapest first" in skipped[longest].message
    assert skipped[longest].instead == "llmprof run attention --d-model 16 --context-length 16384"


def test_a_first_model_that_takes_too_long_is_measured_in_its_cheapest_cells() -> None:
    plan = build_experiment("scaling", {})
    cases = plan.cases()
    skipped = left_out(cases, [estimate_s(c, CPU) for c in cases], plan.cpu_budget_s, plan.name)
    taken = [c for i, c in enumerate(cases) if i not in skipped]
    assert taken
    assert sum(estimate_s(c, CPU) or 0 for c in taken) <= (plan.cpu_budget_s or 0)
    assert max(c.tokens for c in taken) < max(c.tokens for c in cases)
    said = skipped[len(cases) - 1]
    assert said.instead == (
        "llmprof run scaling --model-size small --context-length 1024 --batch-size 16 --mode train"
    )


def test_switches_of_a_cell_are_never_torn_apart() -> None:
    plan = build_experiment("kernels", {})
    cases = plan.cases()
    skipped = left_out(cases, [100.0] * len(cases), 150.0, plan.name)
    assert [c.mode for i, c in enumerate(cases) if i not in skipped] == ["forward", "forward"]
