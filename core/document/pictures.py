"""The four figures of a document, from its tables."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

from llmprof.core.document.figures.bars import Bar, stacked
from llmprof.core.document.figures.loglog import Series, loglog
from llmprof.core.document.figures.svg import CLASS_COLOURS, Figure
from llmprof.core.document.figures.timeline import memory_timeline
from llmprof.core.document.growth import Growth
from llmprof.core.document.steps import Found, between_processes, pace
from llmprof.core.document.tables import Tables
from llmprof.core.memory.picture_files import read_points
from llmprof.core.spec.case import PHASES, Case

MOST_BARS = 12


def step_bars(cells: Sequence[Found]) -> Figure | None:
    """Fig. 1: the step of each size by phase, with the interval of the whole."""
    ran = [each for each in cells if each[1].total is not None]
    bars = [
        Bar(
            _bar_label(state.case, [each.case for _, each in ran]),
            {phase: found.mean for phase, found in state.summaries.items()},
            None if state.total is None else state.total.ci95,
            weak=not between_processes(state),
            mark="host" if pace(state).startswith("host") else "",
            failed=", ".join(source.failed_checks(state)),
        )
        for source, state in _spread(ran)
    ]
    colours: dict[str, str] = {phase: f"phase-{phase.replace('_', '-')}" for phase in PHASES}
    caption = "The step of each size by phase; the whisker is the 95 % interval of its mean"
    if any(bar.weak for bar in bars):
        caption += (
            ", solid between fresh processes, dashed between the steps of one process, which says "
            "nothing of another"
        )
    if any(bar.mark for bar in bars):
        caption += "; host: the host sets its pace, as the table says"
    if any(bar.failed for bar in bars):
        caption += "; *: a check says no to its times, as the table says"
    return stacked("step-phases", caption, bars, colours, "device time of a step (ms)")


def _spread(ran: list[Found]) -> list[Found]:
    """At most MOST_BARS: where there are more, of each size those of the largest contexts."""
    if len(ran) <= MOST_BARS:
        return ran
    each = max(1, MOST_BARS // len({state.case.model for _, state in ran}))
    kept: dict[str, list[Found]] = {}
    for found in reversed(ran):
        own = kept.setdefault(found[1].case.model.name, [])
        if len(own) < each:
            own.append(found)
    return [found for own in reversed(kept.values()) for found in reversed(own)][:MOST_BARS]


def _bar_label(case: Case, cases: Sequence[Case]) -> str:
    """The size, and what else tells it from the others."""
    parts = [case.model.name]
    parts += [f"{case.context_length:,} tokens"] * (
        len({each.context_length for each in cases}) > 1
    )
    parts += [f"batch {case.batch_size}"] * (len({each.batch_size for each in cases}) > 1)
    parts += [case.mode] * (len({each.mode for each in cases}) > 1)
    return ", ".join(parts)


def class_bars(tables: Tables) -> Figure | None:
    """Fig. 2: the kernels of the first profiled case, by phase and class."""
    if not tables.profiled:
        return None
    _, state = tables.profiled[0]
    table = state.kernels
    assert table is not None
    bars = []
    for phase in dict.fromkeys(row.phase for row in table.classes):
        parts = {
            row.label: row.total_ms / table.steps for row in table.classes if row.phase == phase
        }
        bars.append(Bar(phase, parts))
    what = "GPU time" if table.source == "cuda" else "op time"
    caption = f"Kernels of one profiled step by class: {state.case.label}"
    return stacked("kernel-classes", caption, bars, CLASS_COLOURS, f"{what} of a step (ms)")


def peak_picture(tables: Tables) -> Figure | None:
    """Fig. 3: the recorded steps of the training case of the largest peak."""
    recorded = sorted(
        (found for found in tables.memory if found[1].memory_timeline is not None),
        key=lambda found: (
            found[1].case.mode != "train",
            -(found[1].memory_timeline.peak_bytes if found[1].memory_timeline else 0),
        ),
    )
    for source, state in recorded:
        event = state.memory_timeline
        if event is None or event.artifact is None or source.path is None:
            continue
        try:
            points = read_points(source.path, event.artifact)
        except (OSError, ValueError, EOFError, zlib.error):
            continue
        others = {each.case.mode for _, each in recorded if each is not state}
        label = state.case.label
        if "forward" in others and state.case.mode == "train":
            label += ", those of inference not drawn"
        environment = state.environment or source.environment
        on_cpu = environment is not None and environment.device == "cpu"
        picture = memory_timeline(points, label, on_card=not on_cpu)
        if picture is not None:
            return picture
    return None


def growth_picture(growths: Sequence[Growth]) -> Figure | None:
    """Fig. 4: times that have a fit, on logarithmic axes."""
    timed = [each for each in growths if each.unit == "ms"]
    fitted = sorted(timed, key=lambda each: each.fit is None)
    series = [Series(f"{each.what}, {each.way}", each.points, each.fit) for each in fitted]
    caption = "Time over context; lines are the fitted powers, with the exponents at their ends"
    if all(each.fit is None for each in fitted):
        caption = "Time over context; no power is fitted"
    return loglog("growth", caption, series, "context (tokens)", "device time (ms)")
