"""Collect the variables that a site sets, with file and line, and the options of all roles."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from ansible.utils.vars import load_extra_vars
from ansible.vars.plugins import get_vars_from_inventory_sources

from ..module_utils.common.problems import advice, make_problem
from .common.near_names import near_name
from .inventory_yaml import variable_places
from .preflight.groups import KNOWN_GROUPS
from .preflight.options import Option, Setting

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ansible.inventory.manager import InventoryManager
    from ansible.parsing.dataloader import DataLoader

    from ..module_utils.common.problems import Problem

# Variables that are not options of a single role, with their types; those with type raw have separate checks.
SITE_VARIABLES: dict[str, dict[str, str]] = {
    "hardware": {"type": "str"},
    "hardware_profiles_extra": {"type": "dict"},
    "hosts_address": {"type": "str"},
    "hosts_aliases": {"type": "list", "elements": "str"},
    "nvlink_domain": {"type": "raw"},
    "slurm_node_features": {"type": "list", "elements": "str"},
    "slurm_node_params": {"type": "dict"},
    "slurm_node_weight": {"type": "int"},
    # Removed; roles/users/checks.py prints the replacement.
    "slurm_users": {"type": "raw"},
    "storage_backend": {"type": "raw"},
}

_COLLECTION = Path(__file__).resolve().parents[2]
# Prefixes of variables that several roles or no role use.
_FAMILIES = ("hardware", "monitoring", "storage")


@cache
def declared_options() -> Mapping[str, Option]:
    """Return the options of all roles by name."""
    # libyaml, if available, is ten times as fast.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    options = {}
    for path in sorted(_COLLECTION.glob("roles/*/meta/argument_specs.yml")):
        entries = yaml.load(path.read_bytes(), Loader=loader)["argument_specs"]  # noqa: S506 - a subclass of SafeLoader
        for entry in entries.values():
            for name, spec in (entry.get("options") or {}).items():
                options[name] = Option(path.parts[-3], spec)
    return options


def family_names() -> list[str]:
    """Return the prefixes of options: role names, and the shared prefixes."""
    # Sites often use the prefix site_ for custom variables, and the role `site` has no options with it.
    roles = {path.parents[1].name for path in _COLLECTION.glob("roles/*/meta/argument_specs.yml")} - {"site"}
    return sorted(roles | {*_FAMILIES})


def site_settings(inventory: InventoryManager, loader: DataLoader, sources: Sequence[str]) -> list[Setting]:
    """Return each variable that groups, hosts and the command line set, untemplated.

    Args:
        inventory: the site's inventory.
        loader: Ansible's data loader.
        sources: the inventory sources.
    """
    places = variable_places(sources)

    def found(scope: str, variables: Mapping[str, Any], host: str = "") -> list[Setting]:
        return [
            Setting(str(name), value, scope, host, places.get((scope, name), "")) for name, value in variables.items()
        ]

    settings = []
    for group in inventory.groups.values():
        variables = {**group.get_vars(), **get_vars_from_inventory_sources(loader, sources, [group], "all")}
        settings += found(f"group {group.name}", variables)
    for host in inventory.get_hosts():
        variables = {**host.vars, **get_vars_from_inventory_sources(loader, sources, [host], "all")}
        settings += found(f"host {host.name}", variables, host.name)
    return settings + found("-e", load_extra_vars(loader))


def stray_files(inventory: InventoryManager, sources: Sequence[str]) -> list[Problem]:
    """Return advice for each file in group_vars and host_vars whose group or host is not in the inventory.

    Args:
        inventory: the site's inventory.
        sources: the inventory sources.
    """
    problems = []
    paths = [Path(source) for source in sources if "," not in source]
    for folder in {path if path.is_dir() else path.parent for path in paths}:
        for kind, known in (("group", inventory.groups), ("host", inventory.hosts)):
            for path in sorted((folder / f"{kind}_vars").glob("[!.]*[!~]")):
                name = path.stem if path.suffix in {".yml", ".yaml", ".json"} else path.name
                if name not in known:
                    near = near_name(name, [*known, *(KNOWN_GROUPS if kind == "group" else ())])
                    remedy = f"did you mean {near}? Rename" if near else "rename or delete"
                    problem = f"has no effect: the inventory has no {kind} {name}"
                    found = make_problem([], f"{kind}_vars/{path.name}", problem, f"{remedy} {path}")
                    problems.append(found if near else advice(found))
    return problems
