"""Levels of a deep model from traces of two shallow ones.

Layers repeat, so the trace of three layers begins like that of two and ends like it, with one
layer more between. What is common from the start shifts with depth by one difference a layer,
what is common from the end by another; between them they hold every op.
"""

from __future__ import annotations

from dataclasses import dataclass

Op = tuple[str, int, int]  # name, bytes allocated, highest level


@dataclass(frozen=True, slots=True)
class PhaseTrace:
    """A phase as traced: level at its ends, its peak, and its allocating ops."""

    name: str
    start: int
    end: int
    peak: int
    ops: tuple[Op, ...] = ()


def phase_trace(name: str, start: int, end: int, ops: list[Op]) -> PhaseTrace:
    """A phase from its ops."""
    return PhaseTrace(name, start, end, max((op[2] for op in ops), default=start), tuple(ops))


def extrapolate(two: list[PhaseTrace], three: list[PhaseTrace], more: int) -> list[PhaseTrace]:
    """The phases of a model that is `more` layers deeper than the first trace."""
    return [_extend(a, b, more) for a, b in zip(two, three, strict=True)]


def _extend(a: PhaseTrace, b: PhaseTrace, more: int) -> PhaseTrace:
    start = _line(a.start, b.start, more)
    end = _line(a.end, b.end, more)
    pairs = _pairs(a.ops, b.ops)
    if not pairs and (a.ops or b.ops):  # no two ops alike: take the peaks themselves
        return PhaseTrace(a.name, start, end, _line(a.peak, b.peak, more))
    peak = max((_line(x[2], y[2], more) for x, y in pairs), default=start)
    return PhaseTrace(a.name, start, end, max(peak, start))


def _pairs(a: tuple[Op, ...], b: tuple[Op, ...]) -> list[tuple[Op, Op]]:
    """Ops that are the same one at both depths."""
    if [op[0] for op in a] == [op[0] for op in b]:  # one op for all layers, as in foreach
        return list(zip(a, b, strict=True))
    first, last = _common(a, b), _common(a[::-1], b[::-1])
    pairs = list(zip(a[:first], b[:first], strict=True))
    return pairs + list(zip(a[len(a) - last :], b[len(b) - last :], strict=True))


def _line(first: int, second: int, more: int) -> int:
    return first + more * (second - first)


def _common(a: tuple[Op, ...], b: tuple[Op, ...]) -> int:
    """How many ops are alike from the start."""
    count = 0
    for x, y in zip(a, b, strict=False):
        if x[:2] != y[:2]:
            break
        count += 1
    return count
