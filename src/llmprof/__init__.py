"""llmprof measures and profiles transformer language-model training on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llmprof.version import __version__

__all__ = ["__version__", "open", "track"]

if TYPE_CHECKING:
    from llmprof.core.reading.reader import open_run as open
    from llmprof.core.track.tracked import track
else:  # a type checker that saw it would let every name pass

    def __getattr__(name: str) -> Any:
        """What scripts use; loaded with its first use, so that the import is light."""
        if name == "open":
            from llmprof.core.reading.reader import open_run

            return open_run
        if name == "track":
            from llmprof.core.track.tracked import track

            return track
        raise AttributeError(f"module 'llmprof' has no attribute {name!r}")
