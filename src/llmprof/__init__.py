"""llmprof measures and profiles transformer language-model training on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llmprof.version import __version__

if TYPE_CHECKING:
    from llmprof.core.store.pack import open_run as open
    from llmprof.core.track.tracked import track

__all__ = ["__version__", "open", "track"]


def __getattr__(name: str) -> Any:
    """What scripts use, loaded with its first use, so that the import is light."""
    if name == "track":
        from llmprof.core.track.tracked import track

        return track
    if name == "open":
        from llmprof.core.store.pack import open_run

        return open_run
    raise AttributeError(f"module 'llmprof' has no attribute {name!r}")
