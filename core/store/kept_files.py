"""Files for other tools that a journal names: they may be removed, or left out of a shared copy."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace
from pathlib import Path

import msgspec

from llmprof.core.state.view import CaseState, RunView


def names_of(artifacts: Path) -> frozenset[str]:
    """What lies in a folder of artifacts; nothing where there is none."""
    try:
        return frozenset(each.name for each in artifacts.iterdir())
    except OSError:
        return frozenset()


def only_kept(view: RunView, names: Container[str]) -> RunView:
    """The run, with no snapshot and no trace named but those among its artifacts."""
    cases = tuple(_only_kept(state, names) for state in view.cases)
    changed = any(new is not old for new, old in zip(cases, view.cases, strict=True))
    return replace(view, cases=cases) if changed else view


def _only_kept(state: CaseState, names: Container[str]) -> CaseState:
    recorded, profile = state.memory_timeline, state.kernels
    if recorded is not None and recorded.snapshot is not None and recorded.snapshot not in names:
        state = replace(state, memory_timeline=msgspec.structs.replace(recorded, snapshot=None))
    if profile is not None and profile.trace is not None and profile.trace not in names:
        state = replace(state, kernels=msgspec.structs.replace(profile, trace=None))
    return state
