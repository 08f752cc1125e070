"""`llmprof watch`: run a training script as it is, watched."""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from llmprof.cli.exits import USAGE, UserError
from llmprof.cli.streams import tell
from llmprof.core.system.modules_by_name import STARTUP

PYTHON = re.compile(r"(python|pypy)[\d.]*t?")
TAKE_AN_ARGUMENT = "cmWX"  # Python's options that are followed by a word of their own
BLIND = {"I": "ignores PYTHONPATH", "E": "ignores PYTHONPATH", "S": "runs no sitecustomize"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `llmprof watch`."""
    parser.usage = "llmprof watch [OPTIONS] -- COMMAND [ARGUMENT ...]"
    parser.add_argument("--label", metavar="NAME", default="", help="the run's name (the script's)")
    parser.add_argument("--no-sampler", action="store_true", help="do not read the cards beside it")
    parser.add_argument(
        "--screen",
        action="store_true",
        help="open the screen once the training begins; what the script prints follows after it",
    )
    parser.add_argument("command", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)


def run(args: argparse.Namespace) -> int:
    """Become the command, so that its output, exit code and signals are its own.

    Raises UserError where there is no such command.
    """
    words: list[str] = args.command[1:] if args.command[:1] == ["--"] else args.command
    if not words:
        raise UserError("say what to run: `llmprof watch -- python train.py`")
    flag = blind_flag(words)
    if flag is not None:
        why = f"{Path(words[0]).name} -{flag} {BLIND[flag]}"
        tell(f"llmprof: nothing of this training can be seen, for {why}: leave -{flag} out")
    environment = watched_environment(
        os.environ, label=args.label, sample_devices=not args.no_sampler
    )
    if args.screen:
        from llmprof.cli.watch_screen import on_screen

        return on_screen(words, environment)
    if flag is None and sys.stderr is not None and sys.stderr.isatty():
        tell("llmprof: `llmprof` in another terminal shows this training once it has begun")
    return become(words, environment)


def become(words: Sequence[str], environment: dict[str, str]) -> int:
    """Run a command in the place of this process. Raises UserError where it can't be run."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):  # by Python, which the command may not be
        signal.signal(ignored, signal.SIG_DFL)
    try:
        os.execvpe(words[0], list(words), environment)
    except OSError as error:
        raise UserError(f"cannot run {words[0]}: {error.strerror}", USAGE) from error


def watched_environment(
    environment: os._Environ[str] | dict[str, str], *, label: str, sample_devices: bool
) -> dict[str, str]:
    """The variables of a command that is watched."""
    spec = find_spec(STARTUP)
    folder = "" if spec is None or spec.origin is None else str(Path(spec.origin).parent)
    path = environment.get("PYTHONPATH", "")
    setting = {"label": label, "sample_devices": sample_devices}
    return {
        **environment,
        "PYTHONPATH": f"{folder}{os.pathsep}{path}" if path else folder,
        "LLMPROF_WATCH": json.dumps(setting),
    }


def blind_flag(words: Sequence[str]) -> str | None:
    """The option of Python's with which a command sees nothing of PYTHONPATH; None where none."""
    if not PYTHON.fullmatch(Path(words[0]).name):
        return None
    rest = iter(words[1:])
    for word in rest:
        if not word.startswith("-") or word == "-" or word.startswith("--"):
            return None
        for at, letter in enumerate(word[1:], 1):
            if letter in BLIND:
                return letter
            if letter in "cm":
                return None
            if letter in TAKE_AN_ARGUMENT:
                if at == len(word) - 1:
                    next(rest, None)
                break
    return None
