"""Tasks must not start eagerly: Textual asks for that on Python 3.12 and later."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from llmprof.core.store.run import RunStore
from tests.builders import journals
from tests.tui.apps import make_app
from tests.tui.frames import contains, settle

ROOT = Path(__file__).resolve().parents[2]
PYTHON = shutil.which("python3.12")
NEEDED = "import sys, textual, msgspec, pytest, pytest_asyncio; assert sys.version_info >= (3, 12)"


async def test_the_app_takes_no_task_factory_over(tmp_path: Path) -> None:
    def factory(
        loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Any], **options: Any
    ) -> asyncio.Task[Any]:
        return asyncio.Task(work, loop=loop, **options)

    loop = asyncio.get_running_loop()
    loop.set_task_factory(factory)  # type: ignore[arg-type]
    app, _ = make_app(tmp_path, watch=journals.finished(RunStore(tmp_path)))
    try:
        async with app.run_test(size=(120, 30)) as pilot:
            assert loop.get_task_factory() is None
            await settle(pilot, lambda: contains(app, "finished"))
            await pilot.press("s")
            await settle(pilot, lambda: contains(app, "Models"))
    finally:
        loop.set_task_factory(None)


@pytest.mark.skipif(PYTHON is None, reason="there is no python3.12")
def test_the_form_opens_on_python_3_12(tmp_path: Path) -> None:
    assert PYTHON is not None
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "LLMPROF_HOME": str(tmp_path)}
    asked = subprocess.run([PYTHON, "-c", NEEDED], env=env, capture_output=True, check=False)
    if asked.returncode:
        pytest.skip("python3.12 has no Textual or no pytest")
    test = f"{Path(__file__)}::test_the_app_takes_no_task_factory_over"
    done = subprocess.run(
        [PYTHON, "-m", "pytest", "-q", "-p", "no:cacheprovider", test],
        cwd=ROOT, env=env, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
