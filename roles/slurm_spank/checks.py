"""Checks the options of the slurm_spank role."""

from __future__ import annotations

import re

from ...plugins.plugin_utils.role_checks import Known, Problem, make_problem

KEY = "slurm_spank_plugins"
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+~_-]*")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_WORD = re.compile(r"[^\s#]+")
_KNOWN = frozenset(
    {
        *("name", "version", "source", "sha256", "make", "produces", "build_packages"),
        *("library", "packages", "arguments", "required", "provides"),
    }
)


def check(options: Known, _: Known) -> list[Problem]:
    """Return the invalid entries of `slurm_spank_plugins`."""
    problems: list[Problem] = []
    plugins = options["plugins"]
    names = [str(plugin.get("name", "")) for plugin in plugins]
    for number, plugin in enumerate(plugins):
        label = f"{KEY}: {names[number] or f'item {number + 1}'}"
        faults = _faults(plugin, twice=bool(names[number]) and names[number] in names[:number])
        problems += [make_problem([], label, problem, remedy) for problem, remedy in faults]
    return problems


def _faults(plugin: Known, *, twice: bool) -> list[tuple[str, str]]:
    """Return the problems with a plugin, each with its remedy."""
    faults = []
    unknown = sorted(set(plugin) - _KNOWN)
    if unknown:
        faults.append((f"has unknown keys: {', '.join(unknown)}", f"use only: {', '.join(sorted(_KNOWN))}"))
    if not _NAME.fullmatch(str(plugin.get("name", ""))):
        faults.append((f"name {plugin.get('name')!r} is not a valid file name", "use a letter, then a-z, 0-9 and _"))
    if twice:
        faults.append(("is declared twice", "declare each plugin once"))
    if not _VERSION.fullmatch(str(plugin.get("version", ""))):
        faults.append(
            ("has no version, or a version that is not valid in a file name", 'set a string such as "0.24.0"')
        )
    faults += _source_faults(plugin)
    words = [*(plugin.get("arguments") or []), *(plugin.get("provides") or [])]
    bad = [word for word in words if not _WORD.fullmatch(str(word))]
    if bad:
        faults.append(
            (
                f"{bad[0]!r} contains a space or #, which plugstack.conf does not support",
                "write each argument as one item",
            )
        )
    return faults


def _source_faults(plugin: Known) -> list[tuple[str, str]]:
    """Return the problems with a plugin's source."""
    source, library = str(plugin.get("source") or ""), str(plugin.get("library") or "")
    if bool(source) == bool(library):
        return [("needs either source or library", "set the archive to build, or the library of an installed package")]
    if library:
        wrong = not library.startswith("/")
        return [(f"library {library!r} is not an absolute path", "use its installed path")] if wrong else []
    if not source.startswith(("/", "http://", "https://")):
        return [(f"source {source!r} is not a URL or an absolute path", "use https://… or a file on this machine")]
    if not _SHA256.fullmatch(str(plugin.get("sha256") or "")):
        remedy = f"set it to the output of `sha256sum` for {source}, if you trust that file"
        return [(f"sha256 is {plugin.get('sha256') or 'not set'!r}, so the archive cannot be verified", remedy)]
    return []
