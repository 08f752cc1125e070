"""llmprof measures and profiles transformer language-model training on this machine."""

from llmprof.version import __version__

__all__ = ["__version__"]
