"""How property tests draw their examples: the same ones in CI, others on every run elsewhere."""

from __future__ import annotations

import importlib.util
import os

if importlib.util.find_spec("hypothesis"):  # a machine for tests/gpu may go without
    from hypothesis import settings

    settings.register_profile("default", deadline=None)
    settings.register_profile("ci", deadline=None, derandomize=True, database=None)
    settings.register_profile("fuzz", deadline=None, max_examples=2000)
    settings.load_profile("ci" if os.environ.get("CI") else "default")
