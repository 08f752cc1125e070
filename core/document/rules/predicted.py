"""How far predicted peaks are from measured ones."""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from llmprof.core.document.finding import Finding
from llmprof.core.document.levels import UNDER
from llmprof.core.document.quotes import KeyedTable, number
from llmprof.core.document.tables import Tables

CLOSE = 1.0  # percent


def peaks(tables: Tables) -> Iterator[Finding]:
    """The largest error of a predicted peak."""
    table = tables.predicted
    known = [key for key in table.keys if _eager_with_error(table, key)] if table else []
    if table is None or not known:
        return
    worst = max(known, key=lambda key: (_error(table, key), _trains(table, key)))
    begin = (
        "Requested peaks come out as they were predicted"
        if _error(table, worst) < CLOSE
        else "Not every requested peak comes out as predicted"
    )
    if _error(table, worst):
        told = "{begin}: the largest error is {Error} %, of {Size}, {Mode} ({Context} tokens)."
    else:
        told = "{begin}: every error is {Error} %."
    yield Finding("prediction", table.told(worst, told, begin=begin), 0.05)


def _eager_with_error(table: KeyedTable, key: Hashable) -> bool:
    """Whether a prediction is of what ran: of a compiled model it is a bound."""
    return table.known(key, "Error") and "torch.compile" not in table.quote(key, "Variant").text


def _trains(table: KeyedTable, key: Hashable) -> bool:
    return table.quote(key, "Mode").text == "train"


def _error(table: KeyedTable, key: Hashable) -> float:
    quote = table.quote(key, "Error")
    return 0.0 if quote.text == UNDER else abs(number(quote))
