"""Picks the command and turns errors into one line and an exit code."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn, Protocol, cast

from llmprof.cli.exits import CRASHED, INTERRUPTED, OK, USAGE, UserError, drop_output
from llmprof.cli.streams import put, tell
from llmprof.core.system.homes import NoHome
from llmprof.version import __version__

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

# name: (module, one line of help); a module has add_arguments(parser) and run(args) -> int.
COMMANDS: dict[str, tuple[str, str]] = {
    "run": ("run", "measure an experiment and print or export its tables"),
    "resume": ("resume", "measure the cells that a run still lacks"),
    "screen": ("screen", "pick, run and watch on one screen (the default)"),
    "attach": ("attach", "follow a run that is going on"),
    "stop": ("stop", "stop a run, keeping what it has measured"),
    "watch": ("watch", "run a training script as it is, watched"),
    "runs": ("runs", "list the runs of this machine"),
    "show": ("show", "print or export a run, also one from another machine"),
    "report": ("report", "write one document from one or several runs"),
    "compare": ("compare", "say what changed between two runs, by case and phase"),
    "baseline": ("baseline", "keep a run under a name that later ones are compared with"),
    "pack": ("pack", "put a run into one file to carry home"),
    "demo": ("demo", "replay a recorded run as if it were live; needs no GPU"),
    "monitor": ("monitor", "watch the GPUs and the host of this machine"),
    "predict": ("predict", "say what cases need and whether they fit, without running them"),
    "experiments": ("experiments", "list what `llmprof run NAME` measures"),
    "calibrate": ("calibrate", "measure this device's matmul and copy ceilings, and keep them"),
    "doctor": ("doctor", "say what is installed, what is missing and what that costs"),
    "presets": ("presets", "list the models with their counted parameters"),
}


WRITEUP = ("run writeup", ("writeup", "measure all that a write-up needs and write its document"))


class Command(Protocol):
    """What a command's module offers."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the command's options."""

    def run(self, args: argparse.Namespace) -> int:
        """Do it; the exit code. Raises UserError."""


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


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        code = dispatch(arguments)
        if sys.stdout is not None:
            sys.stdout.flush()
        return code
    except UserError as error:
        tell(f"llmprof: {error}")
        return error.code
    except NoHome as error:
        tell(f"llmprof: {error}")
        return USAGE
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        drop_output()  # whoever read it has gone
        return OK
    except OSError as error:
        drop_output()
        tell(f"llmprof: {error.filename or 'output'}: {error.strerror}")
        return CRASHED


def dispatch(arguments: list[str]) -> int:
    """Find the command and run it. `llmprof --export F` is `llmprof run --export F`."""
    if arguments and arguments[0] in ("-h", "--help"):
        _overview().print_help()
        return OK
    if arguments and arguments[0] in ("-V", "--version"):
        put(f"llmprof {__version__}")
        return OK
    if not arguments:
        arguments = ["screen"]
    elif arguments[0].startswith("-"):
        arguments = ["run", *arguments]
    name, *rest = arguments
    if name not in COMMANDS:
        from llmprof.core.catalog.names import unknown

        raise UserError(f"unknown command {unknown(name, COMMANDS)}")
    module, summary = COMMANDS[name]
    if [name, *(word.casefold() for word in rest[:1])] == WRITEUP[0].split():
        name, (module, summary) = WRITEUP
        del rest[0]
    command = cast(Command, importlib.import_module(f"llmprof.cli.{module}"))
    parser = Parser(prog=f"llmprof {name}", description=_sentence(summary))
    command.add_arguments(parser)
    return command.run(parser.parse(rest))


def _overview() -> Parser:
    width = max(map(len, COMMANDS)) + 2
    lines = [f"  {name:<{width}}{summary}" for name, (_, summary) in COMMANDS.items()]
    return Parser(
        prog="llmprof",
        usage="llmprof [COMMAND] [OPTIONS]",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Measure and profile transformer language-model training on this machine.\n\n"
        "commands:\n" + "\n".join(lines),
        epilog="`llmprof COMMAND --help` tells a command's options.\n"
        "`llmprof --export results.md` is `llmprof run --export results.md`.\n"
        "Exit codes: 0 results, 1 a case crashed, 2 usage, 3 nothing measured, 4 a regression\n"
        "(compare --fail-on), 128 + n ended by signal n (130 Ctrl-C, 143 SIGTERM, 129 SIGHUP).",
    )


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:] + "."
