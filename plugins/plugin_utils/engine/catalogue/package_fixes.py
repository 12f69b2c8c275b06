# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Which installed packages of Slurm and munge lack the fixes of published vulnerabilities, by package_fixes.yml."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml

from .package_versions import compare_dpkg, compare_rpm, upstream_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["Unfixed", "package_fixes", "unfixed_packages"]

_TABLE = Path(__file__).with_name("package_fixes.yml")
_DPKG = {"debian", "ubuntu"}
_PROCEDURE = "see docs/upgrade.md, Security updates"


class Unfixed(NamedTuple):
    """A product whose installed revision lacks fixes, or may lack them."""

    name: str
    problem: str
    remedy: str


@cache
def package_fixes() -> Mapping[str, Any]:
    """Return the table."""
    found: Mapping[str, Any] = yaml.safe_load(_TABLE.read_text(encoding="utf-8"))
    return found


def unfixed_packages(system: Mapping[str, Any], versions: Mapping[str, str]) -> Iterator[Unfixed]:
    """Yield what lacks fixes on a host.

    Args:
        system: `os` of the module node_info: `id` and `version` of os-release, and `name`.
        versions: `versions` of that module, with the full revisions of packages.
    """
    for product in package_fixes()["products"]:
        version = versions.get(product["key"], "")
        if version and (found := _unfixed(product, system, version)):
            yield found


def _unfixed(product: Mapping[str, Any], system: Mapping[str, Any], version: str) -> Unfixed | None:
    is_dpkg = system.get("id") in _DPKG
    compare = compare_dpkg if is_dpkg else compare_rpm
    upstream, branches = upstream_of(version), {_branch(first): first for first in product["upstream"]}
    first = branches.get(_branch(upstream), "")
    if compare(upstream, first or product["upstream"][-1]) >= 0:
        return None
    own = next((each for each in product["distributions"] if _is_of(each, system)), None)
    fixed = str(own["fixed"] or "") if own else ""
    is_backported = upstream_of(fixed) == upstream
    if is_backported and compare(version, fixed) >= 0:
        return None
    name, ids = system.get("name") or "the distribution", [each["id"] for each in product["vulnerabilities"]]
    holes = ids[0] if len(ids) == 1 else f"{len(ids)} vulnerabilities ({ids[0]} to {ids[-1]})"
    wanted = first or ", ".join(product["upstream"])
    remedy = f"install {wanted} or newer: {_PROCEDURE}"
    if is_backported:
        problem = f"{version} has {holes}, which {name} fixed in {fixed}"
        remedy = f"install {fixed}: {_PROCEDURE}"
    elif own:
        none = "" if fixed else f", and {name} had published no fix by {package_fixes()['as_of']}"
        problem = f"{version} has {holes}: it is older than {wanted}{none}"
    else:
        problem = f"{version} may have {holes}: it is older than {wanted}, and the fixes of {name} are not known here"
        look = "zgrep {} /usr/share/doc/*/changelog.Debian.gz" if is_dpkg else "rpm -qa --changelog | grep {}"
        remedy = f"look whether its changelog names the fix ({look.format(ids[0])}); if not, {remedy}"
    return Unfixed(product["name"], problem, remedy)


def _branch(version: str) -> tuple[int, ...]:
    """Return the release branch of a version: (25, 5) of 25.05.9."""
    return tuple(int(part) for part in version.split(".")[:2] if part.isdigit())


def _is_of(entry: Mapping[str, Any], system: Mapping[str, Any]) -> bool:
    version = str(system.get("version") or "")
    return entry["os"] == system.get("id") and (
        version == entry["version"] or version.startswith(f"{entry['version']}.")
    )
