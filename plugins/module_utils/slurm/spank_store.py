"""Names and marks of built SPANK plugins, the same for the host that builds and the hosts that load."""

from __future__ import annotations

import hashlib
import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["build_id", "library_path", "platform_id", "recipe_mark", "release_of", "slurm_version"]

_VERSION = re.compile(r"\b(\d+)\.(\d+)\.(\d+)")


def slurm_version(text: str) -> str:
    """Return the version in what a program of Slurm prints: 'slurm-wlm 24.11.5' gives '24.11.5'; '' for none."""
    found = _VERSION.search(text)
    return f"{int(found[1])}.{int(found[2]):02d}.{int(found[3])}" if found else ""


def release_of(version: str) -> str:
    """Return the release that a version belongs to, which is what Slurm itself compares: '24.11.5' gives '24.11'."""
    return ".".join(version.split(".")[:2])


def platform_id(info: Mapping[str, Any]) -> str:
    """Return what a built plugin runs on: 'slurm24.11.5-x86_64-debian13'."""
    return f"slurm{info['slurm']}-{info['architecture']}-{info['system']}"


def build_id(name: str, version: str, platform: str) -> str:
    """Return the place of a built plugin in the store: 'pyxis/0.24.0-slurm24.11.5-x86_64-debian13'."""
    return f"{name}/{version}-{platform}"


def library_path(directory: str, name: str, version: str, slurm: str) -> str:
    """Return where a host has a plugin; an update never writes over a file that a running step has loaded."""
    return f"{directory}/{name}-{version}-slurm{slurm}.so"


def recipe_mark(plugin: Mapping[str, Any]) -> str:
    """Return a mark that differs when a plugin would be built differently."""
    recipe = [plugin.get("sha256"), plugin.get("make") or [], plugin.get("produces") or ""]
    return hashlib.sha256(json.dumps(recipe).encode()).hexdigest()
