"""`llmprof doctor`: what is installed, what is missing, what each absence costs; needs no torch."""

from __future__ import annotations

import argparse
import json
import textwrap
from dataclasses import asdict

from llmprof.cli.exits import NOTHING, OK
from llmprof.cli.streams import put
from llmprof.core.monitor.checkup import Finding, checkup
from llmprof.core.system.text import clean
from llmprof.version import __version__

WIDTH = 100
INDENT = 27


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `llmprof doctor`."""
    parser.add_argument("--json", action="store_true", help="as JSON")


def run(args: argparse.Namespace) -> int:
    """Look and tell; 0 where measuring works, 3 where something that it needs is missing."""
    found = checkup()
    if args.json:
        said = {
            "version": __version__,
            "can_measure": not any(each.blocks for each in found),
            "findings": [asdict(each) for each in found],
        }
        put(json.dumps(said, indent=2, ensure_ascii=False))
    else:
        put("\n".join([line for each in found for line in lines(each)] + ["", verdict(found)]))
    return NOTHING if any(each.blocks for each in found) else OK


def lines(finding: Finding) -> list[str]:
    """What was found, and indented below it what that costs and what helps."""
    out = _folded(f"{finding.state:<9}{finding.what:<{INDENT - 9}}", finding.found)
    for word, text in (("costs", finding.costs), ("remedy", finding.remedy)):
        if text:
            out += _folded(" " * INDENT, f"{word}: {text}")
    return out


def verdict(found: list[Finding]) -> str:
    """The last line: whether this machine can be measured."""
    blocking = [each.what for each in found if each.blocks]
    if blocking:
        return f"Nothing can be measured here: {', '.join(blocking)}."
    on_card = any(each.what == "CUDA" and each.state == "ok" for each in found)
    less = [each.what for each in found if each.state != "ok"]
    limits = f" Not all of it: {', '.join(less)}." if less else ""
    return f"Measuring works here, on {'a card' if on_card else 'the CPU'}.{limits}"


def _folded(head: str, text: str) -> list[str]:
    return textwrap.wrap(
        clean(text),
        WIDTH,
        initial_indent=head,
        subsequent_indent=" " * INDENT,
        break_on_hyphens=False,
        break_long_words=False,
    ) or [head.rstrip()]
