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
from llmprof.core.document.host_floors import HostFloors
from llmprof.core.document.quotes import MOST_ROWS, KeyedTable, keyed
from llmprof.core.document.sources import Source
from llmprof.core.document.steps import Found, between_processes, host_phases, measured_processes
from llmprof.core.figures.replicates import processes_of
from llmprof.core.figures.throughput import throughput
from llmprof.core.predict.closed_form import Unpredictable, predict
from llmprof.core.predict.fits import fit_verdict, room_of, unsupported
from llmprof.core.report.table import Cell, Column, rate_figure
from llmprof.core.state.view import CaseState
from llmprof.core.system.numbers import as_given, interval

TOKENS = 1_000_000_000
NOT_STANDING = "checks do not let it stand"
OF_TODAY = ("H100-80GB", "B200", "RTX-5090")  # predicted on a page; all others in the CSV file
NOTES = (
    "By the wall clock of whole training steps, in a block for each size, context and run: the "
    "plain step first, then every switch that was measured beside it, cheapest first; ranges are "
    "what the ends of the step's 95 % interval between processes come to, and one process has "
    "none. Costs are in the unit of the price. "
    "Predicted: forward and backward scale by the cards' dense peaks or by their memory "
    "bandwidth, whichever is more or less, the optimizer by bandwidth, and no step is quicker than "
    "this host launched one of the same model; only where the card sets the pace of every phase "
    "that counts, and only cards that it fits for certain. Evaluation, checkpoints and idle hours "
    "are not in it. Break-even price: between which the other card costs as much as this one.",
)
WIDEST = 0.9  # of a step: an interval that reaches 0 ms would have a rate without end
Block = list[Found]  # the plain step first
Ends = tuple[float, float]


@dataclass(frozen=True)
class Budget:
    """Tokens to train on, and what an hour of the card costs; None: not said."""

    tokens: int = TOKENS
    price: float | None = None


@dataclass(frozen=True)
class Rate:
    """Tokens a second of a case on a card: bounds, or of a measured mean its interval if any."""

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

    def hours(self, tokens: int) -> Ends:
        """Shortest and longest time for so many tokens."""
        return tokens / self.high / 3600, tokens / self.low / 3600


def training_blocks(sources: Sequence[Source]) -> list[Block]:
    """Sound training cells by size, context, batch and run, the smallest model first.

    A block without its plain step compares nothing and stays only for a model that has no other; a
    plain step alone only where the same work has no block with switches.
    """
    found: dict[Hashable, Block] = {}
    for source in sources:
        for state in source.cases:
            if _trains(state) and source.sound(state):
                work = _work(state)
                found.setdefault((*work, source.name), []).append((source, state))
    blocks = [sorted(_longest_warmed(block), key=_order) for block in found.values()]
    with_plain = {_work(block[0][1])[0] for block in blocks if _has_plain(block)}
    blocks = [b for b in blocks if _has_plain(b) or _work(b[0][1])[0] not in with_plain]
    compared = {_work(block[0][1]) for block in blocks if len(block) > 1}
    alone: dict[Hashable, Block] = {}
    for block in sorted(blocks, key=lambda each: -len(processes_of(each[0][1]))):
        if len(block) == 1 and _work(block[0][1]) not in compared:
            alone.setdefault(_work(block[0][1]), block)
    kept = [b for b in blocks if len(b) > 1 or b is alone.get(_work(b[0][1]))]
    return sorted(kept, key=lambda b: (parameters(b[0][1]), b[0][1].case.context_length))


def _trains(state: CaseState) -> bool:
    case = state.case
    return case.probe == "timing" and case.mode == "train" and state.total is not None


def _work(state: CaseState) -> tuple[Hashable, ...]:
    return state.case.model, state.case.context_length, state.case.batch_size


def _has_plain(block: Block) -> bool:
    return is_plain(block[0][1].case)


def _longest_warmed(block: Block) -> Block:
    """One cell for each way of computing: that of the longest warm-up."""
    best: dict[str, Found] = {}
    for found in sorted(block, key=lambda each: each[1].case.warmup_steps):
        best[switches_text(found[1].case)] = found
    return list(best.values())


def _order(found: Found) -> tuple[bool, float]:
    wall = found[1].wall
    return not is_plain(found[1].case), 0.0 if wall is None else wall.mean


def unsound_training(sources: Sequence[Source]) -> str:
    """The checks that say no to measured training steps; "" where there are none of either."""
    rules = (
        rule
        for source in sources
        for state in source.cases
        if _trains(state)
        for rule in source.failed_checks(state)
    )
    return ", ".join(dict.fromkeys(rules))


def rates(sources: Sequence[Source], floors: HostFloors) -> list[Rate]:
    """Measured rates block by block, then those predicted for other cards."""
    cells = [found for block in training_blocks(sources) for found in block]
    measured = [rate for found in cells if (rate := _measured(found)) is not None]
    return [*measured, *(rate for found in cells for rate in _elsewhere(found, floors))]


def cost_table(
    found: Sequence[Rate], sources: Sequence[Source], budget: Budget
) -> KeyedTable | None:
    """Hours, and money where a price is known, for a number of tokens."""
    head = source_columns(sources)
    money = budget.price is not None
    columns = (
        Column("Size", numeric=False),
        Column("Context", "tokens"),
        Column("Batch"),
        Column("Variant", numeric=False),
        Column("Card", numeric=False),
        Column("Basis", numeric=False),
        Column("n", "processes"),
        Column("Rate", "tokens/s"),
        Column("Tokens"),
        Column("Time", "h"),
        *((Column("Cost", "in the price's unit"),) if money else ()),
        *((Column("Break-even price", "an hour"),) if money else ()),
        *head,
    )
    here = {_case_key(rate.found): rate for rate in found if rate.measured}
    rows = (
        (
            rate.key,
            (
                *_labels(rate),
                *_hours(rate, budget),
                *_money(rate, here.get(_case_key(rate.found)), budget),
                *source_cells(rate.found[0], head),
            ),
        )
        for rate in found
    )
    price = "" if budget.price is None else f" at {as_given(budget.price)} an hour of this card"
    return keyed("cost", f"What training costs{price}", columns, rows, NOTES)


def _case_key(found: Found) -> Hashable:
    return found[0].name, found[1].index


def _labels(rate: Rate) -> tuple[Cell, ...]:
    state = rate.found[1]
    case = state.case
    basis = "measured" if rate.measured else "predicted"
    return (case.model.name, case.context_length, case.batch_size, switches_text(case),
            rate.card, basis, measured_processes(state) if rate.measured else None)  # fmt: skip


def _hours(rate: Rate, budget: Budget) -> tuple[Cell, ...]:
    return _range(rate.low, rate.high), budget.tokens, _range(*rate.hours(budget.tokens))


def _range(low: float, high: float) -> Cell:
    """Both ends, or the one value that there is."""
    return rate_figure(low) if low == high else interval(low, high)


def _money(rate: Rate, here: Rate | None, budget: Budget) -> tuple[Cell, ...]:
    if budget.price is None:
        return ()
    if rate.measured:
        least, most = rate.hours(budget.tokens)
        return _range(budget.price * least, budget.price * most), None
    if here is None:
        return None, None
    return None, _range(budget.price * rate.low / here.high, budget.price * rate.high / here.low)


def _measured(found: Found) -> Rate | None:
    source, state = found
    environment = state.environment or source.environment
    rate = throughput(state, environment)
    if rate is None or rate.tokens_per_s is None or environment is None:
        return None
    half = rate.relative or 0.0 if between_processes(state) else 0.0
    card = match_device(environment.device_name)
    name = environment.device_name if card is None else card.name
    low, high = rate.tokens_per_s / (1 + half), rate.tokens_per_s / (1 - min(half, WIDEST))
    return Rate(found, name, True, low, high)


def _elsewhere(found: Found, floors: HostFloors) -> Iterator[Rate]:
    source, state = found
    environment = state.environment or source.environment
    here = None if environment is None else match_device(environment.device_name)
    if here is None or state.total is None or host_phases(state) or state.case.compile:
        return
    least = floors.of(state.case).launches_ms
    for card in load_cards().values():
        times = None if card.name == here.name else _step_ms(state, here, card)
        if times is not None and _fits(state, card):
            rates = [state.case.tokens / (max(least, each) / 1e3) for each in times]
            yield Rate(found, card.name, False, min(rates), max(rates))


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
    """The rows that matter: a few cards of today for the largest plain step, what it is beside,
    then blocks with switches, the largest model first."""
    listed = list(found)
    measured = [rate for rate in listed if rate.measured]
    predicted = [rate for rate in listed if not rate.measured]
    plain = [rate.found for rate in predicted if is_plain(rate.found[1].case)]
    last = sorted(plain, key=lambda each: (parameters(each[1]), len(processes_of(each[1]))))[-1:]
    elsewhere = [r.key for r in predicted if r.found in last and r.card in OF_TODAY]
    blocks: dict[Hashable, list[Rate]] = {}
    for rate in reversed(measured):
        blocks.setdefault((_work(rate.found[1]), rate.found[0].name), []).insert(0, rate)
    ordered = sorted(blocks.values(), key=lambda b: (b[0].found not in last, len(b) == 1))
    mine = [rate.key for block in ordered for rate in block]
    return [*mine[: MOST_ROWS - len(elsewhere)], *elsewhere]
