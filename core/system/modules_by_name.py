"""Modules that no import names: processes are started with `-m`, workers preload and look up.

A module that moves is changed here; a test looks each of them up.
"""

from __future__ import annotations

ENGINE = "llmprof.core.engine"
SAMPLER = "llmprof.core.devices"
TRACER = "llmprof.core.worker.trace"
REPLAYER = "llmprof.core.store.replay"
TORCH_SAYS = "llmprof.core.worker.torch_says"
CUDA_COUNT = "llmprof.core.devices.cuda_count"
PRELOAD = "llmprof.core.worker.preload"
PROBES = "llmprof.core.worker"  # the package with a module a probe
STARTUP = "llmprof.core.track.startup"  # the folder that a watched command finds first
CARD_CLOCK = "llmprof.core.track.device_clock"  # before the first step of a loop
