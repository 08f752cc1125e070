"""Runs kept under a name, packed, so that later runs can be compared with them."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from llmprof.core.store.pack import SUFFIX, open_view, pack
from llmprof.core.store.run import Run
from llmprof.core.system.archive import is_packed
from llmprof.core.system.atomic import whole_file
from llmprof.core.system.homes import state_home

DEFAULT = "baseline"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")


class BadName(ValueError):
    """A name that no baseline may have; its text is one line for the user."""


def baselines() -> dict[str, Path]:
    """The packed files of all baselines by name, in order. Raises NoHome."""
    try:
        found = sorted(_folder().iterdir())
    except OSError:
        return {}
    names = {path.name.removesuffix(SUFFIX): path for path in found if path.suffix == SUFFIX}
    return {name: path for name, path in names.items() if _NAME.fullmatch(name)}


def find_baseline(name: str) -> Path | None:
    """The packed file of a baseline; None where there is none of the name. Raises NoHome."""
    return baselines().get(name)


def set_baseline(source: Path, name: str = DEFAULT) -> Path:
    """Keep a run's folder or packed file under a name, in place of what had it.

    Raises BadName, PackError for what is no run, OSError.
    """
    if not _NAME.fullmatch(name):
        raise BadName(f"{name!r} is no name: letters, digits, dots and hyphens, at most 80")
    open_view(source)
    target = _folder() / f"{name}{SUFFIX}"
    if source.is_dir():
        pack(Run(source), target)
    elif is_packed(source):
        with whole_file(target) as draft:
            shutil.copyfile(source, draft)
    else:
        pack(Run(source.parent), target)
    return target


def _folder() -> Path:
    return state_home() / "baselines"
