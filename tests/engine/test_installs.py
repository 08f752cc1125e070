"""Every way to install brings every file, also from a tree in which links are not links."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
ROOMS: dict[str, str] = PROJECT["tool"]["setuptools"]["package-dir"]
NOT_TRACKED = shutil.ignore_patterns("__pycache__", "*.egg-info")
LINKS = [room.removeprefix("llmprof.") for room in ROOMS if room != "llmprof"]


def files(room: str) -> Iterator[Path]:
    """The files of a room, links not followed."""
    folder = ROOT / ROOMS[room]
    for path in folder.rglob("*"):
        inside = path.relative_to(folder)
        link = room == "llmprof" and inside.parts[0] in LINKS
        if path.is_file() and "__pycache__" not in inside.parts and not link:
            yield inside


INSTALLED = {str(Path(*room.split("."), path)) for room in ROOMS for path in files(room)}
IN_SDIST = {str(Path(folder, path)) for room, folder in ROOMS.items() for path in files(room)}


def copy_of_tree(target: Path, link: Callable[[Path], object] | None = None) -> Path:
    """The files that an installation needs, with something else where links were."""
    target.mkdir()
    for name in ("core", "tui", "presets", "src"):
        shutil.copytree(ROOT / name, target / name, symlinks=True, ignore=NOT_TRACKED)
    for path in ROOT.iterdir():
        if path.is_file():
            shutil.copy(path, target)
    for name in LINKS:
        place = target / "src" / "llmprof" / name
        place.unlink(missing_ok=True)
        if link is not None:
            link(place)
    return target


def pip_install(python: Path | str, *arguments: str) -> None:
    offline = ["--no-index", "--no-deps", "--no-build-isolation", "--ignore-installed"]
    words = [str(python), "-m", "pip", "install", "-q", *offline, *arguments]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A source distribution of a tree without links, and the wheel made from it."""
    folder = tmp_path_factory.mktemp("built")
    tree = copy_of_tree(folder / "tree")
    words = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(tree)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """The interpreter of an environment that borrows everything but llmprof from this one."""
    venv.create(tmp_path / "venv", with_pip=False)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    site = tmp_path / "venv" / "lib" / version / "site-packages"
    (site / "borrowed.pth").write_text(sysconfig.get_path("purelib"))
    return tmp_path / "venv" / "bin" / "python"


def written(place: Path) -> None:
    """What git leaves in place of a link where the file system has none."""
    place.write_text(f"../../{place.name}")


def presets_of(python: Path, folder: Path) -> str:
    """What `llmprof presets` prints, run from a folder that has nothing to do with it."""
    words = [str(python.parent / "llmprof"), "presets"]
    done = subprocess.run(
        words, cwd=folder, env={"HOME": str(folder)}, capture_output=True, text=True, check=True
    )
    return done.stdout


def imported_from(python: Path, folder: Path) -> list[str]:
    names = sorted(ROOMS)
    code = f"import {', '.join(names)}; print(*({'.__file__, '.join(names)}.__file__,), sep='\\n')"
    words = [str(python), "-c", code]
    done = subprocess.run(words, cwd=folder, env={}, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_the_source_distribution_and_the_wheel_hold_the_tree(built: Path) -> None:
    (sdist,), (wheel,) = built.glob("*.tar.gz"), built.glob("*.whl")
    with tarfile.open(sdist) as archive:
        held = {str(Path(*Path(name).parts[1:])) for name in archive.getnames()}
    assert held >= IN_SDIST
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    assert {name for name in names if ".dist-info/" not in name} == INSTALLED


@pytest.mark.parametrize("kind", ["wheel", "sdist"])
def test_what_is_built_works_elsewhere(kind: str, built: Path, python: Path,
                                       tmp_path: Path) -> None:  # fmt: skip
    (found,) = built.glob({"wheel": "*.whl", "sdist": "*.tar.gz"}[kind])
    pip_install(python, str(found))
    assert "2.7B" in presets_of(python, tmp_path)
    site = python.parents[1] / "lib"
    assert all(Path(name).is_relative_to(site) for name in imported_from(python, tmp_path))


@pytest.mark.parametrize("link", [None, written], ids=["zip", "clone"])
@pytest.mark.parametrize("editable", [(), ("--editable",)], ids=["copied", "editable"])
def test_a_tree_without_links_works(link: Callable[[Path], object] | None,
                                    editable: tuple[str, ...], python: Path,
                                    tmp_path: Path) -> None:  # fmt: skip
    tree = copy_of_tree(tmp_path / "tree", link)
    pip_install(python, *editable, str(tree))
    assert "2.7B" in presets_of(python, tmp_path)
    root = tree if editable else python.parents[1] / "lib"
    assert all(Path(name).is_relative_to(root) for name in imported_from(python, tmp_path))


@pytest.mark.parametrize("room", ["core", "tui", "presets", "src/llmprof"])
def test_a_room_that_is_not_there_is_no_silent_loss(room: str, tmp_path: Path) -> None:
    tree = copy_of_tree(tmp_path / "tree")
    shutil.rmtree(tree / room)
    words = [sys.executable, "setup.py", "--name"]
    done = subprocess.run(words, cwd=tree, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"{room}/ has no __init__.py" in done.stderr


def test_links_lead_where_packages_are_taken_from() -> None:
    for room, folder in ROOMS.items():
        link = ROOT / "src" / Path(*room.split("."))
        if link.is_dir():  # a file where links are not there
            assert link.resolve() == (ROOT / folder).resolve()


def test_the_list_without_torch_is_that_of_the_project() -> None:
    lines = (ROOT / "requirements-without-torch.txt").read_text("utf-8").splitlines()
    listed = [line for line in lines if not line.startswith("#")]
    needed = [each for each in PROJECT["project"]["dependencies"] if not each.startswith("torch")]
    assert listed == needed
