"""`llmprof pack`: a run or a write-up as one file, to carry home or, redacted, to share."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from llmprof.cli.exits import OK, UserError
from llmprof.cli.found import found_writeup
from llmprof.cli.show import find_source
from llmprof.cli.streams import put, tell
from llmprof.core.store.pack import SUFFIX, pack, unpacked
from llmprof.core.store.packed_writeup import pack_redacted_writeup, pack_writeup
from llmprof.core.store.redact import pack_redacted
from llmprof.core.store.run import Run, RunNotFound
from llmprof.core.store.writeup import Writeup, WriteupError
from llmprof.core.system.archive import PackError, is_packed
from llmprof.core.system.text import cause


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `llmprof pack`."""
    parser.add_argument(
        "run", nargs="?", help="a run's name, a write-up's folder, or a packed file (newest run)"
    )
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help=f"NAME{SUFFIX}")
    parser.add_argument(
        "--redact",
        action="store_true",
        help="without names of hosts and users, folders, serial numbers and UUIDs, for sharing",
    )


def add_pack_option(parser: argparse._ActionsContainer, what: str = "the run") -> None:
    """Declare --pack of the commands that measure."""
    parser.add_argument(
        "--pack",
        type=Path,
        metavar="FILE",
        help=f"at its end put {what} into FILE{SUFFIX}, also when it is stopped by SIGTERM",
    )


def run(args: argparse.Namespace) -> int:
    """Write the file and print its name. Raises UserError."""
    what = "the run"
    try:
        with ExitStack() as stack:
            source = find_source(args.run)
            writeup = found_writeup(source, stack)
            if writeup is None:
                found = stack.enter_context(_found(source))
                target = _target(args, found.path)
                left_out = _packed(found, target, redact=args.redact)
            else:
                what = "the write-up"
                target = _target(args, writeup.folder)
                left_out = _packed_whole(writeup, target, redact=args.redact)
    except (RunNotFound, PackError, WriteupError) as error:
        raise UserError(str(error)) from error
    except OSError as error:
        raise UserError(f"cannot pack {what}: {cause(error)}") from error
    for line in left_out:
        tell(line)
    put(str(target))
    return OK


def _target(args: argparse.Namespace, folder: Path) -> Path:
    """The file to pack into, by default one called like the folder. Raises UserError."""
    suffix = f"-redacted{SUFFIX}" if args.redact else SUFFIX
    target: Path = args.output or Path(f"{folder.resolve().name}{suffix}")
    check_target(target)
    return target


def _packed(run: Run, target: Path, *, redact: bool) -> tuple[str, ...]:
    """Pack a run; what was left out. Raises OSError."""
    if redact:
        return pack_redacted(run, target)
    pack(run, target)
    return ()


def _packed_whole(writeup: Writeup, target: Path, *, redact: bool) -> tuple[str, ...]:
    """Pack a write-up; what was left out. Raises WriteupError or OSError."""
    if redact:
        return pack_redacted_writeup(writeup, target)
    pack_writeup(writeup, target)
    return ()


def check_target(path: Path | None, *, to_come: Path | None = None) -> Path | None:
    """The absolute path of a file to pack into. Raises UserError where none could be written.

    to_come: a folder that is made before anything is written.
    """
    if path is None:
        return None
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise UserError(f"{path} is a folder")
    folder = target.parent
    if to_come is not None and folder == Path(os.path.realpath(to_come)):
        folder = next(each for each in (folder, *folder.parents) if each.exists())
    if not folder.is_dir():
        raise UserError(f"{path}: there is no folder {folder}")
    if not os.access(folder, os.W_OK):
        raise UserError(f"{path} cannot be written: permission denied")
    return target


@contextmanager
def _found(source: Path) -> Iterator[Run]:
    """The run that lies there; of a packed file an unpacked copy under the file's name."""
    if not source.is_file():
        yield Run(source)
    elif not is_packed(source):
        yield Run(source.parent)
    else:
        with unpacked(source) as run:
            yield run
