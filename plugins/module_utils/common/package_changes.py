"""What must change so that packages have their versions, and are held: from what is wanted and what is there."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = [
    "DPKG_FORMAT",
    "RPM_FORMAT",
    "Changes",
    "Present",
    "Wanted",
    "as_lines",
    "changes_for",
    "parse_dpkg",
    "parse_rpm",
    "touched_packages",
    "version_fits",
]

# ${db:Status-Want} is `hold` for what apt-mark holds.
DPKG_FORMAT = "${Package}\\t${Version}\\t${db:Status-Want}\\t${db:Status-Status}\\n"
RPM_FORMAT = "%{NAME}\\t%|EPOCH?{%{EPOCH}:}:{}|%{VERSION}-%{RELEASE}\\n"


class Wanted(TypedDict):
    """A package, its version or a pattern for it ('': any), and whether it is held (None: left as it is)."""

    name: str
    version: str
    hold: bool | None


class Present(TypedDict):
    """An installed package: its version, and whether it is held."""

    version: str
    held: bool


class Changes(TypedDict):
    """Packages to bring to a version, to remove, to hold and to free; all names, the first with ``=version``."""

    install: list[str]
    remove: list[str]
    hold: list[str]
    unhold: list[str]


def parse_dpkg(text: str) -> dict[str, Present]:
    """Return the installed packages that `dpkg-query -W` listed in DPKG_FORMAT."""
    found: dict[str, Present] = {}
    for line in text.splitlines():
        name, version, want, status = line.split("\t")
        if status == "installed":
            found[name] = {"version": version, "held": want == "hold"}
    return found


def parse_rpm(text: str, locked: Iterable[str]) -> dict[str, Present]:
    """Return the installed packages that `rpm -q` listed in RPM_FORMAT; `locked` are the lines of dnf's versionlock."""
    locks = [line.strip() for line in locked if line.strip() and not line.startswith(("#", "!"))]
    found: dict[str, Present] = {}
    for line in text.splitlines():
        name, tab, version = line.partition("\t")
        if tab:  # else rpm's word that something is not installed
            prefixes = (f"{name}-0:", f"{name}-{version.split('-')[0]}", f"{name}-{version.partition(':')[0]}:")
            found[name] = {"version": version, "held": any(lock.startswith(prefixes) for lock in locks)}
    return found


def parse_madison(text: str) -> dict[str, list[str]]:
    """Return the versions that `apt-cache madison` listed for each package, in its order, the newest first."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        name, _, rest = line.partition("|")
        version, _, source = rest.partition("|")
        versions = found.setdefault(name.strip(), [])
        if not source.strip().endswith("Sources") and version.strip() not in versions:
            versions.append(version.strip())
    return found


def touched_packages(text: str, patterns: Iterable[str]) -> list[str]:
    """Return the packages that fit a pattern and that `apt-get --simulate` would install, change or remove."""
    words = [line.split() for line in text.splitlines() if line.startswith(("Inst ", "Remv ", "Purg "))]
    wanted = list(patterns)
    return sorted({word[1] for word in words if any(fnmatchcase(word[1], pattern) for pattern in wanted)})


def version_fits(version: str, wanted: str) -> bool:
    """Return whether a version is the wanted one or fits its pattern; rpm's epoch may be left out.

    A version without a release fits all of its releases: 570.133.20 takes 570.133.20-1.
    """
    shapes = {version, version.partition(":")[2] or version}
    patterns = {wanted} if "-" in wanted else {wanted, f"{wanted}-*"}
    return not wanted or any(fnmatchcase(shape, pattern) for shape in shapes for pattern in patterns)


def changes_for(wanted: Iterable[Wanted], absent: Iterable[str], present: Mapping[str, Present]) -> Changes:
    """Return what must change. `absent` are names or patterns; what is wanted is never removed."""
    changes: Changes = {"install": [], "remove": [], "hold": [], "unhold": []}
    names = set()
    for package in wanted:
        name, here = package["name"], present.get(package["name"])
        names.add(name)
        fits = here is not None and version_fits(here["version"], package["version"])
        if not fits:
            changes["install"].append(f"{name}={package['version']}" if package["version"] else name)
        held = here is not None and here["held"]
        if package["hold"] is not None and package["hold"] != held:
            changes["hold" if package["hold"] else "unhold"].append(name)
    patterns = list(absent)
    changes["remove"] = sorted(
        name for name in present if name not in names and any(fnmatchcase(name, pattern) for pattern in patterns)
    )
    return changes


def as_lines(present: Mapping[str, Present], changes: Changes | None = None) -> str:
    """Return the packages as lines for a diff, as they are or as they would be after the changes."""
    versions = {name: item["version"] for name, item in present.items()}
    held = {name for name, item in present.items() if item["held"]}
    if changes:
        for word in changes["install"]:
            name, _, version = word.partition("=")
            versions[name] = version or "the newest"
        versions = {name: version for name, version in versions.items() if name not in changes["remove"]}
        held = (held | set(changes["hold"])) - set(changes["unhold"])
    return "".join(f"{name} {version}{' held' if name in held else ''}\n" for name, version in sorted(versions.items()))
