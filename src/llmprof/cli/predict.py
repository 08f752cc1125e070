"""`llmprof predict`: what cases need and whether they fit, without running them."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import msgspec

from llmprof.cli.cards import rooms
from llmprof.cli.exits import CRASHED, NOTHING, OK, UserError
from llmprof.cli.options import add_case_options, add_export_option, experiment_from
from llmprof.cli.output import check_exports
from llmprof.cli.printed import put_page
from llmprof.cli.streams import put, tell
from llmprof.cli.types import listed
from llmprof.core.catalog.experiments import DEFAULT
from llmprof.core.predict.closed_form import HOPPER, Unpredictable, predict, without_workspaces
from llmprof.core.predict.fits import Room, decide
from llmprof.core.predict.traced import TracedCase, trace_cases, traced_prediction
from llmprof.core.report.advice import advice_table
from llmprof.core.report.formats import ExportError, format_of, write
from llmprof.core.report.long_csv import to_cells
from llmprof.core.report.markdown_table import section
from llmprof.core.report.prediction_document import prediction_document
from llmprof.core.report.prediction_parts import part_tables
from llmprof.core.report.predictions import (
    PredictedRow,
    phase_table,
    prediction_table,
    verdict_sentence,
)
from llmprof.core.report.single_tensors import tensor_table
from llmprof.core.report.table import Table
from llmprof.core.spec.case import Case

Capability = tuple[int, int]
Traced = dict[tuple[str, Capability], TracedCase]

NO_CARD = (
    "No card here: name some with `--card H100-80GB,RTX-4090,24GiB` for a verdict. These figures "
    "are for an H100, with the 32 MiB of workspace that its cuBLAS takes for the forward and again "
    "for the backward; a CPU needs none of it, as `llmprof run memory --device cpu` shows."
)
ON_CPU = (
    "These figures are for a CPU: without the workspace that cuBLAS takes on a card. Attention "
    "kernels are those of an H100; `--card` names a card to predict for."
)
NOTHING_FITS = (
    "No switch, no smaller batch or context and no narrower mode is certain to make it fit."
)


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
    what.add_argument(
        "--tensors",
        action="store_true",
        help="also single tensors: an activation, scores, logits, what a block saves",
    )
    what.add_argument("--json", action="store_true", help="print JSON, with all of this")
    what.add_argument(
        "--trace", action="store_true", help="check by tracing the model on fake tensors"
    )
    add_export_option(parser)


def run(args: argparse.Namespace) -> int:
    """Predict, print and export; exit code 0 whatever the verdicts. Raises UserError."""
    check_exports(args.export)
    try:
        cases = _apart(experiment_from(args, args.experiment).cases())
        on_cpu = args.device == "cpu" and args.card is None
        cards = [] if on_cpu else rooms(args.card)
        own = [case for case in cases if case.shape is None]
        rows = [
            row for case in cases if case.shape is not None for row in _rows(case, cards, on_cpu)
        ]
    except Unpredictable as error:
        raise UserError(str(error)) from error
    traced = _traced(rows) if args.trace else {}
    found, failed = _own_rows(own, cards, on_cpu)
    if not rows and not found:
        raise UserError("; ".join(failed), NOTHING)
    rows += found
    if args.json:
        put(_json(rows, traced))
    else:
        said = _said_of(rows, traced, _tables(rows, phases=args.phases, tensors=args.tensors))
        put_page(said, _markdown(said))
    for line in failed:
        tell(f"llmprof: {line}")
    _export(rows, traced, args.export)
    return OK


def _export(rows: list[PredictedRow], traced: Traced, paths: list[Path]) -> None:
    """Write the files, with every table. Raises UserError."""
    tables = _tables(rows, phases=True, tensors=True)
    for path in paths:
        match format_of(path):
            case "md":
                text = (
                    f"# llmprof: predicted memory\n\n{_markdown(_said_of(rows, traced, tables))}\n"
                )
            case "csv":
                text = to_cells([*tables, *filter(None, map(_advice, _misfits(rows)))])
            case "json":
                text = _json(rows, traced) + "\n"
        try:
            write(path, text)
        except ExportError as error:
            raise UserError(str(error), CRASHED) from error
        tell(f"wrote {path}")


def _apart(cases: tuple[Case, ...]) -> list[Case]:
    """The cases that differ in memory: not in how often or under what they are measured."""
    plain = [
        msgspec.structs.replace(
            case.configuration(), warmup_steps=5, measure_steps=10, warmup_auto=False
        )
        for case in cases
    ]
    return list(dict.fromkeys(plain))


def _rows(case: Case, rooms: list[Room], on_cpu: bool) -> list[PredictedRow]:
    if on_cpu:
        return [PredictedRow(case, without_workspaces(predict(case), case), None, None, on_cpu)]
    if not rooms:
        return [PredictedRow(case, predict(case), None, None)]
    rows = []
    for room in rooms:
        prediction = predict(case, room.capability)
        rows.append(PredictedRow(case, prediction, room, decide(case, prediction, room)))
    return rows


def _own_rows(
    cases: list[Case], cards: list[Room], on_cpu: bool
) -> tuple[list[PredictedRow], list[str]]:
    """Rows of own models, which are traced; and of those that cannot be, a line that says why."""
    rows, failed = [], {}
    rooms: list[Room | None] = [*cards] or [None]
    for room in rooms:
        kind = HOPPER if room is None else room.capability
        answers = trace_cases(cases, None if on_cpu else kind) if cases else {}
        for case in cases:
            answer = answers[case.key]
            if answer.requested_bytes is None:
                failed[case.model.name] = f"{case.model.name} {answer.error or 'was not traced'}"
                continue
            prediction = traced_prediction(case, answer)
            verdict = None if room is None else decide(case, prediction, room)
            rows.append(PredictedRow(case, prediction, room, verdict, on_cpu))
    return rows, list(failed.values())


def _traced(rows: list[PredictedRow]) -> Traced:
    """Traced predictions of the rows' cases for the kinds of card that the rows are of."""
    found: Traced = {}
    for kind in dict.fromkeys(row.capability for row in rows):
        cases = list({row.case.key: row.case for row in rows if row.capability == kind}.values())
        device = None if any(row.on_cpu for row in rows) else kind
        found |= {(key, kind): one for key, one in trace_cases(cases, device).items()}
    return found


def _json(rows: list[PredictedRow], traced: Traced) -> str:
    objects = []
    for row in rows:
        found = prediction_document(row)
        if (answer := traced.get((row.case.key, row.capability))) is not None:
            found["traced"] = msgspec.to_builtins(answer)
        objects.append(found)
    return json.dumps(objects, indent=2, ensure_ascii=False)


def _tables(rows: list[PredictedRow], *, phases: bool, tensors: bool) -> list[Table]:
    found = [prediction_table(rows), *part_tables(rows)]
    if phases:
        found.append(phase_table(rows))
    known = [row for row in rows if row.case.shape is not None]
    if tensors and known:
        found.append(tensor_table((row.case, row.capability) for row in known))
    return found


def _misfits(rows: list[PredictedRow]) -> list[PredictedRow]:
    return [row for row in rows if not row.fits]


def _advice(row: PredictedRow) -> Table | None:
    return None if row.room is None else advice_table(row.case, row.room, verdict_sentence(row))


def _said_of(rows: list[PredictedRow], traced: Traced, tables: list[Table]) -> list[Table | str]:
    """Tables and sentences in their order."""
    parts: list[Table | str] = [*tables]
    if not any(row.room for row in rows):
        parts.append(ON_CPU if any(row.on_cpu for row in rows) else NO_CARD)
    parts += map(_what_fits, _misfits(rows))
    for (key, kind), answer in traced.items():
        row = next(row for row in rows if (row.case.key, row.capability) == (key, kind))
        on = "" if row.room is None else f" on {row.room.name}"
        parts.append(f"{row.case.label}{on}: {_said(row, answer)}")
    return parts


def _markdown(parts: list[Table | str]) -> str:
    return "\n\n".join(
        section(part, any_width=True) if isinstance(part, Table) else part for part in parts
    )


def _what_fits(row: PredictedRow) -> Table | str:
    return _advice(row) or f"{verdict_sentence(row)} {NOTHING_FITS}"


def _said(row: PredictedRow, result: TracedCase) -> str:
    if result.requested_bytes is None:
        return result.error or "not traced"
    predicted = row.prediction.requested_bytes
    difference = 100 * (predicted / result.requested_bytes - 1)
    return (
        f"traced {result.requested_bytes / 2**30:,.3f} GiB in {result.seconds or 0:.1f} s, "
        f"closed form {difference:+.4f} %"
    )
