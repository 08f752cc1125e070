"""What roles look like: each names a theme variable, so that every theme fits."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from rich.style import Style
from textual.color import Color

_PALE = 0.8  # of the colour, below which something stands back


class Role(msgspec.Struct, frozen=True):
    """Theme variables of a role, and how much of the colour is left of the background."""

    color: str = ""
    opacity: float = 1.0
    background: str = ""
    bold: bool = False


_PART_COLORS = {  # of a loop's step
    "between": "rule",
    "input": "memory-temporaries",
    "forward": "phase-forward",
    "loss": "phase-loss",
    "backward": "phase-backward",
    "before": "memory-workspace",
    "optimizer": "phase-optimizer",
    "after": "phase-zero-grad",
    "own": "memory-optimizer-state",
    "other": "memory-autocast-copies",
}
_PARTS = {f"part {name}": Role(color) for name, color in _PART_COLORS.items()}
_PARTS |= {f"on part {name}": Role(background=color) for name, color in _PART_COLORS.items()}

ROLES: dict[str, Role] = {
    "text": Role("foreground", 0.92),
    "muted": Role("foreground", 0.68),
    "title": Role("foreground", bold=True),
    "accent": Role("accent", bold=True),
    "key": Role("accent"),
    "chip": Role("accent", bold=True),
    "good": Role("text-success"),
    "warn": Role("text-warning"),
    "bad": Role("text-error"),
    "axis": Role("foreground", 0.56),
    "rule": Role("rule"),
    "shade": Role("foreground", 0.4, background="shade"),
    "shade-label": Role("foreground", 0.68, background="shade"),
    "cursor": Role(background="cursor"),
    "mark": Role("mark", bold=True),
    "total": Role("foreground", 0.76),
    "forward": Role("phase-forward"),
    "loss": Role("phase-loss"),
    "backward": Role("phase-backward"),
    "optimizer": Role("phase-optimizer"),
    "zero_grad": Role("phase-zero-grad"),
    **_PARTS,
    "utilization": Role("phase-forward"),
    "memory": Role("phase-optimizer"),
    "power": Role("phase-backward"),
    "mean": Role("accent"),
    "band": Role("foreground", 0.4),
    "crosshair": Role("foreground", bold=True),
}
PHASE_ROLES = frozenset({"forward", "loss", "backward", "optimizer", "zero_grad"})


def role_of(name: str) -> Role:
    """The role of a name; an area of the memory timeline, "on" it or in its colour, is one too."""
    role = ROLES.get(name)
    if role is None:
        area = name.removeprefix("on ")
        variable = f"memory-{area.replace(' ', '-')}"
        role = Role(variable) if area == name else Role(background=variable)
        ROLES[name] = role
    return role


class Palette:
    """Styles of roles on a background, for one set of theme variables."""

    def __init__(self, variables: Mapping[str, str], *, no_color: bool) -> None:
        self._variables = variables
        self._no_color = no_color
        self._known: dict[tuple[str, Style], Style] = {}

    def style(self, role: str, base: Style, background: Color) -> Style:
        """The style of "role" or "role+modifier" over a widget's own; "" is the widget's own."""
        known = self._known.get((role, base))
        if known is None:
            known = base
            name, *modifiers = role.split("+")
            if "pale" in self._variables and "cursor" in modifiers:  # few colours stand out on it
                name = "title" if name and role_of(name).bold else "text"
            if name:
                known += self._of(role_of(name), background)
            for modifier in modifiers:
                known += self._background(role_of(modifier))
            self._known[role, base] = known
        return known

    def _of(self, role: Role, background: Color) -> Style:
        style = self._background(role) if role.background else Style()
        if role.color:
            few = "pale" in self._variables
            pale = few and role.opacity < _PALE
            color = Color.parse(self._variables["pale" if pale else role.color])
            if color.ansi is not None:
                return style + Style(color=color.rich_color, bold=role.bold, dim=role.opacity < 0.7)
            if role.opacity < 1 and background.ansi is None and not few:
                color = background.blend(color, role.opacity, 1.0)
            style += Style(color=color.rich_color)
        return style + Style(bold=role.bold)

    def _background(self, role: Role) -> Style:
        if self._no_color:
            return Style(reverse=True) if role.background == "cursor" else Style()
        return Style(bgcolor=Color.parse(self._variables[role.background]).rich_color)
