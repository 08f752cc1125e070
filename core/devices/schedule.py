"""When each reading is due: by its period, longer where it proves costly or fails."""

from __future__ import annotations

from dataclasses import dataclass

READING_SHARE = 0.02  # of the time, for one reading
PERMANENT_S = 60.0  # before asking again for what the card does not have
FIRST_RETRY_S, LAST_RETRY_S = 1.0, 60.0
_SLACK_S = 0.05  # a reading due within this time is taken along with the current poll


@dataclass
class Slot:
    """The timing of one reading, seconds on the caller's clock."""

    period_s: float
    due_s: float = 0.0
    cost_s: float = 0.0
    failures: int = 0

    def is_due(self, now_s: float) -> bool:
        """Whether it should be read now."""
        return now_s >= self.due_s - (_SLACK_S if self.due_s else 0.0)

    def done(self, now_s: float, cost_s: float) -> None:
        """It was read and took cost_s."""
        self.failures = 0
        self.cost_s = cost_s if not self.cost_s else self.cost_s + 0.3 * (cost_s - self.cost_s)
        self.due_s = now_s + max(self.period_s, self.cost_s / READING_SHARE)

    def failed(self, now_s: float, cost_s: float, *, permanent: bool) -> None:
        """It could not be read; a permanent failure is hardly ever asked again."""
        self.failures += 1
        pause = min(FIRST_RETRY_S * 2 ** min(self.failures - 1, 10), LAST_RETRY_S)
        wait = PERMANENT_S if permanent else pause
        self.due_s = now_s + max(self.period_s, wait, cost_s / READING_SHARE)
