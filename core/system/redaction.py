"""Text and JSON data without the names of machines and people, folders, serial numbers, UUIDs.

What tells things apart goes on telling them apart: the first host becomes host-1, the second
host-2, and so do users, UUIDs and boots. Of a path its last part stays.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import re
from typing import Any

_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_CARD = re.compile(r"\b(GPU|MIG)-(?!0000)([0-9a-fA-F]{4,}(?:-[0-9a-fA-F]+)*)(?![\w-])")  # cut short
_HOST_FIELDS = frozenset(("host", "hostname", "node"))
_HOME = re.compile(r"/(?:home|Users)/+([^/\s\"'`,;:]+)")
# A folder's name may hold blanks, so that what lies between two slashes goes, whatever it is: of
# "/data/a b/c.log at 3 tokens/s" the s stays. Quotes and commas end a path; so does a colon.
_PATH = re.compile(
    r"(?:(?<![\w/:])/+|(?<=:)/(?!/)|file:/+|(?<![\w/.~])(?:~|\.{1,2})/+)(?=\S)"
    r"(?:[^\n\"'`<>|,;:]*/)?([^\s\"'`<>|,;:]*)"
)
_GIVEN = re.compile(r" (?=\w+=)")  # before a factory's arguments, behind the name of a model
# Names that say nothing of a person or a machine, or would be found in every text.
_COMMON = frozenset(
    ("root", "user", "users", "admin", "ubuntu", "nobody", "localhost", "unknown", "none", "home")
)
_LEAST = 3  # letters of a name that is looked for outside its own field


class Redactor:
    """Learns what must go from everything that is to be redacted, then takes it out."""

    def __init__(self) -> None:
        self._known: dict[str, dict[str, str]] = {}
        self._search: re.Pattern[str] | None = None

    def learn_machine(self) -> None:
        """This machine's name and this user's."""
        self._of("host", os.uname().nodename)
        with contextlib.suppress(KeyError):  # a user without an entry, as in some containers
            self._of("user", pwd.getpwuid(os.geteuid()).pw_name)

    def learn(self, value: Any) -> None:
        """Take up the names in JSON data."""
        match value:
            case dict():
                for name, each in value.items():
                    self._learn_field(name, each)
                    self.learn(name)
                    self.learn(each)
            case list():
                for each in value:
                    self.learn(each)
            case str():
                for user in _HOME.findall(value):
                    self._of("user", user)

    def data(self, value: Any, *, by_name: bool = True) -> Any:
        """JSON data without what must go; by_name: also where a name stands among other text."""
        match value:
            case dict():
                return {
                    self.text(name, by_name=by_name): self._field(name, each, by_name=by_name)
                    for name, each in value.items()
                }
            case list():
                return [self.data(each, by_name=by_name) for each in value]
            case str():
                return self.text(value, by_name=by_name)
        return value

    def text(self, text: str, *, by_name: bool = True) -> str:
        """A text without what must go."""
        if "/" in text:
            text = _without_folders(text)
        text = _UUID.sub(lambda found: self._of("uuid", found[0].lower()), text)
        text = _CARD.sub(lambda found: f"{found[1]}-{self._of('card', found[2].lower())}", text)
        pattern = self._names() if by_name else None
        return text if pattern is None else pattern.sub(self._replaced, text)

    def _learn_field(self, name: str, value: Any) -> None:
        if isinstance(value, str) and value and (name == "user" or name in _HOST_FIELDS):
            self._of("user" if name == "user" else "host", value)

    def _field(self, name: str, value: Any, *, by_name: bool) -> Any:
        """A field's value: the whole of it where its name says what it is."""
        if isinstance(value, str) and value:
            if name == "user" or name in _HOST_FIELDS:
                return self._of("user" if name == "user" else "host", value)
            if name == "boot_id" or name.endswith(("uuid", "serial")):
                found = _UUID.sub(lambda each: self._of("uuid", each[0].lower()), value)
                return found if found != value else self._of(name, value)
            if name == "command":  # of another process: what it was started with is its owner's
                return self.text(value.split()[0] if value.split() else "", by_name=by_name)
        if isinstance(value, list) and name == "command":
            return [self._argument(each, by_name=by_name) for each in value]
        if isinstance(value, list) and name == "model":
            return self._own_model(value, by_name=by_name)
        if isinstance(value, list) and name == "models":
            return [self._field("model", each, by_name=by_name) for each in value]
        return self.data(value, by_name=by_name)

    def _own_model(self, value: list[Any], *, by_name: bool) -> list[Any]:
        """A model of someone's own: its name, its file, the file's folder, and what follows."""
        name, path, folder, *rest = [*value, "", "", ""][: max(3, len(value))]
        named, given = str(name), list[str]()
        if any(value[5:6]):  # arguments, of which a path is none of the name's own folders
            named, *given = _GIVEN.split(named, 1)
        where, slash, plain = named.rpartition("/")  # the folders that tell it from another
        if slash:
            name = " ".join((f"{self._of('folder', where)}:{plain}", *given))
        known = [name, str(path).rpartition("/")[2], "" if isinstance(folder, str) else folder]
        return [self.data(each, by_name=by_name) for each in (*known[: len(value)], *rest)]

    def _argument(self, value: Any, *, by_name: bool) -> Any:
        """A word of a command line: a path in it may hold blanks, and may be relative."""
        if not isinstance(value, str):
            return self.data(value, by_name=by_name)
        option, equals, path = value.rpartition("=")
        return option + equals + self.text(path.rpartition("/")[2], by_name=by_name)

    def _of(self, kind: str, value: str) -> str:
        """What stands for a value; the same for the same value."""
        known = self._known.setdefault(kind, {})
        if value not in known:
            number = len(known) + 1
            known[value] = (
                f"00000000-0000-0000-0000-{number:012}" if kind == "uuid" else f"{kind}-{number}"
            )
            self._search = None
        return known[value]

    def _names(self) -> re.Pattern[str] | None:
        """Where a host or a user is named, as a word of its own."""
        if self._search is None:
            names = [
                name
                for kind in ("host", "user")
                for name in self._known.get(kind, {})
                if len(name) >= _LEAST and name.lower() not in _COMMON
            ]
            if not names:
                return None
            words = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
            self._search = re.compile(rf"(?<![A-Za-z0-9])(?:{words})(?![A-Za-z0-9])")
        return self._search

    def _replaced(self, found: re.Match[str]) -> str:
        return next(
            known[found[0]]
            for kind in ("host", "user")
            if found[0] in (known := self._known.get(kind, {}))
        )


def _without_folders(text: str) -> str:
    if text.startswith(("/", "~/", "file:/")):
        return text.rpartition("/")[2]
    return _PATH.sub(r"\1", text)
