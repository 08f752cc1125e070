"""What lets the card do less: a lower precision, a fused optimizer or attention."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from llmprof.core.catalog.cards import match_device
from llmprof.core.document.commands import judged
from llmprof.core.document.configurations import parameters
from llmprof.core.document.gains import Bound
from llmprof.core.document.levels import requested_peak_of
from llmprof.core.document.next_step import (
    OTHER,
    WORTH,
    NextStep,
    Target,
    card_floor,
)
from llmprof.core.document.paces import profile_of
from llmprof.core.kernels.attention_stages import SCALE_MASK, SOFT
from llmprof.core.lint.physics import OPTIMIZER_BYTES
from llmprof.core.predict.closed_form import HOPPER, Unpredictable, predict
from llmprof.core.spec.case import Case
from llmprof.core.state.view import CaseState


def lower_precision(of: Target) -> Iterator[NextStep]:
    """bf16 where products in fp32 take the card's time."""
    if of.case.precision != "fp32" or of.environment is None:
        return
    case = replace(of.case, precision="bf16")
    card = card_floor(of, case)
    if card is None or "bf16" in of.environment.unsupported or of.measured(case):
        return
    expected, saved = of.capped(card, case)
    if saved >= WORTH:
        yield NextStep(
            ("Forward and backward of ", *of.name, " take ", of.cell("Forward"), " and ",
             of.cell("Backward"), " ms in fp32"),
            judged(of.case, "precision", "fp32", "bf16"),
            expected,
            OTHER,
            saved,
        )  # fmt: skip


def fused_optimizer(of: Target) -> Iterator[NextStep]:
    """Fused AdamW where the update takes longer than the bytes that it moves."""
    optimizer = of.now.summaries.get("optimizer")
    card = None if of.environment is None else match_device(of.environment.device_name)
    if of.now.case.optimizer == "fused" or of.now.own_optimizer or optimizer is None:
        return
    if card is None or not card.bandwidth_gbs or not parameters(of.state):
        return
    if of.measured(replace(of.case, optimizer="fused")):
        return
    least = OPTIMIZER_BYTES * parameters(of.state) / card.bandwidth_gbs / 1e6
    expected, saved = of.at_most(
        Bound(of.ms - optimizer.mean + least, "by the bytes that it cannot do without")
    )
    if saved >= WORTH:
        yield NextStep(
            ("The optimizer of ", *of.name, " takes ", of.cell("Optimizer"), " ms and moves ",
             of.cell("Optimizer moves"), " GB/s"),
            judged(of.now.case, "optimizer", of.case.optimizer, "fused"),
            expected,
            OTHER,
            saved,
        )  # fmt: skip


def fused_attention(of: Target) -> Iterator[NextStep]:
    """SDPA where its kernel profile shows what naive attention takes beside its products."""
    profile, case = profile_of(of.tables, of.state), of.case
    if of.now.case.attention != "naive" or case.shape is None or profile is None:
        return
    lens = profile[1].lens
    if lens is None or of.measured(replace(case, attention="sdpa")):
        return
    spare = sum(row.device_us for row in lens.rows if row.stage in (SCALE_MASK, SOFT))
    spare_ms = spare * case.reference.num_layers / 1e3
    expected, saved = of.at_most(Bound(of.ms - spare_ms, "by its passes over the scores"))
    key = ("forward", SOFT)
    table = next((each for owner, each in of.tables.lenses if owner == profile), None)
    if saved >= WORTH and table is not None and table.known(key, "Of the direction's time"):
        yield NextStep(
            ("In the forward of one layer's attention of ", *of.name, " the softmax takes ",
             table.quote(key, "Of the direction's time"), " % of the time for ",
             table.quote(key, "Of the direction's operations"), " % of the operations"),
            judged(of.now.case, "attention", "naive", "sdpa"),
            expected + _less_memory(case, of.state),
            OTHER,
            saved,
        )  # fmt: skip


def _less_memory(case: Case, state: CaseState) -> str:
    """What prediction says of the peak without scores in memory."""
    before = requested_peak_of(state)
    environment = state.environment
    try:
        after = predict(
            replace(case, attention="sdpa"),
            HOPPER if environment is None or not environment.capability else environment.capability,
        ).requested_bytes
    except Unpredictable:
        return ""
    if not before or after >= before:
        return ""
    return f", and by prediction a peak about {round(100 * (1 - after / before)):d} % lower"
