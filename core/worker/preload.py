"""Imported once by the forkserver, so that a worker starts in milliseconds. Touches no CUDA."""

import ctypes
import os
import signal

# The kernel ends this server with its engine, also while torch is still loading (prctl(2)).
_PR_SET_PDEATHSIG = 1
ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
if os.environ.get("LLMPROF_ENGINE_PID", str(os.getppid())) != str(os.getppid()):
    os._exit(1)  # the engine ended before the kernel was asked

# Without it torch asks the CUDA runtime how many devices there are, which poisons forks.
os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # kineto prints on stderr

import torch
import torch._dynamo
import torch.optim  # noqa: F401

from llmprof.core.worker import main  # noqa: F401
