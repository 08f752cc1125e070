"""Calls into NVML's Python binding: newer functions first, every error a reason."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from llmprof.core.system.numbers import format_number
from llmprof.core.system.text import clean

T = TypeVar("T")

# Return codes of nvml.h; the numbers are part of its ABI.
SUCCESS = 0
NOT_SUPPORTED = 3
NO_PERMISSION = 4
NOT_FOUND = 6
DRIVER_NOT_LOADED = 9
LIBRARY_NOT_FOUND = 12
FUNCTION_NOT_FOUND = 13
GPU_IS_LOST = 15
RESET_REQUIRED = 16
VERSION_MISMATCH = 18
ARGUMENT_VERSION_MISMATCH = 25
DEPRECATED = 26
GPU_NOT_FOUND = 28

_LOST = (GPU_IS_LOST, RESET_REQUIRED, GPU_NOT_FOUND)
_OLDER_MAY_DO = (NOT_SUPPORTED, FUNCTION_NOT_FOUND, ARGUMENT_VERSION_MISMATCH, DEPRECATED)
_PERMANENT = (*_OLDER_MAY_DO, NO_PERMISSION)
# NVML's "not available" in 32 and 64 bits, signed and unsigned.
_SENTINELS = (2**32 - 1, 2**64 - 1, -1)

NEEDS_ROOT = "the driver wants root for it"
_WORDS = {
    NOT_SUPPORTED: "this card does not report it",
    NO_PERMISSION: NEEDS_ROOT,
    FUNCTION_NOT_FOUND: "this driver is too old for it",
    GPU_IS_LOST: "the card fell off the bus",
    RESET_REQUIRED: "the card needs a reset",
    GPU_NOT_FOUND: "the card is gone",
}


class Unavailable(Exception):
    """A reading that could not be had; reason is for the user."""

    def __init__(self, reason: str, code: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.code = code

    @property
    def permanent(self) -> bool:
        """Whether asking again soon is pointless."""
        return self.code in _PERMANENT

    @property
    def denied(self) -> bool:
        """Whether the driver keeps it from this user."""
        return self.code == NO_PERMISSION

    @property
    def lost(self) -> bool:
        """Whether the card itself is gone."""
        return self.code in _LOST


@dataclass(frozen=True)
class Call:
    """One way to read something: a function of the binding and what follows the handle."""

    name: str
    arguments: tuple[Any, ...] = ()


class Api:
    """The binding (module pynvml or a fake of it) behind calls that raise only Unavailable."""

    def __init__(self, module: Any) -> None:
        self.module = module

    def constant(self, name: str, default: int) -> int:
        """A constant of the binding; an older one may lack it."""
        value = getattr(self.module, name, default)
        return value if isinstance(value, int) else default

    def call(self, name: str, *arguments: Any) -> Any:
        """One function. Raises Unavailable."""
        return self._call(name, getattr(self.module, name, None), arguments)

    def _call(self, name: str, function: Any, arguments: tuple[Any, ...]) -> Any:
        if function is None:
            raise Unavailable(f"the binding has no {name}", FUNCTION_NOT_FOUND)
        try:
            return function(*arguments)
        # The binding raises NVMLError, a mismatch error outside that family, and whatever
        # ctypes and bytes.decode raise; none of them may end the program.
        except Exception as error:
            raise self._unavailable(name, error) from None

    def first(self, handle: Any, *calls: Call) -> Any:
        """The first call that this driver has. Raises the first call's Unavailable."""
        failed: Unavailable | None = None
        for call in calls:
            try:
                return self.call(call.name, handle, *call.arguments)
            except Unavailable as error:
                failed = failed or error
                if error.code not in _OLDER_MAY_DO:
                    raise
        raise failed or Unavailable("nothing to call")

    def number(self, handle: Any, *calls: Call, highest: float = math.inf) -> float:
        """A plain number from 0 to `highest` out of the first call that this driver has.

        Raises Unavailable, also for what cannot be true.
        """
        return checked(self.first(handle, *calls), highest)

    def text(self, name: str, *arguments: Any) -> str:
        """A name, cleaned; bytes are taken as UTF-8 with replacements. Raises Unavailable."""
        function = getattr(self.module, name, None)
        # Below its wrapper the binding gives bytes; the wrapper can't decode every name.
        value = self._call(name, getattr(function, "__wrapped__", function), arguments)
        if isinstance(value, bytes):
            value = value.decode("utf-8", "replace")
        return clean(str(value))

    def _unavailable(self, name: str, error: Exception) -> Unavailable:
        if type(error).__name__ == "NVMLLibraryMismatchError":
            return Unavailable(_WORDS[FUNCTION_NOT_FOUND], FUNCTION_NOT_FOUND)
        code = getattr(error, "value", None)
        if not isinstance(code, int):
            return Unavailable(f"{name}: {type(error).__name__} in the binding")
        if code in _WORDS:
            return Unavailable(_WORDS[code], code)
        return Unavailable(f"{_words(error, code)} ({name})", code)


def guarded(read: Callable[..., T], *arguments: Any) -> T:
    """Call what works on the binding's structures. Raises Unavailable and nothing else.

    A binding may give other structures than its version says.
    """
    try:
        return read(*arguments)
    except Unavailable:
        raise
    except Exception as error:
        raise Unavailable(f"{type(error).__name__} in the binding") from None


def checked(value: Any, highest: float = math.inf) -> float:
    """A number that can be true. Raises Unavailable with the reason why it can't."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Unavailable("the driver gave no number")
    if value in _SENTINELS or not math.isfinite(value):
        raise Unavailable("the driver has no value")
    if not 0 <= value <= highest:
        raise Unavailable(f"the driver gave {format_number(value)}, which cannot be")
    return value


def _words(error: Exception, code: int) -> str:
    try:
        return clean(str(error)) or f"NVML error {code}"
    except Exception:  # str() of the binding's error calls the library again
        return f"NVML error {code}"
