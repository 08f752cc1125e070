"""Sizes of parts and of single tensors against sums made by hand."""

from __future__ import annotations

import msgspec
import pytest

from llmprof.core.catalog.models import load_models
from llmprof.core.predict.closed_form import predict
from llmprof.core.predict.fits import Room
from llmprof.core.predict.part_sizes import PARTS, PartSize, part_sizes
from llmprof.core.predict.single_tensors import SingleTensor, single_tensors
from llmprof.core.report.prediction_parts import parts_table, peak_table
from llmprof.core.report.predictions import PredictedRow
from llmprof.core.report.single_tensors import tensor_table
from llmprof.core.report.table import Figure, Table, format_cell
from llmprof.core.spec.axes import MODES
from llmprof.core.spec.case import Case
from llmprof.core.spec.shape import ModelShape

GIB = 1 << 30
MIB = 1 << 20
AMPERE = (8, 0)

D, FF, LAYERS, HEADS, VOCABULARY = 128, 352, 7, 4, 999
SHAPE = ModelShape(name="m", d_model=D, d_ff=FF, num_layers=LAYERS, num_heads=HEADS,
                   vocab_size=VOCABULARY)  # fmt: skip
BATCH, LENGTH = 2, 64
TOKENS = BATCH * LENGTH
MATRICES = LAYERS * (4 * D * D + 3 * D * FF) + VOCABULARY * D  # that tokens are multiplied with
PARAMETERS = MATRICES + VOCABULARY * D + (2 * LAYERS + 1) * D  # and the embedding, the norms' gains


def case_of(**fields: object) -> Case:
    base = {"model": msgspec.to_builtins(SHAPE), "context_length": LENGTH, "batch_size": BATCH}
    return msgspec.convert({**base, **fields}, Case)


def parts_of(case: Case, capability: tuple[int, int] = AMPERE) -> dict[str, PartSize]:
    return {part.name: part for part in part_sizes(case, capability)}


def tensors_of(case: Case) -> dict[str, SingleTensor]:
    return {each.name: each for each in single_tensors(case, AMPERE)}


def predicted(case: Case, room: Room | None = None) -> PredictedRow:
    capability = AMPERE if room is None else room.capability
    return PredictedRow(case, predict(case, capability), room, None if room is None else "fits")


def shown(table: Table) -> list[dict[str, str]]:
    names = [column.header for column in table.columns]
    return [dict(zip(names, map(format_cell, row), strict=True)) for row in table.rows]


def test_parts_of_a_training_step_are_sums_made_by_hand() -> None:
    """The peak is in the optimizer, with no activation alive: their size is known all the same."""
    case = case_of(mode="train")
    assert predict(case, AMPERE).peak_phase == "optimizer"
    parts = parts_of(case)
    wide = 4 * TOKENS * D
    block = 10 * wide + 4 * 4 * TOKENS * FF + 4 * BATCH * HEADS * LENGTH**2 + 2 * 4 * TOKENS
    last = 3 * wide + 4 * TOKENS  # the last norm and what the output layer takes
    assert parts["parameters"].size == 4 * PARAMETERS == 6_650_368
    assert parts["gradients"].size == 4 * PARAMETERS
    assert parts["optimizer state"].size == 8 * PARAMETERS
    assert parts["activations"].size == LAYERS * block + last == 10_755_584
    assert parts["logits"].size == 4 * TOKENS * VOCABULARY
    assert parts["temporaries"].size == 4 * PARAMETERS + 4  # foreach's, and the loss
    assert parts["workspace"].size == 2 * (4096 * 2 + 16 * 8) * 1024
    rope, mask, tokens = 2 * 4 * LENGTH * D // HEADS // 2, LENGTH**2, 2 * 8 * TOKENS
    assert parts["inputs and buffers"].size == rope + mask + tokens
    assert list(parts) == [name for name in PARTS if name in parts]
    assert parts["parameters"].formula == "4 bytes × 1,662,592 parameters"


def test_under_autocast_weights_are_copied_and_logits_are_half_as_large() -> None:
    full, half = parts_of(case_of()), parts_of(case_of(precision="bf16"))
    assert "autocast copies" not in full
    assert half["autocast copies"].size == 2 * MATRICES
    assert half["autocast copies"].formula == "2 bytes × 1,532,800 weights"
    for name in ("parameters", "gradients", "optimizer state"):
        assert half[name] == full[name]
    assert 2 * half["logits"].size == full["logits"].size
    assert half["activations"].size < full["activations"].size


def test_a_fused_optimizer_counts_steps_and_has_no_temporaries_of_its_own() -> None:
    case = case_of(optimizer="fused")
    parts = parts_of(case)
    assert SHAPE.parameter_tensors == 9 * LAYERS + 3
    assert parts["optimizer state"].size == 8 * PARAMETERS + 4 * (9 * LAYERS + 3)
    assert parts["temporaries"].size < 4 * PARAMETERS
    assert "at their highest, in " in parts["temporaries"].formula


@pytest.mark.parametrize("mode", MODES)
def test_a_mode_has_the_parts_that_its_phases_make(mode: str) -> None:
    parts = parts_of(case_of(mode=mode))
    assert ("gradients" in parts) == (mode in ("forward-backward", "train"))
    assert ("optimizer state" in parts) == (mode == "train")
    assert ("activations" in parts) == (mode != "forward")


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("attention", ["naive", "sdpa"])
def test_no_part_is_larger_at_the_peak_than_its_size(precision: str, attention: str) -> None:
    """But activations: the loss saves log-probabilities on top, of bf16 logits in both widths."""
    for mode in MODES:
        case = case_of(mode=mode, precision=precision, attention=attention)
        parts = parts_of(case)
        logits = (4 if precision == "fp32" else 2 + 4) * TOKENS * VOCABULARY + 4
        for name, size in predict(case, AMPERE).breakdown.items():
            more = logits if name == "activations" else 0
            assert size <= parts[name].size + more, (case.label, name)


@pytest.mark.parametrize("blocks", [1, 3, "all"])
def test_with_checkpoints_activations_are_never_less_than_what_waits(blocks: object) -> None:
    """At the peak of a backward of many weights, which is late, hardly one of them may be left."""
    parts = parts_of(case_of(checkpoint=blocks))
    inputs = -(-LAYERS // blocks) if isinstance(blocks, int) else 1
    assert parts["activations"].size >= inputs * 4 * TOKENS * D
    known = predict(case_of(checkpoint=blocks), AMPERE)
    assert known.breakdown.get("activations", 0) <= parts["activations"].size + 4 * TOKENS * 2**10
    wide = Case(model=load_models()["xl"], precision="bf16", checkpoint=1)
    (few,) = (each for each in part_sizes(wide, AMPERE) if each.name == "activations")
    assert few.size >= 48 * 4 * 4 * 128 * 1600
    assert few.formula == "inputs of checkpoints, as forward ends"


def test_the_table_has_every_part_whatever_is_alive_at_the_peak() -> None:
    (row,) = shown(parts_table([predicted(Case(model=load_models()["xl"], context_length=512))]))
    assert row["Parameters"] == row["Gradients"] == "7.44"
    assert row["Optimizer state"] == "14.89"
    assert row["Activations"] == "19.96"
    assert row["Peak phase"] == "backward"
    (alive,) = shown(peak_table([predicted(case_of())]))
    assert alive["Peak phase"] == "optimizer"
    assert alive["Activations"] == "0"
    assert "Autocast copies" not in alive


def test_what_a_mode_lacks_is_not_called_zero() -> None:
    rows = [predicted(case_of(mode=mode)) for mode in ("forward", "train")]
    forward, train = shown(parts_table(rows))
    assert (forward["Gradients"], forward["Optimizer state"]) == ("n/a", "n/a")
    assert train["Gradients"] != "n/a"
    forward, train = shown(peak_table(rows))
    assert (forward["Activations"], train["Activations"]) == ("n/a", "0")


def test_cards_share_a_row_unless_their_parts_differ() -> None:
    rooms = [Room("A", 24 * GIB, (8, 0)), Room("B", 48 * GIB, (8, 0)), Room("C", 80 * GIB, (9, 0))]
    case = case_of()
    assert len(shown(parts_table([predicted(case, room) for room in rooms[:2]]))) == 1
    rows = shown(parts_table([predicted(case, room) for room in rooms]))
    assert [row["Card"] for row in rows] == ["A, B", "C"]


def test_single_tensors_are_products_made_by_hand() -> None:
    found = tensors_of(case_of(mode="forward-grad"))
    stream = found["residual stream, one activation"]
    assert stream.size == 4 * TOKENS * D
    assert (stream.words, stream.numbers) == (
        "batch × context × d_model × 4 bytes", "2 × 64 × 128 × 4"
    )  # fmt: skip
    scores = 4 * BATCH * HEADS * LENGTH**2
    assert found["attention scores of one layer"].size == scores
    assert found["softmax of the scores"].size == scores
    assert found["logits"].size == 4 * TOKENS * VOCABULARY
    saved = found["saved for backward by one block"]
    assert saved.size == 4 * (10 * TOKENS * D + 4 * TOKENS * FF + 2 * TOKENS) + scores


def test_single_tensors_of_xl_in_mib() -> None:
    case = Case(model=load_models()["xl"], context_length=512, precision="bf16")
    (stream, scores, softmax, logits, _) = [each.size / MIB for each in single_tensors(case)]
    assert stream == 4 * 512 * 1600 * 4 / MIB == 12.5
    assert (scores, softmax) == (50, 100)  # 4 × 25 × 512² in bf16, and in fp32
    assert logits == pytest.approx(4 * 512 * 10_000 * 2 / MIB)


def test_scores_are_told_from_other_tensors_of_their_size() -> None:
    """Of medium, 16 heads × 256 is d_ff and 16 heads × 64 is d_model."""
    model = load_models()["medium"]
    d_ff, d_model = (
        "4 tensors × batch × context × d_ff × 4 bytes",
        "10 tensors × batch × context × d_model × 4 bytes",
    )
    scores, statistics = (
        "batch × heads × context × context × 4 bytes",
        "2 tensors × batch × context × 4 bytes",
    )
    for length in (64, 256):
        case = Case(model=model, context_length=length, mode="train")
        saved = tensors_of(case)["saved for backward by one block"]
        assert saved.words == " + ".join((d_ff, d_model, scores, statistics))
        assert saved.size == 4 * 4 * length * (4 * 4096 + 10 * 1024 + 16 * length + 2)


def test_fused_attention_has_no_scores_and_saves_what_its_kernel_needs() -> None:
    found = tensors_of(case_of(mode="train", attention="sdpa", precision="bf16"))
    scores = found["attention scores of one layer"]
    assert (scores.size, scores.numbers) == (0, "")
    assert "SDPA takes them in tiles" in scores.words
    assert "softmax of the scores" not in found
    saved = found["saved for backward by one block"].words
    assert "batch × heads × context × 4 bytes" in saved  # its logarithms of sums
    assert "context × context" not in saved


def test_forward_alone_saves_nothing() -> None:
    assert "saved for backward by one block" not in tensors_of(case_of(mode="forward"))


def test_the_table_of_tensors_names_formula_and_mib_once_a_configuration() -> None:
    cases = [case_of(mode=mode, precision=p) for mode in MODES for p in ("fp32", "bf16")]
    table = tensor_table((case, AMPERE) for case in cases)
    assert [column.heading for column in table.columns] == [
        "Configuration", "Tensor", "Formula", "With the numbers", "Size (MiB)"
    ]  # fmt: skip
    assert table.number == "M38"
    rows = shown(table)
    assert [row["Configuration"] for row in rows] == (
        ["m · batch 2 · ctx 64 · fp32 · naive attention"] * 5
        + ["m · batch 2 · ctx 64 · bf16 · naive attention"] * 5
    )
    assert rows[3]["Tensor"] == "logits"
    assert table.rows[3][4] == Figure(4 * TOKENS * VOCABULARY / MIB, 0.1)
