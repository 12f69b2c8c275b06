"""What a role installs and writes, as its README shows it: read from its tasks, handlers, vars and defaults."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Role", "module_of", "role_contents", "write_readme"]

BEGIN = (
    "<!-- BEGIN_CONTENTS -->\n<!-- Written by scripts/role_readmes from tasks, handlers and vars: change it there. -->"
)
END = "<!-- END_CONTENTS -->"
# The files in vars/ of each distribution; the first that a role has counts.
FAMILIES = {"Debian": ["Debian"], "Ubuntu": ["Ubuntu", "Debian"], "EL": ["RedHat"]}
OWN = "busbar.cluster."
MODULES = Path(__file__).resolve().parents[2] / "plugins/modules"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PLACE = re.compile(r"\{\{ *([A-Za-z_][A-Za-z0-9_]*) *\}\}")
# A list of texts in an expression, and no index such as x['a'].
_LISTED = re.compile(r"(?<!in )(?<![\w\])}])\[((?:'[^']+'(?:, *)?)+)\]")
# Variables that hold packages, those that hold what must go or stay, and those from which a module or filter chooses.
_OF_PACKAGES = re.compile("package|librar|compiler|headers")
_NOT_INSTALLED = re.compile("old_|driver_packages|package_version|version")
_DECIDED = re.compile("plan$|settings$|declared$|wanted|names$|needed$")
_WRITES = re.compile(r"C\((/[^)]+)\)")
_DEEPEST = 6


class Role:
    """The files of a role that say what it does."""

    def __init__(self, folder: Path) -> None:
        """Read them."""
        self.folder = folder
        self.options = _load(folder / "defaults/main.yml")
        self.common = {**self.options, **_load(folder / "vars/main.yml")}
        self.families = {
            family: {**self.common, **next(filter(None, (_load(folder / f"vars/{name}.yml") for name in names)), {})}
            for family, names in FAMILIES.items()
        }
        paths = sorted({*(folder / "tasks").glob("*.yml")} - {folder / "tasks/remove.yml"})
        self.tasks = [(path, task) for path in paths for task in _tasks(_load(path))]
        self.declared = _load(folder / "meta/ports.yml") or []
        self.handlers = [task for path in sorted(folder.glob("handlers/*.yml")) for task in _tasks(_load(path))]
        self.chooser = {task["register"]: module_of(task)[0] for _, task in self.tasks if "register" in task}
        # What a task has found or decided follows from what it was given.
        given = {task["register"]: module_of(task)[1] for _, task in self.tasks if "register" in task}
        for values in self.families.values():
            values.update({name: value for name, value in given.items() if name not in values})

    def text(self, value: object) -> dict[str, str]:
        """Return a value by family, with the variables in it resolved as far as they are plain."""
        return {family: _resolved(str(value), values) for family, values in self.families.items()}

    def packages(self, value: object) -> dict[str, list[str]]:
        """Return the packages that a value names, by family."""
        return {family: sorted(_packages(value, values, set())) for family, values in self.families.items()}


def _load(path: Path) -> Any:  # noqa: ANN401 - YAML is what it is
    if not path.exists():
        return {}
    return yaml.load(path.read_text(encoding="utf-8"), yaml.CSafeLoader) or {}


def _tasks(listed: object) -> Iterator[dict[str, Any]]:
    """Yield all tasks of a file, those in blocks too; what a rescue puts back is no news."""
    for task in listed if isinstance(listed, list) else []:
        yield task
        for part in ("block", "always"):
            yield from _tasks(task.get(part))


def module_of(task: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the module of a task and its arguments; its own vars and its loop count as arguments."""
    name = next((key for key in task if "." in key), "")
    arguments = task.get(name)
    extra = {key: task[key] for key in ("vars", "loop") if key in task}
    return name, {**(arguments if isinstance(arguments, dict) else {"text": arguments}), **extra}


def _resolved(text: str, values: dict[str, Any]) -> str:
    """Return a text with its plain variables resolved; one whose value is an expression, or empty, keeps its name."""

    def value(match: re.Match[str], depth: int) -> str:
        found = values.get(match[1], "")
        if isinstance(found, bool) or not isinstance(found, (str, int)) or depth == _DEEPEST:
            return match[0]
        whole = _PLACE.sub(lambda inner: value(inner, depth + 1), str(found))
        if match[1].startswith("__") and match[1] in values and not whole:
            return ""
        return match[0] if not whole or "{{" in _PLACE.sub("", whole) else whole

    resolved = _PLACE.sub(lambda match: value(match, 0), text)
    # What differs from turn to turn of a loop.
    return re.sub(r"\{\{ *item\b[^}]*\}\}", "*", resolved)


def _packages(value: object, values: dict[str, Any], seen: set[str]) -> set[str]:
    """Return the names of packages that a value holds, or that variables hold which it names."""
    if isinstance(value, dict):
        named = [value["name"]] if isinstance(value.get("name"), str) else value.values()
        return {one for item in named for one in _packages(item, values, seen)}
    if isinstance(value, list):
        return {one for item in value for one in _packages(item, values, seen)}
    if not isinstance(value, str):
        return set()
    if "{{" not in value:
        return {value} if re.fullmatch(r"[a-z0-9][a-zA-Z0-9.+_-]+", value) else set()
    found = {name for part in _LISTED.findall(value) for name in re.findall(r"'([^']+)'", part)}
    for name in {*_NAME.findall(value)} & {*values} - seen:
        seen.add(name)
        installed = _OF_PACKAGES.search(name) and not _NOT_INSTALLED.search(name)
        if installed or (isinstance(values[name], str) and _DECIDED.search(name)):
            found |= _packages(values[name], values, seen)
        elif isinstance(values[name], dict):
            keys = [key for key in values[name] if _OF_PACKAGES.search(key) or _DECIDED.search(key)]
            kept = [values[name][key] for key in keys if not _NOT_INSTALLED.search(key)]
            found |= _packages([item for item in kept if isinstance(item, (str, list))], values, seen)
    return found


def _by_family(found: dict[str, str] | dict[str, list[str]]) -> str:
    """Return values as text, by distribution where these differ."""
    shown: dict[str, list[str]] = {}
    for family, value in found.items():
        items = value if isinstance(value, list) else [value]
        shown.setdefault(", ".join(f"`{item}`" for item in items if item), []).append(family)
    if len(shown) == 1:
        return next(iter(shown))
    return "; ".join(f"{', '.join(families)}: {text}" for text, families in shown.items() if text)


def _rows(role: Role) -> Iterator[tuple[str, str, str, str]]:
    """Yield kind, name, owner with mode, and file of each thing."""
    for path, task in role.tasks:
        module, given = module_of(task)
        origin = f"`tasks/{path.name}`"
        if module in {f"{OWN}packages", f"{OWN}package_files", "ansible.builtin.package"}:
            yield "packages", _chosen(role, [given[key] for key in ("name", "packages") if key in given]), "", origin
        if module == f"{OWN}upstream_program":
            yield "program", _by_family(role.text(given["dest"])), _kept(role, given, "0755"), origin
        if module in {"ansible.builtin.include_role", "ansible.builtin.import_role"} and "{{" not in given["name"]:
            yield "role", f"`{given['name']}`", "", origin
        if module in {"ansible.builtin.user", "ansible.builtin.group"}:
            yield module.rpartition(".")[2], _by_family(role.text(given["name"])), "", origin
        for what, name, kept in _paths(role, module, given):
            yield what, name, kept, origin
        if module in {"ansible.builtin.systemd_service", f"{OWN}daemon_reload"}:
            for name in _units(role, given):
                yield "service", name, "", origin


def _chosen(role: Role, values: list[Any]) -> str:
    """Return the packages of a task by name, or which module chooses them."""
    names = _by_family(role.packages(values))
    chooser = next((role.chooser[name] for name in _NAME.findall(str(values)) if name in role.chooser), "")
    return names or (f"as `{chooser}` chooses" if chooser else "")


def _units(role: Role, given: dict[str, Any]) -> list[str]:
    """Return the units of a task, those of a loop one by one."""
    name = str(given.get("name") or given.get("unit") or "")
    if not name:
        return []
    if "item" not in name:
        return [_by_family(role.text(name))]
    found = _looped(given.get("loop"), role.common, name.partition("item")[2].strip(" .}"), 0)
    return [f"`{unit}`" for unit in sorted(found)]


def _looped(listed: object, values: dict[str, Any], key: str, depth: int) -> set[str]:
    """Return what a loop goes over, or the values of a key of it, as far as variables say that plainly."""
    if isinstance(listed, str) and "{{" in listed and depth < _DEEPEST:
        names = [name for name in _NAME.findall(listed) if name in values]
        return {one for name in names for one in _looped(values[name], values, key, depth + 1)}
    if isinstance(listed, dict):
        return {str(listed[key])} if key in listed else _looped([*listed.values()], values, key, depth)
    if isinstance(listed, list):
        texts: set[str] = set() if key else {item for item in listed if isinstance(item, str)}
        return texts | {one for item in listed if isinstance(item, dict) for one in _looped(item, values, key, depth)}
    return set()


# Of the modules that write: what, and which option says where; those that take a list have its option first.
LISTED = {
    f"{OWN}templates": ("file", "files", "dest"),
    f"{OWN}files": ("file", "files", "path"),
    f"{OWN}directories": ("directory", "directories", "path"),
}
SINGLE = {
    "ansible.builtin.copy": ("file", "dest"),
    "ansible.builtin.blockinfile": ("lines in", "path"),
    "ansible.builtin.lineinfile": ("lines in", "path"),
    "ansible.builtin.get_url": ("file", "dest"),
    "ansible.posix.mount": ("mount", "path"),
}


def _kept(role: Role, entry: dict[str, Any], mode: str = "0644") -> str:
    """Return owner, group and mode of a file as the task wants it; an option that is empty says "as it is"."""
    if "remote_src" in entry or entry.get("state") == "link":
        return ""
    told = [
        ", ".join(dict.fromkeys(role.text(entry.get(key, default)).values()))
        for key, default in (("owner", "root"), ("group", "root"), ("mode", mode))
    ]
    told = [text if text.strip() else "as it is" for text in told]
    plain = "{" not in "".join(told)
    return f"`{told[0]}:{told[1]} {told[2]}`" if plain else "as the task says"


def _paths(role: Role, module: str, given: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield what a task writes, directory or file, where, and whose it is."""
    if module in LISTED:
        what, key, path = LISTED[module]
        entries = given[key] if isinstance(given[key], list) else []
        default = "0755" if what == "directory" else "0644"
        for entry in entries:
            if entry.get("state") != "absent":
                new = what == "directory" and not entry.keys() & {"owner", "group", "mode"}
                kept = f"{_kept(role, entry, default)}{' when it is made' if new else ''}"
                yield what, _by_family(role.text(entry[path])), kept
        made = [given.get("more"), given[key] if isinstance(given[key], str) else ""]
        text = _spelt_out(made, role.common)
        folders = {_resolved(folder, role.common) for folder in re.findall(r"directory='(/[^']+)'", text)}
        yield from (("programs in", f"`{folder}`", "") for folder in sorted(folders))
        own = {name: value for name, value in role.common.items() if name.startswith("__")} | _registered(role)
        text = _spelt_out(made, own, _DEEPEST - 2)
        listing = {*re.findall(r"\bbusbar\.cluster\.(\w+)", text)} - {"program_files"}
        for name in sorted(listing):
            places = _written_by(name, returned=True) or [f"those that `{OWN}{name}` lists"]
            yield from (("file", f"`{place}`" if place.startswith("/") else place, "") for place in places)
    elif module in SINGLE:
        what, path = SINGLE[module]
        yield what, _by_family(role.text(given[path])), _kept(role, given) if what == "file" else ""
    elif module == "ansible.builtin.file" and given.get("state") in {"directory", "link"}:
        kept = _kept(role, given, "0755")
        yield str(given["state"]), _by_family(role.text(given.get("path") or given["dest"])), kept
    elif module.startswith(OWN):
        named = [str(value) for key, value in given.items() if key.endswith("_file") and str(value).startswith("/")]
        written = [
            _filled_in(place, role, given) for place in _written_by(module.removeprefix(OWN)) if _asked(place, given)
        ]
        yield from (("file", f"`{place}`", "") for place in [*named, *written])


def _asked(place: str, given: dict[str, Any]) -> bool:
    """Whether a task gives all options that stand in a path in capitals: without one the file is not written."""
    return all(option.lower() in given for option in re.findall(r"\b[A-Z]{4,}\b", place))


def _filled_in(place: str, role: Role, given: dict[str, Any]) -> str:
    """Return a path with the options that stand in it in capitals, as a task gives them."""
    for option, value in given.items():
        text = _resolved(str(value), role.common)
        if re.fullmatch(r"[\w.-]+", text):
            place = re.sub(rf"\b{option.upper()}\b", text, place)
    return place


def _registered(role: Role) -> dict[str, str]:
    """Return what busbar's own modules told, by the name that it is kept under: the name of the module."""
    kept = {task["register"]: module_of(task)[0] for _, task in role.tasks if "register" in task}
    return {name: f"{{{{ {module} }}}}" for name, module in kept.items() if module.startswith(OWN)}


def _spelt_out(value: object, values: dict[str, Any], depth: int = 0) -> str:
    """Return the expressions in a value, followed by those of the variables in them."""
    if isinstance(value, list):
        return "".join(_spelt_out(item, values, depth) for item in value)
    if not isinstance(value, str) or "{{" not in value or depth == _DEEPEST:
        return ""
    names = [name for name in _NAME.findall(value) if name in values]
    return value + "".join(_spelt_out(values[name], values, depth + 1) for name in names)


def _written_by(module: str, *, returned: bool = False) -> list[str]:
    """Return the files that the documentation of one of busbar's modules says it writes, or returns for others to."""
    source = MODULES / f"{module}.py"
    text = source.read_text(encoding="utf-8") if source.exists() else ""
    note = re.search(r"^notes:\n  - Writes (.*?)(?=^\w|^  - )", text, re.MULTILINE | re.DOTALL)
    return _WRITES.findall(note[1]) if note and note[1].startswith("nothing") == returned else []


def _ports(role: Role) -> list[tuple[str, str, str, str]]:
    """Return rows with the ports: those that other hosts reach, then those of the options, then fixed ones."""
    rows, told = [], set()
    for entry in role.declared:
        listed = [_port_name(port) for port in entry["ports"]]
        told |= {number for _, number in listed}
        names = ", ".join(name for name, _ in listed)
        protocol = "UDP" if entry.get("protocol") == "udp" else "TCP"
        rows.append(("port", f"{entry['service']}: {names} ({protocol})", "", "`meta/ports.yml`"))
    options = {name: _port(value) for name, value in role.options.items() if name.endswith("_port")}
    waited = {
        _port(given.get("port"))
        for task in [*(task for _, task in role.tasks), *role.handlers]
        for module, given in [module_of(task)]
        if module == "ansible.builtin.wait_for"
    }
    fixed = {port for name, value in role.common.items() if name.startswith("__") for port in _fixed(value)}
    others = [f"`{name}` ({port})" for name, port in options.items() if port and port not in told]
    others += [str(port) for port in sorted((waited | fixed) - {0, *options.values()} - told)]
    return [*rows, *([("port", ", ".join(others), "", "`defaults/`, `vars/`")] if others else [])]


def _port_name(value: object) -> tuple[str, int]:
    """Return a declared port as text, by the option that sets it, and its number; 0 for a range of the site's own."""
    option = re.search(r"([a-z][a-z0-9_]*_port|[A-Z]\w+Port)\b", str(value))
    number = _port(value)
    if not option:
        name = str(value).strip("{} ")
        return (str(number) if number else f"`{name}`", number)
    return f"`{option[1]}` ({number})", number


def _port(value: object) -> int:
    """Return a port, or the default of an expression; 0 for none."""
    default = re.search(r"default\((\d+)\)", str(value))
    return int(default[1]) if default else value if isinstance(value, int) else 0


def _fixed(value: object) -> Iterator[int]:
    """Yield the numbers that a variable of the role calls ports."""
    for key, item in value.items() if isinstance(value, dict) else []:
        if re.search(r"(^|[_-])port$", str(key)):
            yield _port(item)
        yield from _fixed(item)


def role_contents(folder: Path) -> str:
    """Return the section of a role's README, with its markers; empty for a role that installs and writes nothing."""
    role = Role(folder)
    kinds = [
        "role",
        "packages",
        "program",
        "programs in",
        "file",
        "lines in",
        "directory",
        "link",
        "mount",
        "user",
        "group",
        "service",
    ]
    origins: dict[tuple[str, str], dict[str, None]] = {}
    modes: dict[tuple[str, str], dict[str, None]] = {}
    for what, name, kept, origin in _rows(role):
        if name.strip("`*"):
            origins.setdefault((what, name), {})[origin] = None
            modes.setdefault((what, name), {}).update({kept: None} if kept else {})
    rows = [
        (*row, " or ".join(modes[row]), ", ".join(origins[row]))
        for row in sorted(origins, key=lambda row: kinds.index(row[0]))
    ]
    rows += [("handler", str(handler["name"]), "", "`handlers/main.yml`") for handler in role.handlers]
    rows += _ports(role)
    if not rows:
        return ""
    head = "Paths, modes and ports are those of the defaults; the tasks say under which conditions."
    lines = [
        f"| {what} | {name.replace('|', chr(92) + '|')} | {kept} | {origin} |" for what, name, kept, origin in rows
    ]
    table = ["| what | name | owner, mode | from |", "| --- | --- | --- | --- |", *lines]
    return "\n".join([BEGIN, "", "## What it installs and writes", "", head, "", *table, "", END])


def write_readme(folder: Path) -> None:
    """Renew the section in a role's README, before its options."""
    readme = folder / "README.md"
    text = readme.read_text(encoding="utf-8")
    text = re.sub(rf"{re.escape(BEGIN)}.*?{re.escape(END)}\n\n", "", text, flags=re.DOTALL)
    section = role_contents(folder)
    marker = "<!-- BEGIN_ANSIBLE_DOCS -->"
    readme.write_text(text.replace(marker, f"{section}\n\n{marker}" if section else marker, 1), encoding="utf-8")


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        write_readme(Path(argument))
