"""An exception in a worker, as a Failure."""

from __future__ import annotations

from pathlib import Path

import msgspec
import torch

from llmprof.core.events import Failure
from llmprof.core.memory.refusals import bytes_asked, says_out_of_memory
from llmprof.core.system.numbers import as_given
from llmprof.core.system.text import clean, telling_line
from llmprof.core.worker.request import SILENT


class Unsupported(Exception):
    """What a case asks for cannot run here; instead names what to use."""

    def __init__(self, reason: str, instead: str | None = None) -> None:
        super().__init__(reason)
        self.instead = instead


class Stopped(SystemExit):
    """The engine asked this process to end: no exit of the user's code."""


class Overdue(BaseException):
    """The engine has heard nothing for too long: raised wherever this process is."""


class OwnModelError(Exception):
    """What the user's code does that a step cannot be made of; its text is one line for them."""


def describe_failure(error: BaseException, phase: str | None, folder: str | None = None) -> Failure:
    """The failure that an exception means; keeps no reference to it, which would hold tensors.

    folder: of the user's own code, whose innermost line is named first.
    """
    text = str(error)
    if isinstance(error, Unsupported):
        return Failure(kind="unsupported", message=clean(text), phase=phase, instead=error.instead)
    if is_out_of_memory(error):
        return Failure(kind="oom", message=_plain(text), phase=phase, bytes_asked=bytes_asked(text))
    place = None if folder is None else _place(error, folder)
    said = _said(error)
    return Failure(
        kind="error", message=clean(f"{place}: {said}" if place else said, 300), phase=phase
    )


def _said(error: BaseException) -> str:
    if isinstance(error, SystemExit):
        return f"sys.exit({error.code!r}) was called"
    told = telling_line(str(error))
    if isinstance(error, OwnModelError):
        return told
    return f"{type(error).__name__}: {told}" if told else type(error).__name__


def overdue(error: Overdue, silence_s: float, phase: str | None, folder: str | None) -> Failure:
    """The failure of a case that was silent too long: the line of the user's code it is in."""
    place = None if folder is None else _place(error, folder)
    said = SILENT.format(as_given(silence_s))
    return Failure(kind="timeout", message=f"{place}: {said}" if place else said, phase=phase)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an allocator had no room, of the card or of the host."""
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    return isinstance(error, RuntimeError) and says_out_of_memory(str(error))


def with_card_memory(failure: Failure, device: torch.device) -> Failure:
    """The failure with what the allocator holds, to be asked while the exception still lives."""
    free, _ = torch.cuda.mem_get_info(device)
    return msgspec.structs.replace(
        failure,
        allocated_bytes=torch.cuda.memory_allocated(device),
        reserved_bytes=torch.cuda.memory_reserved(device),
        free_bytes=free,
    )


def _place(error: BaseException, folder: str) -> str | None:
    """`gpt.py:41 in forward`: the innermost line of a traceback below a folder.

    Of an error made of another, as of an exit, where it has none itself, the other's line.
    """
    found, trace = None, error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        path = Path(code.co_filename)
        if path.is_relative_to(folder) and "site-packages" not in path.parts:
            found = f"{path.relative_to(folder)}:{trace.tb_lineno} in {code.co_name}"
        trace = trace.tb_next
    if found is None and error.__cause__ is not None:
        return _place(error.__cause__, folder)
    return found


def _plain(text: str) -> str:
    """An allocator's message without its source lines and its advice."""
    asked = bytes_asked(text)
    if "DefaultCPUAllocator" in text and asked is not None:
        return f"the CPU's allocator could not get {asked / 2**30:,.2f} GiB"
    return clean(text.split(" If reserved but", maxsplit=1)[0], 300) or "out of memory"
