"""Imported once by the forkserver, so that a worker starts in milliseconds. Touches no CUDA."""

import os

# Without it torch asks the CUDA runtime how many devices there are, which poisons forks.
os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # kineto prints on stderr

import torch
import torch._dynamo
import torch.optim  # noqa: F401

from llmprof.core.worker import main  # noqa: F401
