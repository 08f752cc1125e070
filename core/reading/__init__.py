"""Runs as plain records, for notebooks and scripts: what `llmprof.open` gives."""
