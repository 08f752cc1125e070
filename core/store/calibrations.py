"""What `llmprof calibrate` reached on a device, kept for later runs on the same one."""

from __future__ import annotations

from pathlib import Path

import msgspec

from llmprof.core.events import Ceilings, Environment
from llmprof.core.spec.experiment import Experiment
from llmprof.core.spec.shape import attention_shape
from llmprof.core.system.atomic import write_file
from llmprof.core.system.homes import NoHome, state_home

CALIBRATE = "calibrations.json"


def calibration_file() -> Path:
    """Where calibrations are kept: beside the runs."""
    return state_home() / CALIBRATE


def device_key(environment: Environment) -> str:
    """What a calibration holds for: a card by its UUID, else the CPU and how much of it is used."""
    if environment.device != "cpu":
        return environment.device_uuid or environment.device_name
    quota = environment.cpu_quota
    limits = (
        f"{environment.threads or 'unknown'} threads",
        f"{environment.cpus_usable or 'unknown'} CPUs",
        *([] if quota is None else [f"quota {quota:g}"]),
    )
    return f"{environment.device_name}, {', '.join(limits)}"


def load_ceilings(environment: Environment, path: Path | None = None) -> Ceilings | None:
    """The calibration of a device; None without one, or when the file can't be read."""
    try:
        known = _read(path or calibration_file())
    except NoHome:
        return None
    return known.get(device_key(environment))


def save_ceilings(environment: Environment, ceilings: Ceilings, path: Path | None = None) -> Path:
    """Keep a device's calibration in place of an earlier one. Raises OSError."""
    target = path or calibration_file()
    known = _read(target) | {device_key(environment): ceilings}
    write_file(target, msgspec.json.format(msgspec.json.encode(known), indent=2))
    return target


def calibration_experiment(device: str = "auto") -> Experiment:
    """The run that measures a device's ceilings: one case, no model."""
    return Experiment(
        name="calibrate",
        title="Matmul and copy ceilings",
        models=(attention_shape(2),),
        probe="calibrate",
        modes=("forward",),
        context_lengths=(1,),
        batch_sizes=(1,),
        warmup_steps=(0,),
        measure_steps=1,
        device=device,
        tables=("ceilings", "failures"),
    )


def _read(path: Path) -> dict[str, Ceilings]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Ceilings])
    except (OSError, msgspec.DecodeError):
        return {}
