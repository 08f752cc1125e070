"""Which cards the NVIDIA driver has, as its files say: at once, without starting the driver."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

NVIDIA_CARDS = Path("/proc/driver/nvidia/gpus")  # one folder a card


def card_names(folder: Path | None = None) -> tuple[str, ...]:
    """The kinds of cards that are here and may be used, each once."""
    if os.environ.get("CUDA_VISIBLE_DEVICES", "0").strip() in ("", "-1"):
        return ()
    names: dict[str, None] = {}
    for path in sorted((folder or NVIDIA_CARDS).glob("*/information")):
        with contextlib.suppress(OSError, UnicodeDecodeError):
            lines = path.read_text("utf-8").splitlines()
            names |= {
                line.partition(":")[2].strip(): None for line in lines if line[:6] == "Model:"
            }
    return tuple(names)
