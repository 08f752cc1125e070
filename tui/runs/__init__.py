"""The Runs view: every run on this machine, and their export."""
