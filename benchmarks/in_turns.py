"""Figures of this tree and of another one, taken in turns: what drifts here hits both alike."""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Mapping
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]
Cost = tuple[float, float]  # milliseconds of processor time, and of waiting


def variables_of(tree: Path) -> dict[str, str]:
    """The variables of a process that runs a tree's llmprof, and keeps its compiled bytecode."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPATH": str(tree / "src")}


def compare(measures: Mapping[str, Callable[[Path], Cost]], other: Path, pairs: int) -> None:
    """Print a Markdown table: of each measure medians and least of both trees, in pairs."""
    print(f"| {pairs} pairs | processor time, ms | there | pairs differ by | waiting, ms | there |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for name, measure in measures.items():
        for tree in (HERE, other):
            measure(tree)  # compiles what is not compiled yet
        found: dict[Path, list[Cost]] = {HERE: [], other: []}
        for pair in range(pairs):
            for tree in (HERE, other) if pair % 2 else (other, HERE):
                found[tree].append(measure(tree))
        apart = [here[0] - there[0] for here, there in zip(*found.values(), strict=True)]
        cells = [_cell([cost[at] for cost in found[t]]) for at in (0, 1) for t in (HERE, other)]
        cells.insert(2, f"{statistics.median(apart):+.1f}")
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


def _cell(values: list[float]) -> str:
    return f"{statistics.median(values):.1f} (least {min(values):.1f})"
