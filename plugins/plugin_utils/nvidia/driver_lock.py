"""Lock the driver version of the cluster, so that nodes added later get the same one."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any, TypedDict

from ...module_utils.common.problems import Problem, make_problem
from ...module_utils.nvidia.driver_host import version_order

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ...module_utils.nvidia.driver_plan import Offer

_VERSION = re.compile(r"\d{3,4}(\.\d{1,4}){1,2}")
_HEAD = """\
# Written by busbar: the NVIDIA driver version of this cluster, by branch. Keep this file with the inventory: nodes that
# are added later get the same version. To upgrade, use -e nvidia_driver_upgrade=true or edit the version.
"""


class DriverLock(TypedDict):
    """The versions by key, the content of the lock file, whether it must be written, and the problems."""

    versions: dict[str, str]
    text: str
    renewed: bool
    problems: list[Problem]


def parse_lock(values: object, path: str) -> dict[str, str]:
    """Return the versions in the parsed lock file; empty if the file is missing.

    Raises:
        ValueError: if the content is not a lock.
    """
    if values in (None, "", {}):
        return {}
    # Copy the items, because those of a templated dictionary can be read only once.
    lines = list(values.items()) if isinstance(values, dict) else [(values, "")]
    for key, version in lines:
        if not _VERSION.fullmatch(str(version)):
            message = f'{path}: {key}: not a valid version: write "580": "580.95.05", or move the file away'
            raise ValueError(message)
    return {str(key): str(version) for key, version in lines}


def lock_text(versions: Mapping[str, str]) -> str:
    """Return the content of the lock file."""
    return _HEAD + "".join(f'"{key}": "{versions[key]}"\n' for key in sorted(versions))


def choose_lock(
    offers: Mapping[str, Offer], locked: Mapping[str, str], *, elsewhere: Mapping[str, Any] | None, upgrade: bool
) -> DriverLock:
    """Return the lock for the hosts of a run; locked versions are kept unless `upgrade` is set.

    Args:
        offers: available versions by host.
        locked: the locked versions by key.
        elsewhere: for hosts outside this run, `installed` (a version of the branch on one of them, '' for none) and
            `known` (whether that host answered); None if there are none.
        upgrade: whether to choose the newest version available to all hosts.
    """
    versions, problems = dict(locked), []
    for key in sorted({offer["key"] for offer in offers.values()}):
        mine = {host: offer for host, offer in offers.items() if offer["key"] == key}
        if key in versions and not upgrade:
            continue
        version = next(_candidates(mine, elsewhere, upgrade=upgrade), "")
        if version:
            versions[key] = version
        elif all(offer["known"] for offer in mine.values()):
            problems.append(_no_common_version(key, mine))
    # The lock is not written if the version of a node outside this run is unknown.
    settled = elsewhere is None or bool(elsewhere["known"])
    renewed = versions != dict(locked) and settled
    return {"versions": versions, "text": lock_text(versions), "renewed": renewed, "problems": problems}


def _candidates(offers: Mapping[str, Offer], elsewhere: Mapping[str, Any] | None, *, upgrade: bool) -> Iterator[str]:
    """Yield the versions available to all hosts: installed ones by frequency, then the newest."""
    available = [set(offer["versions"]) for offer in offers.values() if offer["known"] or offer["versions"]]
    common = set.intersection(*available) if available else set()
    if not upgrade:
        if elsewhere and elsewhere["installed"] in common:
            yield str(elsewhere["installed"])
        there = Counter(offer["installed"] for offer in offers.values() if offer["installed"])
        most = sorted(there, key=lambda version: (there[version], version_order(version)), reverse=True)
        yield from (version for version in most if version in common)
    yield from sorted(common, key=version_order, reverse=True)


def _no_common_version(key: str, offers: Mapping[str, Offer]) -> Problem:
    least = min(offers, key=lambda host: len(offers[host]["versions"]))
    shown = ", ".join(offers[least]["versions"][-4:]) or "no version common to all packages"
    problem = f"no version of {key} is available to all {len(offers)} hosts; {least} has {shown}"
    remedy = "configure the same repository or mirror on all hosts, or set nvidia_driver_version"
    return make_problem(sorted(offers), "nvidia_driver_version", problem, remedy)
