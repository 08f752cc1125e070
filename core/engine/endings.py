"""How a worker ended that sent no word of it, as a failure of its case."""

from __future__ import annotations

import signal
from typing import Literal

from llmprof.core.events import Failure
from llmprof.core.system.numbers import as_given
from llmprof.core.worker.request import SILENT

_OUT_OF_MEMORY = {
    "cgroup": "the kernel ended the process: the host was out of memory",
    "machine": (
        "the process was killed, probably by the kernel: it ended a process for want of memory "
        "meanwhile, and does not say which"
    ),
}


def failure_of(
    code: int,
    *,
    silence_s: float | None,
    stopped: bool,
    out_of_memory: Literal["cgroup", "machine"] | None,
    log: str,
) -> Failure:
    """The failure that an exit code means; below 0 it is a signal's.

    silence_s: after so much silence it was ended; stopped: so was the run; out_of_memory: where
    the kernel killed for memory meanwhile; log: the file that holds what the process wrote.
    """
    if silence_s is not None:
        message = SILENT.format(as_given(silence_s))
        return Failure(kind="timeout", message=message, exit_code=code)
    if stopped:
        message = "the run was stopped"
        return Failure(kind="stopped", message=message, exit_code=code, outside=True)
    if code == -signal.SIGKILL and out_of_memory is not None:
        return Failure(kind="oom", message=_OUT_OF_MEMORY[out_of_memory], exit_code=code)
    if code < 0:
        message = f"the process was killed by {signal.Signals(-code).name}"
        return Failure(kind="killed", message=message, exit_code=code)
    message = f"the process ended with exit code {code} and no word; see {log}"
    return Failure(kind="error", message=message, exit_code=code)
