"""The dimensions of a model, as columns of a table."""

from __future__ import annotations

from llmprof.core.report.table import Cell, Column
from llmprof.core.spec.own_model import Model
from llmprof.core.spec.shape import ModelShape

SHAPE_FIELDS = ("d_model", "d_ff", "num_layers", "num_heads")
SHAPE = tuple(map(Column, SHAPE_FIELDS))


def shape_cells(model: Model) -> tuple[Cell, ...]:
    """The dimensions that every size table shows, without separators; unknown of an own model."""
    return tuple(dimension(model, name) for name in SHAPE_FIELDS)


def dimension(model: Model, name: str) -> Cell:
    """One of them; unknown of an own model."""
    return str(getattr(model, name)) if isinstance(model, ModelShape) else None
