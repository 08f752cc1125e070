"""A folder for PYTHONPATH: `llmprof watch` puts it before a command's own."""
