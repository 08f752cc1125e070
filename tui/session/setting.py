"""What the app is given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from llmprof.core.spec.shape import ModelShape
from llmprof.tui.kit.colors import DARK_THEME
from llmprof.tui.kit.look import UNICODE, Look
from llmprof.tui.session.choices import Choices

if TYPE_CHECKING:
    from llmprof.core.store.run import Run, RunStore
    from llmprof.tui.session.monitoring import Monitoring
    from llmprof.tui.session.starter import Starter


class Setting(msgspec.Struct):
    """Where runs live, how they start, how the screen looks and what it shows first."""

    store: RunStore
    starter: Starter
    models: dict[str, ModelShape]
    choices: Choices = msgspec.field(default_factory=Choices)
    look: Look = UNICODE
    encoding: str = "utf-8"
    refresh_hz: float = 4.0
    theme: str = DARK_THEME.name
    watch: Run | None = None
    view: str = "bench"
    demo: bool = False  # a replay: it ends with the screen, without asking
    samples: Mapping[str, Run] = msgspec.field(
        default_factory=dict
    )  # what a demo's views show else
    monitoring: Monitoring | None = None  # None: every card, at the usual pace
