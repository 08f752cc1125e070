"""Tokens a second, FLOP a second, and MFU with what it is a share of."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from llmprof.core.catalog.cards import match_device
from llmprof.core.events import Environment
from llmprof.core.figures.operations import operations
from llmprof.core.predict.flops import mfu
from llmprof.core.spec.case import Case
from llmprof.core.state.view import CaseState
from llmprof.core.system.numbers import as_given

MFU_CONVENTION = (
    "MFU: 6N + 12·n·d·L operations a training token and 2N + 4·n·d·L forward, N without the input "
    "embedding, attention counted in full, backward twice the forward, over the dense peak of the "
    "dtype used."
)


@dataclass(frozen=True)
class Peak:
    """What a rate is a share of: dense TFLOP/s of the dtype that was used, and whose."""

    tflops: float
    precision: str
    card: str
    source: str


@dataclass(frozen=True)
class Throughput:
    """Rates of whole steps by the wall clock; relative is their 95 % half-width as a fraction."""

    tokens_per_s: float | None  # None for a model whose batch holds no tokens
    samples_per_s: float
    tflops: float | None  # None for an own model whose operations were not counted
    relative: float | None
    peak: Peak | None
    mfu: float | None  # a fraction; above 1 the time or the peak is wrong
    of_ceiling: float | None  # of the matmul rate that `llmprof calibrate` reached here


def denominators(peaks: Iterable[Peak]) -> str:
    """What each precision's rate is divided by, and where that figure is from."""
    listed = list(peaks)
    parts = "; ".join(f"{peak.precision} {as_given(peak.tflops)} TFLOP/s" for peak in listed)
    whose = dict.fromkeys(f"{peak.card} ({peak.source})" for peak in listed)
    return f"Dense peaks of {', '.join(whose)}: {parts}"


def peak_of(case: Case, environment: Environment | None, given: float | None) -> Peak | None:
    """The dense peak of the case's precision: the one given, else the card's, else None."""
    if given is not None:
        name = "this device" if environment is None else environment.device_name
        return Peak(given, case.precision, name, "given as --peak-tflops")
    card = None if environment is None else match_device(environment.device_name)
    tflops = None if card is None else card.peak(case.precision)
    if card is None or tflops is None:
        return None
    return Peak(tflops, case.precision, card.name, card.source)


def ceiling_of(case: Case, environment: Environment | None) -> float | None:
    """TFLOP/s that a calibration of this device reached in the case's precision."""
    if environment is None or environment.ceilings is None:
        return None
    return environment.ceilings.matmul_tflops.get(case.precision)


def throughput(
    state: CaseState, environment: Environment | None, given_peak: float | None = None
) -> Throughput | None:
    """Rates of a measured case; None where it has no steps or its probe is not timing."""
    wall = state.wall
    if wall is None or wall.mean <= 0 or state.case.probe != "timing":
        return None
    seconds = wall.mean / 1e3
    flops = operations(state)
    has_tokens = state.model is None or state.model.unit == "tokens"
    peak = peak_of(state.case, environment, given_peak)
    ceiling = ceiling_of(state.case, environment)
    return Throughput(
        tokens_per_s=state.case.tokens / seconds if has_tokens else None,
        samples_per_s=state.case.batch_size / seconds,
        tflops=None if flops is None else flops / seconds / 1e12,
        relative=None if wall.ci95 is None else wall.ci95 / wall.mean,
        peak=peak,
        mfu=None if peak is None or flops is None else mfu(flops, seconds, peak.tflops),
        of_ceiling=None if ceiling is None or flops is None else mfu(flops, seconds, ceiling),
    )
