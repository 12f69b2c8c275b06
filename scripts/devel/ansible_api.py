"""Finds code that patches or inspects private parts of ansible-core, which change between releases without notice.

The check rejects imports of Ansible names that begin with an underscore; attributes with such names that the file does
not define; assignments to attributes of imported Ansible objects; and code that reads Ansible's source.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

TOP = Path(__file__).resolve().parents[2]
# Code in these folders receives Ansible objects without importing them.
CONTROLLER = tuple(f"plugins/{kind}/" for kind in ("action", "callback", "filter", "lookup", "plugin_utils"))
# Ansible's developer guide documents these attributes for plugins.
DOCUMENTED = frozenset({"_connection", "_display", "_execute_module", "_loader", "_play_context", "_task", "_templar"})
_NAMED_TUPLE = frozenset({"_asdict", "_field_defaults", "_fields", "_make", "_replace"})
_BY_NAME = frozenset({"delattr", "getattr", "hasattr", "setattr"})
_SOURCE = frozenset({"getsource", "getsourcefile", "getsourcelines"})
# The wrapper program of Ansible modules. The name is split so that this check does not report this file.
_WRAPPER = "ansiball" + "z"


def violations(text: str, *, controller: bool = False) -> list[tuple[int, str]]:
    """Return line and code of each use of a private part of ansible-core.

    Args:
        text: content of a Python file.
        controller: whether the code receives Ansible objects without importing them.
    """
    tree = ast.parse(text)
    sources = {name: module for name, module, _line in _imports(tree)}
    if not controller and not any(_of_ansible(module) for module in sources.values()):
        return []
    own = set(_defined(tree)) | _NAMED_TUPLE
    plugins = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and _extends_ansible(node, sources)]
    inherited = {id(node) for plugin in plugins for node in ast.walk(plugin)}
    found = [
        (line, name) for _, name, line in _imports(tree) if _of_ansible(name) and any(map(_private, name.split(".")))
    ]
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            root = _root(node)
            of_ansible = _of_ansible(sources.get(root, "."))
            mine = node.attr in own or (_is_self(node.value) and (id(node) not in inherited or node.attr in DOCUMENTED))
            elsewhere = root in sources and not of_ansible
            changed = of_ansible and not isinstance(node.ctx, ast.Load)
            if changed or (_private(node.attr) and not mine and not elsewhere):
                found.append((node.lineno, ast.unparse(node)))
        elif isinstance(node, ast.Call) and _by_name(node, sources, own):
            found.append((node.lineno, ast.unparse(node)))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and _WRAPPER in node.value.lower():
            found.append((node.lineno, repr(node.value)))
    return sorted(set(found))


def _imports(tree: ast.Module) -> Iterator[tuple[str, str, int]]:
    """Yield each imported name, its full name ('.' for a relative import), and the line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((each.asname or each.name.partition(".")[0], each.name, node.lineno) for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            for each in node.names:
                yield each.asname or each.name, "." if node.level else f"{node.module}.{each.name}", node.lineno


def _defined(tree: ast.Module) -> Iterator[str]:
    """Yield the names of functions, classes, fields and attributes that a file defines."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and _is_self(node.value):
            yield node.attr
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id


def _extends_ansible(node: ast.ClassDef, sources: dict[str, str]) -> bool:
    return any(_of_ansible(sources.get(_root(base), ".")) for base in node.bases)


def _by_name(call: ast.Call, sources: dict[str, str], own: set[str]) -> bool:
    """Return whether a call such as getattr or setattr uses a private attribute, or sets one of an Ansible object."""
    # Tests may replace public names with monkeypatch.setattr.
    name = call.func.attr if isinstance(call.func, ast.Attribute) else _root(call.func)
    if name in _SOURCE:
        return True
    if name not in _BY_NAME or len(call.args) < len(("object", "name")):
        return False
    target, attribute = sources.get(_root(call.args[0]), ""), call.args[1]
    if isinstance(call.func, ast.Name) and name in {"delattr", "setattr"} and _of_ansible(target):
        return True
    name = str(attribute.value) if isinstance(attribute, ast.Constant) else ""
    return _private(name) and name not in own | DOCUMENTED and (not target or _of_ansible(target))


def _root(node: ast.expr) -> str:
    """Return the first name of a chain of attributes, items and calls."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def _is_self(node: ast.expr) -> bool:
    return _root(node) in {"cls", "self", "super"} and not isinstance(node, ast.Attribute | ast.Subscript)


def _of_ansible(module: str) -> bool:
    return module.partition(".")[0] == "ansible"


def _private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def main() -> int:
    """Check the Python files of the product and the tests, and return the exit code."""
    listed = subprocess.run(["git", "ls-files", "-z", "*.py"], check=True, capture_output=True, text=True, cwd=TOP)
    code = 0
    for name in filter(None, listed.stdout.split("\0")):
        path = TOP / name
        if name.startswith(".collections/") or not path.is_file():
            continue
        for line, what in violations(path.read_text(encoding="utf-8"), controller=name.startswith(CONTROLLER)):
            print(f"{name}:{line}: {what}: is private to ansible-core; use the API of its developer guide")
            code = 1
    return code


if __name__ == "__main__":
    sys.exit(main())
