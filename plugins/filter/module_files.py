"""Filter that generates Lmod module files."""

from __future__ import annotations

DOCUMENTATION = r"""
name: module_files
author: busbar contributors (!UNKNOWN)
short_description: Generate Lmod module files
description:
  - Generates a Lua file for each declared module, for M(busbar.cluster.templates).
options:
  _input:
    description: Items of C(lmod_modules).
    type: list
    elements: dict
    required: true
  path:
    description: Root directory of the module files.
    type: str
    required: true
  header:
    description: First line of each file, without a comment sign.
    type: str
    default: ""
"""

EXAMPLES = r"""
files: "{{ lmod_modules | busbar.cluster.module_files('/shared/modules', 'Ansible managed') }}"
"""

RETURN = r"""
_value:
  description: C(path), C(content) and C(state) of each file.
  type: list
  elements: dict
"""

from typing import TYPE_CHECKING, Any

from ..plugin_utils.ansible_errors import filter_module

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_PATH_KEYS = ("prepend_path", "append_path")


def module_files(modules: Iterable[Mapping[str, Any]], path: str, header: str = "") -> list[dict[str, str]]:
    """Return the files of a modules tree, each with `path`, `content` and `state` (present or absent).

    `.version` in the folder of a module names its default version. Without a default, the file is removed and Lmod
    loads the highest version.

    Args:
        modules: items of `lmod_modules`.
        path: root directory of the tree.
        header: first line of each file, without a comment sign.
    """
    files = []
    defaults: dict[str, str | None] = {}
    for module in modules:
        name, version = str(module["name"]), str(module["version"])
        absent = module.get("state", "present") == "absent"
        content = "" if absent else module_file(module, header)
        state = "absent" if absent else "present"
        files.append({"path": f"{path}/{name}/{version}.lua", "content": content, "state": state})
        defaults.setdefault(name, None)
        if module.get("default") and not absent:
            defaults[name] = version
    for name, default in defaults.items():
        lines = ["#%Module1.0", *([f"# {header}"] if header else []), f'set ModulesVersion "{default}"', ""]
        marker = f"{path}/{name}/.version"
        files.append({"path": marker, "content": "\n".join(lines), "state": "present" if default else "absent"})
    return files


def module_file(module: Mapping[str, Any], header: str = "") -> str:
    """Return the content of a module file in Lua, for Lmod 6 and later."""
    title = module.get("description") or f"{module['name']} {module['version']}"
    lines = [f"-- {header}"] if header else []
    lines += [f"help({_long(str(module.get('help') or title))})"]
    lines += [f"whatis({_text(text)})" for text in _about(module, str(title))]
    lines += [_required(str(path), module) for path in module.get("requires_path") or []]
    lines += [f"family({_text(module['family'])})"] if module.get("family") else []
    lines += [f"conflict({_text(other)})" for other in module.get("conflict") or []]
    lines += [_dependency(str(other)) for other in module.get("depends_on") or []]
    lines += [f"setenv({_text(name)}, {_text(value)})" for name, value in (module.get("setenv") or {}).items()]
    lines += [
        f"{option}({_text(variable)}, {_text(place)})"
        for option in _PATH_KEYS
        for variable, places in (module.get(option) or {}).items()
        for place in _ordered(option, places)
    ]
    lines += [str(module["lua"]).rstrip()] if module.get("lua") else []
    return "\n".join([*lines, ""])


def _about(module: Mapping[str, Any], title: str) -> list[str]:
    """Return the lines of `module whatis`, which `module keyword` and `module spider` search."""
    name = str(module["name"]).rpartition("/")[2]
    return [f"Name: {name}", f"Version: {module['version']}", f"Description: {title}"]


def _ordered(option: str, places: str | Sequence[str]) -> list[str]:
    """Return the directories in the order in which the module must prepend them to get the declared order."""
    found = [places] if isinstance(places, str) else list(places)
    return found[::-1] if option == "prepend_path" else found


def _dependency(other: str) -> str:
    """Return the line that loads a dependency, also in Lmod before 7.6, which lacks depends_on."""
    quoted = _text(other)
    return f"if depends_on then depends_on({quoted}) elseif not isloaded({quoted}) then load({quoted}) end"


def _required(path: str, module: Mapping[str, Any]) -> str:
    """Return the lines that prevent the module from loading on a host without the software."""
    words = f"{module['name']}/{module['version']}: {path} is not on "
    return "\n".join(
        [
            f'if mode() == "load" and not (isFile({_text(path)}) or isDir({_text(path)})) then',
            '   local host = (subprocess or capture)("hostname"):gsub("%s", "")',
            f'   LmodError({_text(words)} .. host .. ": request a node that has it, or contact the administrator")',
            "end",
        ]
    )


def _text(value: object) -> str:
    """Return a value as a Lua string literal."""
    text = str(value).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{text}"'


def _long(text: str) -> str:
    """Return a multi-line text as a Lua long string, with a bracket level that the text does not contain."""
    level = "="
    while f"]{level}]" in text:
        level += "="
    return f"[{level}[\n{text.rstrip()}\n]{level}]"


FilterModule = filter_module("module_files", module_files)
