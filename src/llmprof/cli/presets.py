"""`llmprof presets`: models with their dimensions and counted parameters."""

from __future__ import annotations

import argparse
import json

import msgspec

from llmprof.cli.exits import OK, UserError
from llmprof.cli.streams import put
from llmprof.core.catalog.models import load_models, user_folder
from llmprof.core.report.markdown import grid
from llmprof.core.report.table import Column, Table
from llmprof.core.report.timing import SHAPE, shape_cells
from llmprof.core.spec.shape import SpecError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `llmprof presets`."""
    parser.add_argument("--json", action="store_true", help="as JSON")


def run(args: argparse.Namespace) -> int:
    """Print the presets. Raises UserError for a preset file that can't be read."""
    try:
        models = load_models()
    except SpecError as error:
        raise UserError(str(error)) from error
    if args.json:
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
    put(grid(Table("presets", "Presets", columns, rows)))
    put(f"\n`all` means tiny to 2.7B. Your own: TOML files in {user_folder()}.")
    return OK
