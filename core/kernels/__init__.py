"""From a profiler's raw events to tables: pure numpy, no torch.

columns (raw events) → nesting and attribution (phase, op, module of every activity) → tables,
timeline facts, GEMM counts and the attention lens.
"""
