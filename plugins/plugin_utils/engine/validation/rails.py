# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Rails: the NICs of each node that are tested one by one, and what one of them can be asked for."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .model import Options

__all__ = ["of_one_rail", "rail_problems", "rail_share"]

_RAIL = re.compile(r"[\w.-]+")


def rail_problems(options: Options) -> list[str]:
    """Return what is wrong with the names of the rails, with the remedy.

    Args:
        options: rails (a list of names of NICs), stages.
    """
    rails = options["rails"]
    if not all(_RAIL.fullmatch(rail) for rail in rails):
        return ["validation_rails: must be a list of names of NICs, such as [mlx5_0, mlx5_1]"]
    if len(set(rails)) < len(rails):
        return ["validation_rails: names a rail twice"]
    if rails and "cluster" not in options["stages"]:
        return ["validation_rails: the stage cluster comes first: add it to validation_stages"]
    return []


def rail_share(options: Options, profile: dict[str, Any] | None) -> float:
    """Return what part of all NICs of a node one rail is: of those that the hardware has, or of those named if more."""
    nics = sum(int(nic["count"]) for nic in (profile or {}).get("nics") or [])
    return 1 / max(nics, len(options["rails"]))


def of_one_rail(profile: dict[str, Any], share: float) -> dict[str, Any]:
    """Return a profile with one NIC of its nodes: that share of their rate, and of each limit and floor.

    Of the floors between nodes it is those for any number of them: what few nodes reach with all NICs is bound inside
    the node, and says nothing about one NIC.
    """
    rate = sum(float(nic["count"]) * float(nic["gbps"]) for nic in profile["nics"]) * share
    nic = {"count": 1, "gbps": rate, "rdma": any(nic["rdma"] for nic in profile["nics"])}
    return {**profile, "nics": [nic], "busbw": {key: _part(scope, share) for key, scope in profile["busbw"].items()}}


def _part(scope: dict[str, Any], share: float) -> dict[str, Any]:
    kept = {key: value for key, value in scope.items() if key not in {"floors", "in_network"}}
    part = {key: value * share if key.endswith("_gbs") else value for key, value in kept.items()}
    if "collectives" in scope:
        part["collectives"] = {name: _part(entry, share) for name, entry in scope["collectives"].items()}
    if scope.get("source"):
        part["source"] = f"{share:.3g} of all rails together; {scope['source']}"
    return part
