"""Names of the ranges that the profiling worker puts around what it runs."""

from __future__ import annotations

PREFIX = "llmprof "
STEP = "llmprof step"
PHASE = "llmprof phase "
MODULE = "llmprof module "
LENS = "llmprof attention "
SOURCE = "llmprof source "


def collapse(path: str) -> str:
    """A module's path without its layer numbers: blocks.3.ffn is blocks.*.ffn."""
    return ".".join("*" if part.isdigit() else part for part in path.split("."))
