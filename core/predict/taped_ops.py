"""Ops on a tape: what torch's ops allocate, save for backward and allocate in their backward."""

from __future__ import annotations

from collections.abc import Callable

from llmprof.core.predict.byte_levels import COPIES, ZERO, ByteLevel
from llmprof.core.predict.reductions import sum_scratch
from llmprof.core.predict.tape import Tape, Tensor
from llmprof.core.spec.axes import HALVES
from llmprof.core.spec.case import Case

FP32_WIDTH = 4
HALF = 2


class Ops:
    """Ops of one case, under its autocast; sizes are in elements, widths in bytes."""

    def __init__(self, case: Case, tape: Tape, capability: tuple[int, int]) -> None:
        self.case = case
        self.capability = capability
        self.tape = tape
        self.tokens = case.tokens
        self.half = case.precision in HALVES
        self.item = HALF if self.half else FP32_WIDTH
        self.cache: dict[Tensor, Tensor] = {}
        self.cached_in: dict[int, list[Tensor]] = {}
        self.before_linear: Callable[[], None] | None = None

    def weight(self, numel: int) -> Tensor:
        """A parameter; its own bytes are not on the tape."""
        return self.tape.parameter(numel)

    def cast(self, x: Tensor, item: int) -> Tensor:
        """Tensor.to for another width; weights are cast once and cached until autocast ends."""
        if x.item == item:
            return x
        if x.leaf and x in self.cache:
            return self.cache[x]
        tape, numel, back = self.tape, x.numel, x.item
        copy = tape.new(numel, item, COPIES) if x.leaf else tape.new(numel, item)
        tape.record(copy, (x,), (), lambda g, s: (tape.new(numel, back),))
        if x.leaf:
            self.cache[x] = copy
            self.cached_in.setdefault(len(tape.segments) - 1, []).append(x)
        return copy

    def end_autocast(self, layer: int) -> ByteLevel:
        """Drop the cached copies; how much lower the copies of one layer leave the level."""
        for index, segment in enumerate(self.tape.segments):
            if segment.phase == "forward" and segment.layer == layer:
                before = self.tape.level()
                for leaf in self.cached_in.get(index, ()):
                    del self.cache[leaf]
                dropped = before.minus(self.tape.level())
                self.cache.clear()
                return dropped
        self.cache.clear()
        return ZERO

    def linear(self, x: Tensor, w: Tensor, k: int, n: int, bias: Tensor | None = None) -> Tensor:
        """F.linear of (tokens, k) to (tokens, n), under autocast in its width."""
        tape, item, tokens = self.tape, self.item, self.tokens
        if self.half:
            if bias is not None:
                bias = self.cast(bias, item)
            w = self.cast(w, item)
            x = self.cast(x, item)
        tape.saves_first((x, w))
        out = tape.new(tokens * n, item)
        if self.before_linear is not None:
            self.before_linear()
        if bias is None:

            def backward(g: Tensor, s: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
                gw = tape.new(k * n, item)
                return tape.new(tokens * k, item), gw

            return tape.record(out, (x, w), (x, w), backward)

        def backward_bias(g: Tensor, s: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            gx = tape.new(tokens * k, item)
            return gx, tape.new(k * n, item), self._summed(tokens, n, item)

        return tape.record(out, (x, w, bias), (x, w), backward_bias)

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        """x + y in fp32; both get the same gradient, cast for a half y."""
        tape, half = self.tape, y.item != FP32_WIDTH
        out = tape.new(x.numel, FP32_WIDTH)

        def backward(g: Tensor, s: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            return g, (tape.new(g.numel, HALF) if half else g)

        return tape.record(out, (x, y), (), backward)

    def mul(self, x: Tensor, y: Tensor) -> Tensor:
        """x * y of equal sizes."""
        tape, numel, item = self.tape, x.numel, x.item
        return tape.record(
            tape.new(numel, item),
            (x, y),
            (x, y),
            lambda g, s: (tape.new(numel, item), tape.new(numel, item)),
        )

    def _summed(self, rows: int, columns: int, item: int) -> Tensor:
        """A sum over rows, with what the card holds while it runs."""
        out = self.tape.new(columns, item)
        scratch = self.tape.new(sum_scratch(rows, columns, self.capability), 1)
        del scratch
        return out

    def mul_broadcast(self, x: Tensor, y: Tensor) -> Tensor:
        """x * y where y is smaller: its gradient is a full product, then summed."""
        tape, numel, small = self.tape, x.numel, y.numel
        over_rows = y.leaf  # a gain, not what every row has of its own

        def backward(g: Tensor, s: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            gx = tape.new(numel, FP32_WIDTH)
            product = tape.new(numel, FP32_WIDTH)
            gy = (
                self._summed(numel // small, small, FP32_WIDTH)
                if over_rows
                else (tape.new(small, FP32_WIDTH))
            )
            del product
            return gx, gy

        return tape.record(tape.new(numel, FP32_WIDTH), (x, y), (x, y), backward)

    def rms_norm(self, x: Tensor, gain: Tensor) -> Tensor:
        """RMSNorm.forward."""
        tape, numel, rows = self.tape, x.numel, self.tokens
        wide = x

        def pow_backward(g: Tensor, s: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            power = tape.new(numel, FP32_WIDTH)
            scaled = tape.new(numel, FP32_WIDTH)
            out = tape.new(numel, FP32_WIDTH)
            del power, scaled
            return (out,)

        def rsqrt_backward(g: Tensor, s: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            cube = tape.new(rows, FP32_WIDTH)
            scaled = tape.new(rows, FP32_WIDTH)
            out = tape.new(rows, FP32_WIDTH)
            del cube, scaled
            return (out,)

        square = tape.record(tape.new(numel, FP32_WIDTH), (wide,), (wide,), pow_backward)
        mean = tape.record(
            tape.new(rows, FP32_WIDTH), (square,), (), lambda g, s: (tape.new(numel, FP32_WIDTH),)
        )
        del square
        shifted = tape.record(tape.new(rows, FP32_WIDTH), (mean,), (), lambda g, s: (g,))
        del mean
        scale = tape.new(rows, FP32_WIDTH)
        scale = tape.record(scale, (shifted,), (scale,), rsqrt_backward)
        del shifted
        return self.mul_broadcast(self.mul_broadcast(wide, scale), gain)

    def repeat(self, x: Tensor, groups: int) -> Tensor:
        """repeat_interleave over heads: a copy; its gradient is summed."""
        tape, numel, item = self.tape, x.numel, x.item
        out = tape.new(numel * groups, item)
        return tape.record(out, (x,), (), lambda g, s: (tape.new(numel, item),))

    def pointwise(self, x: Tensor) -> Tensor:
        """Division by a number, masked_fill: nothing but the mask is saved."""
        tape, numel, item = self.tape, x.numel, x.item
        return tape.record(tape.new(numel, item), (x,), (), lambda g, s: (tape.new(numel, item),))

    def softmax(self, x: Tensor) -> Tensor:
        """Softmax in fp32; its backward on CUDA holds one product more than its result."""
        tape, numel = self.tape, x.numel
        x = self.cast(x, FP32_WIDTH)

        def backward(g: Tensor, s: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            product = tape.new(numel, FP32_WIDTH)
            out = tape.new(numel, FP32_WIDTH)
            del product
            return (out,)

        out = tape.new(numel, FP32_WIDTH)
        return tape.record(out, (x,), (out,), backward)

    def silu(self, x: Tensor) -> Tensor:
        """F.silu, which saves its input."""
        tape, numel, item = self.tape, x.numel, x.item
        return tape.record(tape.new(numel, item), (x,), (x,), lambda g, s: (tape.new(numel, item),))
