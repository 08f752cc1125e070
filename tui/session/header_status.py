"""What the header's right end says: which device and which state of it is shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llmprof.core.system.text import clean

if TYPE_CHECKING:
    from llmprof.tui.chart.cells import Row
    from llmprof.tui.kit.look import Look
    from llmprof.tui.session.screen_session import ScreenSession


def header_status(session: ScreenSession, look: Look, *, replayed: bool = False) -> Row:
    """Device, name and state of the run that is watched; with less room, the last of them.

    What is replayed is never called live: its device may be another than this machine's.
    """
    if session.run is None:
        return []
    view = session.snapshot.view
    row: Row = []
    if view.environment is not None:
        row = [(look.text(clean(view.environment.device_name, 40)), "muted"), ("  ", "")]
    row += [(look.text(clean(session.run.label, 40)), "text"), ("  ", "")]
    if session.snapshot.loading:
        row.append(("reading", "muted"))
    elif session.paused:
        row.append(("paused", "warn"))
    elif session.alive:
        row.append((f"{look.on} replay", "warn") if replayed else (f"{look.on} live", "accent"))
    else:
        row.append((view.outcome or "interrupted", "muted"))
    return row
