"""What is meant by a path: a write-up's folder or file, or the file of one run."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from llmprof.cli.exits import UserError
from llmprof.core.store.pack import is_path, unpacked
from llmprof.core.store.packed_writeup import writeup_at
from llmprof.core.store.run import Run, RunNotFound
from llmprof.core.store.writeup import Writeup
from llmprof.core.system.archive import PackError, is_packed
from llmprof.core.system.text import clean


def found_writeup(path: Path, stack: ExitStack) -> Writeup | None:
    """The write-up that lies there, None where none does; a file stays unpacked with the stack.

    Raises UserError.
    """
    with _told(path):
        return stack.enter_context(writeup_at(path))


def found_run(path: Path, stack: ExitStack) -> Run | None:
    """A copy of the run that a file holds, as long as the stack; None for what is no such file.

    Raises UserError.
    """
    with _told(path):
        return stack.enter_context(unpacked(path)) if is_packed(path) else None


def by_name_alone(command: str, name: str | None, error: RunNotFound) -> UserError:
    """What a command that takes no paths says of a run that it did not find."""
    if name is None or not is_path(name) or not Path(name).exists():
        return UserError(str(error))
    given = clean(shlex.quote(name), 200)
    return UserError(
        f"{clean(name, 200)} is a path, and `llmprof {command}` takes the name of a run of this "
        f"machine: `llmprof screen {given}` shows what lies there, `llmprof show {given}` prints it"
    )


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """What cannot be read is the user's to know. Raises UserError."""
    try:
        yield
    except PackError as error:
        raise UserError(str(error)) from error
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}") from error
