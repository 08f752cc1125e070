"""How near a size comes to the card's peak, and what share of its time matrix products take."""

from __future__ import annotations

from collections.abc import Iterator

from llmprof.core.document.configurations import switches_text, work_of
from llmprof.core.document.finding import Finding
from llmprof.core.document.paces import paces_of
from llmprof.core.document.profiles import profile_key
from llmprof.core.document.quotes import number
from llmprof.core.document.steps import PEAKS, step_key
from llmprof.core.document.tables import Tables
from llmprof.core.events.kernel_rows import WHOLE_STEP
from llmprof.core.report.sentences import is_launch_bound

WHOLE = {True: "the card's busy time", False: "the time of the CPU's ops"}  # by who multiplied
SHARE, PRODUCTS = "Of dense peak", "GEMM of busy"


def of_the_peak(tables: Tables) -> Iterator[Finding]:
    """The highest share of the dense peak where the card sets the pace, but for the verdict's."""
    table = tables.steps
    if table is None or len({state.case.model for _, state in tables.step_cells}) < 2:
        return  # the verdict says it of the only size
    known = [
        (source, state)
        for source, state in tables.step_cells
        if table.known(step_key(source, state), SHARE)
        and not is_launch_bound(state)
        and source.sound(state)
    ]
    best = max(known, key=lambda found: number(table.quote(step_key(*found), SHARE)), default=None)
    if best is not None and best not in paces_of(tables).card[-1:]:  # the verdict's own
        text = table.told(
            step_key(*best),
            "Of the sizes, {Size} {work} in {way} comes nearest to the card's dense peak "
            "({peak}, {Dense peak} TFLOP/s), at {Of dense peak} % of it.",
            peak=PEAKS[best[1].case.precision],
            work=work_of(table, step_key(*best), "Variant"),
            way=switches_text(best[1].case),
        )
        yield Finding("rate", text, 0.12)


def of_products(tables: Tables) -> Iterator[Finding]:
    """The matrix products' share from the forward to a whole training step."""
    table = tables.profiles
    for source, state in tables.profiled if table else ():
        assert table is not None
        forward, step = (profile_key(source, state, part) for part in ("forward", WHOLE_STEP))
        if state.case.mode != "train" or not source.sound(state):
            continue
        if all(table.known(key, PRODUCTS) for key in (forward, step)):
            text = table.told(
                forward,
                "In {Size} {work} matrix products take {GEMM of busy} % of {whole} in the forward "
                "and {step} % in a whole training step.",
                work=work_of(table, forward, "Mode"),
                whole=WHOLE[state.kernels is not None and state.kernels.source == "cuda"],
                step=(table.quote(step, PRODUCTS),),
            )
            yield Finding("products", text, 0.25)
