# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Merge the hardware profiles of the collection with `hardware_profiles_extra` of a site."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ....module_utils.common.problems import one_line
from .builtin_profiles import LIKE, merged, profile_names, shipped_profile, unknown_hardware

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    WorkedOut = Callable[[Any], Any]

EXTRA = "hardware_profiles_extra"


def site_profile(name: str, extra: Mapping[str, Any], above: tuple[str, ...] = ()) -> Any:  # noqa: ANN401 - any YAML
    """Return one profile; the site's entry is merged over the profile in its `like`, or over that of the same name.

    An invalid `like` remains in the result, so that profile_problems() reports it.

    Args:
        name: name of the profile.
        extra: `hardware_profiles_extra` of the site.
        above: names of the entries that inherit from this one, to detect cycles.

    Raises:
        KeyError: the profile is unknown.
    """
    if name not in extra:
        if name not in profile_names():
            raise KeyError(name)
        return shipped_profile(name)
    own = extra[name]
    like = own.get(LIKE) if isinstance(own, dict) else None
    if like is None:
        return _over(shipped_profile(name), own) if name in profile_names() else own
    if not isinstance(like, str) or like in {*above, name} or not (like in extra or like in profile_names()):
        return own
    below = site_profile(like, extra, (*above, name))
    return _over(below, {key: value for key, value in own.items() if key != LIKE}) if isinstance(below, dict) else own


def _over(shipped: dict[str, Any], own: Any) -> Any:  # noqa: ANN401 - a site's entry may have any type
    """Return a profile with the site's entry merged over it.

    A floor of the site applies to any number of nodes, unless the site also sets floors for numbers of nodes.
    """
    found = merged(shipped, own)
    gpu = own.get("gpu") if isinstance(own, dict) else None
    if isinstance(gpu, dict) and gpu.get("count") == 1:
        # A single GPU does not inherit links between GPUs.
        found["gpu"] = {**found["gpu"], "nvlink_gbs": 0, "nvswitch": False, **gpu}
    scopes = own.get("busbw") if isinstance(own, dict) else None
    for scope, entry in scopes.items() if isinstance(scopes, dict) else ():
        values = entry if isinstance(entry, dict) else {}
        entries = [(found["busbw"], scope, values)]
        if isinstance(values.get("collectives"), dict):
            inside = found["busbw"][scope]["collectives"]
            entries += [(inside, name, item) for name, item in values["collectives"].items() if isinstance(item, dict)]
        for place, key, item in entries:
            if "floor_gbs" in item:
                gone = {"floors", "in_network"} - item.keys()
                place[key] = {name: value for name, value in place[key].items() if name not in gone}
    return found


def site_catalogue(extra: Mapping[str, Any]) -> dict[str, Any]:
    """Return all profiles by name, with the site's entries merged over those of the collection."""
    return {name: site_profile(name, extra) for name in (*profile_names(), *extra)}


def host_profile(
    worked_out: WorkedOut,
    variables: Mapping[str, Any],
    name: object,
    catalogue: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the profile with the given name; empty for an empty name.

    Args:
        worked_out: function of Ansible that evaluates a template.
        variables: variables of the host.
        name: declared name of the profile.
        catalogue: profiles by name, instead of those of the collection and the site.

    Raises:
        ValueError: the name is unknown or not a string, or the site's entry is invalid.
    """
    if not name:
        return {}
    if not isinstance(name, str):
        message = f"{_host(variables)}hardware: {name!r} is not a profile name. Remedy: set a profile name as a string."
        raise ValueError(message)  # noqa: TRY004 - a wrong value of the site
    extra = _extra(worked_out, variables) if catalogue is None else {}
    try:
        profile: dict[str, Any] = site_profile(name, extra) if catalogue is None else catalogue[name]
    except KeyError:
        key = "hardware: " if worked_out(variables.get("hardware", "")) == name else ""
        problem, remedy = unknown_hardware(name, {*profile_names(), *extra} if catalogue is None else catalogue)
        message = f"{_host(variables)}{key}{problem}. Remedy: {remedy}."
        raise ValueError(message) from None
    if name in extra:
        _refuse(variables, {name: profile})
    return profile


def known_profiles(worked_out: WorkedOut, variables: Mapping[str, Any], *, check: bool = True) -> dict[str, Any]:
    """Return all profiles by name.

    Args:
        worked_out: function of Ansible that evaluates a template.
        variables: variables of the host.
        check: whether an invalid entry of the site raises an error; otherwise the caller checks the entries.

    Raises:
        ValueError: an entry of the site is invalid.
    """
    if not check:
        given = worked_out(variables.get(EXTRA))
        return site_catalogue(given if isinstance(given, dict) else {})
    extra = _extra(worked_out, variables)
    profiles = site_catalogue(extra)
    _refuse(variables, {name: profiles[name] for name in extra})
    return profiles


def _extra(worked_out: WorkedOut, variables: Mapping[str, Any]) -> Mapping[str, Any]:
    extra = worked_out(variables.get(EXTRA)) or {}
    if not isinstance(extra, dict):
        message = f"{_host(variables)}{EXTRA}: is not a dictionary of profiles by name. Remedy: write NAME: {{...}}."
        raise ValueError(message)  # noqa: TRY004 - the site's value is invalid, not its type
    return extra


def _refuse(variables: Mapping[str, Any], profiles: Mapping[str, Any]) -> None:
    if not profiles:
        return
    # Only the site's entries are checked, because tests check the profiles of the collection.
    from .profile_check import profile_problems  # noqa: PLC0415

    problems = [one_line(each) for name, profile in profiles.items() for each in profile_problems(name, profile)]
    if problems:
        message = f"{_host(variables)}{EXTRA}: {'; '.join(problems)}. Remedy: correct the entry."
        raise ValueError(message)


def _host(variables: Mapping[str, Any]) -> str:
    return f"{variables['inventory_hostname']}: " if "inventory_hostname" in variables else ""
