"""What training costs: tokens a second to hours and money, here and by prediction elsewhere."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from llmprof.core.catalog.cards import CardSpec, load_cards, match_device
from llmprof.core.document.configurations import (
    is_plain,
    parameters,
    source_cells,
    source_columns,
    switches_text,
)
from llmprof.core.document.quotes import MOST_ROWS, KeyedTable, keyed
from llmprof.core.document.sources import Source
from llmprof.core.document.steps import Found, host_phases
from llmprof.core.figures.throughput import throughput
from llmprof.core.predict.closed_form import Unpredictable, predict
from llmprof.core.predict.fits import fit_verdict, room_of, unsupported
from llmprof.core.report.table import Cell, Column, Figure
from llmprof.core.state.view import CaseState

TOKENS = 1_000_000_000
NOT_STANDING = "checks do not let it stand"
MOST_CARDS = 6  # of a prediction, before the appendix
NOTES = (
    "By the wall clock of whole training steps. Predicted: forward and backward scale by the "
    "cards' dense peaks or by their memory bandwidth, whichever is more or less, the optimizer by "
    "bandwidth; only where the card sets the pace of every phase that counts, and only cards that "
    "it fits for certain. Evaluation, checkpoints and idle hours are not in it. Break-even price: "
    "at which the other card costs as much as this one does.",
)


@dataclass(frozen=True)
class Budget:
    """Tokens to train on, and what an hour of the card costs; None: not said."""

    tokens: int = TOKENS
    price: float | None = None


@dataclass(frozen=True)
class Rate:
    """Tokens a second of a case on a card: between two, which are one measured mean's interval."""

    found: Found
    card: str
    measured: bool
    low: float
    high: float

    @property
    def key(self) -> Hashable:
        """Its row."""
        source, state = self.found
        return source.name, state.index, self.card


def training_cells(sources: Sequence[Source]) -> list[Found]:
    """Sound training cases, one a size and way of computing: that of the longest context."""
    found: dict[Hashable, Found] = {}
    for source in sources:
        for state in source.cases:
            case = state.case
            if case.probe != "timing" or case.mode != "train" or state.total is None:
                continue
            if not source.sound(state):
                continue
            key = (case.model, switches_text(case))
            best = found.get(key)
            if best is None or best[1].case.context_length < case.context_length:
                found[key] = (source, state)
    return sorted(found.values(), key=lambda each: parameters(each[1]))


def unsound_training(sources: Sequence[Source]) -> str:
    """The checks that say no to measured training steps; "" where there are none of either."""
    rules = (
        rule
        for source in sources
        for state in source.cases
        if state.case.probe == "timing" and state.case.mode == "train" and state.total is not None
        for rule in source.failed_checks(state)
    )
    return ", ".join(dict.fromkeys(rules))


def rates(cells: Sequence[Found]) -> list[Rate]:
    """Measured rates, then those predicted for other cards."""
    measured = [rate for found in cells if (rate := _measured(found)) is not None]
    return [*measured, *(rate for found in cells for rate in _elsewhere(found))]


def cost_table(
    found: Sequence[Rate], sources: Sequence[Source], budget: Budget
) -> KeyedTable | None:
    """Hours, and money where a price is known, for a number of tokens."""
    head = source_columns(sources)
    money = budget.price is not None
    columns = (
        *head,
        Column("Size", numeric=False),
        Column("Variant", numeric=False),
        Column("Context", "tokens"),
        Column("Batch"),
        Column("Card", numeric=False),
        Column("Basis", numeric=False),
        Column("Rate from", "tokens/s"),
        Column("Rate to", "tokens/s"),
        Column("Tokens"),
        Column("Time from", "h"),
        Column("Time to", "h"),
        *((Column("Cost from"), Column("Cost to")) if money else ()),
        *((Column("Break-even price", "an hour"),) if money else ()),
    )
    here = {_case_key(rate.found): rate for rate in found if rate.measured}
    rows = (
        (
            rate.key,
            (
                *source_cells(rate.found[0], head),
                *_labels(rate),
                *_hours(rate, budget),
                *_money(rate, here.get(_case_key(rate.found)), budget),
            ),
        )
        for rate in found
    )
    return keyed("cost", "What training costs", columns, rows, NOTES)


def _case_key(found: Found) -> Hashable:
    return found[0].name, found[1].index


def _labels(rate: Rate) -> tuple[Cell, ...]:
    case = rate.found[1].case
    basis = "measured" if rate.measured else "predicted"
    return (case.model.name, switches_text(case), case.context_length, case.batch_size,
            rate.card, basis)  # fmt: skip


def _hours(rate: Rate, budget: Budget) -> tuple[Cell, ...]:
    rough = 0.01 if rate.measured else 0.1
    least, most = budget.tokens / rate.high / 3600, budget.tokens / rate.low / 3600
    return (
        Figure(rate.low, rough * rate.low),
        Figure(rate.high, rough * rate.high),
        budget.tokens,
        Figure(least, rough * least),
        Figure(most, rough * most),
    )


def _money(rate: Rate, here: Rate | None, budget: Budget) -> tuple[Cell, ...]:
    if budget.price is None:
        return ()
    if rate.measured:
        hours = budget.tokens / rate.high / 3600, budget.tokens / rate.low / 3600
        return (*(Figure(budget.price * each, 0.01 * budget.price * each) for each in hours), None)
    if here is None:
        return None, None, None
    fair = budget.price * (rate.low + rate.high) / (here.low + here.high)
    return None, None, Figure(fair, 0.1 * fair)


def _measured(found: Found) -> Rate | None:
    source, state = found
    environment = state.environment or source.environment
    rate = throughput(state, environment)
    if rate is None or rate.tokens_per_s is None or environment is None:
        return None
    spread = min(rate.relative or 0.0, 0.5)
    card = match_device(environment.device_name)
    name = environment.device_name if card is None else card.name
    low, high = rate.tokens_per_s * (1 - spread), rate.tokens_per_s * (1 + spread)
    return Rate(found, name, True, low, high)


def _elsewhere(found: Found) -> Iterator[Rate]:
    source, state = found
    environment = state.environment or source.environment
    here = None if environment is None else match_device(environment.device_name)
    if here is None or state.total is None or host_phases(state) or state.case.compile:
        return
    for card in load_cards().values():
        times = None if card.name == here.name else _step_ms(state, here, card)
        if times is not None and _fits(state, card):
            low, high = (state.case.tokens / (each / 1e3) for each in (max(times), min(times)))
            yield Rate(found, card.name, False, low, high)


def _step_ms(state: CaseState, here: CardSpec, there: CardSpec) -> tuple[float, float] | None:
    """A step's time there by the dense peaks and by the bandwidths."""
    peaks = here.peak(state.case.precision), there.peak(state.case.precision)
    wide = here.bandwidth_gbs, there.bandwidth_gbs
    if state.total is None or None in peaks or None in wide:
        return None
    by_peak = (peaks[0] or 0.0) / (peaks[1] or 1.0)
    by_bytes = (wide[0] or 0.0) / (wide[1] or 1.0)
    optimizer = state.summaries.get("optimizer")
    moved = 0.0 if optimizer is None else optimizer.mean
    rest = state.total.mean - moved
    return rest * by_peak + moved * by_bytes, rest * by_bytes + moved * by_bytes


def _fits(state: CaseState, card: CardSpec) -> bool:
    if unsupported(state.case.precision, card.capability) is not None:
        return False
    try:
        said = predict(state.case, card.capability)
    except Unpredictable:
        return False
    return fit_verdict(said, room_of(card).free_bytes) == "fits"


def before_the_appendix(found: Iterable[Rate]) -> list[Hashable]:
    """The rows that matter: what was measured, then other cards for the fastest of it."""
    listed = list(found)
    measured = [rate for rate in listed if rate.measured]
    predicted = [rate for rate in listed if not rate.measured]
    last = [rate.found for rate in predicted if is_plain(rate.found[1].case)][-1:]
    elsewhere = [rate.key for rate in predicted if rate.found in last][:MOST_CARDS]
    here = [rate for rate in measured if rate.found in last]
    plain = [rate for rate in measured if switches_text(rate.found[1].case) in ("fp32", "bf16")]
    mine = list(dict.fromkeys(rate.key for rate in (*here, *plain, *measured)))
    return [*mine[: MOST_ROWS - len(elsewhere)], *elsewhere]
