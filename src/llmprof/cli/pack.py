"""`llmprof pack`: a run as one file, to carry home or, redacted, to share."""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from llmprof.cli.exits import OK, UserError
from llmprof.cli.show import find_source
from llmprof.cli.streams import put, tell
from llmprof.core.store.pack import SUFFIX, pack, unpack
from llmprof.core.store.redact import pack_redacted
from llmprof.core.store.run import Run, RunNotFound
from llmprof.core.system.archive import PackError, is_packed
from llmprof.core.system.text import cause


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `llmprof pack`."""
    parser.add_argument("run", nargs="?", help="a run's name, or a packed file (newest run)")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help=f"NAME{SUFFIX}")
    parser.add_argument(
        "--redact",
        action="store_true",
        help="without names of hosts and users, folders, serial numbers and UUIDs, for sharing",
    )


def add_pack_option(parser: argparse._ActionsContainer) -> None:
    """Declare --pack of the commands that measure."""
    parser.add_argument(
        "--pack",
        type=Path,
        metavar="FILE",
        help=f"at its end put the run into FILE{SUFFIX}, also when it is stopped by SIGTERM",
    )


def run(args: argparse.Namespace) -> int:
    """Write the file and print its name. Raises UserError."""
    try:
        with _found(args.run) as found:
            suffix = f"-redacted{SUFFIX}" if args.redact else SUFFIX
            target = args.output or Path(f"{found.id}{suffix}")
            check_target(target)
            if args.redact:
                for line in pack_redacted(found, target):
                    tell(line)
            else:
                pack(found, target)
    except (RunNotFound, PackError) as error:
        raise UserError(str(error)) from error
    except OSError as error:
        raise UserError(f"cannot pack the run: {cause(error)}") from error
    put(str(target))
    return OK


def check_target(path: Path | None) -> Path | None:
    """The absolute path of a file to pack into. Raises UserError where none could be written."""
    if path is None:
        return None
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise UserError(f"{path} is a folder")
    if not target.parent.is_dir():
        raise UserError(f"{path}: there is no folder {target.parent}")
    if not os.access(target.parent, os.W_OK):
        raise UserError(f"{path} cannot be written: permission denied")
    return target


@contextmanager
def _found(name: str | None) -> Iterator[Run]:
    """The run that is meant; of a packed file an unpacked copy under the file's name."""
    source = find_source(name)
    if not source.is_file():
        yield Run(source)
    elif not is_packed(source):
        yield Run(source.parent)
    else:
        with tempfile.TemporaryDirectory(prefix="llmprof-") as folder:
            run = Run(Path(folder) / source.stem)
            run.artifacts.mkdir(parents=True)
            unpack(source, run)
            yield run
