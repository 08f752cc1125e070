"""The app is what views and their parts take it for; mypy checks the types."""

from __future__ import annotations

from pathlib import Path

import pytest

from llmprof.tui.host import Host
from llmprof.tui.kit.host import KitHost
from llmprof.tui.views import VIEWS
from tests.tui.apps import make_app


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLMPROF_HOME", str(tmp_path / "home"))


async def test_the_app_has_all_that_its_protocols_promise(tmp_path: Path) -> None:
    app, _ = make_app(tmp_path)
    async with app.run_test(size=(80, 24)):
        host: Host = app
        promised = {*vars(KitHost), *vars(Host), *Host.__annotations__}
        public = {name for name in promised if not name.startswith("_")}
        assert len(public) > 12
        assert {name for name in public if not hasattr(host, name)} == set()
        assert tuple(host.tabs) == VIEWS
