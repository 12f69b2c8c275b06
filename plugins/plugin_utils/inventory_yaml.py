"""Check an inventory's files for syntax errors and duplicates, and find where each variable is set."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from .common.near_names import near_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_YAML = frozenset({".yml", ".yaml"})
# Extensions that Ansible also reads as YAML below group_vars and host_vars.
_VARIABLES = _YAML | {"", ".json"}
_INI = frozenset({"", ".ini"})
_VARIABLE_FOLDERS = frozenset({"group_vars", "host_vars"})
_GROUP_KEYS = ("hosts", "children", "vars")
_VAULT = "$ANSIBLE_VAULT"
# First line of a file in YAML or JSON; in Ansible's INI format, host names cannot end with a colon.
_BEGINS_YAML = re.compile(r"---|\{|\S+:(\s|$)")


def yaml_problems(sources: Sequence[str], playbook: Path | None = None) -> list[str]:
    """Return a message for each problem: path, line, column and description.

    Args:
        sources: the inventory, as given with `-i`.
        playbook: a playbook, whose group_vars and host_vars are also checked.
    """
    listed = [path for source in sources if "," not in source for path in _ini_files(Path(source).absolute())]
    problems = [problem for path in variable_files(sources, playbook) for problem in _problems(path)]
    return problems + [problem for path in listed for problem in _ini_duplicates(path)]


def variable_files(sources: Sequence[str], playbook: Path | None) -> list[Path]:
    """Return the YAML files of an inventory, and of the group_vars and host_vars of inventory and playbook."""
    files = dict.fromkeys(_files(sources))
    if playbook is not None:
        files.update(dict.fromkeys(_variables_beside(playbook.absolute().parent)))
    return list(files)


def variable_places(sources: Sequence[str]) -> dict[tuple[str, str], str]:
    """Return FILE:LINE of each variable, by scope ('group NAME' or 'host NAME') and variable name.

    Args:
        sources: the inventory, as given with `-i`.
    """
    places = {}
    for path in _files(sources):
        try:
            root = yaml.compose(path.read_text(encoding="utf-8-sig"), Loader=_LOADER)
        except (yaml.YAMLError, UnicodeDecodeError, OSError):  # reported by yaml_problems
            continue
        shown = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
        for scope, key in _variables_in(path, root):
            places[scope, str(key.value)] = f"{shown}:{key.start_mark.line + 1}"
    return places


def _variables_in(path: Path, root: yaml.Node | None) -> Iterator[tuple[str, yaml.Node]]:
    """Yield the variables of a file, each with its scope, the group or host."""
    for folder in path.parents:
        if folder.name in {"group_vars", "host_vars"}:
            name = Path(path.relative_to(folder).parts[0])
            scope = f"{folder.name.removesuffix('_vars')} {name.stem if name.suffix in _VARIABLES else name}"
            yield from ((scope, key) for key, _value in _items(root))
            return
    yield from _variables_of_groups(root)


def _variables_of_groups(groups: yaml.Node | None) -> Iterator[tuple[str, yaml.Node]]:
    for group, content in _items(groups):
        for key, value in _items(content):
            if key.value == "vars":
                yield from ((f"group {group.value}", name) for name, _value in _items(value))
            elif key.value == "hosts":
                for host, variables in _items(value):
                    yield from ((f"host {host.value}", name) for name, _value in _items(variables))
            elif key.value == "children":
                yield from _variables_of_groups(value)


def _items(node: yaml.Node | None) -> list[tuple[yaml.Node, yaml.Node]]:
    return node.value if isinstance(node, yaml.MappingNode) else []


def _files(sources: Sequence[str]) -> Iterator[Path]:
    """Yield the YAML files of an inventory's sources, in Ansible's order: later files override earlier ones."""
    for source in sources:
        if "," not in source:
            yield from _files_of(Path(source).absolute())


def _files_of(source: Path) -> Iterator[Path]:
    """Yield the YAML files of an inventory directory or file, including group_vars and host_vars."""
    folder = source if source.is_dir() else source.parent
    for path in sorted(folder.iterdir()) if source.is_dir() else [source]:
        if not path.name.startswith(".") and path.is_file() and _is_yaml(path):
            yield path
    yield from _variables_beside(folder)


def _is_yaml(path: Path) -> bool:
    """Return whether Ansible reads a file as YAML; for a file without extension, its first line decides."""
    if path.suffix or os.access(path, os.X_OK):
        return path.suffix in _VARIABLES - {""}
    try:
        lines = path.read_text(encoding="utf-8-sig", errors="replace").splitlines()
    except OSError:
        return False
    return bool(_BEGINS_YAML.match(next((line for line in lines if line.strip() and line.lstrip()[0] not in "#;"), "")))


def _variables_beside(folder: Path) -> Iterator[Path]:
    """Yield the files of group_vars and host_vars in a folder."""
    for name in sorted(_VARIABLE_FOLDERS):
        for place, folders, names in os.walk(folder / name, followlinks=True):
            folders[:] = sorted(each for each in folders if not each.startswith("."))
            for each in sorted(names):
                path = Path(place) / each
                if path.suffix in _VARIABLES and not each.startswith(".") and not each.endswith("~"):
                    yield path


def _problems(path: Path) -> list[str]:
    """Return the problems with a file; messages do not contain values, because these may be secrets."""
    try:
        text = path.read_text(encoding="utf-8-sig")
        if text.startswith(_VAULT):
            return []
        root = yaml.compose(text, Loader=_LOADER)
    except yaml.MarkedYAMLError as exc:
        mark = exc.problem_mark or exc.context_mark
        where = f"{path}:{mark.line + 1}:{mark.column + 1}" if mark else str(path)
        begun = f" ({exc.context} that starts in line {exc.context_mark.line + 1})" if exc.context_mark else ""
        return [f"{where}: {exc.problem}{begun}"]
    except (yaml.YAMLError, UnicodeDecodeError) as exc:
        return [f"{path}: is not UTF-8 text: {' '.join(str(exc).split())}"]
    except OSError as exc:
        return [f"{path}: cannot be read: {exc.strerror or exc}"]
    if root is not None and not isinstance(root, yaml.MappingNode) and not _is_nothing(root):
        return [f"{path}:{root.start_mark.line + 1}: is not a mapping: write variables as 'name: value'"]
    return [*_duplicates(path, root, set()), *_group_faults(path, root)]


def _duplicates(path: Path, node: yaml.Node | None, seen: set[int]) -> Iterator[str]:
    """Yield a message for each duplicate key; Ansible uses only the last one."""
    if node is None or id(node) in seen:
        return
    seen.add(id(node))  # aliases refer to the same node
    if isinstance(node, yaml.SequenceNode):
        for each in node.value:
            yield from _duplicates(path, each, seen)
    if isinstance(node, yaml.MappingNode):
        first: dict[tuple[str, str], yaml.Node] = {}
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value != "<<":
                earlier = first.setdefault((key.tag, key.value), key)
                if earlier is not key:
                    yield _duplicate_message(_where(path, key), key.value, earlier.start_mark.line + 1)
            yield from _duplicates(path, value, seen)


def _group_faults(path: Path, root: yaml.Node | None) -> Iterator[str]:
    """Yield a message for each group key that Ansible ignores, and for lists instead of mappings."""
    if not isinstance(root, yaml.MappingNode) or _VARIABLE_FOLDERS & set(path.parts):
        return
    if any(key.value == "plugin" for key, _ in root.value):
        return
    for name, group in _groups(root):
        if not _is_mapping(group):
            remedy = f"write {', '.join(_GROUP_KEYS)} below it, each with a colon"
            yield f"{_where(path, name)}: the group {name.value} is not a mapping: {remedy}"
        for key, value in _items(group):
            if key.value not in _GROUP_KEYS:
                near = near_name(str(key.value), _GROUP_KEYS)
                meant = f": did you mean {near}?" if near else ": list hosts under hosts, and groups under children"
                yield f"{_where(path, key)}: {key.value} has no effect in the group {name.value}{meant}"
            elif isinstance(value, yaml.SequenceNode):
                remedy = "write each name on its own line, with a colon and without a dash"
                yield f"{_where(path, key)}: {key.value} of the group {name.value} is a list: {remedy}"
            for host, variables in _items(value) if key.value == "hosts" else ():
                if not _is_mapping(variables):
                    remedy = "write its variables as 'name: value' below it"
                    yield f"{_where(path, host)}: the host {host.value} is not a mapping: {remedy}"


def _groups(root: yaml.Node) -> Iterator[tuple[yaml.Node, yaml.Node]]:
    """Yield names and contents of all groups of an inventory, each alias once."""
    groups, seen = [*_items(root)], set[int]()
    while groups:
        name, group = groups.pop(0)
        if id(group) not in seen:
            seen.add(id(group))
            yield name, group
            groups += [child for key, value in _items(group) if key.value == "children" for child in _items(value)]


def _is_mapping(node: yaml.Node) -> bool:
    """Return whether a node is a mapping, which may be empty or null."""
    return isinstance(node, yaml.MappingNode) or _is_nothing(node)


def _where(path: Path, node: yaml.Node) -> str:
    return f"{path}:{node.start_mark.line + 1}:{node.start_mark.column + 1}"


def _duplicate_message(where: str, name: str, line: int) -> str:
    return f"{where}: {name} duplicates line {line}, and only the last one is used: rename or delete one"


def _ini_files(source: Path) -> list[Path]:
    """Return the files of an inventory in Ansible's INI format, without executable ones."""
    files = [path for path in source.iterdir() if path.suffix in _INI] if source.is_dir() else [source]
    return sorted(
        path
        for path in files
        if path.suffix not in {*_YAML, ".json", ".toml"}
        and not path.name.startswith(".")
        and path.is_file()
        and not os.access(path, os.X_OK)
        and not _is_yaml(path)
    )


def _ini_duplicates(path: Path) -> Iterator[str]:
    """Yield a message for each host that an INI group lists twice, and each variable that it sets twice."""
    section, first = "", dict[tuple[str, str], int]()
    for number, line in enumerate(path.read_text(encoding="utf-8-sig", errors="replace").splitlines(), 1):
        words = line.split("#", 1)[0].split(";", 1)[0].split()
        if not words:
            continue
        if line.lstrip().startswith("["):
            section = line.strip()
            continue
        name = line.split("=", 1)[0].strip() if ":vars]" in section else words[0]
        earlier = first.setdefault((section, name), number)
        if earlier != number:
            yield _duplicate_message(f"{path}:{number}", name, earlier)


def _is_nothing(root: yaml.Node) -> bool:
    """Return whether a file is null, such as one that contains only `---`."""
    return isinstance(root, yaml.ScalarNode) and root.value in {"", "~", "null"}
