"""Argument types: text of the command line to values, or one line that says what is wrong."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from llmprof.core.spec.shape import LARGEST

T = TypeVar("T")
AUTO = "auto"
_DEVICE = re.compile(r"auto|cpu|cuda(:\d+)?")


class EachFileOnce(argparse.Action):
    """An option for files that may be repeated; one that is named twice is meant once."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        """Add the file to those that were named before."""
        path: Path = values
        before: list[Path] = getattr(namespace, self.dest)
        if path.absolute() not in [each.absolute() for each in before]:
            setattr(namespace, self.dest, [*before, path])


def listed(item: Callable[[str], T]) -> Callable[[str], list[T]]:
    """An argparse type: a comma list of items, without repeats."""

    def parse(text: str) -> list[T]:
        parts = [part.strip() for part in text.split(",")]
        if not all(parts):
            raise argparse.ArgumentTypeError(f"{text!r} has an empty item")
        return list(dict.fromkeys(item(part) for part in parts))

    return parse


def automatic(item: Callable[[str], T]) -> Callable[[str], T | str]:
    """An argparse type: an item, or the word auto."""
    return lambda text: AUTO if text == AUTO else item(text)


def one_of(choices: tuple[str, ...]) -> Callable[[str], str]:
    """An argparse type: one of some words."""

    def parse(text: str) -> str:
        if text not in choices:
            raise argparse.ArgumentTypeError(f"{text!r} is not one of {', '.join(choices)}")
        return text

    return parse


def word_or_function(words: tuple[str, ...]) -> Callable[[str], str]:
    """An argparse type: one of some words, or path/to/file.py:function."""

    def parse(text: str) -> str:
        if text not in words and ".py:" not in text:
            known = ", ".join(words)
            raise argparse.ArgumentTypeError(
                f"{text!r} is not one of {known}, nor path/to/file.py:function"
            )
        return text

    return parse


def whole_number(least: int, most: int = LARGEST) -> Callable[[str], int]:
    """An argparse type: a whole number between two bounds, which it may be; digits only.

    Whatever else is given is answered with one line, which names both bounds.
    """

    def parse(text: str) -> int:
        digits = text.isascii() and text.isdigit() and len(text) <= 20
        if digits and len(text) > 1 and text.startswith("0"):
            raise argparse.ArgumentTypeError(
                f"{text!r} begins with a zero; a comma separates items of a list: 1024, not 1,024"
            )
        if not digits or not least <= int(text) <= most:
            what = f"a whole number from {least} to {most:,}"
            raise argparse.ArgumentTypeError(f"{text!r} is not {what}")
        return int(text)

    return parse


def number_or_word(
    number: Callable[[str], int], words: tuple[str, ...]
) -> Callable[[str], str | int]:
    """An argparse type: one of some words, or what a type of whole numbers takes."""

    def parse(text: str) -> str | int:
        if text in words:
            return text
        try:
            return number(text)
        except argparse.ArgumentTypeError as error:
            raise argparse.ArgumentTypeError(f"{error}, nor {' or '.join(words)}") from None

    return parse


def percent_type(text: str) -> float:
    """An argparse type: a positive number of percent, with or without the sign."""
    return positive(text.removesuffix("%").strip())


def positive(text: str, what: str = "number") -> float:
    """An argparse type: a positive number."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e9:
        raise argparse.ArgumentTypeError(f"{text!r} is not a {what} above 0")
    return value


def tokens_type(text: str) -> int:
    """An argparse type: a number of tokens, as 300M, 2B or 1e9."""
    factors = {"k": 1e3, "m": 1e6, "b": 1e9, "t": 1e12}
    factor = factors.get(text[-1:].lower(), 1.0)
    try:
        value = float(text if factor == 1.0 else text[:-1]) * factor
    except ValueError:
        value = 0.0
    if not 1 <= value <= 1e18:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of tokens, as 300M or 2B")
    return round(value)


def seconds_type(text: str) -> float:
    """An argparse type: a positive number of seconds."""
    return positive(text, "number of seconds")


def factor(text: str) -> float:
    """An argparse type: a speed."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.01 <= value <= 1000:
        raise argparse.ArgumentTypeError(f"{text!r} is not between 0.01 and 1000")
    return value


def device_type(text: str) -> str:
    """An argparse type: the name of a device."""
    if not _DEVICE.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not auto, cpu, cuda or cuda:N")
    return text
