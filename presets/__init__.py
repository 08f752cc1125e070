"""Presets as data: TOML files only."""
