"""A model of the user's own, named by its factory; nothing of it is loaded here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from llmprof.core.spec.own_function import content_of, given_path
from llmprof.core.spec.shape import ModelShape, SpecError
from llmprof.core.system.text import clean

HUGGING_FACE = "hf:"  # before the path of a configuration of a causal language model
LONGEST_NAME = 60
FILLED = ("device", "attention", "context_length", "batch_size")  # where a factory has them

Argument = str | int | float | bool | None


class OwnModel(NamedTuple):
    """Where a model's factory is, and what it is called with.

    path is the factory's file, or the configuration's; folder is put before all others where the
    file's imports are looked up. content tells one state of the file from another: of two runs
    only equal contents are one configuration. In journals it is an array, which tells it from a
    shape.
    """

    name: str
    path: str
    folder: str
    module: str  # as which the file is imported; "" for a configuration
    factory: str  # its function; "" for a configuration
    arguments: tuple[tuple[str, Argument], ...] = ()
    content: str = ""

    @property
    def is_configuration(self) -> bool:
        """Whether a configuration of transformers stands for the factory."""
        return not self.factory

    @property
    def source(self) -> str:
        """What to give to --model so as to name it again."""
        return f"{self.path}:{self.factory}" if self.factory else f"{HUGGING_FACE}{self.path}"


Model = ModelShape | OwnModel


def find_own_model(
    source: str, arguments: Mapping[str, Argument], folders: Iterable[str | Path]
) -> OwnModel:
    """The model that `path/to/file.py:factory`, `package.module:factory` or `hf:config.json` names.

    A module is looked up in the folders, in order, without importing anything. Raises SpecError
    for what is not there.
    """
    if source.startswith(HUGGING_FACE):
        return _configuration(source.removeprefix(HUGGING_FACE), arguments)
    where, _, factory = source.rpartition(":")
    if not where or not factory.isidentifier():
        raise SpecError(
            f"--model {clean(source, 100)}: write path/to/file.py:factory, package.module:factory "
            "or hf:path/to/config.json"
        )
    if "," in where and not given_path(where, "--model").exists():
        raise SpecError(
            f"--model {clean(source, 100)}: --model is given once for each model, as in --model "
            "a.py:build --model b.py:build"
        )
    if where.endswith(".py"):
        path = given_path(where, "--model")
        folder, module = path.parent, path.stem
    else:
        path, folder = _module_file(where, folders)
        module = where
    content = content_of(path, "--model")
    from llmprof.core.spec.source_names import check_arguments, check_name  # files are rare

    check_name(path, factory, "--model")
    check_arguments(path, factory, arguments, FILLED)
    name = f"{path.stem if where.endswith('.py') else where}:{factory}"
    return OwnModel(
        name=_named(name, arguments),
        path=str(path),
        folder=str(folder),
        module=module,
        factory=factory,
        arguments=tuple(sorted(arguments.items())),
        content=content,
    )


def find_own_models(
    sources: Iterable[str], given: Mapping[str, Argument], folders: Iterable[str | Path]
) -> list[OwnModel]:
    """The models that several sources name, each once, under names that tell them apart.

    Raises SpecError.
    """
    folders = tuple(folders)
    return _told_apart(
        list(dict.fromkeys(find_own_model(source, given, folders) for source in sources))
    )


def _told_apart(models: list[OwnModel]) -> list[OwnModel]:
    """Models with names that differ: of `a/gpt.py:build` and `b/gpt.py:build` longer ones."""
    alike: dict[str, list[OwnModel]] = {}
    for each in models:
        alike.setdefault(each.name, []).append(each)
    longer = {
        each: name
        for same in alike.values()
        if len(same) > 1
        for each, name in zip(same, _longer_names(same), strict=True)
    }
    return [each._replace(name=longer.get(each, each.name)) for each in models]


def _longer_names(same: list[OwnModel]) -> list[str]:
    """A name for each of several: with the fewest folders of its path that tell all apart."""
    paths = [Path(each.path).parts[1:-1] for each in same]
    for many in range(1, max(map(len, paths)) + 1):
        ends = ["/".join(parts[-many:]) for parts in paths]
        pairs = zip(ends, same, strict=True)
        names = [clean(f"{end}/{each.name}", LONGEST_NAME) for end, each in pairs]
        if len(set(names)) == len(names):
            return names
    return [clean(f"{number}: {each.name}", LONGEST_NAME) for number, each in enumerate(same, 1)]


def _configuration(where: str, arguments: Mapping[str, Argument]) -> OwnModel:
    path = given_path(where, "--model")
    if path.is_dir():
        path = path / "config.json"
    stem = path.parent.name if path.name == "config.json" else path.stem
    return OwnModel(
        name=_named(f"{HUGGING_FACE}{stem}", arguments),
        path=str(path),
        folder=str(path.parent),
        module="",
        factory="",
        arguments=tuple(sorted(arguments.items())),
        content=content_of(path, "--model"),
    )


def _module_file(module: str, folders: Iterable[str | Path]) -> tuple[Path, Path]:
    """The file of a dotted module and the folder below which it was found."""
    parts = module.split(".")
    if not all(part.isidentifier() for part in parts):
        raise SpecError(f"--model {clean(module, 100)}: this is no name of a module")
    for each in folders:
        folder = Path(each).absolute()
        for path in (folder.joinpath(*parts[:-1], f"{parts[-1]}.py"),
                     folder.joinpath(*parts, "__init__.py")):  # fmt: skip
            if path.is_file():
                return path, folder
    raise SpecError(
        f"--model {clean(module, 100)}: no such module here or among the installed ones; a file "
        "is named as path/to/file.py:factory"
    )


def _named(name: str, arguments: Mapping[str, Argument]) -> str:
    given = " ".join(f"{key}={value}" for key, value in sorted(arguments.items()))
    return clean(f"{name} {given}" if given else name, LONGEST_NAME)


def arguments(texts: Iterable[str]) -> dict[str, Argument]:
    """Arguments for factories, each once. Raises SpecError."""
    given: dict[str, Argument] = {}
    for name, value in map(argument, texts):
        if given.get(name, value) != value:
            raise SpecError(f"--model-arg {name}: given twice, as {given[name]} and {value}")
        given[name] = value
    return given


def argument(text: str) -> tuple[str, Argument]:
    """`n_layer=4` as a name and a typed value: whole number, number, true, false, none, or text.

    Raises SpecError for what is no such pair.
    """
    name, equals, word = text.partition("=")
    if not equals or not name.isidentifier():
        raise SpecError(f"--model-arg {clean(text, 100)}: write name=value")
    words: dict[str, Argument] = {"true": True, "false": False, "none": None}
    if word.lower() in words:
        return name, words[word.lower()]
    for kind in (int, float):
        try:
            return name, kind(word)
        except ValueError:
            continue
    return name, word
