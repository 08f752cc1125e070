"""A write-up that is meant by a path: its folder, or the file into which it was packed."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from llmprof.cli.exits import UserError
from llmprof.core.store.packed_writeup import writeup_at
from llmprof.core.store.writeup import Writeup
from llmprof.core.system.archive import PackError


def found_writeup(path: Path, stack: ExitStack) -> Writeup | None:
    """The write-up that lies there, None where none does; a file stays unpacked with the stack.

    Raises UserError.
    """
    try:
        return stack.enter_context(writeup_at(path))
    except PackError as error:
        raise UserError(str(error)) from error
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}") from error
