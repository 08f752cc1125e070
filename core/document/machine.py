"""What was measured on what, with which command: the first lines of a document."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from llmprof.core.document.quotes import Sentence
from llmprof.core.document.sources import Source
from llmprof.core.events import Environment
from llmprof.core.figures.outcomes import to_resume
from llmprof.core.system.text import counted
from llmprof.core.system.units import GIB


def machine_lines(sources: Sequence[Source]) -> tuple[Sentence, ...]:
    """A line for each machine, then one for each run with its command."""
    machines = dict.fromkeys(
        _machine(source.environment) for source in sources if source.environment is not None
    )
    commands: dict[str, list[Source]] = {}
    for source in sources:
        commands.setdefault(source.command, []).append(source)
    return tuple((line,) for line in (*machines, *map(_runs, commands.values())))


def _machine(environment: Environment) -> str:
    memory = environment.memory_total_bytes
    size = f" ({memory / GIB:.1f} GiB)" if memory else ""
    return ", ".join(
        filter(
            None,
            (
                f"{environment.device_name}{size}",
                f"driver {environment.driver}" if environment.driver else "",
                f"CUDA {environment.cuda}" if environment.cuda else "",
                f"PyTorch {environment.torch}",
                f"Python {environment.python}",
                f"host {environment.cpu_name}" if environment.device != "cpu" else "",
            ),
        )
    )


def _runs(sources: Sequence[Source]) -> str:
    """One command's runs: by name where there are several, with when the first began."""
    return ", ".join(filter(None, _facts(sources)))


def _facts(sources: Sequence[Source]) -> Iterable[str]:
    source = sources[0]
    segments = source.subject.segments
    command = source.command.replace("`", "'")
    names = ", ".join(each.name for each in sources)
    yield f"`{command}`" if command else names
    if command and len(sources) > 1:
        yield f"runs {names}"
    if segments:
        started = datetime.fromtimestamp(segments[0].wall_ns / 1e9, UTC)
        yield f"{started:%Y-%m-%d %H:%M} UTC"
        yield f"llmprof {segments[-1].version}"
    if source.environment is not None and source.environment.worker_source:
        yield f"measuring code {source.environment.worker_source}"
    for each in sources:
        run, missing = each.subject, to_resume(each.subject)
        if run.outcome == "complete":
            continue
        if missing:
            packed = each.path is not None and each.path.is_file()
            named = each.path.name if packed and each.path is not None else run.run_id
            remedy = "" if run.going else f", `llmprof resume {named}` measures them"
            yield (
                f"{each.name} {run.state_words}: {len(missing)} of "
                f"{counted(len(run.cases), 'case')} not measured{remedy}"
            )
        elif run.loops:
            yield f"{each.name} {run.state_words}"
