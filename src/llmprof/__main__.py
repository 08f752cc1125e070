"""The front door: `llmprof` and `python -m llmprof`."""

from __future__ import annotations

import sys

from llmprof.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
