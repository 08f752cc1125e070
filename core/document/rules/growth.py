"""How time grows with the context."""

from __future__ import annotations

import math
from collections.abc import Iterator

from llmprof.core.document.finding import Finding
from llmprof.core.document.tables import Tables

SURE_EXPONENT = 0.25  # between the exponents of neighbouring points


def with_context(tables: Tables) -> Iterator[Finding]:
    """Times that one power of the context describes."""
    table = tables.growth
    for growth in tables.growths if table else ():
        assert table is not None
        fit = growth.fit
        if fit is None or growth.unit != "ms" or fit.between[1] - fit.between[0] > SURE_EXPONENT:
            continue
        text = table.told(
            growth.key,
            "Time of {what} ({way}) grows with the context to the power {Exponent} (between "
            "neighbouring points {Between neighbours}) from {Fitted from} to {Fitted to} "
            "tokens{one}.",
            what=growth.what,
            way=growth.way,
            one=" (steps of one process)" if growth.processes < 2 else "",
        )
        alone = growth.states[0].case.probe == "attention"
        yield Finding("growth", text, 0.3 + 0.01 * math.log(fit.high), alone)
