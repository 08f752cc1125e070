"""The sampler process: one DeviceSample a poll as a JSON line on standard output.

Ends when standard input closes, when standard output closes, or with the owner of --lifeline.
Lines on standard input: "activity on" and "activity off".
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from llmprof.core import events as ev
from llmprof.core.devices.nvml import open_source
from llmprof.core.devices.recorded import load_recording
from llmprof.core.devices.sampler import INTERVAL_S, Sampler
from llmprof.core.devices.source import SampleSource
from llmprof.core.system.lifeline import die_with


def main(argv: Sequence[str] | None = None) -> int:
    """Sample until nobody listens. Exit code 0, or 2 for arguments that make no sense."""
    parser = _parser()
    options = parser.parse_args(argv)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if options.lifeline is not None:
        die_with(options.lifeline)
    try:
        source = _source(options)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    sampler = Sampler(source, _emit, options.interval)
    threading.Thread(target=_obey, args=(sampler, source), daemon=True).start()
    sampler.run()
    os._exit(0)  # a thread that hangs in the driver must not hold the process


def _source(options: argparse.Namespace) -> SampleSource:
    if options.replay is not None:
        return load_recording(options.replay)
    return open_source(options.gpus, owner=os.getppid())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m llmprof.core.devices", description=__doc__)
    parser.add_argument("--interval", type=float, default=INTERVAL_S, help="seconds between polls")
    parser.add_argument("--gpus", help="indices or UUIDs, comma-separated; all when left out")
    parser.add_argument("--lifeline", type=int, help="file descriptor whose closing ends us")
    parser.add_argument("--replay", type=Path, help="play a recording instead of the driver")
    return parser


def _emit(sample: ev.DeviceSample) -> bool:
    line = memoryview(ev.encode(sample))
    try:
        while line:
            line = line[os.write(sys.stdout.fileno(), line) :]
    except OSError:
        return False
    return True


def _obey(sampler: Sampler, source: SampleSource) -> None:
    """Follow standard input to its end; then stop, by force when a poll hangs."""
    for line in sys.stdin:
        if line.startswith("activity "):
            source.show_activity(line.split()[-1] == "on")
    sampler.stop()
    timer = threading.Timer(0.5, os._exit, (0,))
    timer.daemon = True
    timer.start()


if __name__ == "__main__":
    raise SystemExit(main())
