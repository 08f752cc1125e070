"""`llmprof predict`: what cases need and whether they fit, without running them."""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

import msgspec

from llmprof.cli.exits import OK, UserError
from llmprof.cli.options import add_case_options, experiment_from
from llmprof.cli.streams import put
from llmprof.cli.types import listed
from llmprof.core.catalog.cards import find_card, match_device
from llmprof.core.catalog.experiments import DEFAULT
from llmprof.core.devices.sampler_process import SamplerProcess
from llmprof.core.events import CardSample
from llmprof.core.monitor.watch import Watch
from llmprof.core.predict.advice import Advice, advise
from llmprof.core.predict.closed_form import HOPPER, Unpredictable, predict
from llmprof.core.predict.fits import Room, decide, room_of, unsupported
from llmprof.core.predict.traced import TracedCase, trace_cases
from llmprof.core.report.markdown import section
from llmprof.core.report.predictions import (
    PredictedRow,
    advice_table,
    phase_table,
    prediction_table,
)
from llmprof.core.spec.case import Case
from llmprof.core.spec.shape import SpecError

Capability = tuple[int, int]
Traced = dict[tuple[str, Capability], TracedCase]

TRACER_START_S = 30.0  # NVML may take so long to start with persistence mode off


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `llmprof predict`."""
    parser.add_argument(
        "experiment", nargs="?", default=DEFAULT, help=f"whose cases to predict ({DEFAULT})"
    )
    add_case_options(parser)
    what = parser.add_argument_group("what to say")
    what.add_argument(
        "--card",
        type=listed(str),
        metavar="NAMES",
        help="cards by name or memory: H100-80GB,RTX-4090,24GiB (the cards that are there)",
    )
    what.add_argument("--phases", action="store_true", help="also the peak of every phase")
    what.add_argument("--json", action="store_true", help="print JSON")
    what.add_argument(
        "--trace", action="store_true", help="check by tracing the model on fake tensors"
    )


def run(args: argparse.Namespace) -> int:
    """Predict and print; exit code 0 whatever the verdicts. Raises UserError."""
    cases = _apart(experiment_from(args, args.experiment).cases())
    rooms = _rooms(args)
    try:
        rows = [row for case in cases for row in _rows(case, rooms)]
    except Unpredictable as error:
        raise UserError(str(error)) from error
    traced = _traced(rows) if args.trace else {}
    if args.json:
        put(json.dumps([_object(row, traced) for row in rows], indent=2))
    else:
        _print(rows, traced, args)
    return OK


def _apart(cases: tuple[Case, ...]) -> list[Case]:
    """The cases that differ in memory: not in how often or under what they are measured."""
    plain = [
        msgspec.structs.replace(
            case.configuration(), warmup_steps=5, measure_steps=10, warmup_auto=False
        )
        for case in cases
    ]
    return list(dict.fromkeys(plain))


def _rooms(args: argparse.Namespace) -> list[Room]:
    if args.card is None:
        return cards_here()
    try:
        return [room_of(find_card(name)) for name in args.card]
    except SpecError as error:
        raise UserError(str(error)) from error


def cards_here() -> list[Room]:
    """The cards of this machine with what is taken of them; none without a driver."""
    watch = Watch(SamplerProcess(1.0, None))
    end = time.monotonic() + TRACER_START_S
    try:
        while time.monotonic() < end:
            watch.poll(0.25)
            sample = watch.view().last_sample
            if sample is not None and (
                sample.cards or "is starting" not in (sample.cards_reason or "")
            ):
                return _distinct([room for card in sample.cards if (room := _room(card))])
        return []
    finally:
        watch.close()


def _room(sample: CardSample) -> Room | None:
    total, used = (sample.metrics.get(name) for name in ("memory_total", "memory_used"))
    if total is None or total.value is None:
        return None
    known = match_device(sample.name)
    taken = 0 if used is None or used.value is None else int(used.value)
    capability = HOPPER if known is None else known.capability
    return Room(sample.name, int(total.value), capability, taken)


def _distinct(rooms: list[Room]) -> list[Room]:
    return list(dict.fromkeys(rooms))


def _rows(case: Case, rooms: list[Room]) -> list[PredictedRow]:
    if not rooms:
        return [PredictedRow(case, predict(case), None, None)]
    rows = []
    for room in rooms:
        prediction = predict(case, room.capability)
        rows.append(PredictedRow(case, prediction, room, decide(case, prediction, room)))
    return rows


def _advice(row: PredictedRow) -> tuple[Advice, ...]:
    if row.room is None or row.verdict in (None, "fits"):
        return ()
    return advise(row.case, row.room.free_bytes, row.room.capability)


def _capability(row: PredictedRow) -> Capability:
    return HOPPER if row.room is None else row.room.capability


def _traced(rows: list[PredictedRow]) -> Traced:
    """Traced predictions of the rows' cases for the kinds of card that the rows are of."""
    found: Traced = {}
    for kind in dict.fromkeys(map(_capability, rows)):
        cases = list({row.case.key: row.case for row in rows if _capability(row) == kind}.values())
        found |= {(key, kind): one for key, one in trace_cases(cases, kind).items()}
    return found


def _object(row: PredictedRow, traced: Traced) -> dict[str, Any]:
    prediction = row.prediction
    found: dict[str, Any] = {
        "config": msgspec.to_builtins(row.case),
        "requested_bytes": prediction.requested_bytes,
        "allocated_bytes": [prediction.allocated_low, prediction.allocated_high],
        "breakdown": prediction.breakdown,
        "peak_phase": prediction.peak_phase,
        "phases": {each.phase: each.peak for each in prediction.phases},
        "attention_kernel": prediction.kernel,
        "upper_bound": prediction.upper_bound,
        "card": None if row.room is None else row.room.name,
        "card_free_bytes": None if row.room is None else row.room.free_bytes,
        "verdict": row.verdict,
        "unsupported": None
        if row.room is None
        else unsupported(row.case.precision, row.room.capability),
        "advice": [
            {"change": each.change, "text": each.text, "command": each.command}
            for each in _advice(row)
        ],
    }
    if (answer := traced.get((row.case.key, _capability(row)))) is not None:
        found["traced"] = msgspec.to_builtins(answer)
    return found


def _print(rows: list[PredictedRow], traced: Traced, args: argparse.Namespace) -> None:
    put(section(prediction_table(rows)))
    if args.phases:
        put("\n" + section(phase_table(rows)))
    if not any(row.room for row in rows):
        put("\nNo card here: name some with `--card H100-80GB,RTX-4090,24GiB` for a verdict.")
    for row in rows:
        if row.room is not None and row.verdict not in (None, "fits"):
            put("\n" + _what_fits(row, row.room))
    for (key, kind), answer in traced.items():
        row = next(row for row in rows if (row.case.key, _capability(row)) == (key, kind))
        on = "" if row.room is None else f" on {row.room.name}"
        put(f"\n{row.case.label}{on}: {_said(row, answer)}")


def _what_fits(row: PredictedRow, room: Room) -> str:
    advice = _advice(row)
    if advice:
        return section(advice_table(row.case, room, advice))
    least = "no smaller batch, context, precision or mode fits for certain"
    return f"{row.case.label} on {room.name}: {row.verdict}, and {least}."


def _said(row: PredictedRow, result: TracedCase) -> str:
    if result.requested_bytes is None:
        return result.error or "not traced"
    predicted = row.prediction.requested_bytes
    difference = 100 * (predicted / result.requested_bytes - 1)
    return (
        f"traced {result.requested_bytes / 2**30:,.3f} GiB in {result.seconds or 0:.1f} s, "
        f"closed form {difference:+.4f} %"
    )
