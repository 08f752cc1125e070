"""The Bench view: set up, run, watch."""
