"""Which version of the driver a host gets, and which versions all of its parts have."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, TypedDict

from ..common.problems import Problem, make_problem

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from .driver_packages import PackageSet

__all__ = ["Offer", "choose_version", "driver_version", "make_offer", "version_order"]

_NOT_ASKED = (
    "its repositories could not be asked, so that nobody knows the newest version",
    "set nvidia_driver_version, such as 580.95.05, or see that the package manager reaches the repositories",
)
_REMEDY = "set a nvidia_driver_version that all its packages have, or bring them into the mirror"
_REMEDY_LOCKED = (
    "bring the version that the cluster has (nvidia_driver_lock_file) into the mirror, or choose the newest one for "
    "the whole cluster with -e nvidia_driver_upgrade=true"
)


class Offer(TypedDict):
    """What a host can have of a branch.

    `key`: of the branch in the cluster's lock. `known`: whether its repositories were asked. `versions`: those that all
    of its parts have, in the repositories or installed. `installed`: the version of the main package, '' without one.
    """

    key: str
    known: bool
    versions: list[str]
    installed: str


def driver_version(package: str) -> str:
    """Return the driver's version in that of a package: '3:570.133.20-1ubuntu1' gives '570.133.20'."""
    return package.rpartition(":")[2].partition("-")[0]


def version_order(version: str) -> tuple[int, ...]:
    """Return what versions are compared by."""
    return tuple(int(part) for part in re.findall(r"\d+", version))


def _is_of_branch(version: str, branch: int) -> bool:
    return version.partition(".")[0] == str(branch)


def _installed(names: PackageSet, found: Mapping[str, Any]) -> dict[str, str]:
    return {name: driver_version(found["installed"].get(name, "")) for name in names.exact}


def _offers(names: PackageSet, found: Mapping[str, Any]) -> dict[str, set[str]]:
    return {name: {driver_version(each) for each in found["available"].get(name, [])} for name in names.exact}


def make_offer(key: str, names: PackageSet, branch: int, found: Mapping[str, Any]) -> Offer:
    """Return what a host can have, with versions in rising order.

    Args:
        key: of the branch in the cluster's lock.
        names: the packages of the host.
        branch: that of the driver.
        found: what `driver_host.read_driver` returns.
    """
    installed, offers = _installed(names, found), _offers(names, found)
    common = set.intersection(*({*offers[name], installed[name]} for name in names.exact))
    main = installed[names.exact[0]]
    return {
        "key": key,
        "known": bool(found["index"]),
        "versions": sorted((each for each in common if _is_of_branch(each, branch)), key=version_order),
        "installed": main if _is_of_branch(main, branch) else "",
    }


def choose_version(
    host: str, names: PackageSet, branch: int, settings: Mapping[str, Any], found: Mapping[str, Any]
) -> tuple[str, list[Problem]]:
    """Return the driver's version, '' when it cannot be known yet, and why it is not available.

    What is declared counts first, then what the cluster's lock says, then what is installed, then the newest version
    that all parts of the driver have.
    """
    declared = str(settings.get("version") or settings.get("locked") or "")
    installed, offers = _installed(names, found), _offers(names, found)
    offer = make_offer("", names, branch, found)
    version = declared or offer["installed"] or (offer["versions"] or [""])[-1]
    # Without the repository's index, as in check mode on a fresh host, nobody knows what it has.
    if not found["index"]:
        unknown = not version and not settings.get("check_mode")
        return version, [make_problem([host], "nvidia_driver_version", *_NOT_ASKED)] if unknown else []
    if not version:
        # No version has all parts: those that lack in the newest one are told.
        of_branch = [each for each in offers[names.exact[0]] if _is_of_branch(each, branch)]
        version = max(of_branch, key=version_order, default="")
    lacking = [name for name in names.exact if installed[name] != version and version not in offers[name]]
    locked = not settings.get("version") and bool(settings.get("locked"))
    remedy = _REMEDY_LOCKED if locked else _REMEDY
    return version, [_not_offered(host, name, version or f"branch {branch}", offers[name], remedy) for name in lacking]


def _not_offered(host: str, name: str, wanted: str, offers: Collection[str], remedy: str) -> Problem:
    shown = ", ".join(sorted(offers, key=version_order)[-6:])
    problem = f"{wanted} is not available; the repositories have {shown or 'no such package'}"
    if any(part in name for part in ("fabric", "imex", "nscq", "nvsdm")):
        problem += "; it must be of the driver's very version"
    return make_problem([host], name, problem, remedy)
