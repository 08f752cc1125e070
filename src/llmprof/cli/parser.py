"""The parser of a command's options."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, NoReturn

from llmprof.cli.exits import USAGE
from llmprof.cli.streams import put

if TYPE_CHECKING:
    from _typeshed import SupportsWrite


class Parser(argparse.ArgumentParser):
    """argparse, but a mistake is one line."""

    def print_help(self, file: SupportsWrite[str] | None = None) -> None:
        """Write the help to standard output, whole."""
        put(self.format_help(), end="")

    def parse(self, words: list[str]) -> argparse.Namespace:
        """The command's options; what is none of them ends the program with what may be meant."""
        found, left = self.parse_known_args(words)
        if left:
            self.error(f"unrecognized arguments: {' '.join(left)}{self._meant(left[0], words)}")
        return found

    def _meant(self, word: str, words: list[str]) -> str:
        """What may be meant by a word that is no option, in words that follow it."""
        if word.startswith("-"):
            import difflib

            near = difflib.get_close_matches(
                word.split("=", maxsplit=1)[0], self._option_string_actions, 1
            )
            return f"; did you mean {near[0]}?" if near else ""
        before = words[max(0, words.index(word) - 1)].rpartition("=")[2]
        if before.startswith("-") or before == word:
            return ""
        return f"; the items of a list are joined by commas: {before},{word}"

    def error(self, message: str) -> NoReturn:
        """Say what is wrong and where help is, and exit with 2."""
        self.exit(USAGE, f"{self.prog}: {message} (see `{self.prog} --help`)\n")
