"""M37: data types seen in the running step, and how sums come out in each of them."""

from __future__ import annotations

from llmprof.core.report.sentences import listing, ref
from llmprof.core.report.table import Cell, Column, Figure, Table
from llmprof.core.state.view import CaseState, RunView
from llmprof.core.system.numbers import as_given
from llmprof.core.system.text import counted

COMPONENTS = {  # in the order of a step, with what the width is for
    "parameters": "updates are far smaller than weights: a half-precision weight would lose them",
    "embedding": "a lookup, which autocast leaves alone",
    "linear output": "matrix products are what half precision makes fast",
    "norm statistics": "a mean of squares over d_model: fp16 overflows above 65,504, bf16 keeps "
    "the range but only 8 bits of each sum",
    "norm output": "what the norm gives on, in the type of its input",
    "attention scores": "a matrix product; its inputs decide",
    "softmax": "exponentials and their sum, which need range and bits",
    "residual stream": "sums over all blocks; what is small would be lost beside what is large",
    "logits": "a matrix product",
    "loss": "a logarithm of a sum over the vocabulary",
    "gradients": "of the parameters, in their type; fp16 needs a loss scaler for the small ones",
    "optimizer state": "squares of gradients, below what fp16 can hold",
}


Types = dict[tuple[str, str], str]  # the data type by precision and component


def data_types(view: RunView) -> list[Table]:
    """A column for each precision that was measured, of the first case that has it."""
    seen = _first_of_each(view)
    tables = [_components(seen)] if seen else []
    sums = _sums(seen)
    return tables if sums is None else [*tables, sums]


def types_seen(view: RunView) -> Types:
    """The cells of a run's table of data types."""
    return {
        (precision, component): dtype
        for precision, state in _first_of_each(view).items()
        for component, dtype in _dtypes(state).items()
    }


def _first_of_each(view: RunView) -> dict[str, CaseState]:
    """The first case of each precision of which the types were seen."""
    seen: dict[str, CaseState] = {}
    for state in view.cases:
        if _dtypes(state):
            seen.setdefault(state.case.precision, state)
    return seen


def _dtypes(state: CaseState) -> dict[str, str]:
    return {} if state.observed is None else state.observed.dtypes


def _components(seen: dict[str, CaseState]) -> Table:
    """A row a component; one row for all of them where they are alike in every precision."""
    columns = [
        Column("Component", numeric=False),
        *(Column(precision, numeric=False) for precision in seen),
    ]
    found = [_dtypes(state) for state in seen.values()]
    components = [each for each in COMPONENTS if any(each in dtypes for dtypes in found)]
    where = f"Seen by hooks in a step that is not timed {ref(*seen.values())}"
    if all(len(set(dtypes.values())) == 1 for dtypes in found):
        all_alike: tuple[Cell, ...] = ("every one", *(next(iter(d.values())) for d in found))
        note = f"{where}: {listing(components)}."
        return _types_table(columns, [all_alike], [note])
    rows: list[tuple[Cell, ...]] = [
        (component, *(dtypes.get(component) for dtypes in found), COMPONENTS[component])
        for component in components
    ]
    notes = [
        f"{where}, the first module of each kind; gradients are those of the parameters.",
        *_differences(seen),
    ]
    return _types_table([*columns, Column("Why it matters", numeric=False)], rows, notes)


def _types_table(columns: list[Column], rows: list[tuple[Cell, ...]], notes: list[str]) -> Table:
    return Table(
        "data-types", "Data types seen", tuple(columns), tuple(rows), tuple(notes), number="M37"
    )


def _differences(seen: dict[str, CaseState]) -> list[str]:
    """What differs between the two half precisions, as seen."""
    if not {"bf16", "fp16"} <= seen.keys():
        return []
    bf16, fp16 = (seen[name].observed for name in ("bf16", "fp16"))
    assert bf16 is not None
    assert fp16 is not None
    half = {"bfloat16", "float16"}
    apart = [
        component
        for component in COMPONENTS
        if (pair := {bf16.dtypes.get(component), fp16.dtypes.get(component)}) != half
        and len(pair) > 1
    ]
    skipped = fp16.updates_skipped
    scaler = "" if skipped is None else f", which skipped {counted(skipped, 'update')} here"
    text = (
        "bf16 has the range of fp32 (8 bits of exponent) and 8 significant bits, fp16 11 bits and "
        f"a largest number of 65,504: fp16 is trained with a gradient scaler{scaler}."
    )
    same = (
        "the same components are kept wide in both"
        if not apart
        else f"{listing(apart)} differ in width"
    )
    return [text, f"As seen, {same} {ref(seen['bf16'], seen['fp16'])}."]


def _sums(seen: dict[str, CaseState]) -> Table | None:
    found = {
        (each.terms, each.total): each
        for state in seen.values()
        if state.observed is not None
        for each in state.observed.sums
    }
    if not found:
        return None
    columns = (
        Column("Terms", numeric=False),
        Column("Sum", numeric=False),
        Column("Result"),
        Column("Exact"),
        Column("Error", "%"),
    )
    rows = tuple(
        (
            each.terms,
            each.total,
            Figure(each.result, 0.0001),
            Figure(exact := each.count * each.term, 0.0001),
            Figure(100 * (each.result / exact - 1), 0.001),
        )
        for each in found.values()
    )
    first = next(iter(found.values()))
    notes = (
        f"{first.count:,} times {as_given(first.term)}, added one by one on this device. A sum in "
        "half precision stops growing where a term is less than half its last bit; half-precision "
        "terms in a wide sum are only as wrong as the term itself is rounded. Matrix products "
        "therefore add up in fp32 inside.",
    )
    return Table("sums", "Sums in each precision", columns, rows, notes, number="M37")
