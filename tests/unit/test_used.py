"""No dead code: each plugin is called, and each function is used outside its tests."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
PLUGINS = TOP / "plugins"
# Names that Ansible looks up, and entry points.
KNOWN = {"ANSIBLE_METADATA", "ActionModule", "CallbackModule", "DOCUMENTATION", "EXAMPLES", "FilterModule"}
KNOWN |= {"LookupModule", "ModuleDocFragment", "RETURN", "main", "__all__"}
# Names that the preflight looks up in the checks of roles.
KNOWN |= {"INVENTORY", "SITE_OPTIONS", "check"}
# Names that the portal's configuration and its template of programs look up.
KNOWN |= {"OidcAuthenticator", "PortalAuthenticator", "history"}
# Names that Jupyter's server looks up.
KNOWN |= {"_jupyter_server_extension_points", "_load_jupyter_server_extension"}


def product() -> list[Path]:
    """Return the Python files of the product."""
    scripts = [path for path in (TOP / "scripts").rglob("*") if path.is_file() and is_python(path)]
    return [*PLUGINS.rglob("*.py"), *scripts, *(TOP / "roles").rglob("*.py")]


def is_python(path: Path) -> bool:
    with path.open("rb") as file:
        return path.suffix == ".py" or b"python" in file.readline()


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def defined(path: Path) -> dict[str, ast.stmt]:
    """Return the top-level definitions of a file by name."""
    found: dict[str, ast.stmt] = {}
    for node in tree(path).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found[node.name] = node
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [each for target in targets for each in ast.walk(target)]
            found |= {each.id: node for each in names if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
    return found


@cache
def read_names(path: Path) -> set[str]:
    """Return the names that a file reads, also in string annotations."""
    nodes = list(ast.walk(tree(path)))
    texts = [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    types = [text for text in texts if "[" in text and re.fullmatch(r"[\w\[\], .|]+", text)]
    names = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    if "globals" in names:
        names.update(text for text in texts if text.isidentifier())
    return names.union(*(re.findall(r"\w+", text) for text in types))


@cache
def imported() -> set[tuple[str, str]]:
    """Return all imports as (last part of the module's name, name)."""
    found = set()
    for path in product():
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.ImportFrom):
                found |= {((node.module or "").rpartition(".")[2], alias.name) for alias in node.names}
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id != "self":
                found.add(("", node.attr))  # maybe of a module
    return found


def registered(node: ast.stmt) -> bool:
    """Return whether a decorator registers the function."""
    names = [ast.unparse(each) for each in getattr(node, "decorator_list", [])]
    return any(name.split("(")[0] not in {"cache", "contextmanager", "dataclass", "total_ordering"} for name in names)


def test_each_top_level_name_is_used_outside_tests() -> None:
    unused = [
        f"{path.relative_to(TOP)}: {name}"
        for path in product()
        for name, node in defined(path).items()
        if name not in KNOWN | read_names(path)
        and not {(path.stem, name), ("", name)} & imported()
        and not registered(node)
        and name != "_"
        and not (path.name == "checks.py" and f"role_problems('{path.parent.name}', '{name}'" in callers())
    ]
    assert not unused, "\n".join(unused)


@cache
def callers() -> str:
    """Return the text of all callers of plugins: roles, playbooks, scenarios, examples, docs, command line."""
    folders = ("roles", "playbooks", "molecule", "group_vars", "inventory", "scripts", "docs", "plugins/action")
    files = [path for folder in folders for path in (TOP / folder).rglob("*") if path.is_file()]
    files += [TOP / "README.md", TOP / ".collections/ansible_collections/busbar/cluster/meta/runtime.yml"]
    return "\n".join(path.read_text(encoding="utf-8", errors="replace") for path in files)


@pytest.mark.parametrize("kind", ["action", "filter", "lookup", "modules"])
def test_each_plugin_is_called(kind: str) -> None:
    names = [path.stem for path in (PLUGINS / kind).glob("*.py")]
    assert names
    assert [name for name in names if not re.search(rf"busbar\.cluster\.{name}\b", callers())] == []


def test_no_registered_result_overrides_a_variable_of_another_task() -> None:
    """A registered result outranks `vars` of a task, so the second run of a role would read the result."""
    registered, given = set(), set()
    for path in [*TOP.glob("roles/*/tasks/*.yml"), *TOP.glob("playbooks/**/*.yml")]:
        text = path.read_text(encoding="utf-8")
        registered |= set(re.findall(r"^ +register: (\w+)", text, re.MULTILINE))
        for block in re.findall(r"^( +)vars:\n((?:\1  .*\n)+)", text, re.MULTILINE):
            given |= set(re.findall(rf"^{block[0]}  (\w+):", block[1], re.MULTILINE))
    assert "__slurm_found" in given
    assert not registered & given
