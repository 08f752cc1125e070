"""Callbacks for trainers that own the loop: `llmprof.trainers.lightning`, `.huggingface`."""
