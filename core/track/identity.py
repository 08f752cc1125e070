"""Which process of which training this is, as its launcher says, and the run's folder."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from llmprof.core.store.files import loop_file
from llmprof.core.store.run import Run, RunStore
from llmprof.core.system.boot import host_name

RUN_DIR = "LLMPROF_RUN_DIR"
CLAIMS = ".launches"  # folder of the store: which run a launch writes to
OLD_CLAIM_S = 30 * 86_400.0
CLAIM_PATIENCE_S = 5.0


@dataclass(frozen=True)
class Identity:
    """One process of a training."""

    rank: int = 0
    local_rank: int = 0
    world_size: int = 1
    restart: int = 0
    launch: str = ""  # the same for all processes of one launch and no other; "" where alone

    @property
    def leads(self) -> bool:
        """Whether it holds the run's lock and has the devices of its machine sampled."""
        return self.local_rank == 0


def read_identity(variables: Mapping[str, str], ranks: tuple[int, int] | None = None) -> Identity:
    """From the variables of torchrun, Slurm or MPI; ranks is what torch.distributed says."""
    rank = _number(variables, "RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK")
    size = _number(variables, "WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE")
    if ranks is not None:
        rank, size = ranks
    if rank is None or size is None or (size == 1 and not variables.get(RUN_DIR)):
        return Identity(restart=_number(variables, "TORCHELASTIC_RESTART_COUNT") or 0,
                        launch=_launch(variables) if _restarts(variables) else "")  # fmt: skip
    local = _number(variables, "LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK")
    return Identity(
        rank=rank,
        local_rank=rank if local is None else local,
        world_size=size,
        restart=_number(variables, "TORCHELASTIC_RESTART_COUNT") or 0,
        launch=_launch(variables),
    )


def find_run(store: RunStore, identity: Identity, label: str, turn: int) -> Run:
    """The run of this launch, made by whichever process comes first.

    Raises OSError, also where a given folder holds a loop of this rank.

    turn counts the loops that one process tracks under one label.
    """
    given = os.environ.get(RUN_DIR)
    if given:
        folder = Path(given)
        (folder / "artifacts").mkdir(parents=True, exist_ok=True)
        if (folder / loop_file(identity.rank, identity.restart)).exists():
            raise FileExistsError(
                errno.EEXIST, f"{RUN_DIR} is for one loop, and holds one already", str(folder)
            )
        _name(Run(folder), label)
        return Run(folder)
    if not identity.launch:
        run = store.create(label, need_lock=False)
        _name(run, label)
        return run
    key = hashlib.sha256(f"{identity.launch}|{label}|{turn}".encode()).hexdigest()[:32]
    return _claimed(store, key, label)


def _claimed(store: RunStore, key: str, label: str) -> Run:
    """The run that a file of the launch's name names; the first process to come writes it."""
    folder = store.root / CLAIMS
    folder.mkdir(parents=True, exist_ok=True)
    claim = folder / key
    if (found := _read_claim(store, claim)) is not None:
        return found
    run = store.create(label, need_lock=False)
    draft = folder / f"{key}.{host_name()}.{os.getpid()}"
    draft.write_text(run.id, "utf-8")
    try:
        os.link(draft, claim)
    except FileExistsError:
        with contextlib.suppress(OSError):
            (run.path / "artifacts").rmdir()
            run.path.rmdir()
        deadline = time.monotonic() + CLAIM_PATIENCE_S
        while (found := _read_claim(store, claim)) is None:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)
        return found
    finally:
        draft.unlink(missing_ok=True)
    _name(run, label)
    _forget_old(folder)
    return run


def _read_claim(store: RunStore, claim: Path) -> Run | None:
    with contextlib.suppress(OSError):
        name = claim.read_text("utf-8").strip()
        if name and (store.root / name / "artifacts").is_dir():
            return Run(store.root / name)
    return None


def _forget_old(folder: Path) -> None:
    with contextlib.suppress(OSError):
        for claim in folder.iterdir():
            if time.time() - claim.stat().st_mtime > OLD_CLAIM_S:
                claim.unlink()


def _name(run: Run, label: str) -> None:
    if not (run.path / "label").exists():
        run.rename(label)


def _restarts(variables: Mapping[str, str]) -> bool:
    return "TORCHELASTIC_RESTART_COUNT" in variables


def _launch(variables: Mapping[str, str]) -> str:
    """What all processes of a launch have in common.

    torchrun's run id is "none" for most, so that the launcher's process tells it from another;
    processes of several machines share LLMPROF_RUN_DIR or have a run each.
    """
    parent = os.getppid()
    named = [
        variables.get(name, "")
        for name in ("MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "SLURM_JOB_ID")
    ]
    return "|".join([*named, host_name(), str(parent), _started(parent)])


def _started(pid: int) -> str:
    """When a process started, in ticks since the boot; "" where that can't be read."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except OSError:
        return ""
    return (stat.rpartition(")")[2].split() + [""] * 20)[19]


def _number(variables: Mapping[str, str], *names: str) -> int | None:
    for name in names:
        value = variables.get(name, "")
        if re.fullmatch(r"\d{1,7}", value):
            return int(value)
    return None
