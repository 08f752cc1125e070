"""What each op of a step allocates on a card, and the peaks of a table of cases.

    python benchmarks/predict_probe.py OUT [SECONDS]

Writes OUT/ops.json.gz (requested bytes before, at the peak of and after every op of one step, for
small shapes), OUT/facts.json (workspace, context) and OUT/peaks.jsonl (per phase, many cases).
"""

from __future__ import annotations

import gzip
import json
import multiprocessing as mp
import sys
import time
import traceback
from pathlib import Path

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from llmprof.core.spec import MODES, Case, ModelShape

SIZES = {
    "small": (768, 3072, 12, 12),
    "medium": (1024, 4096, 24, 16),
    "large": (1280, 5120, 36, 20),
    "xl": (1600, 6400, 48, 25),
    "2.7B": (2560, 10240, 32, 32),
}


def stat(name: str, kind: str = "current") -> int:
    return torch.cuda.memory_stats().get(f"{name}.all.{kind}", 0)


class OpLog(TorchDispatchMode):
    """Requested bytes before, at the peak of and after each op, with its outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[list[object]] = []

    def mark(self, text: str) -> None:
        self.lines.append([f"== {text}", stat("requested_bytes"), 0, 0, [], []])

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        before = stat("requested_bytes")
        torch.cuda.reset_peak_memory_stats()
        out = func(*args, **(kwargs or {}))
        peak, after = stat("requested_bytes", "peak"), stat("requested_bytes")
        self.lines.append(
            [str(func), before, peak, after, describe(args), describe(out)]
        )
        return out


def describe(tree: object) -> list[str]:
    return [
        f"{str(t.dtype)[6:]}{tuple(t.shape)}{t.stride() if not t.is_contiguous() else ''}"
        + ("" if t.is_cuda else "cpu")
        for t in tree_leaves(tree)
        if isinstance(t, torch.Tensor)
    ][:12]


def ops_of(case: Case) -> dict[str, object]:
    from llmprof.core.worker.trainer import Trainer

    device = torch.device("cuda:0")
    trainer = Trainer(case, device)
    built = stat("requested_bytes")
    for _ in range(2):
        trainer.step(lambda i: None)
    log = OpLog()
    with log:
        trainer.step(lambda i: log.mark(f"edge {i}"))
    log.mark("end")
    return {"built": built, "lines": log.lines}


def peaks_of(case: Case) -> dict[str, object]:
    from llmprof.core.worker.trainer import Trainer

    free0 = torch.cuda.mem_get_info()[0]
    torch.zeros(1, device="cuda:0")
    context = free0 - torch.cuda.mem_get_info()[0] - stat("reserved_bytes")
    trainer = Trainer(case, torch.device("cuda:0"))
    built = [stat("requested_bytes"), stat("allocated_bytes"), stat("requested_bytes", "peak")]
    for _ in range(2):
        trainer.step(lambda i: None)
    edges: list[list[int]] = []

    def edge(i: int) -> None:
        edges.append(
            [
                stat("requested_bytes"),
                stat("requested_bytes", "peak"),
                stat("allocated_bytes"),
                stat("allocated_bytes", "peak"),
                stat("reserved_bytes", "peak"),
            ]
        )
        torch.cuda.reset_peak_memory_stats()

    torch.cuda.reset_peak_memory_stats()
    trainer.step(edge)
    edge(9)
    free = torch.cuda.mem_get_info()
    return {
        "built": built,
        "edges": edges,
        "retries": torch.cuda.memory_stats()["num_alloc_retries"],
        "context": context,
        "free": free,
        "used": free[1] - free[0],
    }


def facts_of(_: object) -> dict[str, object]:
    out: dict[str, object] = {"torch": torch.__version__, "name": torch.cuda.get_device_name()}
    torch.cuda.init()
    levels = {}
    a = torch.randn(256, 256, device="cuda", requires_grad=True)
    levels["a"] = stat("requested_bytes")
    b = a @ a
    levels["after mm"] = stat("requested_bytes")
    b.sum().backward()
    levels["after backward"] = stat("requested_bytes")
    lin = torch.nn.Linear(256, 256, device="cuda")
    lin(a).sum().backward()
    levels["after linear with bias"] = stat("requested_bytes")
    with torch.autocast("cuda", dtype=torch.bfloat16):
        lin(a).sum().backward()
    levels["after bf16"] = stat("requested_bytes")
    q = torch.randn(2, 4, 128, 64, device="cuda", requires_grad=True)
    torch.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True).sum().backward()
    levels["after sdpa"] = stat("requested_bytes")
    torch._C._cuda_clearCublasWorkspaces()
    levels["cleared"] = stat("requested_bytes")
    out["levels"] = levels
    try:
        from torch._subclasses.fake_tensor import FakeTensorMode

        log: list[str] = []

        class Names(TorchDispatchMode):
            def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
                got = func(*args, **(kwargs or {}))
                log.append(f"{func} {describe(args)} -> {describe(got)}")
                return got

        with FakeTensorMode():
            for dtype in (torch.float32, torch.bfloat16):
                for length, dim in ((128, 64), (100, 64), (128, 80), (128, 48), (128, 128)):
                    q = torch.randn(2, length, 4, dim, device="cuda", dtype=dtype)
                    q = q.transpose(1, 2).requires_grad_()
                    with Names():
                        o = torch.nn.functional.scaled_dot_product_attention(
                            q, q * 1, q * 1, is_causal=True
                        )
                        o.sum().backward()
        out["fake"] = log
    except Exception:
        out["fake_error"] = traceback.format_exc()
    return out


def snapshot_of(case: Case) -> dict[str, object]:
    from llmprof.core.worker.trainer import Trainer

    trainer = Trainer(case, torch.device("cuda:0"))
    for _ in range(2):
        trainer.step(lambda i: None)
    torch.cuda.reset_peak_memory_stats()
    base = stat("requested_bytes"), stat("allocated_bytes")
    torch.cuda.memory._record_memory_history(stacks="python", max_entries=200_000)
    names = ["a", "b", "c", "d", "e", "f"]
    spans = []

    def edge(i: int) -> None:
        if spans:
            spans.pop().__exit__(None, None, None)
        span = torch.profiler.record_function(f"phase {names[i]}")
        span.__enter__()
        spans.append(span)

    t0 = time.monotonic_ns(), time.time_ns()
    trainer.step(edge)
    spans.pop().__exit__(None, None, None)
    torch.cuda.synchronize()
    peak = stat("requested_bytes", "peak"), stat("allocated_bytes", "peak")
    snap = torch.cuda.memory._snapshot()
    return {"base": base, "peak": peak, "anchor": t0, "snapshot": snap}


def child(function, argument, pipe):  # type: ignore[no-untyped-def]
    try:
        result = function(argument)
    except torch.OutOfMemoryError as error:
        result = {"oom": str(error)[:300], "used": torch.cuda.memory_allocated()}
    except Exception:
        result = {"error": traceback.format_exc()[-1500:]}
    pipe.send_bytes(json.dumps(result, default=str).encode())
    pipe.close()


def start(function, argument):  # type: ignore[no-untyped-def]
    ours, theirs = mp.Pipe(False)
    process = mp.get_context("fork").Process(target=child, args=(function, argument, theirs))
    process.start()
    theirs.close()
    return process, ours


def finish(process, pipe):  # type: ignore[no-untyped-def]
    try:
        data = json.loads(pipe.recv_bytes())
    except EOFError:
        data = {"error": "died"}
    process.join()
    return data


def call(function, argument):  # type: ignore[no-untyped-def]
    return finish(*start(function, argument))


def op_cases() -> dict[str, Case]:
    plain = ModelShape(name="p", d_model=256, d_ff=704, num_layers=2, num_heads=4, vocab_size=1000)
    odd = ModelShape(
        name="o", d_model=320, d_ff=832, num_layers=2, num_heads=4, kv_heads=2, vocab_size=1000,
        tie_embeddings=True, qkv_bias=True,
    )
    cases = {}
    for shape in (plain, odd):
        for precision in ("fp32", "bf16", "fp16"):
            for attention in ("naive", "sdpa"):
                for mode in ("train", "forward"):
                    cases[f"{shape.name} {precision} {attention} {mode}"] = Case(
                        model=shape, precision=precision, attention=attention, mode=mode,
                        context_length=192, batch_size=2,
                    )
    for optimizer in ("fused", "loop"):
        for precision in ("fp32", "fp16"):
            cases[f"p {precision} naive train {optimizer}"] = Case(
                model=plain, precision=precision, optimizer=optimizer, context_length=192,
                batch_size=2,
            )
    for d, heads in ((192, 4), (512, 4), (640, 2), (64, 4)):
        for context in (192, 100):
            shape = ModelShape(name=f"s{d}", d_model=d, d_ff=384, num_layers=2, num_heads=heads,
                               vocab_size=1000)
            for precision in ("fp32", "bf16"):
                cases[f"s{d} {heads} {context} {precision} sdpa"] = Case(
                    model=shape, precision=precision, attention="sdpa", context_length=context,
                    batch_size=2,
                )
    return cases


def peak_cases() -> list[Case]:
    cases = []
    for size, (d, ff, layers, heads) in SIZES.items():
        shape = ModelShape(name=size, d_model=d, d_ff=ff, num_layers=layers, num_heads=heads)
        for context in (128, 512, 1024, 256):
            for attention in ("naive", "sdpa"):
                for precision in ("fp32", "bf16"):
                    for mode in MODES:
                        cases.append(
                            Case(model=shape, mode=mode, precision=precision, attention=attention,
                                 context_length=context)
                        )
    return sorted(cases, key=lambda case: case.context_length not in (128, 512))


def main() -> None:
    out, seconds = Path(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 420.0
    began = time.monotonic()
    import torch._dynamo

    import llmprof.core.worker.trainer  # noqa: F401  loaded once, before any fork

    out.mkdir(exist_ok=True)
    (out / "facts.json").write_text(json.dumps(call(facts_of, None), indent=1))
    logs = {}
    todo = list(op_cases().items())
    for at in range(0, len(todo), 8):
        running = {name: start(ops_of, case) for name, case in todo[at : at + 8]}
        logs |= {name: finish(*pair) for name, pair in running.items()}
    with gzip.open(out / "ops.json.gz", "wt") as file:
        json.dump(logs, file)
    plain = op_cases()["p bf16 sdpa train"]
    with gzip.open(out / "snapshot.json.gz", "wt") as file:
        json.dump(call(snapshot_of, plain), file)
    print("ops done", time.monotonic() - began, flush=True)
    todo_peaks = peak_cases()
    with open(out / "peaks.jsonl", "w") as file:
        while todo_peaks and time.monotonic() - began < seconds:
            size = todo_peaks[0].model.name
            width = {"small": 8, "medium": 4, "large": 2}.get(size, 1)
            group = [c for c in todo_peaks[:width] if c.model.name == size]
            todo_peaks = todo_peaks[len(group) :]
            pairs = [start(peaks_of, case) for case in group]
            for case, pair in zip(group, pairs, strict=True):
                line = {"size": case.model.name, "ctx": case.context_length,
                        "attention": case.attention, "precision": case.precision,
                        "mode": case.mode} | finish(*pair)
                file.write(json.dumps(line) + "\n")
                file.flush()
    print("left", len(todo_peaks), time.monotonic() - began)


if __name__ == "__main__":
    main()
