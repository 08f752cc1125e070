"""Pictures of a run's timelines beside its report."""

from __future__ import annotations

import zlib
from pathlib import Path

from llmprof.core.memory.kept_timeline import MAX_BYTES, Points, decode_points
from llmprof.core.memory.picture import draw_picture
from llmprof.core.state.view import RunView
from llmprof.core.system.archive import is_packed, member, opened
from llmprof.core.system.atomic import write_file


def write_pictures(view: RunView, run: Path, report: Path) -> list[tuple[str, Path]]:
    """Write an SVG a recorded case beside a report: NAME-memory-1.svg; (caption, path) of each.

    `run` is a run's folder, its journal or a packed run. A timeline whose artifact is missing or
    damaged is left out. Raises OSError when the folder cannot be written.
    """
    written = []
    for state in view.cases:
        event = state.memory_timeline
        if event is None or event.artifact is None:
            continue
        try:
            points = read_points(run, event.artifact)
        except (OSError, ValueError, EOFError, zlib.error):
            continue
        path = report.with_name(f"{report.stem}-memory-{state.index + 1}.svg")
        write_file(path, draw_picture(points, state.case.label))
        written.append((state.case.label, path))
    return written


def read_points(run: Path, artifact: str) -> Points:
    """The points of a run in a folder or in a packed file, neither of which is trusted.

    Raises OSError, ValueError (as is PackError), EOFError or zlib.error.
    """
    if Path(artifact).name != artifact:
        raise ValueError(f"{artifact!r} is no name of an artifact")
    if is_packed(run):
        with opened(run) as archive, member(archive, f"artifacts/{artifact}") as file:
            packed = file.read(MAX_BYTES + 1)
    else:
        folder = run if run.is_dir() else run.parent
        with (folder / "artifacts" / artifact).open("rb") as file:
            packed = file.read(MAX_BYTES + 1)
    return decode_points(packed, artifact)


def links(pictures: list[tuple[str, Path]]) -> str:
    """Markdown that shows pictures which lie beside the document."""
    return "\n\n".join(
        f"![Memory timeline: {_plain(label)}]({path.name})" for label, path in pictures
    )


def _plain(label: str) -> str:
    return "".join(char for char in label if char not in "[]()\\`*_<>$&|")
