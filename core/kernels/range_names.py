"""Names of the ranges that the profiling worker puts around what it runs."""

from __future__ import annotations

RANGE_PREFIX = "llmprof "
STEP_RANGE = "llmprof step"
PHASE_RANGE = "llmprof phase "
MODULE_RANGE = "llmprof module "
LENS_RANGE = "llmprof attention "
SOURCE_RANGE = "llmprof source "


def collapse(path: str) -> str:
    """A module's path without its layer numbers: blocks.3.ffn is blocks.*.ffn."""
    return ".".join("*" if part.isdigit() else part for part in path.split("."))
