# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""The hardware profiles that come with the collection, one file each, and those of a site over them."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["PROFILES", "merged", "profile_names", "shipped_profile", "site_catalogue", "site_profile"]

PROFILES = Path(__file__).resolve().parent / "hardware"


@cache
def profile_names() -> tuple[str, ...]:
    """Return the names of the profiles that come with the collection."""
    return tuple(sorted(path.stem for path in PROFILES.glob("*.yml")))


@cache
def shipped_profile(name: str) -> dict[str, Any]:
    """Return one of profile_names(), read once by each process; who wants to change it makes a copy.

    Raises:
        ValueError: its file is no YAML.
    """
    path = PROFILES / f"{name}.yml"
    # libyaml where there is one: it reads a file in a seventh of the time, and each task of each host reads one.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        found: dict[str, Any] = yaml.load(path.read_bytes(), Loader=loader)  # noqa: S506 - it is a safe one
    except yaml.YAMLError as exc:
        message = f"{path} is no YAML: {' '.join(str(exc).split())}"
        raise ValueError(message) from exc
    return found


def site_profile(name: str, extra: Mapping[str, Any]) -> Any:  # noqa: ANN401 - what a site wrote may be anything
    """Return one profile, the site's entry of that name merged over it; no other is read.

    Args:
        name: of the profile.
        extra: `hardware_profiles_extra` of the site.

    Raises:
        KeyError: neither has it.
    """
    if name in extra:
        return _over(shipped_profile(name), extra[name]) if name in profile_names() else extra[name]
    if name not in profile_names():
        raise KeyError(name)
    return shipped_profile(name)


def _over(shipped: dict[str, Any], own: Any) -> Any:  # noqa: ANN401 - what a site wrote may be anything
    """Return a profile of the collection with a site's over it.

    Where the site gives a floor of its own, it holds for any number of nodes, unless the site gives floors for those.
    """
    found = merged(shipped, own)
    scopes = own.get("busbw") if isinstance(own, dict) else None
    for scope, entry in scopes.items() if isinstance(scopes, dict) else ():
        said = entry if isinstance(entry, dict) else {}
        entries = [(found["busbw"], scope, said)]
        if isinstance(said.get("collectives"), dict):
            inside = found["busbw"][scope]["collectives"]
            entries += [(inside, name, item) for name, item in said["collectives"].items() if isinstance(item, dict)]
        for place, key, item in entries:
            if "floor_gbs" in item:
                gone = {"floors", "in_network"} - item.keys()
                place[key] = {name: value for name, value in place[key].items() if name not in gone}
    return found


def site_catalogue(extra: Mapping[str, Any]) -> dict[str, Any]:
    """Return all profiles by name, those of the site merged over those of the collection."""
    return {name: site_profile(name, extra) for name in (*profile_names(), *extra)}


def merged(below: Any, above: Any) -> Any:  # noqa: ANN401 - values of YAML
    """Return two dictionaries merged to the bottom; of anything else, the value above."""
    if not isinstance(below, dict) or not isinstance(above, dict):
        return above
    return {**below, **{key: merged(below[key], value) if key in below else value for key, value in above.items()}}
