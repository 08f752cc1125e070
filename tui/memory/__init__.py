"""The Memory view: what a recorded step holds."""
