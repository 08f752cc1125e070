"""`llmprof presets`: models with their dimensions and counted parameters."""

from __future__ import annotations

import argparse
import json

import msgspec

from llmprof.cli.exits import OK, UserError
from llmprof.cli.printed import put_list
from llmprof.cli.streams import put
from llmprof.core.catalog.models import load_models, user_folder
from llmprof.core.report.shape_columns import SHAPE, shape_cells
from llmprof.core.report.table import Column, Table
from llmprof.core.spec.shape import SpecError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `llmprof presets`."""
    parser.add_argument("--json", action="store_true", help="as JSON")
    parser.add_argument(
        "--cards", action="store_true", help="the cards instead, with their published figures"
    )


def run(args: argparse.Namespace) -> int:
    """Print the presets. Raises UserError for a preset file that can't be read."""
    try:
        return _cards(as_json=args.json) if args.cards else _models(as_json=args.json)
    except SpecError as error:
        raise UserError(str(error)) from error


def _models(*, as_json: bool) -> int:
    models = load_models()
    if as_json:
        data = [
            {
                **msgspec.to_builtins(model),
                "kv_heads": model.num_kv_heads,
                "parameters": model.parameters,
            }
            for model in models.values()
        ]
        put(json.dumps(data, indent=2, ensure_ascii=False))
        return OK
    columns = (
        Column("Size", numeric=False),
        *SHAPE,
        Column("kv_heads"),
        Column("vocab_size"),
        Column("Tied", numeric=False),
        Column("Parameters"),
        Column("Edition", numeric=False),
    )
    rows = tuple(
        (
            model.name,
            *shape_cells(model),
            str(model.num_kv_heads),
            str(model.vocab_size),
            "yes" if model.tie_embeddings else "no",
            model.parameters,
            model.edition,
        )
        for model in models.values()
    )
    put_list(
        Table("presets", "Presets", columns, rows),
        f"`all` means tiny to 2.7B. Your own: TOML files in {user_folder()}.",
    )
    return OK


def _cards(*, as_json: bool) -> int:
    from llmprof.core.catalog.cards import load_cards  # the models need none
    from llmprof.core.spec.axes import PRECISIONS

    cards = load_cards()
    if as_json:
        data = [msgspec.to_builtins(card) for card in cards.values()]
        put(json.dumps(data, indent=2, ensure_ascii=False))
        return OK
    columns = (
        Column("Card", numeric=False),
        Column("Capability", numeric=False),
        Column("Memory", "GiB"),
        Column("Bandwidth", "GB/s"),
        *(Column(f"{precision} peak", "TFLOP/s") for precision in PRECISIONS),
        Column("Source", numeric=False),
    )
    rows = tuple(
        (
            card.name,
            ".".join(map(str, card.capability)),
            f"{card.memory_gib:g}",
            _published(card.bandwidth_gbs),
            *(_published(card.peak(precision)) for precision in PRECISIONS),
            card.source,
        )
        for card in cards.values()
    )
    put_list(
        Table("cards", "Cards", columns, rows),
        "Peaks are dense, of tensor cores where there are any, with sums in fp32. n/a: the card "
        "has none, or its maker publishes none; there is no MFU then. Your own: "
        f"{user_folder() / 'cards.toml'}.",
    )
    return OK


def _published(figure: float | None) -> str | None:
    return None if figure is None else f"{figure:g}"
