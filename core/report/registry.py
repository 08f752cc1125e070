"""Which tables a report has: each under a name, in the order in which they are read."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from llmprof.core.report.attention import attention, exponents
from llmprof.core.report.attention_kernels import attention_kernels
from llmprof.core.report.attention_lens import lens_tables
from llmprof.core.report.card_activity import card_memory_table, devices
from llmprof.core.report.ceilings import ceilings
from llmprof.core.report.checkpointing import checkpointing
from llmprof.core.report.checks import checks
from llmprof.core.report.compilation import compilation
from llmprof.core.report.coverage import coverage
from llmprof.core.report.data_types import data_types
from llmprof.core.report.failures import failures
from llmprof.core.report.kernel_shares import gemm_table
from llmprof.core.report.kernel_timeline import launch_table, timeline_table
from llmprof.core.report.kernels import kernel_tables
from llmprof.core.report.loop_verdicts import verdict_table
from llmprof.core.report.loops import loop_out_of_memory, loop_parts, loop_table, loop_values
from llmprof.core.report.memory_timeline import memory_tables
from llmprof.core.report.oom_account import oom_accounts
from llmprof.core.report.overhead import overhead_table
from llmprof.core.report.peak_memory import peak_memory
from llmprof.core.report.phase_ratios import ratios
from llmprof.core.report.precision import precision
from llmprof.core.report.prediction_check import out_of_memory_advice, prediction_against
from llmprof.core.report.scaling import scaling, throughput_table
from llmprof.core.report.single_tensors import recorded_tensors
from llmprof.core.report.stability import steadiness
from llmprof.core.report.step_log import step_log
from llmprof.core.report.subject import subject_of
from llmprof.core.report.switches import switches
from llmprof.core.report.table import Table
from llmprof.core.report.timing import model_sizes, phase_times, summary, wide
from llmprof.core.report.warmup import warmup
from llmprof.core.state.view import RunView

Builder = Callable[[RunView], Table | Iterable[Table] | None]

BUILDERS: dict[str, Builder] = {
    "loop": loop_table,
    "loop-verdicts": verdict_table,
    "loop-out-of-memory": loop_out_of_memory,
    "loop-parts": loop_parts,
    "loop-values": loop_values,
    "warmup": warmup,
    "precision": precision,
    "switches": switches,
    "compile": compilation,
    "checkpointing": checkpointing,
    "attention": attention,
    "exponents": exponents,
    "attention-kernels": attention_kernels,
    "scaling": scaling,
    "summary": summary,
    "model-sizes": model_sizes,
    "forward": partial(phase_times, phase="forward"),
    "backward": partial(phase_times, phase="backward"),
    "phases": wide,
    "stability": steadiness,
    "phase-ratios": ratios,
    "throughput": throughput_table,
    "data-types": data_types,
    "timeline": timeline_table,
    "launches": launch_table,
    "kernels": kernel_tables,
    "gemms": gemm_table,
    "attention-lens": lens_tables,
    "overhead": overhead_table,
    "ceilings": ceilings,
    "failures": failures,
    "checks": checks,
    "devices": devices,
    "card-memory": card_memory_table,
    "coverage": coverage,
    "peak-memory": peak_memory,
    "predicted": prediction_against,
    "advice": out_of_memory_advice,
    "oom-account": oom_accounts,
    "memory-timeline": memory_tables,
    "single-tensors": recorded_tensors,
    "step-log": step_log,
}

# Tables that show every process; in the others the processes of a configuration are one row.
EACH_PROCESS = frozenset(
    {"stability", "failures", "checks", "devices", "card-memory", "coverage", "step-log"}
)

# What there is to say of a run all of whose cases failed by an error of theirs: of those that ran
# out of memory the grid is the result.
OF_ERRORS = frozenset({"failures", "checks"})

# What a case has beside its record: tables of their own in every format.
KERNEL_TABLES = ("timeline", "launches", "kernels", "gemms", "attention-lens", "overhead")


def tables(view: RunView, among: Iterable[str] = BUILDERS) -> list[Table]:
    """The tables that the run's experiment names, or all that its cases give, among some."""
    leads = () if view.experiment is None else view.experiment.tables
    return _built(view, filter(frozenset(among).__contains__, leads or BUILDERS))


def tables_called(view: RunView, name: str) -> list[Table]:
    """Those of one name, also where the run's experiment is older than it and does not name it."""
    return _built(view, (name,))


def _built(view: RunView, names: Iterable[str]) -> list[Table]:
    found: list[Table] = []
    subject = subject_of(view)
    for name in names:
        if name not in (OF_ERRORS if view.all_failed else BUILDERS):
            continue
        built = BUILDERS[name](subject if name in EACH_PROCESS else subject.as_one)
        if built is not None:
            found += [built] if isinstance(built, Table) else built
    return found
