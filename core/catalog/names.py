"""Names as people type them: in any case, and nearly right."""

from __future__ import annotations

from collections.abc import Iterable

from llmprof.core.system.text import clean

# What pandas, R and spreadsheets take for a missing value, in any case.
READ_AS_MISSING = frozenset(
    {"-", "na", "n/a", "<na>", "nan", "-nan", "null", "none", "nil", "missing"}
    | {"#na", "#n/a", "#n/a n/a", "1.#ind", "-1.#ind", "1.#qnan", "-1.#qnan"}
)


def named(name: str, known: Iterable[str]) -> str | None:
    """The one of the known names that is meant: this one, or the only one in another case."""
    names = list(known)
    if name in names:
        return name
    alike = [each for each in names if each.casefold() == name.casefold()]
    return alike[0] if len(alike) == 1 else None


def unknown(name: str, known: Iterable[str]) -> str:
    """What to say of a name that is none of the known: which is near it, and which there are."""
    import difflib  # rarely needed

    names = {each.casefold(): each for each in known}
    near = difflib.get_close_matches(name.casefold(), names, 1)
    hint = f"did you mean {names[near[0]]!r}? " if near else ""
    return f"{clean(name, 60)!r}; {hint}there are {', '.join(names.values())}"
