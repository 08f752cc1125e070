"""The tape against a card, op by op: every level that a step's ops reached."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from llmprof.core.predict.reference_step import Reference
from llmprof.core.predict.tape import Tape
from llmprof.core.spec.case import Case

FIXTURE = Path(__file__).parent.parent / "fixtures" / "predict-ops-h100.json"
RECORDED = json.loads(FIXTURE.read_text())["cases"]
SCALARS = 64  # bytes: losses, their gradients, the loss scaler's numbers


def taped(case: Case) -> list[int]:
    tape = Tape(grad=case.mode != "forward", inplace=False, trace=[])
    model = Reference(case, case.reference.num_layers, (9, 0), tape)
    logits = model.forward()
    if case.mode == "train":
        loss = model.loss(logits)
        model.end_autocast(0)
        del logits
        tape.backward(tape.new(1, 4))
        del loss
    assert tape.trace is not None
    return [level for _, level in tape.trace]


@pytest.mark.parametrize("row", RECORDED, ids=lambda row: " ".join(map(str, _name(row[0]))))
def test_every_op_reaches_the_level_that_it_reached_on_the_card(row: Any) -> None:
    case = msgspec.convert(row[0], Case)
    mine, at = taped(case), 0
    for level in row[1]:
        while at < len(mine) and abs(mine[at] - level) > SCALARS:
            at += 1  # an op that allocates several tensors has one level in the recording
        assert at < len(mine), f"no op of the tape reaches {level} bytes in this place"
        at += 1
    assert len(row[1]) > 0.8 * len(mine)


def _name(fields: dict[str, Any]) -> tuple[str, str, str, str]:
    return fields["model"]["name"], fields["precision"], fields["attention"], fields["mode"]


def test_recording_covers_shapes_precisions_and_attentions() -> None:
    assert len({_name(row[0]) for row in RECORDED}) == len(RECORDED) >= 18
