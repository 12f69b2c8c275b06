# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Find installed packages with published vulnerabilities, listed in plugin_utils/preflight/package_fixes.yml.

Versions are compared as dpkg and rpm do.
"""

from __future__ import annotations

import re
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["compare_dpkg", "compare_rpm", "unfixed_packages"]

_DPKG = {"debian", "ubuntu"}
_PROCEDURE = "see docs/upgrade.md, Security updates"
_NUMBERS = re.compile(r"(\d+)")
_RPM_PARTS = re.compile(r"\d+|[A-Za-z]+|~|\^")
_LOWEST = -1
_END = ([0], 0)


class Unfixed(NamedTuple):
    """An installed product without security fixes; `is_known` is False if the table does not list the distribution."""

    name: str
    version: str
    problem: str
    remedy: str
    is_known: bool


def unfixed_packages(
    table: Mapping[str, Any], system: Mapping[str, Any], versions: Mapping[str, str]
) -> Iterator[Unfixed]:
    """Yield the products of a host that lack security fixes.

    Args:
        table: the content of package_fixes.yml.
        system: `os` of the node_info module: `id` and `version` from os-release, and `name`.
        versions: `versions` of that module, with full package revisions.
    """
    for product in table["products"]:
        version = versions.get(product["key"], "")
        is_number = bool(_NUMBERS.match(upstream_of(version)))
        if product["upstream"] and is_number and (found := _unfixed(product, system, version, table["as_of"])):
            yield found


def _unfixed(product: Mapping[str, Any], system: Mapping[str, Any], version: str, as_of: object) -> Unfixed | None:
    is_dpkg = system.get("id") in _DPKG
    compare = compare_dpkg if is_dpkg else compare_rpm
    upstream, parts = upstream_of(version), product.get("branch_parts", 2)
    first = {_branch(each, parts): each for each in product["upstream"]}.get(_branch(upstream, parts), "")
    if compare(upstream, first or product["upstream"][-1]) >= 0:
        return None
    own = next((each for each in product.get("distributions", []) if _is_of(each, system)), None)
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
    elif option := product.get("option"):
        problem = f"{version} has {holes}: it is older than {wanted} ({product['source']})"
        remedy = f"update it with {option}"
    elif own:
        none = "" if fixed else f"; {name} had published no fix by {own.get('as_of') or as_of}"
        problem = f"{version} has {holes}: it is older than {wanted}{none}"
    else:
        problem = f"{version} may have {holes}: it is older than {wanted}, and busbar has no list of fixes for {name}"
        look = "zgrep {} /usr/share/doc/*/changelog.Debian.gz" if is_dpkg else "rpm -qa --changelog | grep {}"
        remedy = f"check its changelog for the fix ({look.format(ids[0])}); if it is missing, {remedy}"
    return Unfixed(product["name"], version, problem, remedy, is_known=bool(own or option))


def _branch(version: str, parts: int) -> tuple[int, ...]:
    """Return the release branch of a version: (25, 5) for 25.05.9 and two parts."""
    return tuple(int(part) for part in version.split(".")[:parts] if part.isdigit())


def _is_of(entry: Mapping[str, Any], system: Mapping[str, Any]) -> bool:
    version = str(system.get("version") or "")
    return entry["os"] == system.get("id") and (
        version == entry["version"] or version.startswith(f"{entry['version']}.")
    )


def upstream_of(version: str) -> str:
    """Return the upstream version: '24.11.5' for '1:24.11.5-4+deb13u1'."""
    return version.partition(":")[2].rpartition("-")[0] or _split(version)[1]


def _split(version: str) -> tuple[int, str, str]:
    """Return epoch, upstream version and revision."""
    epoch, colon, rest = version.partition(":")
    number, rest = (epoch, rest) if colon else ("0", version)
    upstream, dash, revision = rest.rpartition("-")
    return int(number) if number.isdigit() else 0, *((upstream, revision) if dash else (rest, ""))


def _sign(one: Any, other: Any) -> int:  # noqa: ANN401 - both have the same type
    return int(one > other) - int(one < other)


def _dpkg_key(text: str) -> list[tuple[list[int], int]]:
    """Return a sort key like dpkg's verrevcmp: `~` before the end, letters before other signs, numbers by value."""
    parts = _NUMBERS.split(text)
    found = []
    for place in range(0, len(parts), 2):
        # A `~` sorts before the end of the text, which sorts before everything else.
        order = [_LOWEST if sign == "~" else ord(sign) + (0 if sign.isalpha() else 256) for sign in parts[place]]
        found.append(([*order, 0], int(parts[place + 1]) if place + 1 < len(parts) else 0))
    return found


def compare_dpkg(one: str, other: str) -> int:
    """Compare two Debian package versions and return -1, 0 or 1 (deb-version(7))."""
    (epoch, upstream, revision), (its_epoch, its_upstream, its_revision) = _split(one), _split(other)
    return _sign(epoch, its_epoch) or _verrevcmp(upstream, its_upstream) or _verrevcmp(revision, its_revision)


def _verrevcmp(one: str, other: str) -> int:
    pairs = zip_longest(_dpkg_key(one), _dpkg_key(other), fillvalue=_END)
    return next((sign for mine, its in pairs if (sign := _sign(mine, its))), 0)


def _rpmvercmp(one: str, other: str) -> int:
    """Compare like rpmvercmp: numbers beat letters; `~` sorts before the end, `^` after it but before more parts."""
    mine, its = _RPM_PARTS.findall(one), _RPM_PARTS.findall(other)
    for place in range(max(len(mine), len(its))):
        left = mine[place] if place < len(mine) else ""
        right = its[place] if place < len(its) else ""
        if sign := _sign(_rpm_rank(left), _rpm_rank(right)):
            return sign
    return 0


def _rpm_rank(part: str) -> tuple[int, int, str]:
    kind = {"~": 0, "": 1, "^": 2}.get(part)
    if kind is not None:
        return kind, 0, ""
    return (4, int(part), "") if part.isdigit() else (3, 0, part)


def compare_rpm(one: str, other: str) -> int:
    """Compare two RPM package versions and return -1, 0 or 1; a missing release equals any."""
    (epoch, upstream, revision), (its_epoch, its_upstream, its_revision) = _split(one), _split(other)
    sign = _sign(epoch, its_epoch) or _rpmvercmp(upstream, its_upstream)
    return sign or (_rpmvercmp(revision, its_revision) if revision and its_revision else 0)
