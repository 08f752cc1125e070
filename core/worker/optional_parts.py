"""What a case can do without: a failure to make it is a line, and the case goes on."""

from __future__ import annotations

import errno
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from llmprof.core.system.text import clean
from llmprof.core.worker.failures import describe_failure

T = TypeVar("T")


def tried(what: str, make: Callable[[], T], missing: list[str]) -> T | None:
    """What make() gives; None where it raises, with a line in `missing` that says why."""
    try:
        return make()
    except Exception as error:
        log_traceback()
        missing.append(f"no {what}: {error_cause(error)}")
        return None


def error_cause(error: Exception) -> str:
    """Why something failed, in one line; the system's own name of its error in brackets."""
    if isinstance(error, OSError) and error.errno is not None:
        name = errno.errorcode.get(error.errno, str(error.errno))
        return clean(f"{error.strerror} ({name})", 200)
    return describe_failure(error, None).message


def log_traceback() -> None:
    """Print the exception that is being handled, where that can be written."""
    with suppress(OSError, ValueError):  # the log may be on the disk that is full
        traceback.print_exc()
