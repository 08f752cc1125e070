"""Data types once a document: runs that saw no others than another run did add nothing."""

from __future__ import annotations

from collections.abc import Sequence

from llmprof.core.document.sources import Source
from llmprof.core.report.data_types import types_seen


def who_tells(sources: Sequence[Source]) -> dict[str, tuple[str, ...]]:
    """The runs whose data types are shown, each with those that saw a part of the same."""
    seen = {source.name: types_seen(source.subject.as_one) for source in sources}
    by_size = sorted((name for name in seen if seen[name]), key=lambda name: -len(seen[name]))
    shown: dict[str, list[str]] = {}
    for name in by_size:
        teller = next((each for each in shown if seen[name].items() <= seen[each].items()), None)
        if teller is None:
            shown[name] = []
        else:
            shown[teller].append(name)
    return {name: tuple(others) for name, others in shown.items()}
