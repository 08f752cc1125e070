"""Predictions as JSON data, one object a case and card."""

from __future__ import annotations

from typing import Any

from llmprof.core.predict.advice import Advice, advise
from llmprof.core.predict.fits import unsupported
from llmprof.core.predict.single_tensors import single_tensors
from llmprof.core.report.exports import config
from llmprof.core.report.predictions import PredictedRow, verdict_sentence


def prediction_document(row: PredictedRow) -> dict[str, Any]:
    """A prediction with its parts, its verdict and what would fit; sizes are bytes."""
    prediction, room, capability = row.prediction, row.room, row.capability
    return {
        "config": config(row.case),
        "requested_bytes": prediction.requested_bytes,
        "allocated_bytes": [prediction.allocated_low, prediction.allocated_high],
        "breakdown": prediction.breakdown,
        "peak_phase": prediction.peak_phase,
        "phases": {each.phase: each.peak for each in prediction.phases},
        "parts": [
            {"part": part.name, "bytes": part.size, "formula": part.formula}
            for part in row.parts
        ],
        "single_tensors": [
            {"tensor": each.name, "bytes": each.size, "formula": each.words,
             "numbers": each.numbers}
            for each in single_tensors(row.case, capability)
        ],
        "attention_kernel": prediction.kernel,
        "upper_bound": prediction.upper_bound,
        "card": None if room is None else room.name,
        "card_free_bytes": None if room is None else room.free_bytes,
        "verdict": row.verdict,
        "sentence": verdict_sentence(row),
        "unsupported": None if room is None else unsupported(row.case.precision, capability),
        "advice": [] if room is None or row.fits else [_advice(e) for e in advise(row.case, room)],
    }  # fmt: skip


def _advice(each: Advice) -> dict[str, Any]:
    return {
        "text": each.text,
        "changes": {axis.field: axis.of(each.case) for axis in each.axes},
        "requested_bytes": each.peak_bytes,
        "command": each.command,
    }
