"""Selects test files for `scripts/test` by the roles that they cover.

python tests/selection.py files [--part K/N] [ROLE ...]  the files that cover these roles, or all; or every N-th of them
python tests/selection.py changed [BASE]                 the files that are affected by changes since BASE, directly or
                                                         through a role; BASE defaults to the last commit but one

A file declares the roles that it covers: `pytestmark = pytest.mark.proves("slurm", "munge")`; one that tests the
sandbox or the whole site declares none.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import re
import subprocess
import sys
from pathlib import Path

__all__ = ["changed", "files", "part", "proofs", "roles"]

TOP = Path(__file__).resolve().parents[1]
FOLDERS = ("tests/sandbox", "tests/vm")
PLUGIN = re.compile(r"plugins/(?:action|callback|filter|lookup|modules)/(\w+)\.py")
OWN = "ansible_collections.busbar.cluster.plugins."


def roles(top: Path = TOP) -> list[str]:
    """Return the roles of the collection."""
    return sorted(path.name for path in (top / "roles").iterdir() if path.is_dir())


def marks(tree: ast.AST) -> list[ast.expr]:
    """Return the marks in the `pytestmark` of a test file."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and "pytestmark" in map(ast.unparse, node.targets):
            return node.value.elts if isinstance(node.value, ast.List) else [node.value]
    return []


def proofs(top: Path = TOP) -> dict[Path, list[str]]:
    """Return each test file with the roles that it covers.

    Raises:
        ValueError: a file does not declare its roles.
    """
    found = {}
    for path in sorted(path for folder in FOLDERS for path in (top / folder).glob("test_*.py")):
        for mark in marks(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(mark, ast.Call) and isinstance(mark.func, ast.Attribute) and mark.func.attr == "proves":
                found[path] = [ast.literal_eval(word) for word in mark.args]
        if path not in found:
            message = f'{path.relative_to(top)} does not say what it proves: pytestmark = pytest.mark.proves("ROLE")'
            raise ValueError(message)
    return found


def files(wanted: list[str], top: Path = TOP) -> list[Path]:
    """Return the files that cover any of these roles, or all files if no role is given.

    Raises:
        ValueError: a role does not exist.
    """
    for name in wanted:
        if name not in roles(top):
            near = difflib.get_close_matches(name, roles(top), 1)
            message = f"there is no role {name!r}" + (f"; did you mean {near[0]}?" if near else "")
            raise ValueError(message)
    return [path for path, proven in proofs(top).items() if not wanted or set(wanted) & set(proven)]


def part(paths: list[Path], text: str) -> list[Path]:
    """Return every N-th file, starting with the K-th, so that each part has short and long ones.

    Raises:
        ValueError: the text is not K/N with K from 1 to N.
    """
    match = re.fullmatch(r"([1-9]\d*)/([1-9]\d*)", text)
    if not match or int(match[1]) > int(match[2]):
        message = f"--part {text}: write K/N with K from 1 to N, for instance 2/3"
        raise ValueError(message)
    return paths[int(match[1]) - 1 :: int(match[2])]


def changed(base: str, top: Path = TOP) -> list[Path]:
    """Return the test files affected by changes since a commit, directly or through a role that they cover."""

    def git(*arguments: str) -> list[str]:
        return subprocess.run(["git", "-C", top, *arguments], check=True, capture_output=True, text=True).stdout.split()

    paths = git("diff", "--name-only", base) + git("ls-files", "--others", "--exclude-standard")
    stems = {match[1] for path in paths if (match := PLUGIN.fullmatch(path))}
    utilities = {path[len("plugins/") : -len(".py")].replace("/", ".") for path in paths if "_utils/" in path}
    reached = utilities | importers(utilities, top)
    stems |= {name.rpartition(".")[2] for name in reached if "_utils." not in name}
    touched = {path.split("/")[1] for path in paths if path.startswith("roles/")}
    for path in paths:
        if path.startswith("playbooks/") and (top / path).is_file():
            touched |= set(re.findall(r"busbar\.cluster\.(\w+)", (top / path).read_text(encoding="utf-8")))
    for role in roles(top):
        text = "\n".join(path.read_text(encoding="utf-8") for path in (top / "roles" / role).rglob("*.y*ml"))
        programs = [own_imports(path, top / "plugins") for path in (top / "roles" / role / "files").glob("*.py")]
        if stems & set(re.findall(r"busbar\.cluster\.(\w+)", text)) or reached & set().union(*programs):
            touched.add(role)
    known = proofs(top)
    by_role = {path for path, proven in known.items() if touched & set(proven)}
    fixtures = {Path(path).stem for path in paths if path.startswith("tests/fixtures/")}
    own = {top / path for path in paths}
    return [path for path in known if path in by_role | own or imports(path) & fixtures]


def imports(path: Path) -> set[str]:
    """Return the last name components of the modules that a file imports."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            found |= {(node.module or "").rpartition(".")[2], *(alias.name for alias in node.names)}
        elif isinstance(node, ast.Import):
            found |= {alias.name.rpartition(".")[2] for alias in node.names}
    return found


def own_imports(path: Path, plugins: Path) -> set[str]:
    """Return the collection's modules that a plugin or program imports, such as `module_utils.slurm.squeue`."""
    folder = path.relative_to(plugins).parent.parts if path.is_relative_to(plugins) else ()
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            base = ".".join((*folder[: len(folder) - node.level + 1], *filter(None, [node.module])))
            if not node.level:
                base = (node.module or "").removeprefix(OWN)
            found |= {base, *(f"{base}.{alias.name}" for alias in node.names)}
    return found


def importers(utilities: set[str], top: Path) -> set[str]:
    """Return what imports one of these utilities, directly or indirectly, such as `filter.slurm_plan`."""
    plugins = top / "plugins"
    known = {
        ".".join(path.relative_to(plugins).with_suffix("").parts): own_imports(path, plugins)
        for path in plugins.rglob("*.py")
    }
    reached = set(utilities)
    while more := {name for name, names in known.items() if names & reached} - reached:
        reached |= more
    return reached


def main() -> int:
    """Print the selected files, one on a line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    actions = parser.add_subparsers(dest="action", required=True)
    chosen = actions.add_parser("files")
    chosen.add_argument("--part", default="1/1")
    chosen.add_argument("roles", nargs="*")
    actions.add_parser("changed").add_argument("base", nargs="?", default="HEAD~1")
    given = parser.parse_args()
    try:
        found = part(files(given.roles), given.part) if given.action == "files" else changed(given.base)
    except ValueError as error:
        return complain(str(error))
    except subprocess.CalledProcessError as error:
        return complain(error.stderr.strip())
    sys.stdout.writelines(f"{path.relative_to(TOP)}\n" for path in found)
    return 0


def complain(message: str) -> int:
    """Print a usage error and return the exit code."""
    sys.stderr.write(f"selection: {message}\n")
    return 2


if __name__ == "__main__":
    sys.exit(main())
