"""Checks on a machine with two cards that the figures shown are of the card that worked.

    python benchmarks/two_cards.py OUT

Writes into OUT: pictures of the monitor (SVG and text, 80x24 and 120x30, list and grid) while the
second card works, `llmprof monitor --once --json`, and a short training run on one card chosen in
each way that CUDA and llmprof have. Prints a line a check and exits with 1 when one failed. Needs
llmprof and torch; takes about 90 s, and what --seconds does not suffice for is named.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from llmprof.core import events as ev
from llmprof.core.catalog.models import load_models
from llmprof.core.events.matching import uuid_key, visible
from llmprof.core.figures.card_levels import level
from llmprof.core.figures.case_device import join_case
from llmprof.core.state.card_tally import CardTally, CaseSpan
from llmprof.core.state.view import CaseState, RunView
from llmprof.core.store.pack import open_view
from llmprof.core.store.run import RunStore
from llmprof.tui.app import LlmprofApp
from llmprof.tui.session.monitoring import Monitoring
from llmprof.tui.session.setting import Setting
from llmprof.tui.session.starter import EngineStarter

RUN = (
    *("run", "--model-size", "small", "--context-length", "256", "--mode", "train"),
    *("--warmup-steps", "3", "--measure-steps", "60"),
)
SIZES = ((80, 24), (120, 30))
PATIENCE_S = 45.0  # for one command
RUN_S = 16.0  # with less time left no run is begun
CLEARLY = 20.0  # percentage points of utilisation between the card that works and the other
LOAD = """
import sys, time, torch
a = torch.randn(8192, 8192, device="cuda:1", dtype=torch.bfloat16)
print("works", flush=True)
end = time.monotonic() + 60
while time.monotonic() < end:
    for _ in range(20):
        a @ a
    torch.cuda.synchronize()
"""


@dataclass(frozen=True)
class Form:
    """One way to choose a card: the variable, the option, CUDA's number of the card meant."""

    name: str
    cuda_visible_devices: str | None
    device: str | None
    position: int


class Cold(EngineStarter):
    """No engine waits with torch loaded."""

    def warm(self) -> None:
        """Nothing."""


class Report:
    """Prints checks and remembers whether all passed."""

    def __init__(self) -> None:
        self.failed = 0

    def check(self, what: str, passed: bool, detail: object = "") -> None:
        self.failed += not passed
        print(f"{'ok  ' if passed else 'FAIL'} {what}" + (f": {detail}" if detail else ""))
        sys.stdout.flush()


def llmprof(
    *words: str, variables: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """A command of llmprof, waited for; exit code 124 where that took too long."""
    command = [sys.executable, "-m", "llmprof", *words]
    env = None if variables is None else dict(variables)
    try:
        return subprocess.run(
            command, env=env, capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 124, "", f"no end within {PATIENCE_S:.0f} s")


@contextmanager
def load_on_second_card() -> Iterator[None]:
    """Matrix products on CUDA's device 1 meanwhile."""
    process = subprocess.Popen([sys.executable, "-c", LOAD], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        process.stdout.readline()
        yield
    finally:
        process.kill()
        process.wait()


def cards_of(data: dict[str, object]) -> list[ev.CardSample]:
    """The cards of `llmprof monitor --json`, by name."""
    listed = data["cards"]
    assert isinstance(listed, list)
    names = ("index", "uuid", "pci_bus_id", "name")
    return [ev.CardSample(**{name: card[name] for name in names}) for card in listed]


def check_commands(report: Report, out: Path) -> list[ev.CardSample]:
    """--json and --gpus; the machine's cards."""
    done = llmprof("monitor", "--once", "--json")
    (out / "monitor.json").write_text(done.stdout, "utf-8")
    report.check("monitor --once --json", done.returncode == 0, done.stderr.strip())
    data = json.loads(done.stdout)
    cards = cards_of(data)
    report.check("two cards with a UUID each", len({card.uuid for card in cards}) == 2)
    use = [card["metrics"].get("utilization", {}).get("value") or 0.0 for card in data["cards"]]
    report.check("the second card works", use[1] - use[0] > CLEARLY, use)
    table = llmprof("monitor", "--once")
    (out / "monitor.txt").write_text(table.stdout, "utf-8")
    report.check("monitor --once", table.returncode == 0 and len(table.stdout.splitlines()) > 5)
    second = cards[1].uuid or ""
    there, absent = ("1", second, second[:12]), ("0,5", "GPU-ffffffff")
    with ThreadPoolExecutor() as pool:
        results = pool.map(
            lambda asked: llmprof("monitor", "--json", "--gpus", asked), there + absent
        )
        for asked, got in zip(there + absent, results, strict=True):
            if asked in absent:
                refused = got.returncode == 2 and not got.stdout and got.stderr.count("\n") == 1
                report.check(f"--gpus {asked} is refused", refused, got.stderr.strip())
                continue
            found = [card.index for card in cards_of(json.loads(got.stdout))] if got.stdout else []
            report.check(f"--gpus {asked}", (got.returncode, found) == (0, [1]), got.stderr.strip())
    return cards


def photograph(app: LlmprofApp, path: Path) -> str:
    """Write what stands on the screen as SVG and as text; the text."""
    text = "\n".join(strip.text.rstrip() for strip in app.screen._compositor.render_strips())
    path.with_suffix(".svg").write_text(app.export_screenshot(title="llmprof monitor"), "utf-8")
    path.with_suffix(".txt").write_text(text + "\n", "utf-8")
    return text


async def check_frames(report: Report, out: Path, size: tuple[int, int]) -> None:
    """The list with the second card at large, and the grid."""
    app = LlmprofApp(
        Setting(
            store=RunStore(out / "home"),
            starter=Cold(),
            models=load_models(),
            view="monitor",
            monitoring=Monitoring(),
        )
    )
    label = f"{size[0]}x{size[1]}"
    async with app.run_test(size=size) as pilot:
        await pilot.pause(4.5)
        await pilot.press("right_square_bracket")
        await pilot.pause(0.7)
        text = photograph(app, out / f"monitor-{label}")
        report.check(f"monitor at {label}: two cards listed", text.count("NVIDIA") >= 2)
        await pilot.press("g")
        await pilot.pause(0.7)
        text = photograph(app, out / f"monitor-grid-{label}")
        report.check(f"grid at {label}", "GPU 0" in text and "GPU 1" in text)


def forms(second_uuid: str) -> tuple[Form, ...]:
    """Every way to choose one card of two."""
    return (
        Form("index", "1", None, 0),
        Form("UUID", second_uuid, None, 0),
        Form("reordered, first", "1,0", None, 0),
        Form("reordered, second", "1,0", "cuda:1", 1),
        Form("--device", None, "cuda:1", 1),
    )


def check_run(report: Report, out: Path, cards: Sequence[ev.CardSample], form: Form) -> None:
    """A training run: torch's card, the expected one, the joined one and the busy one are one."""
    home = out / "home" / form.name.replace(", ", "-")
    variables = {k: v for k, v in os.environ.items() if k != "CUDA_VISIBLE_DEVICES"}
    variables["LLMPROF_HOME"] = str(home)
    if form.cuda_visible_devices is not None:
        variables["CUDA_VISIBLE_DEVICES"] = form.cuda_visible_devices
    option = () if form.device is None else ("--device", form.device)
    done = llmprof(*RUN, *option, variables=variables)
    if done.returncode:
        report.check(f"{form.name}: run", False, done.stderr.strip()[-500:])
        return
    view = open_view(RunStore(home / "runs").find("last").path)
    case = view.cases[0]
    device = join_case(view, case)
    environment = case.environment or view.environment
    torch_uuid = uuid_key(None if environment is None else environment.device_uuid)
    order = visible(cards, form.cuda_visible_devices, os.environ.get("CUDA_DEVICE_ORDER"))
    expected = None if order is None else order[form.position]
    joined = next((card for card in cards if card.index == device.card), None)
    use = {index: utilisation(view, case, index) for index in view.cards}
    if len(use) < 2:
        report.check(f"{form.name}: samples of both cards", False, device.reason)
        return
    busy, idle = ranked(use)
    same = joined is not None and uuid_key(joined.uuid) == torch_uuid
    power = None if device.power is None else round(device.power.mean)
    report.check(
        f"{form.name}: the joined card is the one that worked",
        same and device.card == expected == busy and (use[busy] or 0) - (use[idle] or 0) > CLEARLY,
        f"torch {torch_uuid}, expected {expected}, joined {device.card} {device.reason or ''}, "
        f"utilisation {use} %, power {power} W over {device.block_s} s",
    )


def utilisation(view: RunView, case: CaseState, index: int) -> float | None:
    """Mean utilisation of any card while the steps of a case ran, percent."""
    tally = CardTally(index)
    span = CaseSpan(case.measured, case.started_ns or 0, case.ended_ns)
    tally.take(view.cards[index], span, final=True)
    found = level(tally, "utilization")
    return None if found is None else round(found.mean, 1)


def ranked(use: Mapping[int, float | None]) -> tuple[int, int]:
    """The cards by utilisation, the busiest and the idlest of them."""
    order = sorted(use, key=lambda index: use[index] or 0.0)
    return order[-1], order[0]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("out", type=Path, help="folder for pictures and figures")
    parser.add_argument("--seconds", type=float, default=100.0, help="for everything")
    options = parser.parse_args()
    began = time.monotonic()
    out = options.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    os.environ["LLMPROF_HOME"] = str(out / "home")
    report = Report()
    with load_on_second_card():
        cards = check_commands(report, out)
        for size in SIZES:
            asyncio.run(check_frames(report, out, size))
    print(f"{time.monotonic() - began:.0f} s for the monitor", flush=True)
    for form in forms(cards[1].uuid or ""):
        left = options.seconds - (time.monotonic() - began)
        if left < RUN_S:
            print(f"--   {form.name}: not run, {left:.0f} s left")
            continue
        check_run(report, out, cards, form)
    print(f"{report.failed} failed, {time.monotonic() - began:.0f} s")
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
