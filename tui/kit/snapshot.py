"""What the screen shows at one moment."""

from __future__ import annotations

from dataclasses import dataclass, field

from llmprof.core.state.view import RunView


@dataclass(frozen=True)
class Snapshot:
    """A run as far as it is known; version grows when the view differs."""

    view: RunView = field(default_factory=RunView)
    version: int = 0
    loading: bool = False  # older events are still being read
    error: str | None = None
