"""Which packages an uninstallation takes away: those that busbar brought, as far as nothing else needs them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = [
    "STATUS_FORMAT",
    "Package",
    "choose_packages",
    "parse_conffiles",
    "parse_left_over",
    "parse_simulation",
    "parse_status",
]

STATUS_FORMAT = (
    "${Package}\\t${db:Status-Status}\\t${db:Status-Want}\\t${Pre-Depends}, ${Depends}\\t${Provides}\\t${Essential}\\n"
)
_NAME = re.compile(r"[a-z0-9][a-z0-9+.-]+")
_CONFFILE = re.compile(r"^ (/.+) ([0-9a-f]{32})$")


class Package(TypedDict):
    """An installed package: what it needs, each as a list of names of which one will do, and what else it is."""

    needs: list[list[str]]
    provides: list[str]
    essential: bool


def _names(text: str) -> list[str]:
    """Return the names in a field, without versions and architectures."""
    found = (_NAME.match(word.strip()) for word in text.split(","))
    return [match[0] for match in found if match]


def parse_status(text: str) -> dict[str, Package]:
    """Return the installed packages that `dpkg-query -W` listed in STATUS_FORMAT.

    Raises:
        ValueError: it is something else.
    """
    found: dict[str, Package] = {}
    for row in text.splitlines():
        name, status, _want, needs, provides, essential = row.split("\t")
        if status == "installed":
            choices = [[name for word in choice.split("|") for name in _names(word)] for choice in needs.split(",")]
            found[name] = {
                "needs": [choice for choice in choices if choice],
                "provides": _names(provides),
                "essential": essential == "yes",
            }
    return found


def parse_left_over(text: str) -> tuple[list[str], list[str]]:
    """Return what a removal that was killed has left, in the same listing.

    These are packages between there and gone, and those that are still there and were to go: apt has forgotten by then
    that nobody asked for them by name.
    """
    rows = [line.split("\t")[:3] for line in text.splitlines()]
    between = [name for name, status, _want in rows if status not in {"installed", "not-installed"}]
    given_up = [name for name, status, want in rows if status == "installed" and want in {"purge", "deinstall"}]
    return between, given_up


def choose_packages(
    brought: Mapping[str, str], before: Iterable[str], installed: Mapping[str, Package], automatic: Iterable[str]
) -> tuple[list[str], dict[str, str]]:
    """Return the packages that go, and those that stay although busbar brought them, with the reason.

    Args:
        brought: packages that busbar's transactions installed, and whether as a dependency ('automatic').
        before: packages that were there before.
        installed: all packages of the host.
        automatic: those that are there only as dependencies.
    """
    marks, old = set(automatic), set(before)
    candidates = {name for name in brought if name in installed and name not in old}
    kept = {
        name: "installed by name since"
        for name in sorted(candidates)
        if brought[name] == "automatic" and name not in marks
    }
    kept |= {name: "essential" for name in sorted(candidates) if installed[name]["essential"]}
    provided: dict[str, set[str]] = {}
    for name, package in installed.items():
        for each in (name, *package["provides"]):
            provided.setdefault(each, set()).add(name)
    going = candidates - kept.keys()
    left = [name for name in sorted(installed) if name not in going]
    while left:
        needing = left.pop()
        for choice in installed[needing]["needs"]:
            givers = {giver for name in choice for giver in provided.get(name, ())}
            # As long as one that stays will do, nobody needs the others.
            if givers and givers <= going:
                for giver in sorted(givers):
                    kept[giver] = f"needed by {needing}"
                    going.discard(giver)
                    left.append(giver)
    return sorted(going), kept


def parse_simulation(text: str) -> tuple[set[str], set[str]]:
    """Return what `apt-get --simulate` would remove, and what it would install."""
    rows = [line.split() for line in text.splitlines()]
    words = [(row[0], row[1].partition(":")[0]) for row in rows if len(row) > 1]
    return (
        {name for action, name in words if action in {"Remv", "Purg"}},
        {name for action, name in words if action == "Inst"},
    )


def parse_conffiles(text: str) -> dict[str, str]:
    """Return the configuration files that dpkg lists (`${Conffiles}`), with the MD5 that each came with."""
    found = (_CONFFILE.match(line) for line in text.splitlines())
    return {match[1]: match[2] for match in found if match}
