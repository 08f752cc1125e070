"""FLOPs of the presets, conventions and lower bounds."""

from __future__ import annotations

import pytest

from llmprof.core.predict import flops
from llmprof.core.spec.axes import MODES, Mode
from llmprof.core.spec.case import Case
from llmprof.core.spec.shape import ModelShape

PRESETS = {
    "tiny": (512, 1344, 4, 16, 0.0185, 0.0806),
    "small": (768, 3072, 12, 12, 0.1262, 0.5340),
    "medium": (1024, 4096, 24, 16, 0.4292, 1.7943),
    "large": (1280, 5120, 36, 20, 0.9916, 4.1112),
    "xl": (1600, 6400, 48, 25, 2.0498, 8.4407),
    "2.7B": (2560, 10240, 32, 32, 3.4837, 14.1924),
    "10B": (4608, 12288, 50, 36, 13.15, 53.34),
}


def shape(name: str, **changes: object) -> ModelShape:
    """A preset's shape with changes."""
    d_model, d_ff, num_layers, num_heads, *_ = PRESETS[name]
    fields: dict[str, object] = {
        "name": name,
        "d_model": d_model,
        "d_ff": d_ff,
        "num_layers": num_layers,
        "num_heads": num_heads,
    }
    return ModelShape(**(fields | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize(("column", "context"), [(4, 128), (5, 512)])
def test_forward_flops_match_the_published_table(name: str, column: int, context: int) -> None:
    case = Case(model=shape(name), context_length=context)
    digits = 2 if name == "10B" else 4
    assert round(flops.forward_flops(case) / 1e12, digits) == PRESETS[name][column]


def test_backward_is_twice_forward_and_step_follows_the_mode() -> None:
    cases = {mode: Case(model=shape("tiny"), mode=mode) for mode in MODES}
    forward = flops.forward_flops(cases["train"])
    assert flops.backward_flops(cases["train"]) == 2 * forward
    assert [flops.step_flops(case) / forward for case in cases.values()] == [1, 1, 3, 3]
    assert flops.phase_flops(cases["forward"], "backward") is None
    assert flops.phase_flops(cases["train"], "optimizer") is None


def test_a_training_token_costs_six_n_plus_attention() -> None:
    model = shape("small")
    case = Case(model=model, context_length=512)
    n = model.parameters - model.vocab_size * model.d_model - 25 * model.d_model  # norms
    expected = 6 * n + 12 * model.num_layers * model.d_model * 512
    assert flops.step_flops(case) == expected * case.tokens


def test_causal_convention_counts_the_triangle() -> None:
    case = Case(model=shape("tiny"), context_length=3)
    full = flops.forward_breakdown(case).attention
    causal = flops.forward_breakdown(case, "causal").attention
    assert causal * 9 == full * 6


def test_grouped_heads_and_tied_embeddings_count_once() -> None:
    grouped = shape("small", kv_heads=4, tie_embeddings=True)
    d = 768
    block = 2 * d * d + 2 * d * 256 + 3 * d * 3072
    assert flops.matmul_parameters(grouped) == 12 * block + 10_000 * d


def test_attention_probe_is_one_attention_without_projections() -> None:
    case = Case(model=shape("tiny"), probe="attention", context_length=256, batch_size=8)
    assert flops.forward_flops(case) == 4 * 8 * 256 * 256 * 512
    assert flops.lower_bound_bytes(case) == 6 * 4 * 8 * 256 * 512


@pytest.mark.parametrize(
    ("mode", "factor"),
    [("forward", 4), ("forward-grad", 4), ("forward-backward", 8), ("train", 16)],
)
def test_lower_bound_is_bytes_a_parameter(mode: Mode, factor: int) -> None:
    case = Case(model=shape("small"), mode=mode)
    assert flops.lower_bound_bytes(case) == factor * 128_625_408


def test_mfu_needs_a_time_and_may_exceed_one() -> None:
    assert flops.mfu(10**12, 0.0, 60) is None
    assert flops.mfu(2 * 10**12, 0.01, 100) == 2.0
