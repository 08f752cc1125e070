"""No module imports itself by way of others: at the top, inside a function or for types alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROOMS = {"llmprof.core": "core", "llmprof.tui": "tui", "llmprof.cli": "src/llmprof/cli"}

Graph = dict[str, set[str]]


def modules(root: Path, package: str) -> dict[str, Path]:
    """Files by module name; a package is its __init__."""
    found = {}
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        parts = parts[:-1] if parts[-1] == "__init__" else parts
        found[".".join((package, *parts))] = path
    return found


def imports(tree: ast.AST, known: Mapping[str, object]) -> Iterator[str]:
    """The known modules that a module names in imports, wherever they stand."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert not node.level, "imports are absolute here"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                if inner in known or node.module in known:
                    yield inner if inner in known else node.module


def packages_entered(module: str, target: str) -> Iterator[str]:
    """The packages that Python runs on the way to a target, but for those that it is in already."""
    parts = target.split(".")
    for end in range(1, len(parts)):
        package = ".".join(parts[:end])
        if not f"{module}.".startswith(f"{package}."):
            yield package


def graph(files: Mapping[str, Path]) -> Graph:
    """What each module imports, packages that are entered by it included."""
    edges: Graph = {}
    for module, path in files.items():
        targets = set(imports(ast.parse(path.read_text("utf-8")), files))
        entered = {p for target in targets for p in packages_entered(module, target)}
        edges[module] = ((targets | entered) & files.keys()) - {module}
    return edges


def circles(edges: Graph) -> list[list[str]]:
    """Groups of modules that all reach each other (Tarjan, SIAM J. Comput. 1(2), 1972)."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(module: str) -> None:
        order[module] = low[module] = len(order)
        stack.append(module)
        for target in sorted(edges[module]):
            if target not in order:
                visit(target)
                low[module] = min(low[module], low[target])
            elif target in stack:
                low[module] = min(low[module], order[target])
        if low[module] == order[module]:
            group = stack[stack.index(module) :]
            del stack[-len(group) :]
            if len(group) > 1:
                found.append(sorted(group))

    for module in edges:
        if module not in order:
            visit(module)
    return found


def test_no_module_imports_itself_by_way_of_others() -> None:
    files: dict[str, Path] = {}
    for package, folder in ROOMS.items():
        files |= modules(ROOT / folder, package)
    assert len(files) > 250
    edges = graph(files)
    assert sum(map(len, edges.values())) > 1000
    assert circles(edges) == []


def test_a_planted_circle_is_found(tmp_path: Path) -> None:
    planted = {
        "app.py": "from box.room.view import View\n",
        "room/__init__.py": "",
        "room/view.py": "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    from box.host import Host\n",
        "host.py": "def open():\n    from box import app\n    return app\n",
        "ground.py": "import box.leaf\n",
        "leaf.py": "",
    }
    for name, text in planted.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    files = modules(tmp_path, "box")
    assert circles(graph(files)) == [["box.app", "box.host", "box.room.view"]]
    (tmp_path / "host.py").write_text("", "utf-8")
    assert circles(graph(files)) == []


def test_entering_a_package_counts(tmp_path: Path) -> None:
    (tmp_path / "room").mkdir()
    (tmp_path / "room" / "__init__.py").write_text("from box.app import run\n", "utf-8")
    (tmp_path / "room" / "leaf.py").write_text("", "utf-8")
    (tmp_path / "app.py").write_text("import box.room.leaf\n", "utf-8")
    assert circles(graph(modules(tmp_path, "box"))) == [["box.app", "box.room"]]
