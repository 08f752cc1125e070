"""Which cases still take readings of their card, and when it is time to take them."""

from __future__ import annotations

from llmprof.core.state.card_tally import LATE_NS

SAMPLES = 128  # after so many, well before any is thinned, readings are taken


class OpenCases:
    """Cases from their start until no reading can say anything of them any more."""

    def __init__(self) -> None:
        self._closing: dict[int, int | None] = {}  # None: it runs
        self._samples = 0

    def begin(self, case: int) -> None:
        """It starts, perhaps once more."""
        self._closing[case] = None

    def end(self, case: int, t: int) -> None:
        """It is over."""
        if case in self._closing:
            self._closing[case] = t + LATE_NS

    def sample(self, t: int) -> dict[int, bool]:
        """A reading came: the cases to take it into, and whether for the last time."""
        self._samples += 1
        if self._samples < SAMPLES and not any(
            closing is not None and closing <= t for closing in self._closing.values()
        ):
            return {}
        return self._take(t)

    def close(self) -> dict[int, bool]:
        """Nothing that is read from now on is of the open cases: all, for the last time."""
        self._closing = dict.fromkeys(self._closing, 0)
        return self._take(0)

    def _take(self, t: int) -> dict[int, bool]:
        self._samples = 0
        due = {
            case: closing is not None and closing <= t for case, closing in self._closing.items()
        }
        self._closing = {case: at for case, at in self._closing.items() if not due[case]}
        return due
