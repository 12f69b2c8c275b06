"""The hardware that a site knows, for lookups: the profiles of the collection, and `hardware_profiles_extra`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..module_utils.catalogue.profiles import profile_names, site_catalogue, site_profile
from ..module_utils.common.problems import one_line
from ..module_utils.common.unknown_hardware import unknown_hardware

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["host_profile", "known_profiles"]

EXTRA = "hardware_profiles_extra"


def host_profile(
    templar: Any,  # noqa: ANN401 - Ansible's
    variables: Mapping[str, Any],
    name: object,
    catalogue: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the profile of a name; an empty one for an empty name.

    Args:
        templar: of the lookup.
        variables: of the host.
        name: of the profile, as the site wrote it.
        catalogue: profiles by name to look in, instead of those of collection and site.

    Raises:
        ValueError: the name is unknown or no text, or the site's entry of that name is wrong.
    """
    if not name:
        return {}
    if not isinstance(name, str):
        message = f"{_host(variables)}hardware: {name!r} is not the name of a profile. Remedy: write one, as a text."
        raise ValueError(message)  # noqa: TRY004 - a wrong value of the site
    extra = _extra(templar, variables) if catalogue is None else {}
    try:
        profile: dict[str, Any] = site_profile(name, extra) if catalogue is None else catalogue[name]
    except KeyError:
        key = "hardware: " if templar.template(variables.get("hardware", "")) == name else ""
        problem, remedy = unknown_hardware(name, {*profile_names(), *extra} if catalogue is None else catalogue)
        message = f"{_host(variables)}{key}{problem}. Remedy: {remedy}."
        raise ValueError(message) from None
    if name in extra:
        _refuse(variables, {name: profile})
    return profile


def known_profiles(
    templar: Any,  # noqa: ANN401 - Ansible's
    variables: Mapping[str, Any],
    *,
    check: bool = True,
) -> dict[str, Any]:
    """Return all profiles by name.

    Args:
        templar: of the lookup.
        variables: of the host.
        check: whether a wrong entry of the site is an error, or is left to the caller.

    Raises:
        ValueError: an entry of the site is wrong.
    """
    extra = _extra(templar, variables)
    profiles = site_catalogue(extra)
    if check:
        _refuse(variables, {name: profiles[name] for name in extra})
    return profiles


def _extra(templar: Any, variables: Mapping[str, Any]) -> Mapping[str, Any]:  # noqa: ANN401 - Ansible's
    extra = templar.template(variables.get(EXTRA)) or {}
    if not isinstance(extra, dict):
        message = f"{_host(variables)}{EXTRA}: is not a dictionary of profiles by name. Remedy: write NAME: {{...}}."
        raise ValueError(message)  # noqa: TRY004 - a wrong value of the site
    return extra


def _refuse(variables: Mapping[str, Any], profiles: Mapping[str, Any]) -> None:
    if not profiles:
        return
    # Those of the collection were checked when they were made: only what a site wrote costs the time of a check.
    from ..module_utils.catalogue.check import profile_problems  # noqa: PLC0415

    problems = [one_line(each) for name, profile in profiles.items() for each in profile_problems(name, profile)]
    if problems:
        message = f"{_host(variables)}{EXTRA}: {'; '.join(problems)}. Remedy: correct the entry."
        raise ValueError(message)


def _host(variables: Mapping[str, Any]) -> str:
    return f"{variables['inventory_hostname']}: " if "inventory_hostname" in variables else ""
