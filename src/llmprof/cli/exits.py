"""Exit codes, documented in the README, and the errors that lead to them."""

from __future__ import annotations

import contextlib
import os
import sys

OK = 0  # results; a row that says OOM or unsupported is a result
CRASHED = 1  # a case crashed
USAGE = 2  # bad input; nothing was measured
NOTHING = 3  # nothing could be measured or, by `compare`, judged; `doctor`: measuring cannot work
REGRESSED = 4  # `compare --fail-on`: something is slower by at least that much, or has no figures
INTERRUPTED = 130  # by Ctrl-C; 128 + n for other signals


class UserError(Exception):
    """What the user can put right: one line on stderr and an exit code."""

    def __init__(self, message: str, code: int = USAGE) -> None:
        super().__init__(message)
        self.code = code


def drop_output() -> None:
    """Let what is still printed go nowhere: whoever read standard output has gone."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
