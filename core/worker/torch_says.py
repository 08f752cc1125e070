"""`python -m llmprof.core.worker.torch_says`: what torch itself knows of this machine, as JSON.

A process of its own, since torch takes seconds to load, fails in many ways and may hang in a
driver.
"""

from __future__ import annotations

import importlib.util
import json

import torch


def said() -> dict[str, object]:
    """Version, what it was built for, and the cards that it can use."""
    available = torch.cuda.is_available()
    return {
        "version": str(torch.__version__),
        "cuda_build": torch.version.cuda,
        "cuda_available": available,
        "cards": [torch.cuda.get_device_name(at) for at in range(torch.cuda.device_count())]
        if available
        else [],
        "threads": torch.get_num_threads(),
        "triton": importlib.util.find_spec("triton") is not None,
    }


if __name__ == "__main__":
    print(json.dumps(said()))
