"""Reads the inventory of another toolkit: hosts, groups, and the values that Ansible would use on each host."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from ansible_collections.busbar.cluster.plugins.plugin_utils.inventory_yaml import variable_files, variable_places

from busbar.adopt.draft import Vaulted
from busbar.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

_NAMES = (
    "inventory",
    "inventory.yml",
    "inventory.yaml",
    "inventory.ini",
    "hosts",
    "hosts.yml",
    "hosts.yaml",
    "hosts.ini",
)
_VAULT = "$ANSIBLE_VAULT"
_ONE_EXPRESSION = re.compile(r"\s*\{\{((?:(?!\}\}|\{\{).)*)\}\}\s*", re.DOTALL)
_INI_VARIABLE = re.compile(r"(?:^|\s)([A-Za-z_]\w*)\s*=")
_PATTERN_PART = re.compile(r"(?P<name>[^\[\]]+)(?:\[(?P<first>-?\d*)(?P<range>:)?(?P<last>-?\d*)\])?")
_MOST_PLACES = 3
# Facts of hosts, also with a default for their absence; connection variables are not facts.
_FACT = re.compile(
    r"\bansible_(?!(host|port|user|connection|python_interpreter|check_mode|version|config_file|run_tags)\b|ssh_|become)\w+"
)


class Unresolved(str):
    """A template that cannot be evaluated here, for example because it needs facts of the host."""

    __slots__ = ()


def is_on(value: object) -> bool:
    """Return the truth value of a variable as Ansible's filter `bool` does."""
    return value is True or str(value).lower() in {"yes", "true", "on", "1", "y", "t"}


def unresolved(value: object) -> list[str]:
    """Return the templates in a value that could not be evaluated."""
    if isinstance(value, Unresolved):
        return [str(value)]
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for part in parts for text in unresolved(part)]


def resolved(value: Any) -> Any:  # noqa: ANN401 - a value of YAML
    """Return a value without the parts that could not be evaluated; None if nothing is left."""
    if isinstance(value, list):
        return [part for each in value if (part := resolved(each)) is not None]
    if isinstance(value, dict):
        return {key: part for key, each in value.items() if (part := resolved(each)) is not None}
    return None if isinstance(value, Unresolved) else value


class Source:
    """An inventory with the variables of each host.

    Attributes:
        folder: the directory that contains it.
        hosts: unevaluated variables of each host.
        groups: hosts of each group.
        short: short name of each host by its name in the inventory.
        vaulted: files that are encrypted as a whole, so that their variables are unknown.
    """

    def __init__(self, folder: Path, inventories: Sequence[str] = ()) -> None:
        """Read the inventory through `ansible-inventory`.

        Args:
            folder: directory with the inventory.
            inventories: its sources; by default the file or directory `inventory` or `hosts` of the folder.

        Raises:
            UsageError: the inventory does not exist or cannot be read.
        """
        self.folder = folder
        self._sources = [str(Path(each).absolute()) for each in inventories] or [_default_inventory(folder)]
        _refuse_invalid(self._sources)
        files = variable_files(self._sources, None)
        self.vaulted = [path for path in files if path.read_text("utf-8", "replace").startswith(_VAULT)]
        found = _ask_ansible(self._sources, self.vaulted)
        hostvars = (found.pop("_meta", None) or {}).get("hostvars") or {}
        groups = {name: list(dict.fromkeys(_members(found, name, []))) for name in found}
        names = dict.fromkeys([*groups.get("all", []), *hostvars])
        # Slurm and busbar name hosts by their short names.
        self.short = _short_names(names)
        self.groups = {group: [self.short[name] for name in hosts] for group, hosts in groups.items()}
        self.hosts: dict[str, dict[str, Any]] = {
            self.short[name]: ({"ansible_host": name} if self.short[name] != name else {})
            | _decoded(hostvars.get(name) or {})
            for name in names
        }
        self._places = self._all_places()
        self._environment = _jinja()

    def names(self) -> list[str]:
        """Return the names of all variables of hosts, sorted."""
        return sorted({name for variables in self.hosts.values() for name in variables})

    def group(self, name: str) -> list[str]:
        """Return the hosts of a group; hyphens and underscores are equal."""
        plain = name.replace("-", "_")
        return next((hosts for group, hosts in self.groups.items() if group.replace("-", "_") == plain), [])

    def select(self, pattern: str) -> list[str]:
        """Return the hosts of a pattern of Ansible, such as `slurm-master[1:],slurm-node`."""
        chosen: list[str] = []
        for part in re.split(r"[,:](?![^\[]*\])", pattern):
            sign, match = part.strip()[:1], _PATTERN_PART.fullmatch(part.strip().lstrip("!&"))
            if match is None:
                continue
            name = match["name"]
            hosts = list(self.hosts) if name == "all" else [name] if name in self.hosts else self.group(name)
            if match["range"]:
                last = int(match["last"]) + 1 if match["last"] else None
                hosts = hosts[int(match["first"] or 0) : last or None]
            elif match["first"]:
                at = int(match["first"])
                hosts = hosts[at : at + 1 or None]
            if sign == "!":
                chosen = [host for host in chosen if host not in hosts]
            elif sign == "&":
                chosen = [host for host in chosen if host in hosts]
            else:
                chosen += hosts
        return list(dict.fromkeys(chosen))

    def value(self, host: str, name: str, default: object = None) -> Any:  # noqa: ANN401 - a value of YAML
        """Return the evaluated value of a variable on a host; parts may be Unresolved."""
        variables = self.hosts[host]
        return self._evaluated(host, variables[name], (name,)) if name in variables else default

    def values(self, name: str) -> dict[str, Any]:
        """Return the evaluated values of a variable by host."""
        return {host: self.value(host, name) for host, variables in self.hosts.items() if name in variables}

    def render(self, host: str, text: str, defaults: Mapping[str, Any] | None = None) -> str | None:
        """Return a template evaluated with the variables of a host, or None if it needs more than these.

        Args:
            host: the host.
            text: the template.
            defaults: values of variables that the host does not have.
        """
        found = self._rendered(host, text, (), exact=False, defaults=defaults or {})
        return None if isinstance(found, Unresolved) else str(found)

    def where(self, name: str) -> str:
        """Return the files and lines that set a variable, relative to the folder."""
        found = self._places.get(name, [])
        return ", ".join(found[:_MOST_PLACES]) + (", …" if len(found) > _MOST_PLACES else "")

    def shown(self, path: Path | str) -> str:
        """Return a path relative to the folder."""
        return os.path.relpath(path, self.folder)

    def _all_places(self) -> dict[str, list[str]]:
        places: dict[str, list[str]] = {}
        for (_scope, name), place in variable_places(self._sources).items():
            file, _, at = place.rpartition(":")
            places.setdefault(name, []).append(f"{self.shown(file)}:{at}")
        for source in map(Path, self._sources):
            for path in sorted(source.iterdir()) if source.is_dir() else [source]:
                if path.is_file() and path.suffix in {"", ".ini"}:
                    for number, line in enumerate(path.read_text("utf-8", "replace").splitlines(), 1):
                        for name in _INI_VARIABLE.findall(line.split("#")[0]):
                            places.setdefault(name, []).append(f"{self.shown(path)}:{number}")
        return {name: list(dict.fromkeys(found)) for name, found in places.items()}

    def _evaluated(self, host: str, value: Any, seen: tuple[str, ...]) -> Any:  # noqa: ANN401 - a value of YAML
        if isinstance(value, list):
            return [self._evaluated(host, each, seen) for each in value]
        if isinstance(value, dict):
            return {key: self._evaluated(host, each, seen) for key, each in value.items()}
        if isinstance(value, str) and not isinstance(value, (Unresolved, Vaulted)) and ("{{" in value or "{%" in value):
            return self._rendered(host, value, seen, exact=True)
        return value

    def _rendered(
        self, host: str, text: str, seen: tuple[str, ...], *, exact: bool, defaults: Mapping[str, Any] | None = None
    ) -> Any:  # noqa: ANN401 - a value of YAML
        """Return an evaluated template.

        Args:
            host: the host.
            text: the template.
            seen: names of the variables that are being evaluated.
            exact: whether a single expression may evaluate to a type other than text.
            defaults: values of variables that the host does not have.
        """
        from jinja2 import TemplateError, Undefined, meta  # noqa: PLC0415 - comes with Ansible

        # Ansible does not let Jinja interpret backslashes.
        text = re.sub(r"\{[{%].*?[}%]\}", lambda found: found[0].replace("\\", r"\\"), text, flags=re.DOTALL)
        code = " ".join(found[0] for found in re.finditer(r"\{[{%].*?[}%]\}", text, flags=re.DOTALL))
        if any(found[0] not in self.hosts[host] for found in _FACT.finditer(code)):
            return Unresolved(text)
        try:
            needed = meta.find_undeclared_variables(self._environment.parse(text))
            known = (
                self._magic(host)
                | dict(defaults or {})
                | {
                    name: self._evaluated(host, self.hosts[host][name], (*seen, name))
                    for name in needed
                    if name in self.hosts[host] and name not in seen
                }
            )
            known = {name: value for name, value in known.items() if name in needed and not unresolved(value)}
            one = _ONE_EXPRESSION.fullmatch(text)
            if any(_has_vaulted(known[name]) for name in known if name not in {"hostvars", "groups"}):
                return known.get(one[1].strip(), Unresolved(text)) if one and exact else Unresolved(text)
            if one and exact:
                found = self._environment.compile_expression(one[1], undefined_to_none=False)(**known)
                return Unresolved(text) if isinstance(found, Undefined) or found is None else _plain(found)
            return self._environment.from_string(text).render(known)
        except (TemplateError, TypeError, ValueError, KeyError, IndexError, AttributeError):
            return Unresolved(text)
        except Exception as exc:
            # Filters of Ansible raise errors of Ansible, which is not imported before it is needed.
            if type(exc).__module__.startswith("ansible."):
                return Unresolved(text)
            raise

    def _magic(self, host: str) -> dict[str, Any]:
        return {
            "inventory_hostname": host,
            "inventory_hostname_short": host.split(".", maxsplit=1)[0],
            "inventory_dir": str(self.folder.absolute()),
            "groups": {**self.groups, "all": list(self.hosts)},
            "group_names": sorted(name for name, hosts in self.groups.items() if host in hosts and name != "all"),
            "hostvars": {name: {**variables, "inventory_hostname": name} for name, variables in self.hosts.items()},
        }


def _default_inventory(folder: Path) -> str:
    """Return the inventory of a folder.

    Raises:
        UsageError: the folder has no inventory, or more than one.
    """
    if not folder.is_dir():
        message = f"{folder} is not a directory"
        raise UsageError(message)
    found = [folder / name for name in _NAMES if (folder / name).exists()]
    if not found:
        deeper = folder / "config"
        hint = f"; did you mean {deeper}?" if any((deeper / name).exists() for name in _NAMES) else ""
        message = f"{folder} has no inventory ({', '.join(_NAMES[:4])} or hosts){hint}; name it with --inventory FILE"
        raise UsageError(message)
    if len(found) > 1:
        names = ", ".join(path.name for path in found)
        message = f"{folder} has several inventories ({names}): choose with --inventory FILE; repeat it for several"
        raise UsageError(message)
    return str(found[0].absolute())


def _refuse_invalid(sources: Sequence[str]) -> None:
    """Check the syntax of all YAML files.

    Raises:
        UsageError: names each file with line and column.
    """
    problems = [f"{source}: does not exist" for source in sources if not Path(source).exists()]
    for path in variable_files([source for source in sources if Path(source).exists()], None):
        try:
            text = path.read_text(encoding="utf-8-sig")
            root = None if text.startswith(_VAULT) else yaml.compose(text, Loader=yaml.SafeLoader)
            if isinstance(root, yaml.SequenceNode) or (
                isinstance(root, yaml.ScalarNode) and root.value not in {"", "~"}
            ):
                problems.append(f"{path}:{root.start_mark.line + 1}: write variables as 'name: value'")
        except yaml.MarkedYAMLError as exc:
            mark = exc.problem_mark or exc.context_mark
            where = f"{path}:{mark.line + 1}:{mark.column + 1}" if mark else str(path)
            problems.append(f"{where}: {exc.problem}")
        except (OSError, ValueError) as exc:
            problems.append(f"{path}: cannot be read: {exc}")
    if problems:
        message = "\n".join(["the inventory cannot be read:", *(f"  {problem}" for problem in problems)])
        raise UsageError(message)


def _ask_ansible(sources: Sequence[str], hidden: Sequence[Path]) -> dict[str, Any]:
    """Return the answer of `ansible-inventory --list`.

    Vault passwords are withheld, so that encrypted values stay encrypted. The program would abort on files that are
    encrypted as a whole, so it reads a copy without them.

    Raises:
        UsageError: the program failed.
    """
    with tempfile.TemporaryDirectory(prefix="busbar-adopt-") as work:
        read = (
            [_copied(Path(source), Path(work) / str(number), hidden) for number, source in enumerate(sources)]
            if hidden
            else sources
        )
        config = Path(work) / "ansible.cfg"
        config.touch()
        environment = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")} | {
            "ANSIBLE_CONFIG": str(config),
            "ANSIBLE_INVENTORY_ENABLED": "yaml,ini",
            "ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED": "True",
            "ANSIBLE_TRANSFORM_INVALID_GROUP_CHARS": "ignore",
            "ANSIBLE_NOCOLOR": "1",
        }
        command = [sys.executable, "-m", "ansible", "inventory", *(f"-i{source}" for source in read), "--list"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=work)
        if done.returncode:
            said = done.stderr
            for copy, source in zip(read, sources):
                said = said.replace(str(Path(copy).parent), str(Path(source).parent))
            lines = [line for line in said.splitlines() if line.strip()]
            message = f"ansible-inventory cannot read {', '.join(sources)}: {' '.join(lines[-6:])}"
            raise UsageError(message)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _copied(source: Path, place: Path, hidden: Sequence[Path]) -> str:
    """Copy an inventory with its variables, without the hidden files, and return the path of the copy."""
    names = {str(path) for path in hidden}

    def left_out(folder: str, entries: list[str]) -> set[str]:
        return {name for name in entries if str(Path(folder) / name) in names}

    folder = source if source.is_dir() else source.parent
    place.mkdir(parents=True)
    for kind in ("group_vars", "host_vars"):
        if (folder / kind).is_dir():
            shutil.copytree(folder / kind, place / kind, ignore=left_out)
    for path in folder.iterdir() if source.is_dir() else [source]:
        if path.is_file():
            shutil.copy(path, place)
    return str(place if source.is_dir() else place / source.name)


def _short_names(names: Iterable[str]) -> dict[str, str]:
    """Return the part of each name before the first dot; addresses and names that would be equal stay."""
    short = {name: name if re.fullmatch(r"[\d.]+", name) else name.partition(".")[0] for name in names}
    taken = Counter(short.values())
    return {name: each if taken[each] == 1 else name for name, each in short.items()}


def _members(groups: dict[str, Any], name: str, above: list[str]) -> Iterator[str]:
    group = groups.get(name) or {}
    yield from group.get("hosts") or []
    for child in group.get("children") or []:
        if child not in above:
            yield from _members(groups, child, [*above, name])


def _decoded(value: Any) -> Any:  # noqa: ANN401 - a value of JSON
    """Return a value in which each encrypted string is a Vaulted object."""
    if isinstance(value, dict):
        if value.keys() == {"__ansible_vault"}:
            return Vaulted(value["__ansible_vault"])
        if value.keys() == {"__ansible_unsafe"}:
            text = value["__ansible_unsafe"]
            # An option with this text would be a template.
            return Unresolved(text) if re.search(r"\{[{%]", text) else text
        return {key: _decoded(each) for key, each in value.items()}
    return [_decoded(each) for each in value] if isinstance(value, list) else value


def _has_vaulted(value: object) -> bool:
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return isinstance(value, Vaulted) or any(map(_has_vaulted, parts))


def _plain(value: Any) -> Any:  # noqa: ANN401 - a value of a template
    """Return a result of Jinja as plain YAML data; generators become lists."""
    if isinstance(value, (str, int, float, bool)):
        return value
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    return [_plain(each) for each in value]


def _jinja() -> Any:  # noqa: ANN401 - jinja2 comes with Ansible and is imported late
    """Return an environment with Ansible's filters and no lookups, so that no template runs a program."""
    from ansible.plugins.filter.core import FilterModule  # noqa: PLC0415 - slow
    from jinja2 import StrictUndefined  # noqa: PLC0415
    from jinja2.sandbox import ImmutableSandboxedEnvironment  # noqa: PLC0415

    environment = ImmutableSandboxedEnvironment(undefined=StrictUndefined, trim_blocks=True, keep_trailing_newline=True)
    unsafe = {"fileglob", "default", "d", "map", "select", "reject", "selectattr", "rejectattr", "groupby"}
    environment.filters.update({name: each for name, each in FilterModule().filters().items() if name not in unsafe})
    return environment
