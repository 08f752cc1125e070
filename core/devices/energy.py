"""Energy of a card: the driver's counter, or power integrated where there is none."""

from __future__ import annotations

from llmprof.core.events import Metric

GAP_S = 5.0  # power unknown for longer: the integral is broken there
STUCK_S = 10.0  # a counter that stands for so long under load does not count
STUCK_W = 5.0  # a card draws more than this whenever it is on


class EnergyMeter:
    """Turns counter readings and power readings into the energy metrics of one card.

    "energy" is the counter in joules: a reading that went backwards is a gap with a reason, so
    that no rate is negative. "energy_estimated" is power integrated by the trapezoid rule since
    the sampler began, given once the counter is known to be missing or stuck.
    """

    def __init__(self) -> None:
        self._counter_j: float | None = None
        self._changed_at: int | None = None
        self._stuck = False
        self._missing = False
        self._power: tuple[int, float] | None = None
        self._estimate_j = 0.0
        self._broken = False

    @property
    def estimates(self) -> bool:
        """Whether the counter cannot be used."""
        return self._missing or self._stuck

    def missing(self) -> None:
        """The card has no counter."""
        self._missing = True

    def counter(self, t: int, joules: float) -> Metric:
        """Take the counter at monotonic ns t."""
        last, self._counter_j = self._counter_j, joules
        if last is not None and joules < last:
            self._changed_at = t
            return Metric(None, "the counter was reset")
        if last != joules or self._changed_at is None:
            self._changed_at = t
            self._stuck = False
        elif t - self._changed_at > STUCK_S * 1e9 and self._draws_power():
            self._stuck = True
        if self._stuck:
            return Metric(None, "the counter does not move")
        return Metric(joules)

    def power(self, t: int, watts: float | None) -> None:
        """Take the power draw at monotonic ns t, None when unknown."""
        if watts is None:
            return
        last, self._power = self._power, (t, watts)
        if last is None:
            return
        seconds = (t - last[0]) / 1e9
        if seconds > GAP_S:
            self._broken = True
        else:
            self._estimate_j += seconds * (watts + last[1]) / 2

    def estimate(self) -> Metric:
        """The integral so far; once a gap is passed, one reading is unknown to mark it."""
        if self._power is None:
            return Metric(None, "neither an energy counter nor a power reading")
        if self._broken:
            self._broken = False
            return Metric(None, f"power was unknown for more than {GAP_S:.0f} s")
        return Metric(round(self._estimate_j, 3))

    def settle(self, t: int, metrics: dict[str, Metric]) -> None:
        """Make one poll's energy readings sound, and estimate where there is no counter."""
        if "power" in metrics:
            self.power(t, metrics["power"].value)
        raw = metrics.get("energy")
        if raw is not None and raw.value is not None:
            metrics["energy"] = self.counter(t, raw.value)
        if self.estimates and "power" in metrics:
            metrics["energy_estimated"] = self.estimate()

    def _draws_power(self) -> bool:
        return self._power is not None and self._power[1] > STUCK_W
