"""Exports of every recording, kept in a folder, and what differs between two such folders.

    python scripts/exports.py write FOLDER     # Markdown, CSV and JSON of each recording
    python scripts/exports.py compare A B      # exit 1 where they differ
    python scripts/exports.py compare A B --but-ids    # the ids of tables apart

Run `write` at the commit before a change (a worktree of it, with PYTHONPATH=src) and after it.
"""

from __future__ import annotations

import argparse
import difflib
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RECORDINGS = ("tests/fixtures/*.llmprof", "tui/*.llmprof", "tui/*/*.llmprof")
FORMATS = ("md", "csv", "json")
_JSON_ID = re.compile(r'\s+"key": "[\w-]+",$')


def write(folder: Path) -> int:
    """Write the exports of every recording of this tree; returns how many recordings failed."""
    folder.mkdir(parents=True, exist_ok=True)
    failed = 0
    found = {path.name: path for pattern in RECORDINGS for path in ROOT.glob(pattern)}
    with tempfile.TemporaryDirectory() as home:
        for name, recording in sorted(found.items()):
            targets = [folder / f"{recording.stem}.{each}" for each in FORMATS]
            words = [f"--export={target}" for target in targets]
            done = subprocess.run(
                [sys.executable, "-m", "llmprof", "show", str(recording), *words],
                env=_environment(home), capture_output=True, text=True, check=False,
            )  # fmt: skip
            (folder / f"{recording.stem}.out").write_text(done.stdout)
            if done.returncode:
                failed += 1
                print(f"{name}: exit {done.returncode}: {done.stderr}", file=sys.stderr)
    return failed


def compare(a: Path, b: Path, *, but_ids: bool) -> int:
    """Print what differs; returns how many files do."""
    names = sorted({path.name for folder in (a, b) for path in folder.iterdir()})
    differing = 0
    for name in names:
        texts = [_lines(folder / name, but_ids=but_ids) for folder in (a, b)]
        if texts[0] != texts[1]:
            differing += 1
            sys.stdout.writelines(difflib.unified_diff(*texts, f"{a.name}/{name}",
                                                       f"{b.name}/{name}", n=0))  # fmt: skip
    print(f"{differing} of {len(names)} files differ")
    return differing


def _lines(path: Path, *, but_ids: bool) -> list[str]:
    if not path.exists():
        return []
    lines = path.read_text().splitlines(keepends=True)
    if but_ids and path.suffix == ".json":
        return [line for line in lines if not _JSON_ID.match(line)]
    if but_ids and path.name.endswith("-kernels.csv"):
        return [line.partition(",")[2] for line in lines]
    return lines


def _environment(home: str) -> dict[str, str]:
    return {"LLMPROF_HOME": home, "HOME": home, "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8",
            "PYTHONPATH": str(ROOT / "src"), "TZ": "UTC"}  # fmt: skip


def main() -> int:
    """Run one of the two."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    writing = commands.add_parser("write")
    writing.add_argument("folder", type=Path)
    comparing = commands.add_parser("compare")
    comparing.add_argument("a", type=Path)
    comparing.add_argument("b", type=Path)
    comparing.add_argument("--but-ids", action="store_true", help="leave out ids of tables")
    args = parser.parse_args()
    if args.command == "write":
        return 1 if write(args.folder) else 0
    return 1 if compare(args.a, args.b, but_ids=args.but_ids) else 0


if __name__ == "__main__":
    sys.exit(main())
