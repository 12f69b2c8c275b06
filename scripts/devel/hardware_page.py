"""Generates the page of the hardware profiles with their limits, floors and sources."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.catalogue.builtin_profiles import shipped_profile
from busbar.commands.hardware import figures, machine

if TYPE_CHECKING:
    from pathlib import Path

HEAD = """\
# Hardware profiles

The profiles for `hardware: NAME`, generated from the files of
[catalogue/hardware](../plugins/plugin_utils/engine/catalogue/hardware). To describe another machine, see
[inventory and profiles](inventory.md#another-machine).

All figures are GB/s of bus bandwidth (10^9 bytes per second), out-of-place, at the largest message. The *limit* is the
capacity of the links, the *floor* the minimum of a healthy cluster, the *best* the best published figure.
"""


def section(name: str, profile: dict[str, Any]) -> str:
    """Return the section of one profile."""
    lines = [
        f"## {name}",
        "",
        f"{profile.get('description', name)}: {machine(profile)}.",
        "",
    ]
    if not profile["busbw"]:
        return "\n".join([*lines, "No floor is known; a validation needs `validation_floor_gbs` to judge it.", ""])
    lines += ["| across | collective | limit | floor | best | source |", "| --- | --- | --- | --- | --- | --- |"]
    for scope, collective, each in figures(profile["busbw"]):
        shown = [f"{each[key]:g}" if key in each else "" for key in ("limit_gbs", "floor_gbs", "best_gbs")]
        source = " ".join(each["source"].split()).replace("|", "\\|")
        lines.append(f"| {' | '.join([scope, collective, *shown, source])} |")
    return "\n".join([*lines, ""])


def hardware_page(folder: Path) -> str:
    """Return the page of the profiles in a folder."""
    profiles = {path.stem: shipped_profile(path.stem) for path in sorted(folder.glob("*.yml"))}
    return "\n".join([HEAD, *(section(name, profile) for name, profile in profiles.items())])
