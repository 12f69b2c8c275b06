"""Names of SPANK plugin packages, and the plugstack.conf line that loads a plugin.

The name contains the plugin, its version, the Slurm release and a hash of the build recipe, so two builds can be
installed side by side. The role changes the line to the new build, and back if a job step fails with it.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["DIRECTORY", "PREFIX", "plugin_line", "plugin_package", "release_of"]

DIRECTORY = "/usr/lib/busbar/spank"
PREFIX = "busbar-spank-"


def release_of(version: str) -> str:
    """Return the part of a version that Slurm compares: '24.11' for '24.11.5'."""
    return ".".join(version.split(".")[:2])


def plugin_package(plugin: Mapping[str, Any], info: Mapping[str, str]) -> dict[str, str]:
    """Return `library`, `package` and `file` (of the package) of a plugin built for a host.

    Args:
        plugin: item of `slurm_spank_plugins` with `source`.
        info: `slurm` (version), `architecture`, `system` and `format` (deb or rpm) of the host.
    """
    recipe = [plugin.get("sha256"), plugin.get("make") or [], plugin.get("produces") or ""]
    recipe += [info["architecture"], info["system"]]
    mark = hashlib.sha256(json.dumps(recipe).encode()).hexdigest()[:8]
    # deb-control(5): names may contain only lower case letters, digits and + - .
    name = re.sub(r"[^a-z0-9.+]", "-", f"{plugin['name']}-{plugin['version']}-slurm{info['slurm']}-{mark}".lower())
    return {
        "library": f"{DIRECTORY}/{name}.so",
        "package": f"{PREFIX}{name}",
        "file": f"{PREFIX}{name}.{info['format']}",
    }


def plugin_line(plugin: Mapping[str, Any], library: str) -> str:
    """Return the plugstack.conf line that loads a plugin."""
    word = "required" if plugin.get("required", True) else "optional"
    return " ".join([word, library, *map(str, plugin.get("arguments") or [])])
