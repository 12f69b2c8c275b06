"""What the cluster's own directory holds before it has users, and what is wrong with its options."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


__all__ = ["Wanted", "next_number", "tree_changes", "wanted_tree"]

_ROOT_CLASSES = {"dc": "domain", "o": "organization", "ou": "organizationalUnit"}


class Wanted(NamedTuple):
    """An entry: made where it is missing, with `kept` given again where it differs."""

    dn: str
    attributes: dict[str, list[str]]
    kept: tuple[str, ...] = ()


def next_number(taken: Iterable[int], first: int) -> int:
    """Return the number that follows the highest one that is taken, or the first."""
    return max([number for number in taken if number >= first], default=first - 1) + 1


def wanted_tree(suffix: str, reader: str, password_min_length: int) -> list[Wanted]:
    """Return the entries of every directory, parents first; the reader's password is not among them."""
    kind = suffix.partition("=")[0].strip().lower()
    root = {"objectClass": ["top", _ROOT_CLASSES[kind]]}
    if kind == "dc":
        root["objectClass"] = ["top", "dcObject", "organization"]
        root["o"] = [re.split("[=,]", suffix)[1].strip()]
    units = [
        Wanted(f"ou={name},{suffix}", {"objectClass": ["organizationalUnit"]})
        for name in ("people", "groups", "services", "policies")
    ]
    policy = {
        "objectClass": ["organizationalRole", "pwdPolicy"],
        "pwdAttribute": ["userPassword"],
        "pwdCheckQuality": ["2"],
        "pwdMinLength": [str(password_min_length)],
    }
    return [
        Wanted(suffix, root),
        *units,
        Wanted(f"cn=default,ou=policies,{suffix}", policy, ("pwdCheckQuality", "pwdMinLength")),
        Wanted(reader, {"objectClass": ["organizationalRole", "simpleSecurityObject"]}),
    ]


def tree_changes(
    wanted: Sequence[Wanted], found: Mapping[str, Mapping[str, Sequence[str]]]
) -> tuple[list[Wanted], list[Wanted]]:
    """Return what has to be made, and what has to be corrected with only the attributes that differ.

    Args:
        wanted: the entries.
        found: attributes of those that are there, by DN; names of attributes in small letters.
    """
    made = [entry for entry in wanted if entry.dn not in found]
    corrected = []
    for entry in wanted:
        there = found.get(entry.dn)
        if there is None:
            continue
        differing = {
            name: entry.attributes[name]
            for name in entry.kept
            if sorted(there.get(name.lower(), [])) != sorted(entry.attributes[name])
        }
        if differing:
            corrected.append(Wanted(entry.dn, differing))
    return made, corrected
