"""Functions of the user's own that stand as values of an axis, told by file, name and content."""

from __future__ import annotations

import re
from pathlib import Path

from llmprof.core.spec.shape import SpecError
from llmprof.core.system.text import clean, telling_line

_WRITTEN = re.compile(r"(?P<path>.+\.py):(?P<name>[^\W\d]\w*)")
_KEPT = re.compile(r"(?P<path>/.+\.py):(?P<name>[^\W\d]\w*)#[0-9a-f]{16}")


def function_value(text: str, option: str) -> str:
    """`path/to/file.py:function` as a value: the absolute path, and the file's content behind it.

    So a changed file is another value. Raises SpecError for what is not there.
    """
    found = _WRITTEN.fullmatch(text)
    if found is None:
        raise SpecError(f"{option} {clean(text, 100)}: write path/to/file.py:function")
    path = given_path(found["path"], option)
    content = content_of(path, option)
    from llmprof.core.spec.source_names import check_name  # files are rare

    check_name(path, found["name"], option)
    return f"{path}:{found['name']}#{content}"


def given_path(text: str, option: str) -> Path:
    """The absolute path that is meant. Raises SpecError for the home of nobody."""
    try:
        return Path(text).expanduser().absolute()
    except RuntimeError as error:
        raise SpecError(f"{option} {clean(text, 200)}: {telling_line(str(error))}") from error


def content_of(path: Path, option: str) -> str:
    """What tells one state of a file from another. Raises SpecError for one that can't be read."""
    import hashlib  # loads OpenSSL, which the screen's first frame has no use for

    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    except OSError as error:
        raise SpecError(f"{option} {clean(str(path), 200)}: {error.strerror}") from error


def is_function(value: str) -> bool:
    """Whether a value is a function of the user's own."""
    return _KEPT.fullmatch(value) is not None


def path_and_name(value: str) -> tuple[Path, str]:
    """Where a value's function is. Raises ValueError for a value that is no function."""
    found = _KEPT.fullmatch(value)
    if found is None:
        raise ValueError(f"{value} is no function of the user's own")
    return Path(found["path"]), found["name"]


def short_name(value: str) -> str:
    """`flash.py:attend` of such a value; any other as it is."""
    found = _KEPT.fullmatch(value)
    return value if found is None else clean(f"{Path(found['path']).name}:{found['name']}", 60)
