"""Which SPANK plugins are to be built, and which file and line each host is to have."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ...module_utils.common.problems import Problem, make_problem
from ...module_utils.slurm.spank_store import build_id, library_path, platform_id, recipe_mark, release_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Plugin = Mapping[str, Any]
    Info = Mapping[str, Any]

__all__ = ["declaration_problems", "plugin_line", "spank_plan"]

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


def declaration_problems(plugins: Sequence[Plugin], hosts: Sequence[str] = ()) -> list[Problem]:
    """Return what is wrong with the declared plugins, before any host is looked at.

    Args:
        plugins: items of `slurm_spank_plugins`.
        hosts: the hosts that declare them; none for the whole site.
    """
    problems = []
    names = [str(plugin.get("name", "")) for plugin in plugins]
    for number, plugin in enumerate(plugins):
        label = f"{KEY}: {names[number] or f'item {number + 1}'}"
        faults = _faults(plugin, twice=bool(names[number]) and names[number] in names[:number])
        problems += [make_problem(hosts, label, problem, remedy) for problem, remedy in faults]
    return problems


def _faults(plugin: Plugin, *, twice: bool) -> list[tuple[str, str]]:
    """Return problem and remedy for each thing that is wrong with one plugin."""
    faults = []
    unknown = sorted(set(plugin) - _KNOWN)
    if unknown:
        faults.append((f"has unknown keys: {', '.join(unknown)}", f"use only: {', '.join(sorted(_KNOWN))}"))
    if not _NAME.fullmatch(str(plugin.get("name", ""))):
        faults.append((f"name {plugin.get('name')!r} cannot name a file", "use a-z, 0-9 and _, a letter first"))
    if twice:
        faults.append(("is declared twice", "declare each plugin once"))
    if not _VERSION.fullmatch(str(plugin.get("version", ""))):
        faults.append(("has no version that can name a file", 'give its version as text, such as "0.24.0"'))
    faults += _source_faults(plugin)
    words = [*(plugin.get("arguments") or []), *(plugin.get("provides") or [])]
    bad = [word for word in words if not _WORD.fullmatch(str(word))]
    if bad:
        faults.append(
            (f"{bad[0]!r} has a space or #, which plugstack.conf cannot hold", "give each argument as one item")
        )
    return faults


def _source_faults(plugin: Plugin) -> list[tuple[str, str]]:
    """Return what is wrong with where a plugin comes from."""
    source, library = str(plugin.get("source") or ""), str(plugin.get("library") or "")
    if bool(source) == bool(library):
        return [("needs one of source and library", "give the archive to build, or the library that a package brings")]
    if library:
        wrong = not library.startswith("/")
        return [(f"library {library!r} is no absolute path", "give it as the package installs it")] if wrong else []
    if not source.startswith(("/", "http://", "https://")):
        return [(f"source {source!r} is no address and no absolute path", "give https://… or a file of this machine")]
    if not _SHA256.fullmatch(str(plugin.get("sha256") or "")):
        remedy = f"set it to the 64 hexadecimal digits that `sha256sum` prints for {source}, once you trust that file"
        return [(f"sha256 is {plugin.get('sha256') or 'not set'!r}, so the archive cannot be verified", remedy)]
    return []


def plugin_line(plugin: Plugin, library: str) -> str:
    """Return the line of plugstack.conf that loads a plugin."""
    word = "required" if plugin.get("required", True) else "optional"
    return " ".join([word, library, *map(str, plugin.get("arguments") or [])])


def spank_plan(
    plugins: Sequence[Plugin], infos: Mapping[str, Info], builders: Mapping[str, Info], directory: str
) -> dict[str, Any]:
    """Return what is to be built and what each host is to have.

    Args:
        plugins: sound items of `slurm_spank_plugins`.
        infos: for each host what `spank_info` found: `slurm` (version or ''), `architecture`, `system`, `installed`
            (name to `sha256`, `slurm`, `line`).
        builders: for each host that builds what was found there; `store` lists the manifests of what is built.
        directory: where hosts keep the libraries.

    Returns:
        `problems`; `build`, for each host that must build something the plugins; `hosts`, for each host the list of
        plugins that it is to have (`name`, `version`, `slurm`, `id`, `library`, `line`, `provides`, `sha256`; the last
        is '' while it is not built); `send`, the ids of the libraries that at least one host lacks; `stores`, for each
        id that is built the host that keeps it.
    """
    kept = {item["id"]: (builder, item) for builder, info in builders.items() for item in info.get("store") or []}
    manifests = {place: item for place, (_, item) in kept.items()}
    by_platform = {platform_id(info): builder for builder, info in reversed(list(builders.items()))}
    problems: list[Problem] = []
    build: dict[str, dict[str, Any]] = {}
    wanted: dict[str, list[dict[str, Any]]] = {}
    send: set[str] = set()
    for host, info in infos.items():
        if plugins and not info["slurm"]:
            remedy = "run playbooks/slurm.yml for it first"
            problems.append(make_problem([host], KEY, "has no Slurm that could load plugins", remedy))
            continue
        wanted[host] = []
        for plugin in plugins:
            item = _wanted(plugin, info, manifests, directory)
            wanted[host].append(item)
            if not item["id"]:
                continue
            if item["sha256"]:
                if not _has(info, item):
                    send.add(item["id"])
            elif builder := by_platform.get(platform_id(info)):
                build.setdefault(builder, {})[item["name"]] = dict(plugin)
            else:
                problems.append(_cannot_build(host, info, plugin, builders))
    return {
        "problems": problems,
        "build": {builder: list(plugins.values()) for builder, plugins in build.items()},
        "hosts": wanted,
        "send": sorted(send),
        "stores": {place: builder for place, (builder, _) in kept.items()},
    }


def _has(info: Info, item: Mapping[str, Any]) -> bool:
    """Return whether a host has the very library, at its place."""
    installed = info["installed"].get(item["name"]) or {}
    return all(installed.get(key) == item[key] for key in ("sha256", "library"))


def _wanted(plugin: Plugin, info: Info, manifests: Mapping[str, Any], directory: str) -> dict[str, Any]:
    """Return what one host is to have of one plugin."""
    name, version = plugin["name"], str(plugin["version"])
    ready = plugin.get("library") or ""
    place = "" if ready else build_id(name, version, platform_id(info))
    built = manifests.get(place) or {}
    library = ready or library_path(directory, name, version, info["slurm"])
    return {
        "name": name,
        "version": version,
        "slurm": info["slurm"],
        "id": place,
        "library": library,
        "line": plugin_line(plugin, library),
        "provides": list(plugin.get("provides") or []),
        "sha256": built.get("sha256", "") if built.get("recipe") == recipe_mark(plugin) else "",
    }


def _cannot_build(host: str, info: Info, plugin: Plugin, builders: Mapping[str, Info]) -> Problem:
    """Return the problem of a host for which no host builds."""
    others = "; ".join(
        f"{builder}, which builds, has {found['slurm'] or 'no Slurm'} ({found['architecture']}, {found['system']})"
        for builder, found in builders.items()
    )
    problem = (
        f"{plugin['name']} {plugin['version']} is needed for Slurm {info['slurm']} ({info['architecture']}, "
        f"{info['system']}), but {others}"
    )
    installed = (info["installed"].get(plugin["name"]) or {}).get("slurm")
    if installed and release_of(installed) != release_of(info["slurm"]):
        problem += f"; the one installed is for Slurm {installed} and is not loaded any more"
    platforms = {(found["architecture"], found["system"]) for found in builders.values()}
    if (info["architecture"], info["system"]) in platforms:
        remedy = "bring both to one version of Slurm, or add a host like this one to slurm_spank_build_hosts"
    else:
        remedy = f"add a host of this kind to slurm_spank_build_hosts, such as [{host}], which then builds for all"
    return make_problem([host], f"{KEY}: {plugin['name']}", problem, remedy)
