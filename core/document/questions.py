"""The questions of a course's hand-out, in its order, answered from a run's cells.

A question that the runs cannot answer is named with the command that would measure it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from llmprof.core.document.answers import attention, memory, profiles, switches, timing
from llmprof.core.document.quotes import Sentence
from llmprof.core.document.tables import Tables

Answer = Callable[[Tables], Iterable[Sentence]]
MOST_LINES = 8  # of one answer
LEFT_OUT: Sentence = ("Further lines are in the tables below.",)


@dataclass(frozen=True)
class Question:
    """What is asked, what answers it, and the experiment that measures it.

    instead: what is said where no experiment of llmprof measures it.
    """

    text: str
    answer: Answer
    experiment: str
    instead: str = ""


@dataclass(frozen=True)
class Group:
    """Questions that belong together."""

    title: str
    questions: tuple[Question, ...]


def answered(question: Question, tables: Tables) -> list[Sentence]:
    """The lines of an answer; one that names the command where nothing was measured."""
    lines = [*question.answer(tables)]
    if lines:
        return lines if len(lines) <= MOST_LINES else [*lines[:MOST_LINES], LEFT_OUT]
    if question.instead:
        return [(question.instead,)]
    command = f"`llmprof run {question.experiment}`"
    ran = [each.environment for each in tables.sources if each.experiment == question.experiment]
    if any(each is not None and each.device == "cpu" for each in ran):
        return [(f"Not measured on a CPU: {command} does on a card.",)]
    return [(f"Not measured: {command} would.",)]


def _nothing(tables: Tables) -> Iterable[Sentence]:
    return ()


GROUPS: tuple[Group, ...] = (
    Group(
        "Timing",
        (
            Question(
                "How long are forward, backward and optimizer step of each size (± is the standard "
                "deviation of the steps)?",
                timing.phases,
                "end-to-end",
            ),
            Question(
                "How much do they vary (± of a process's steps, and between processes the 95 % "
                "interval of the mean)?",
                timing.spread,
                "end-to-end",
            ),
            Question(
                "What changes without warm-up, and with little of it?", timing.warmup, "warmup"
            ),
        ),
    ),
    Group(
        "Kernel profile",
        (
            Question(
                "Does the forward's total agree with the plain timing?",
                profiles.agreement,
                "kernels",
            ),
            Question(
                "Which kernel has the most GPU time, with its share of its direction's, and is it "
                "the same in both?",
                profiles.longest,
                "kernels",
            ),
            Question(
                "Which kernels other than matrix products matter?", profiles.others, "kernels"
            ),
            Question(
                "How does the products' share change from inference to training (a profiled "
                "step's forward stands for inference)?",
                profiles.products,
                "kernels",
            ),
            Question(
                "Softmax and mask against products in attention: time beside operations?",
                profiles.softmax,
                "kernels",
            ),
        ),
    ),
    Group(
        "Mixed precision",
        (
            Question(
                "Which data type does each component have under autocast?",
                switches.data_types,
                "precision",
            ),
            Question(
                "Why do sums in half precision drift, and which parts of a norm are sensitive?",
                switches.half_sums,
                "precision",
            ),
            Question(
                "What are the times with and without, and the trend?", switches.mixed, "precision"
            ),
        ),
    ),
    Group(
        "Memory",
        (
            Question(
                "What are the peaks of inference and of a training step, in requested bytes?",
                memory.peaks,
                "memory",
            ),
            Question("And with mixed precision?", memory.mixed_peaks, "memory"),
            Question(
                "How large is a tensor of the residual stream, and others?",
                memory.tensors,
                "end-to-end",
            ),
            Question(
                "Which allocations are the largest, and where are they from?",
                memory.largest,
                "memory",
            ),
            Question(
                "Which checkpointing block is best, and how do its neighbours do?",
                memory.checkpoints,
                "checkpointing",
            ),
        ),
    ),
    Group(
        "Attention",
        (
            Question(
                "Where does the grid run out of memory, and what is alive there?",
                attention.out_of_memory,
                "attention",
            ),
            Question(
                "How does what is kept for backward grow with context?", attention.kept, "attention"
            ),
            Question(
                "What does compiling attention bring?", switches.compiled_attention, "attention"
            ),
            Question(
                "What does compiling the whole model bring?", switches.compiled_model, "compile"
            ),
        ),
    ),
    Group(
        "Attention kernels",
        (
            Question(
                "How does one's own kernel do beside PyTorch's?",
                attention.kernels,
                "attention-kernels",
            ),
        ),
    ),
    Group(
        "Several cards",
        (
            Question(
                "All-reduce, data parallel and sharded training?",
                _nothing,
                "",
                "llmprof does not measure these: its experiments run on one card. `llmprof watch "
                "-- torchrun train.py` shows the ranks of a loop.",
            ),
        ),
    ),
)
