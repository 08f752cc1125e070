"""Short names and classes of real kernels."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmprof.core.kernels.classes import classify
from llmprof.core.kernels.columns import Kind
from llmprof.core.kernels.narrow_names import narrow
from llmprof.core.kernels.short_names import LONGEST_NAME, short_name, short_names
from llmprof.core.store.pack import open_view
from tests.builders.kernel_events import FIXTURES

Row = tuple[int, str, str | None, str | None, str | None]
LIBRARY_GEMM = (
    "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize64x64x8_stage3_warpsize1x4x1_ffma_aligna4"
    "_alignc4_execute_{}kernel__5x_cublas"
)
ADD = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>,"
    " std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>)"
)
SOFTMAX = (
    "void (anonymous namespace)::softmax_warp_forward<float, float, float, 7, false, false>"
    "(float*, float const*, int, int, int, bool const*, int, bool)"
)
CUTLASS = (
    "void cutlass::Kernel2<cutlass_80_simt_sgemm_256x128_8x4_nn_align1>"
    "(cutlass_80_simt_sgemm_256x128_8x4_nn_align1::Params)"
)


def real() -> list[Row]:
    return [tuple(row) for row in json.loads((FIXTURES / "kernels-names-h100.json").read_text())]


def test_real_names_stay_apart_and_short() -> None:
    names = sorted({row[1] for row in real()})
    short = short_names(names)
    assert len(names) > 100
    assert len(set(short)) == len(names)
    assert max(map(len, short)) <= LONGEST_NAME


@given(st.lists(st.text(max_size=200), unique=True, max_size=20))
def test_any_names_stay_apart(names: list[str]) -> None:
    short = short_names(names)
    assert len(set(short)) == len(names)
    assert all(len(text) <= LONGEST_NAME for text in short)


@given(st.lists(st.sampled_from([row[1] for row in real()]), max_size=30))
def test_one_kernel_has_one_name(names: list[str]) -> None:
    short = dict(zip(names, short_names(names), strict=True))
    assert [short[name] for name in names] == list(short_names(names))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (ADD, "add f32 · vectorized_elementwise"),
        (SOFTMAX, "softmax_warp_forward f32"),
        (CUTLASS, "cutlass_80_simt_sgemm_256x128_8x4_nn_align1"),
        ("nvjet_sm90_hsh_64x64_64x13_2x2_h_bz_TNT", "nvjet_sm90_hsh_64x64_64x13_2x2_h_bz_TNT"),
        ("Memcpy DtoH (Device -> Pinned)", "Memcpy DtoH"),
        ("aten::mm", "aten::mm"),
        (
            "autograd::engine::evaluate_function: MmBackward0",
            "autograd::engine::evaluate_function: MmBackward0",
        ),
    ],
)
def test_examples(name: str, expected: str) -> None:
    assert short_name(name) == expected


def test_gemms_that_differ_at_the_end_keep_the_difference() -> None:
    plain, split = short_names([LIBRARY_GEMM.format(""), LIBRARY_GEMM.format("split_k_")])
    assert split == f"{plain}_split_k"
    assert "tile64x64x8" in plain


def test_real_kernels_have_a_class() -> None:
    found = {(row[2], classify(Kind(row[0]), row[1], *row[2:])) for row in real()}
    by_op = dict(found)
    assert by_op["aten::mm"] in ("GEMM", "memset")
    assert by_op["aten::bmm"] == "GEMM"
    assert by_op["aten::_softmax"] == "softmax"
    assert by_op["aten::_cudnn_attention_forward"] in ("attention", "memset")
    assert by_op["aten::_efficient_attention_backward"] == "attention"
    assert by_op["aten::_fused_adamw_"] == "optimizer"
    assert by_op["aten::silu_backward"] == "elementwise"
    assert by_op["aten::nll_loss_forward"] == "reduction"
    assert by_op["aten::cat"] == "copy"
    others = {op for op, group in found if group == "other"}
    assert others <= {"aten::gather", "aten::embedding_dense_backward", "aten::index_select"}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((Kind.KERNEL, ADD, "aten::add", "forward", "blocks.*"), "elementwise"),
        ((Kind.KERNEL, ADD, "aten::add", "forward", "blocks.*.ffn_norm"), "norm"),
        ((Kind.KERNEL, ADD, "aten::add", "optimizer", "(optimizer)"), "optimizer"),
        ((Kind.MEMCPY, "Memcpy HtoD", "aten::copy_", "optimizer", None), "copy"),
        ((Kind.MEMSET, "Memset (Device)", "aten::mm", "forward", None), "memset"),
        ((Kind.KERNEL, "void cublasLt::splitKreduce_kernel<1>()", None, None, None), "GEMM"),
        ((Kind.KERNEL, "triton_poi_fused_mul_silu_6", None, "forward", None), "elementwise"),
        ((Kind.KERNEL, "triton_per_fused_add_mean_mul_pow_rsqrt_5", None, None, None), "norm"),
        ((Kind.KERNEL, "mystery", None, None, None), "other"),
        ((Kind.OP, "aten::mm", "aten::mm", "forward", None), "GEMM"),
        ((Kind.OP, "aten::matmul", "aten::matmul", "forward", None), "other"),
        ((Kind.KERNEL, "ampere_sgemm_matmul", None, "forward", None), "GEMM"),
    ],
)
def test_classes(
    arguments: tuple[Kind, str, str | None, str | None, str | None], expected: str
) -> None:
    assert classify(*arguments) == expected


def on_a_card() -> set[str]:
    """Short names of every kernel that was recorded: cuBLAS, CUTLASS, cuDNN, triton, torch."""
    names = {row[1] for row in json.loads((FIXTURES / "kernels-names-h100.json").read_text())}
    view = open_view(Path(str(resources.files("llmprof.tui"))) / "demo-kernels.llmprof")
    profiled = [row.name for state in view.cases if state.kernels for row in state.kernels.rows]
    return {*short_names(sorted(names)), *profiled}


@pytest.mark.parametrize("width", [38, 44, 60])
def test_kernels_are_told_apart_in_a_narrow_column(width: int) -> None:
    names = on_a_card()
    assert len(names) > 100
    seen = {name: narrow(name, width) for name in names}
    assert all(len(text) <= width for text in seen.values())
    assert all(text == name for name, text in seen.items() if len(name) <= width)
    assert len(set(seen.values())) == len(names)


@pytest.mark.parametrize(
    ("name", "width", "text"),
    [
        (
            "sm80_xmma_gemm_f32_tn_n_tile64x64x8_s3_w1x4x1_ffma_a4c4_split_k",
            38,
            "xmma_gemm_f32_tn_n_tile64x64x8…split_k",
        ),
        (
            "sm80_xmma_gemm_f32_tn_n_tile64x64x8_s3_w1x4x1_ffma_a4c4",
            38,
            "sm80_xmma_gemm_f32_tn_n_tile64x64x8…",
        ),
        (
            "cutlass_80_simt_sgemm_256x128_8x4_nn_align1",
            40,
            "cutlass_80_simt_sgemm_256x128_8x4_nn…",
        ),
        ("a_name_that_no_rule_knows_of_1", 16, "a_name_tha…_of_1"),
        ("short", 38, "short"),
        ("abc", 1, "…"),
    ],
)
def test_a_narrow_name_keeps_what_tells_it_apart(name: str, width: int, text: str) -> None:
    assert narrow(name, width) == text
