"""`busbar hardware`: shows the hardware profiles of the catalogue, with the source of each value."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.catalogue.builtin_profiles import (
    profile_names,
    shipped_profile,
    unknown_hardware,
)

from busbar.errors import UsageError
from busbar.output import print_json

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

SCOPES = {"intra_node": "one node", "inter_node": "several nodes", "inter_domain": "several NVLink racks"}
SHOWN = {"limit_gbs": "limit", "floor_gbs": "floor", "best_gbs": "best"}
DESCRIPTION = """\
Floors, limits and best published figures are GB/s of bus bandwidth (10^9 bytes per second), out-of-place, at the
largest message. Profiles of a site are not shown: they are in its inventory (hardware_profiles_extra).
"""


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command and its actions."""
    parser = subparsers.add_parser("hardware", help="the catalogue of hardware profiles", description=DESCRIPTION)
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    listed = actions.add_parser("list", help="names and descriptions of all profiles")
    listed.set_defaults(run=_list)
    shown = actions.add_parser("show", help="one profile with its floors and their sources", description=DESCRIPTION)
    shown.add_argument("hardware", metavar="NAME", help="name of a profile")
    shown.set_defaults(run=_show)
    for action in (listed, shown):
        action.add_argument("--format", choices=("json", "table"), default="table")


def machine(profile: dict[str, Any]) -> str:
    """Describe GPUs, NICs, cores and memory in one line."""
    gpu = profile.get("gpu") or {}
    gpus = f"{gpu['count']} x {gpu['model']}" if gpu else "no GPU"
    nics = ", ".join(
        f"{nic['count']} x {nic['gbps']:g} Gb/s{' RDMA' if nic['rdma'] else ''}" for nic in profile["nics"]
    )
    cores = profile["sockets"] * profile["cores_per_socket"]
    return f"{gpus}; NICs: {nics}; {cores} cores, {profile['memory_mb']} MiB"


def figures(busbw: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield each scope and collective with its values, followed by the values for specific numbers of nodes."""
    for scope, values in busbw.items():
        for name, each in {"all_reduce": values, **(values.get("collectives") or {})}.items():
            yield SCOPES[scope], name, each
            for floor in each.get("floors") or []:
                yield f"{floor['nodes']} nodes", name, floor
            if "in_network" in each:
                yield f"{SCOPES[scope]}, in-network reduction", name, each["in_network"]


def _list(args: argparse.Namespace) -> int:
    """Print all profiles and return 0."""
    profiles = {name: shipped_profile(name) for name in profile_names()}
    if args.format == "json":
        print_json(profiles)
        return 0
    width = max(map(len, profiles))
    for name, profile in profiles.items():
        print(f"{name:<{width}}  {profile.get('description', name)}: {machine(profile)}")
    return 0


def _show(args: argparse.Namespace) -> int:
    """Print one profile and return 0.

    Raises:
        UsageError: no profile has that name.
    """
    if args.hardware not in profile_names():
        problem, _ = unknown_hardware(args.hardware, profile_names())
        message = f"{problem}: `busbar hardware list` shows all names"
        raise UsageError(message)
    profile = shipped_profile(args.hardware)
    if args.format == "json":
        print_json(profile)
        return 0
    print(f"{args.hardware}: {profile.get('description', args.hardware)}\n{machine(profile)}")
    if not profile["busbw"]:
        print("\nThe profile has no floor: set one with validation_floor_gbs, or with --floor of busbar prove.")
    for scope, collective, each in figures(profile["busbw"]):
        known = ", ".join(f"{title} {each[key]:g}" for key, title in SHOWN.items() if key in each)
        _print_sourced(f"{collective}, {scope}: {known} GB/s", each["source"])
    for name, part in profile.items():
        if isinstance(part, dict) and "source" in part:
            known = ", ".join(
                f"{key} {value}" for key, value in part.items() if not isinstance(value, (str, dict, list))
            )
            _print_sourced(f"{name}: {known}", part["source"])
    return 0


def _print_sourced(line: str, source: str) -> None:
    print(f"\n{line}")
    print(
        textwrap.fill(
            source, 118, initial_indent="  ", subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
        )
    )
