"""How a script ends that nobody sees end: by an exception, by sys.exit, or at its last line.

Python says nothing of a SystemExit to what runs at exit: what is asked of sys.exit, exit and quit
is noted, and counts where the program's outermost frame was left by an exception. Of a SystemExit
that a program raises by itself the C library is asked to write the code down.
"""

from __future__ import annotations

import builtins
import ctypes
import dis
import os
import signal
import sys
import threading
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from types import FrameType
from typing import Any

from llmprof.core.store.exit_codes import exited
from llmprof.core.system.text import clean

_LEAVES = ("RETURN_VALUE", "RETURN_CONST")


class Exits:
    """Notes until remove(); `moment` is what changes where the program goes on all the same."""

    def __init__(self, moment: Callable[[], object]) -> None:
        self._moment = moment
        self._asked: tuple[object, object] | None = None  # code, moment
        self._outermost = _outermost_frame()
        self._undo: list[Callable[[], None]] = []
        self._wrap(sys, "exit")
        for name in ("exit", "quit"):
            quitter = type(getattr(builtins, name, None))
            if quitter.__name__ == "Quitter" and not hasattr(quitter.__call__, "__wrapped__"):
                self._wrap(quitter, "__call__")

    def remove(self) -> None:
        """Put back what was there."""
        while self._undo:
            self._undo.pop()()

    def ending(self) -> BaseException | None:
        """At the process's exit: what ended it; None for a program that came to its end."""
        uncaught: BaseException | None = getattr(sys, "last_value", None)
        if uncaught is not None or self._outermost is None or not _was_left(self._outermost):
            return uncaught
        if self._asked is None or self._asked[1] != self._moment():
            return UnseenExit()
        return SystemExit(self._asked[0])

    def _wrap(self, owner: Any, name: str) -> None:
        original = vars(owner)[name]

        @wraps(original)
        def ending(*args: Any, **kwargs: Any) -> Any:
            if threading.current_thread() is threading.main_thread():
                code = args[-1] if args and not callable(args[-1]) else kwargs.get("code")
                self._asked = code, self._moment()
            return original(*args, **kwargs)

        setattr(owner, name, ending)

        def restore() -> None:
            if vars(owner).get(name) is ending:
                setattr(owner, name, original)

        self._undo.append(restore)


class UnseenExit(SystemExit):
    """A SystemExit that a program raised by itself, whose code nobody saw."""


def code_follows(path: Path) -> bool:
    """Have the C library write the process's exit code there, as one byte, once Python is gone.

    False where it can't: the library is another than GNU's, or the file can't be made.
    """
    try:
        library = ctypes.CDLL(None)
        library.fopen.restype = ctypes.c_void_p
        library.fopen.argtypes = (ctypes.c_char_p, ctypes.c_char_p)
        library.on_exit.argtypes = (ctypes.c_void_p, ctypes.c_void_p)
        put = ctypes.cast(library.fputc, ctypes.c_void_p)  # int code, FILE *: what on_exit calls
        file = library.fopen(os.fsencode(path), b"wbe")
        return bool(file) and library.on_exit(put, file) == 0
    except (AttributeError, OSError):
        return False


def ended_well(error: BaseException | None) -> bool:
    """Whether a script came to its end, or left with 0."""
    return error is None or (isinstance(error, SystemExit) and exit_code(error) == 0)


def exit_code(error: SystemExit) -> int:
    """The code that Python gives to the system for it; 0 for one that was not seen."""
    code = error.code
    if code is None:
        return 0
    return int(code) & 0xFF if isinstance(code, int) else 1


def exit_words(error: BaseException) -> str:
    """What ended a script, in one line."""
    if isinstance(error, UnseenExit):
        return "the script raised SystemExit; its code was not seen"
    if isinstance(error, SystemExit):
        said = f": {error.code}" if isinstance(error.code, str) else ""
        return clean(f"{exited(exit_code(error))}{said}", 300)
    if isinstance(error, KeyboardInterrupt):
        return f"KeyboardInterrupt ({signal.Signals.SIGINT.name})"
    return clean(f"{type(error).__name__}: {error}", 300)


def _outermost_frame() -> FrameType | None:
    """Of the main thread: the program itself, or what runs it as a module."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    while frame is not None and frame.f_back is not None:
        frame = frame.f_back
    return frame


def _was_left(frame: FrameType) -> bool:
    """Whether a frame that is done was left by an exception: its last instruction is no return."""
    code, at = frame.f_code.co_code, frame.f_lasti
    return 0 <= at < len(code) and dis.opname[code[at]] not in _LEAVES
