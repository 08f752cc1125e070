"""The verdict of a document: which whole steps the host sets the pace of, and which the card."""

from __future__ import annotations

from collections.abc import Sequence

from llmprof.core.document.paces import Paces, cells_named, idle_quote, paces_of
from llmprof.core.document.quotes import Sentence, joined, listed
from llmprof.core.document.steps import PEAKS, Found, paced_by_host, step_key
from llmprof.core.document.tables import Tables
from llmprof.core.report.sentences import listing
from llmprof.core.spec.case import Phase

SHARE = "Of dense peak"


def verdict(tables: Tables, subject: Found) -> Sentence:
    """What holds for most steps first; of the subject what is known, where no pace is."""
    paces = paces_of(tables)
    said = [each for each in (_host(tables, paces), _card(tables, paces)) if each]
    if not paces.mostly_host:
        said.reverse()
    return joined(said, " ") if said else _unknown(tables, subject)


def _host(tables: Tables, paces: Paces) -> Sentence:
    if not paces.host:
        return ()
    if not paces.measured:
        cells = cells_named(tables, paces.host, "up to")
        return ("Consistent with a launch-bound step, by one measurement: ", *cells, ".")
    found, profile = paces.measured[0]
    cell = cells_named(tables, [found], "up to")
    idle = idle_quote(tables, profile)
    if len(paces.host) == 1:
        return ("Launch-bound: of the step of ", *cell, " the card idles ", idle, " %.")
    most = "most steps" if paces.mostly_host else "some steps"
    return (f"The host sets the pace of {most}, those of ",
            *cells_named(tables, paces.host, "up to"), ": that of ", *cell,
            " is launch-bound, the card idles ", idle, " % of it.")  # fmt: skip


def _card(tables: Tables, paces: Paces) -> Sentence:
    if not paces.card or tables.steps is None:
        return ()
    last = paces.card[-1]
    told: Sentence = ("The card sets the pace of ", *cells_named(tables, paces.card, "from"),
                      *_but_for(tables, paces.card))  # fmt: skip
    if not tables.steps.knows(step_key(*last), SHARE, "Dense peak"):
        return (*told, ".")
    which: Sentence = ("it",) if len(paces.card) == 1 else cells_named(tables, [last], "from")
    return tables.steps.told(
        step_key(*last),
        "{told}; {which} comes to {Of dense peak} % of its dense peak ({peak}, {Dense peak} "
        "TFLOP/s).",
        told=told,
        which=which,
        peak=PEAKS[last[1].case.precision],
    )


def _but_for(tables: Tables, cells: Sequence[Found]) -> Sentence:
    """, but for the forward of small (512 tokens): what the host sets the pace of in these."""
    by_phases: dict[tuple[Phase, ...], list[Found]] = {}
    for found in cells:
        phases = paced_by_host(found[1], tables.sources)
        if phases:
            by_phases.setdefault(phases, []).append(found)
    told: list[Sentence] = [
        (f"the {listing(phases)}", *((" of ", *cells_named(tables, alike, "from")) if len(cells) > 1
                                     else ()))
        for phases, alike in by_phases.items()
    ]  # fmt: skip
    return (", but for ", *listed(told)) if told else ()


def _unknown(tables: Tables, subject: Found) -> Sentence:
    assert tables.steps is not None
    return (
        "The step of ",
        *cells_named(tables, [subject], "from"),
        " takes ",
        tables.steps.quote(step_key(*subject), "Step"),
        " ms; what sets its pace is not known on this device.",
    )
