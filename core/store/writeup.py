"""A write-up's folder: ordinary runs, and a manifest that says which and what each measures.

The manifest names a run before it begins, so that a write-up killed at any moment goes on where it
was.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import msgspec

from llmprof.core.spec.experiment import Experiment
from llmprof.core.store.files import MANIFEST
from llmprof.core.store.journal import replay
from llmprof.core.store.run import Run, RunStore
from llmprof.core.system.atomic import write_file
from llmprof.core.system.text import clean

LONGEST = 200  # letters of a run's name


class WriteupError(ValueError):
    """A folder that holds no write-up, or a damaged one; its text is one line for the user."""


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One experiment of a write-up; run is its folder's name, "" before it began."""

    experiment: Experiment
    estimate_s: float | None = None
    run: str = ""


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What a write-up measures, in order."""

    entries: tuple[Entry, ...]
    left_out: tuple[str, ...] = ()  # sizes and lengths that would take too long
    schema: int = 1


def decode_manifest(data: bytes, where: str) -> Manifest:
    """A manifest, which is not trusted, from its file's bytes.

    Raises WriteupError, which says where they were.
    """
    try:
        manifest = msgspec.json.decode(data, type=Manifest)
    except (ValueError, OverflowError, RecursionError) as error:
        raise WriteupError(f"{where} holds no write-up: {clean(str(error), 200)}") from error
    for entry in manifest.entries:
        if entry.run.startswith(".") or "/" in entry.run or clean(entry.run, LONGEST) != entry.run:
            name = clean(repr(entry.run), 80)
            raise WriteupError(f"{where} is damaged: a run cannot be called {name}")
    left_out = tuple(clean(each, LONGEST) for each in manifest.left_out)
    return msgspec.structs.replace(manifest, left_out=left_out)


class Writeup:
    """A write-up's folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = RunStore(folder)

    @property
    def there(self) -> bool:
        """Whether the folder holds a write-up."""
        return (self.folder / MANIFEST).is_file()

    def load(self) -> Manifest:
        """Its manifest. Raises WriteupError."""
        path = self.folder / MANIFEST
        try:
            data = path.read_bytes()
        except OSError as error:
            raise WriteupError(f"{path} holds no write-up: {error}") from error
        return decode_manifest(data, str(path))

    def save(self, manifest: Manifest) -> None:
        """Write the manifest, whole or not at all. Raises OSError."""
        self.folder.mkdir(parents=True, exist_ok=True)
        text = msgspec.json.format(msgspec.json.encode(manifest), indent=1)
        write_file(self.folder / MANIFEST, text.decode())

    def begin(self, at: int) -> Run:
        """A run for an entry, in the manifest before anything is measured. Raises OSError.

        A folder that it had, in which nothing began, goes.
        """
        manifest = self.load()
        entries = list(manifest.entries)
        if entries[at].run:
            with contextlib.suppress(OSError, RuntimeError):
                self._folder_of(entries[at]).delete()
        run = self.store.create(entries[at].experiment.name)
        entries[at] = msgspec.structs.replace(entries[at], run=run.id)
        self.save(msgspec.structs.replace(manifest, entries=tuple(entries)))
        return run

    def run_of(self, entry: Entry) -> Run | None:
        """The run of an entry that has a plan to go on with; None before that."""
        run = self._folder_of(entry)
        if not entry.run or not run.journal.is_file():
            return None
        return run if replay(run.journal).experiment is not None else None

    def runs(self) -> Iterator[Run]:
        """The runs that were begun, in order. Raises WriteupError."""
        yield from filter(None, map(self.run_of, self.load().entries))

    def _folder_of(self, entry: Entry) -> Run:
        return Run(self.folder / entry.run)
