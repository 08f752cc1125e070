"""Two calm themes, and the variables that every other theme gets besides its own."""

from __future__ import annotations

from textual.theme import Theme

from llmprof.core.document.palette import DARK_MEMORY, DARK_PHASES, LIGHT_MEMORY, LIGHT_PHASES


def theme_variables(dark: bool) -> dict[str, str]:
    """Our variables for a dark or a light theme."""
    if dark:
        return {**DARK_PHASES, **DARK_MEMORY, "rule": "#2b3340", "shade": "#1c232d",
                "cursor": "#26384a", "mark": "#ff7b72"}  # fmt: skip
    return {**LIGHT_PHASES, **LIGHT_MEMORY, "rule": "#d5dae1", "shade": "#e9edf2",
            "cursor": "#d3e3f3", "mark": "#c02d1f"}  # fmt: skip


# Where there are 16 colours, these are among them, as terminals and rich count them; what has a
# colour of its own keeps it, and the cursor a ground that is seen.
_DARK_FEW = {
    "foreground": "#ffffff",
    "pale": "#aaaaaa",
    "text-muted": "#aaaaaa",
    "text-disabled": "#aaaaaa",
    "text-success": "#55ff55",
    "text-warning": "#ffff55",
    "text-error": "#ff5555",
    "accent": "#55ffff",
    "phase-forward": "#5555ff",
    "phase-loss": "#ff55ff",
    "phase-backward": "#ffff55",
    "phase-optimizer": "#55ff55",
    "phase-zero-grad": "#aaaaaa",
    "memory-parameters": "#5555ff",
    "memory-gradients": "#ffff55",
    "memory-optimizer-state": "#aa00aa",
    "memory-activations": "#00aa00",
    "memory-autocast-copies": "#55ffff",
    "memory-temporaries": "#ff5555",
    "memory-workspace": "#aaaaaa",
    "memory-inputs-and-buffers": "#555555",
    "rule": "#555555",
    "shade": "#000000",
    "cursor": "#0000aa",
    "mark": "#ff5555",
}
_LIGHT_FEW = _DARK_FEW | {  # yellow and what is bright are not read on white
    "foreground": "#000000",
    "pale": "#555555",
    "text-muted": "#555555",
    "text-disabled": "#555555",
    "text-success": "#00aa00",
    "text-warning": "#aa00aa",
    "text-error": "#aa0000",
    "accent": "#0000aa",
    "phase-forward": "#0000aa",
    "phase-loss": "#aa0000",
    "phase-backward": "#aa00aa",
    "phase-optimizer": "#00aa00",
    "phase-zero-grad": "#555555",
    "memory-gradients": "#ff55ff",
    "memory-optimizer-state": "#aa5500",
    "memory-autocast-copies": "#00aaaa",
    "memory-workspace": "#000000",
    "shade": "#ffffff",
    "cursor": "#55ffff",
    "mark": "#aa0000",
}


def few_colors(dark: bool) -> dict[str, str]:
    """Variables where a terminal has 16 colours; pale is what stands back."""
    return _DARK_FEW if dark else _LIGHT_FEW


DARK_THEME = Theme(
    name="llmprof-dark",
    primary="#5ab4e8",
    secondary="#3b82a8",
    accent="#5ab4e8",
    foreground="#d6dde6",
    background="#10151b",
    surface="#151b23",
    panel="#1b232d",
    success="#35b892",
    warning="#eda534",
    error="#ff7b72",
    dark=True,
    variables={
        **theme_variables(True),
        "footer-background": "#10151b",
        "footer-key-foreground": "#5ab4e8",
        "footer-description-foreground": "#8c96a5",
        "input-selection-background": "#5ab4e8 30%",
        "border": "#2b3340",
    },
)
LIGHT_THEME = Theme(
    name="llmprof-light",
    primary="#0068a8",
    secondary="#3b82a8",
    accent="#0068a8",
    foreground="#1f2730",
    background="#fbfcfd",
    surface="#f3f5f8",
    panel="#e9edf2",
    success="#00795a",
    warning="#9a5200",
    error="#c02d1f",
    dark=False,
    variables={
        **theme_variables(False),
        "footer-background": "#fbfcfd",
        "footer-key-foreground": "#0068a8",
        "footer-description-foreground": "#67717f",
        "input-selection-background": "#0068a8 25%",
        "border": "#d5dae1",
    },
)
