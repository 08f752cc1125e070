"""Names of the ranges that the profiling worker puts around what it runs."""

from __future__ import annotations

RANGE_PREFIX = "llmprof "
STEP_RANGE = "llmprof step"
PHASE_RANGE = "llmprof phase "
MODULE_RANGE = "llmprof module "
LENS_RANGE = "llmprof attention "
RECOMPUTE_RANGE = "llmprof recompute"
SOURCE_RANGE = "llmprof source "


def label_of(name: str, prefix: str) -> str:
    """What a range of a kind is about; of a module, its path without layer numbers:
    blocks.3.ffn is blocks.*.ffn.
    """
    label = name.removeprefix(prefix)
    if prefix != MODULE_RANGE:
        return label
    return ".".join("*" if part.isdigit() else part for part in label.split("."))
