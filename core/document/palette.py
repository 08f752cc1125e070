"""Colours by meaning, of documents and of the screen: one pair for dark and light each.

Phase colours are told apart by people with any of the common colour deficiencies: they follow
Okabe and Ito's palette (https://jfly.uni-koeln.de/color/), lighter on dark, darker on light.
"""

from __future__ import annotations

DARK_PHASES = {
    "phase-forward": "#5ab4e8",
    "phase-loss": "#d58fbf",
    "phase-backward": "#eda534",
    "phase-optimizer": "#35b892",
    "phase-zero-grad": "#8c96a5",
}
LIGHT_PHASES = {
    "phase-forward": "#0068a8",
    "phase-loss": "#a24f84",
    "phase-backward": "#b85c00",
    "phase-optimizer": "#00795a",
    "phase-zero-grad": "#67717f",
}
# Areas of the memory timeline: neighbours differ in hue and in lightness.
DARK_MEMORY = {
    "memory-parameters": "#3f7fc1",
    "memory-gradients": "#e0973a",
    "memory-optimizer-state": "#8f7ad1",
    "memory-activations": "#35b892",
    "memory-autocast-copies": "#79c8ee",
    "memory-temporaries": "#e0697a",
    "memory-workspace": "#a98467",
    "memory-inputs-and-buffers": "#8c96a5",
}
LIGHT_MEMORY = {
    "memory-parameters": "#2f6db0",
    "memory-gradients": "#cf7a14",
    "memory-optimizer-state": "#7a62c4",
    "memory-activations": "#1f9a76",
    "memory-autocast-copies": "#52a9d6",
    "memory-temporaries": "#cc4f63",
    "memory-workspace": "#8a6a4f",
    "memory-inputs-and-buffers": "#7a8594",
}
