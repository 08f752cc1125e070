"""The terminal: its driver, and how the screen is left."""
