"""The page of the hardware profiles, with each limit, floor and source of theirs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.catalogue.profiles import shipped_profile

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["hardware_page"]

HEAD = """\
# Hardware profiles

What `hardware: NAME` may name; generated from the files of
[catalogue/hardware](../plugins/plugin_utils/engine/catalogue/hardware). How to describe another machine is in
[inventory and profiles](inventory.md#another-machine).

All figures are GB/s of bus bandwidth (10^9 bytes per second), out-of-place, at the largest message. The *limit* is what
the links can carry, the *floor* what a healthy cluster must reach, the *best* what somebody published.
"""
SCOPES = {"intra_node": "one node", "inter_node": "several nodes", "inter_domain": "several NVLink racks"}


def figures(busbw: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Each scope and collective with its figures, those for some number of nodes after the general ones."""
    for scope, said in busbw.items():
        for name, each in {"all_reduce": said, **(said.get("collectives") or {})}.items():
            yield SCOPES[scope], name, each
            for floor in each.get("floors") or []:
                yield f"{floor['nodes']} nodes", name, floor
            if "in_network" in each:
                yield f"{SCOPES[scope]}, sums in the network", name, each["in_network"]


def section(name: str, said: dict[str, Any]) -> str:
    """The section of one profile."""
    gpu = said.get("gpu") or {}
    gpus = f"{gpu['count']} x {gpu['model']}" if gpu else "no GPU"
    nics = ", ".join(f"{nic['count']} x {nic['gbps']:g} Gb/s{' RDMA' if nic['rdma'] else ''}" for nic in said["nics"])
    cores = said["sockets"] * said["cores_per_socket"]
    lines = [
        f"## {name}",
        "",
        f"{said.get('description', name)}: {gpus}; NICs: {nics}; {cores} cores, {said['memory_mb']} MiB.",
        "",
    ]
    if not said["busbw"]:
        return "\n".join([*lines, "No floor is known; a validation needs `validation_floor_gbs` to judge it.", ""])
    lines += ["| across | collective | limit | floor | best | source |", "| --- | --- | --- | --- | --- | --- |"]
    for scope, collective, each in figures(said["busbw"]):
        shown = [f"{each[key]:g}" if key in each else "" for key in ("limit_gbs", "floor_gbs", "best_gbs")]
        source = " ".join(each["source"].split()).replace("|", "\\|")
        lines.append(f"| {' | '.join([scope, collective, *shown, source])} |")
    return "\n".join([*lines, ""])


def hardware_page(folder: Path) -> str:
    """The page of the profiles in a folder."""
    profiles = {path.stem: shipped_profile(path.stem) for path in sorted(folder.glob("*.yml"))}
    return "\n".join([HEAD, *(section(name, said) for name, said in profiles.items())])
