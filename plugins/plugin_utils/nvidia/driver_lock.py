"""One version of the driver for the whole cluster: chosen once, written down, the same for nodes that come later."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any, TypedDict

from ...module_utils.common.problems import Problem, make_problem
from ...module_utils.nvidia.driver_plan import version_order

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ...module_utils.nvidia.driver_plan import Offer

__all__ = ["DriverLock", "choose_lock", "lock_text", "parse_lock"]

_VERSION = re.compile(r"\d{3,4}(\.\d{1,4}){1,2}")
_HEAD = """\
# Written by busbar: the version of the NVIDIA driver of this cluster, by branch. Keep it with the inventory: nodes that
# are added later get it, too. A newer one is chosen with -e nvidia_driver_upgrade=true, or written here by hand.
"""


class DriverLock(TypedDict):
    """The versions by key, the text of the file, whether it is to be written, and what is wrong."""

    versions: dict[str, str]
    text: str
    renewed: bool
    problems: list[Problem]


def parse_lock(values: object, path: str) -> dict[str, str]:
    """Return the versions in the lock's file, as YAML was read from it; empty for one that is not there.

    Raises:
        ValueError: what stands there is no lock.
    """
    if values in (None, "", {}):
        return {}
    # Once: the items of a template's dictionary are gone when they have been read.
    lines = list(values.items()) if isinstance(values, dict) else [(values, "")]
    for key, version in lines:
        if not _VERSION.fullmatch(str(version)):
            message = f'{path}: {key}: no valid version: write "580": "580.95.05", or move the file away'
            raise ValueError(message)
    return {str(key): str(version) for key, version in lines}


def lock_text(versions: Mapping[str, str]) -> str:
    """Return the text of the lock's file."""
    return _HEAD + "".join(f'"{key}": "{versions[key]}"\n' for key in sorted(versions))


def choose_lock(
    offers: Mapping[str, Offer], locked: Mapping[str, str], *, elsewhere: Mapping[str, Any] | None, upgrade: bool
) -> DriverLock:
    """Return the lock after the hosts of a run were asked; what is locked stays, unless `upgrade` chooses anew.

    Args:
        offers: what each host can have.
        locked: the versions by key, as they are written down.
        elsewhere: of hosts outside of this run: `installed`, the version that one of them has of a branch ('' for
            none), and `known`, whether it answered; None when there are none.
        upgrade: whether the newest version is taken that all hosts can have.
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
            problems.append(_nothing_in_common(key, mine))
    # Of what a node outside of the run has nobody knows: nothing is settled for it.
    settled = elsewhere is None or bool(elsewhere["known"])
    renewed = versions != dict(locked) and settled
    return {"versions": versions, "text": lock_text(versions), "renewed": renewed, "problems": problems}


def _candidates(offers: Mapping[str, Offer], elsewhere: Mapping[str, Any] | None, *, upgrade: bool) -> Iterator[str]:
    """Yield versions that all hosts can have, the best first: what most have, or else the newest."""
    asked = [set(offer["versions"]) for offer in offers.values() if offer["known"] or offer["versions"]]
    common = set.intersection(*asked) if asked else set()
    if not upgrade:
        if elsewhere and elsewhere["installed"] in common:
            yield str(elsewhere["installed"])
        there = Counter(offer["installed"] for offer in offers.values() if offer["installed"])
        most = sorted(there, key=lambda version: (there[version], version_order(version)), reverse=True)
        yield from (version for version in most if version in common)
    yield from sorted(common, key=version_order, reverse=True)


def _nothing_in_common(key: str, offers: Mapping[str, Offer]) -> Problem:
    least = min(offers, key=lambda host: len(offers[host]["versions"]))
    shown = ", ".join(offers[least]["versions"][-4:]) or "none that all of its packages have"
    problem = f"no version of {key} is available to all {len(offers)} hosts; {least} can have {shown}"
    remedy = "give all hosts the same repository or mirror, or set nvidia_driver_version"
    return make_problem(sorted(offers), "nvidia_driver_version", problem, remedy)
