"""Picks the command and turns errors into one line and an exit code."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, cast

from llmprof.cli.exits import CRASHED, INTERRUPTED, OK, USAGE, UserError, drop_output
from llmprof.cli.streams import put, tell
from llmprof.version import __version__

if TYPE_CHECKING:
    import argparse

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
    "pack": ("pack", "put a run or a write-up into one file to carry home"),
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
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        drop_output()  # whoever read it has gone
        return OK
    except OSError as error:
        drop_output()
        tell(f"llmprof: {error.filename or 'output'}: {error.strerror}")
        return CRASHED
    except RuntimeError as error:
        from llmprof.core.system.homes import NoHome  # what only prints its help needs no folder

        if not isinstance(error, NoHome):
            raise
        tell(f"llmprof: {error}")
        return USAGE


def dispatch(arguments: list[str]) -> int:
    """Find the command and run it. `llmprof --export F` is `llmprof run --export F`."""
    if arguments and arguments[0] in ("-h", "--help"):
        put(overview())
        return OK
    if arguments and arguments[0] in ("-V", "--version"):
        put(f"llmprof {__version__}")
        return OK
    if not arguments:
        from llmprof.cli.open_screen import open_screen  # nothing to parse

        return open_screen()
    if arguments[0].startswith("-"):
        arguments = ["run", *arguments]
    name, *rest = arguments
    if name not in COMMANDS:
        raise UserError(_no_command(name))
    module, summary = COMMANDS[name]
    if [name, *(word.casefold() for word in rest[:1])] == WRITEUP[0].split():
        name, (module, summary) = WRITEUP
        del rest[0]
    from llmprof.cli.parser import Parser  # what only prints or opens the screen parses nothing

    command = cast(Command, importlib.import_module(f"llmprof.cli.{module}"))
    parser = Parser(prog=f"llmprof {name}", description=_sentence(summary))
    command.add_arguments(parser)
    return command.run(parser.parse(rest))


def _no_command(name: str) -> str:
    """What to say of a word that is no command; a path is one that several commands take."""
    import shlex  # rarely needed
    from pathlib import Path

    from llmprof.core.catalog.names import unknown
    from llmprof.core.system.text import clean

    path = Path(name)
    if not path.is_file() and not ("/" in name and path.exists()):
        return f"unknown command {unknown(name, COMMANDS)}"
    given = clean(shlex.quote(name), 200)
    return (
        f"{clean(name, 200)} is no command: `llmprof screen {given}` shows a run or a write-up, "
        f"`llmprof report {given}` writes its document, `llmprof show {given}` prints a run"
    )


def overview() -> str:
    """What `llmprof --help` prints."""
    width = max(map(len, COMMANDS)) + 2
    commands = "\n".join(f"  {name:<{width}}{what}" for name, (_, what) in COMMANDS.items())
    return f"""usage: llmprof [COMMAND] [OPTIONS]

Measure and profile transformer language-model training on this machine.

commands:
{commands}

options:
  -h, --help  show this help message and exit

`llmprof COMMAND --help` tells a command's options.
`llmprof --export results.md` is `llmprof run --export results.md`.
Exit codes: 0 results, 1 a case crashed, 2 usage, 3 nothing measured, 4 a regression
(compare --fail-on), 128 + n ended by signal n (130 Ctrl-C, 143 SIGTERM, 129 SIGHUP)."""


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:] + "."
