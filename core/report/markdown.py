"""A run as Markdown that can be pasted into a write-up."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from llmprof.core.events import Environment
from llmprof.core.figures.outcomes import to_resume
from llmprof.core.report.lean import lean
from llmprof.core.report.markdown_table import code, escape, section, wrapped
from llmprof.core.report.sentences import case_numbers
from llmprof.core.spec.case import Probe
from llmprof.core.state.view import CaseState, RunView
from llmprof.core.system.numbers import as_given
from llmprof.core.system.processors import quota_text
from llmprof.core.system.text import counted
from llmprof.version import __version__

STEPS_OF_PROBE: dict[Probe, tuple[str, str]] = {  # what a case is, and what is done with its steps
    "timing": ("plain timing", "measured"),
    "kernels": ("kernel profile", "profiled"),
    "memory": ("memory recording", "recorded"),
}


def render(view: RunView, first: str = "") -> str:
    """The whole report: `first`, the tables, then what is long behind folds."""
    from llmprof.core.report.registry import tables  # all tables: of a run alone

    parts = [f"# llmprof: {escape(title_of(view))}", header(view)]
    parts += filter(None, (first,))
    written = [section(lean(table)) for table in tables(view)]
    parts += sorted(written, key=lambda text: text.startswith("<details>"))
    return "\n\n".join(parts) + "\n"


def header(view: RunView) -> str:
    """What was measured on what: a bullet list."""
    lines = [wrapped(f"- **{name}:** {text}", "  ") for name, text in facts(view)]
    return "\n".join(lines)


def facts(view: RunView) -> Iterable[tuple[str, str]]:
    """Name and escaped text of each fact of the header."""
    environment = view.environment
    if environment is not None:
        memory_gib = (environment.memory_total_bytes or 0) / 2**30
        size = f", {memory_gib:.1f} GiB" if memory_gib else ""
        yield "Device", escape(f"{environment.device_name} ({environment.device}{size})")
        if environment.driver:
            yield "Driver", escape(f"{environment.driver}, CUDA {environment.cuda}")
        yield "PyTorch", escape(f"{environment.torch}, Python {environment.python}")
        yield "Host", escape(", ".join(_host(environment)))
        if environment.variables:
            set_to = (f"{name}={value}" for name, value in environment.variables.items())
            yield "Variables", ", ".join(map(code, set_to))
    cases = view.cases
    if cases:
        precisions = dict.fromkeys(state.case.precision for state in cases)
        yield "Precision", escape(", ".join(precisions) + _tf32(view))
        yield "Steps", steps_of(cases)
        contexts = ", ".join(str(c) for c in dict.fromkeys(s.case.context_length for s in cases))
        batches = ", ".join(str(b) for b in dict.fromkeys(s.case.batch_size for s in cases))
        yield "Context", f"{contexts} tokens, batch {batches}"
    if view.segments:
        moment = datetime.fromtimestamp(view.segments[0].wall_ns / 1e9, UTC)
        yield "Date", f"{moment:%Y-%m-%d %H:%M} UTC"
        yield "Version", f"llmprof {escape(view.segments[-1].version)}"
    else:
        yield "Version", f"llmprof {__version__}"
    if view.command:
        yield "Command", code(shlex.join(view.command))
    if view.damaged_lines or view.unknown_events:
        yield (
            "Journal",
            f"{counted(view.damaged_lines, 'line')} could not be read, {view.unknown_events:,} of "
            "kinds that this version does not know",
        )
    if view.outcome != "complete":
        all_there = bool(view.cases) and not to_resume(view)
        when = "after its last case" if all_there else "not every case was measured"
        what = "" if view.loops or view.going else f": {when}"
        yield "Outcome", f"**{view.state_words}**{what}"


def _host(environment: Environment) -> Iterable[str]:
    """The processor, and how much of it and of the memory may be used."""
    count, usable, quota = environment.cpu_count, environment.cpus_usable, environment.cpu_quota
    yield environment.cpu_name
    yield f"{count or 'unknown'} CPUs"
    if usable is not None and usable != count:
        yield f"{usable} of them usable ({environment.affinity})"
    if quota is not None:
        yield quota_text(quota)
    if environment.threads:
        yield f"{environment.threads} threads"
    if environment.memory_limit_bytes is not None:
        yield f"memory limit {environment.memory_limit_bytes / 2**30:.1f} GiB"


def steps_of(cases: Sequence[CaseState]) -> str:
    """How many steps the cases have, said of what where they are not of one kind."""
    kinds: dict[Probe, dict[str, None]] = {}
    for case in (state.case for state in cases):
        verb = STEPS_OF_PROBE.get(case.probe, ("", "measured"))[1]
        warm = "warm-up until steady" if case.warmup_auto else f"{case.warmup_steps} warm-up"
        target = case.target_percent
        until = f"{case.measure_steps} {verb}"
        if target is not None:
            until = f"{verb} until the mean is known within {as_given(target)} % (95 % interval)"
        text = f"{warm}, {until}"
        kinds.setdefault(case.probe, {}).setdefault(text)
    if len(kinds) == 1:
        return "; ".join(text for texts in kinds.values() for text in texts)
    return "; ".join(
        f"{STEPS_OF_PROBE.get(probe, (probe, ''))[0]}: {' or '.join(texts)}"
        for probe, texts in kinds.items()
    )


def title_of(view: RunView) -> str:
    """What a run is called above its tables."""
    if view.loops:
        return f"{view.loops[0].started.label}, a training loop"
    if view.experiment is None:
        return "an empty run"
    return view.experiment.title or view.experiment.name


def _tf32(view: RunView) -> str:
    seen = {s.index: s.observed.tf32 for s in view.cases if s.observed is not None}
    on = [index for index, tf32 in seen.items() if tf32]
    if not seen:
        return ""
    if len(on) in (0, len(seen)):
        return "; TF32 on" if on else "; TF32 off"
    return f"; TF32 on in {case_numbers(on)}, off in the others"
