"""Predicted against measured memory on a card, cell by cell.

    python benchmarks/predict_table.py measure CELLS.jsonl [SECONDS]   # on a card; resumable
    python benchmarks/predict_table.py table CELLS.jsonl               # anywhere
    python benchmarks/predict_table.py fixture CELLS.jsonl OUT.json    # small, for the tests

Cells: five sizes x ctx 128/256/512/1024 x naive/sdpa x four modes x fp32/bf16, and 30 shapes drawn
from SEED. Each runs in a fresh forked process: two steps, then one whose peaks are read. A cell
whose line is in CELLS.jsonl is not run again, so the table can be made in pieces.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing as mp
import random
import statistics
import time
import traceback
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import msgspec

from llmprof.core.catalog.models import load_models
from llmprof.core.predict.allocator_replay import replay_allocator
from llmprof.core.predict.closed_form import predict
from llmprof.core.predict.fits import Room, decide
from llmprof.core.spec.axes import ATTENTIONS, MODES, OPTIMIZERS, Precision
from llmprof.core.spec.case import Case
from llmprof.core.spec.shape import ModelShape

SEED = 20261128
SHAPES = 30
FIELDS = (
    "model",
    "mode",
    "precision",
    "attention",
    "optimizer",
    "context_length",
    "batch_size",
)
SIZES = ("small", "medium", "large", "xl", "2.7B")
WIDTH = {"small": 8, "medium": 4, "large": 2}  # cells that run side by side on one card


def grid() -> Iterator[Case]:
    models = load_models()
    for size in SIZES:
        for context in (128, 256, 512, 1024):
            for attention in ATTENTIONS:
                for precision in ("fp32", "bf16"):
                    for mode in MODES:
                        yield Case(
                            model=models[size],
                            context_length=context,
                            attention=attention,
                            precision=precision,
                            mode=mode,
                        )


def drawn() -> Iterator[Case]:
    """Random shapes: odd widths, grouped heads, tied embeddings, biases, GPT-2's vocabulary."""
    rng = random.Random(SEED)
    precisions: tuple[Precision, ...] = ("fp32", "tf32", "bf16", "fp16")
    for index in range(SHAPES):
        head_dim = rng.choice((16, 32, 48, 64, 80, 96, 128, 160))
        kv = rng.choice((1, 2, 3, 4, 8))
        heads = kv * rng.choice((1, 1, 2, 4))
        shape = ModelShape(
            name=f"random {index}",
            d_model=head_dim * heads,
            d_ff=rng.randrange(64, 4096, 8),
            num_layers=rng.randint(1, 24),
            num_heads=heads,
            kv_heads=kv,
            vocab_size=50_257 if index == 0 else rng.randrange(200, 40_000),
            tie_embeddings=rng.random() < 0.3,
            qkv_bias=rng.random() < 0.3,
        )
        yield Case(
            model=shape,
            context_length=rng.choice((33, 64, 100, 128, 200, 256, 384, 777, 1024)),
            batch_size=rng.randint(1, 9),
            attention=rng.choice(ATTENTIONS),
            precision=rng.choice(precisions),
            mode=rng.choice(MODES[1:]),
            optimizer=rng.choice(OPTIMIZERS),
        )


def cells() -> list[Case]:
    return [*drawn(), *grid()]


def measure_one(case: Case) -> dict[str, Any]:
    import torch

    from llmprof.core.worker.trainer import Trainer

    def read(name: str, kind: str) -> int:
        return int(torch.cuda.memory_stats().get(f"{name}.all.{kind}", 0))

    device = torch.device("cuda:0")
    torch.zeros(1, device=device)
    trainer = Trainer(case, device)
    for _ in range(2):
        trainer.step(lambda index: None)
    edges: list[int] = []
    tops = [0, 0]

    def edge(index: int) -> None:
        edges.append(read("requested_bytes", "peak"))
        tops[0] = max(tops[0], read("allocated_bytes", "peak"))
        tops[1] = max(tops[1], read("reserved_bytes", "peak"))
        torch.cuda.reset_peak_memory_stats()

    torch.cuda.reset_peak_memory_stats()
    trainer.step(edge)
    edge(9)
    free, total = torch.cuda.mem_get_info()
    return {
        "phases": dict(zip(case.phases, edges[1:], strict=False)),
        "requested": max(edges),
        "allocated": tops[0],
        "reserved": tops[1],
        "card": torch.cuda.get_device_name(),
        "total": total,
        "outside": total - free - read("reserved_bytes", "current"),
    }


def child(case: Case, pipe: Connection) -> None:
    try:
        result = measure_one(case)
    except Exception as error:
        kind = "oom" if "out of memory" in str(error) else "error"
        result = {kind: "".join(traceback.format_exception_only(error))[:400]}
    pipe.send_bytes(json.dumps(result).encode())
    pipe.close()


def start(case: Case) -> tuple[Any, Connection]:
    ours, theirs = mp.Pipe(False)
    process = mp.get_context("fork").Process(target=child, args=(case, theirs))
    process.start()
    theirs.close()
    return process, ours


def finish(pair: tuple[Any, Connection]) -> dict[str, Any]:
    process, pipe = pair
    try:
        result: dict[str, Any] = json.loads(pipe.recv_bytes())
    except EOFError:
        result = {"error": f"died with {process.exitcode}"}
    process.join()
    return result


def measure(path: Path, seconds: float) -> None:
    import torch._dynamo  # noqa: F401

    import llmprof.core.worker.trainer  # noqa: F401  loaded once, before any fork

    began = time.monotonic()
    done = {row["key"] for row in rows(path)} if path.exists() else set()
    todo = [case for case in cells() if case.key not in done]
    with path.open("a") as file:
        while todo and time.monotonic() - began < seconds:
            group = todo[: WIDTH.get(todo[0].model.name, 1)]
            group = [case for case in group if case.model == todo[0].model]
            todo = todo[len(group) :]
            for case, pair in [(case, start(case)) for case in group]:
                line = {"key": case.key, "case": msgspec.to_builtins(case)} | finish(pair)
                file.write(json.dumps(line) + "\n")
                file.flush()
    print(f"{len(todo)} cells left after {time.monotonic() - began:.0f} s")


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def table(path: Path) -> None:
    errors, inside, replayed, verdicts = [], [], [], {"right": 0, "wrong": 0, "too close": 0}
    print("| Case | Measured (MiB) | Predicted (MiB) | Error (%) | Allocated in band |")
    print("|---|---:|---:|---:|---|")
    for row in rows(path):
        case = msgspec.convert(row["case"], Case)
        prediction = predict(case)
        if "error" in row:
            print(f"| {case.label} | {row['error'][:60]} | | | |")
            continue
        judge(row, case, verdicts)
        if "oom" in row:
            print(f"| {case.label} | OOM | {prediction.requested_bytes / 2**20:,.2f} | | |")
            continue
        error = prediction.requested_bytes / row["requested"] - 1
        band = prediction.allocated_low <= row["allocated"] <= prediction.allocated_high
        errors.append(abs(error))
        inside.append(band)
        replayed.append(abs(replay_allocator(case).reserved_bytes / row["reserved"] - 1))
        print(
            f"| {case.label} | {row['requested'] / 2**20:,.2f} | "
            f"{prediction.requested_bytes / 2**20:,.2f} | {100 * error:+.5f} | "
            f"{'yes' if band else 'no'} |"
        )
    print(f"\n{len(errors)} cells: median error {100 * statistics.median(errors):.6f} %, ", end="")
    print(
        f"worst {100 * max(errors):.6f} %; in band {100 * sum(inside) / len(inside):.1f} %; ",
        end="",
    )
    print(f"replayed reserved: median {100 * statistics.median(replayed):.3f} %, ", end="")
    print(f"worst {100 * max(replayed):.3f} %; verdicts {verdicts}")


def judge(row: dict[str, Any], case: Case, verdicts: dict[str, int]) -> None:
    """Compare the verdict for the card that it ran on with whether it ran."""
    room = Room("measured", (row.get("total") or H100_TOTAL) + CARVED_OUT, (9, 0))
    said = decide(case, predict(case), room)
    ran = "oom" not in row
    if said == "too close to say":
        verdicts["too close"] += 1
    else:
        verdicts["right" if (said == "fits") == ran else "wrong"] += 1


H100_TOTAL = 85_017_493_504  # as CUDA reports it; a cell that ran out of memory has none
CARVED_OUT = 480 << 20  # what the driver keeps of an H100: nvidia-smi's total less CUDA's


def fixture(path: Path, out: Path) -> None:
    """One line a cell: case, requested, allocated and reserved peaks, requested a phase."""
    known = load_models()
    kept: list[list[Any]] = []
    for row in rows(path):
        if "error" in row:
            continue
        case = {name: row["case"][name] for name in FIELDS}
        if case["model"]["name"] in known:
            case["model"] = case["model"]["name"]
        if "oom" in row:
            kept.append([list(case.values()), None])
        else:
            peaks = [row["requested"], row["allocated"], row["reserved"]]
            kept.append([list(case.values()), peaks, list(row["phases"].values())])
    card = next(row["card"] for row in rows(path) if "card" in row)
    lines = ",\n".join(json.dumps(each, separators=(",", ":")) for each in kept)
    fields = json.dumps(FIELDS)
    out.write_text(f'{{"card": "{card}", "fields": {fields}, "cells": [\n{lines}\n]}}\n')


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("measure", "table", "fixture"):
        commands.add_parser(name).add_argument("cells", type=Path, metavar="CELLS.jsonl")
    commands.choices["measure"].add_argument("seconds", nargs="?", type=float, default=480.0)
    commands.choices["fixture"].add_argument("out", type=Path, metavar="OUT.json")
    args = parser.parse_args()
    if args.command == "measure":
        measure(args.cells, args.seconds)
    elif args.command == "table":
        table(args.cells)
    else:
        fixture(args.cells, args.out)


if __name__ == "__main__":
    main()
