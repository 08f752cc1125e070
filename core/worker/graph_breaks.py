"""Graphs and graph breaks of a compilation, with the first break's reason and line."""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass

from llmprof.core.system.text import clean

_LOGGER = "torch._dynamo.symbolic_convert.__graph_breaks"
_LINE = re.compile(r"(?:user code at|File) \"?(?P<file>[^\"\n]+?)\"?(?::|, line )(?P<line>\d+)")
_REASONS = (
    re.compile(r"^\s*Explanation: *(?P<reason>.+)$", re.M),
    re.compile(r"^(?:Graph Break )?Reason: *(?P<reason>.+)$", re.M),
)
LONGEST = 200


@dataclass
class Breaks:
    """What a compilation logged of its graph breaks."""

    count: int = 0
    first: str | None = None  # reason and line

    def take(self, message: str) -> None:
        """Count one logged break."""
        self.count += 1
        if self.first is None:
            self.first = described(message)


class _Listener(logging.Handler):
    def __init__(self, breaks: Breaks) -> None:
        super().__init__(logging.DEBUG)
        self._breaks = breaks

    def emit(self, record: logging.LogRecord) -> None:
        self._breaks.take(record.getMessage())


@contextlib.contextmanager
def listening() -> Iterator[Breaks]:
    """Hear what torch logs of graph breaks (TORCH_LOGS=graph_breaks) while a step compiles."""
    breaks = Breaks()
    listener, logger = _Listener(breaks), logging.getLogger(_LOGGER)
    level, passed_on = logger.level, logger.propagate
    logger.addHandler(listener)
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    try:
        yield breaks
    finally:
        logger.removeHandler(listener)
        logger.setLevel(level)
        logger.propagate = passed_on


def described(message: str) -> str:
    """One line of a logged break: why, and at which file and line of the model."""
    line = _LINE.search(message)
    found = [match["reason"] for reason in _REASONS if (match := reason.search(message))]
    text = next((each for each in (*found, *message.splitlines()) if each.strip()), "")
    where = "" if line is None else f" at {line['file'].rsplit('/', 1)[-1]}:{line['line']}"
    return clean(f"{text}{where}", LONGEST)
