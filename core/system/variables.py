"""The environment variables that change how fast torch is, as far as a record may hold them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath

from llmprof.core.system.text import clean

PREFIXES = (
    "OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_", "DNNL_", "ONEDNN_", "ATEN_", "CUDA_", "CUBLAS_",
    "CUDNN_", "NCCL_", "PYTORCH_", "TORCH", "TRITON_", "MALLOC_", "LD_PRELOAD",
)  # fmt: skip
# Where things lie or what a launcher is called differs and changes nothing.
_OF_NO_MATTER = ("_HOME", "_DIR", "_PATH", "_ROOT", "_FILE", "_CACHE", "_VERSION", "_ID", "_PORT")
_OWN = ("PYTORCH_NVML_BASED_CUDA_CHECK", "TORCHELASTIC_", "TORCHINDUCTOR_CACHE_", "CUDA_MPS_PIPE")
# They say which card it is, which is known by its UUID.
_WHICH_CARD = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")


def relevant(environment: Mapping[str, str]) -> dict[str, str]:
    """Names and values of the variables that matter; of what is a path its last part alone."""
    return {
        name: clean(_without_folders(value), 200)
        for name, value in sorted(environment.items())
        if name.startswith(PREFIXES)
        and not name.endswith(_OF_NO_MATTER)
        and not name.startswith(_OWN)
    }


def differences(one: Mapping[str, str], other: Mapping[str, str]) -> list[str]:
    """Variables that differ, as "OMP_NUM_THREADS 2 against 1"."""
    names = sorted((one.keys() | other.keys()) - set(_WHICH_CARD))
    return [
        f"{name} {one.get(name, 'unset')} against {other.get(name, 'unset')}"
        for name in names
        if one.get(name) != other.get(name)
    ]


def _without_folders(value: str) -> str:
    if "/" not in value:
        return value
    return " ".join(PurePath(part).name for part in value.replace(":", " ").split())
