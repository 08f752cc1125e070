"""The exit code of a process that Python could not tell: one byte, which its C library wrote."""

from __future__ import annotations

from pathlib import Path

from llmprof.core import events as ev
from llmprof.core.state.reducer import Reducer
from llmprof.core.store.files import exit_of

AFTER_ALL = 2**63  # on the run's clock: later than any line of a journal


def exited(code: int) -> str:
    """What a script is said to have done."""
    return f"the script exited with code {code}"


def read_byte(path: Path) -> bytes:
    """The code; empty where the process has not ended. Raises OSError."""
    with path.open("rb") as file:
        return file.read(1)


class ExitCode:
    """A source of one event: how a rank's process ended."""

    anchor: ev.Segment | None = None

    def __init__(self, path: Path) -> None:
        self.path = path
        self._byte = b""
        self._told = False

    def begins(self, _base: ev.Segment | None) -> int:
        """After all that the rank wrote by itself."""
        return AFTER_ALL

    def fill(self) -> bool:
        """Whether the code is there and was not told. Raises OSError."""
        if not self._byte:
            self._byte = read_byte(self.path)
        return bool(self._byte) and not self._told

    def apply(self, reducer: Reducer, _base: ev.Segment | None) -> None:
        """Tell it."""
        self._told = True
        rank, restart = exit_of(self.path.name) or (0, 0)
        code = self._byte[0]
        reducer.apply(
            ev.LoopDone(
                t=0,
                rank=rank,
                restart=restart,
                outcome="failed" if code else "complete",
                error=exited(code) if code else "",
            )
        )

    def close(self) -> None:
        """Nothing is held open."""
