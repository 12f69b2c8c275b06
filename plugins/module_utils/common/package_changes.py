"""Compute the package changes from wanted and installed versions and holds."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

__all__ = [
    "DPKG_FORMAT",
    "RPM_FORMAT",
    "Changes",
    "Family",
    "Present",
    "Wanted",
    "after_changes",
    "changes_for",
    "difference",
    "holds",
    "is_of_family",
    "lock_lines",
    "lock_name",
    "locks_about",
    "parse_dpkg",
    "parse_madison",
    "parse_rpm",
    "resolved",
    "touched_packages",
    "version_fits",
]

# ${db:Status-Want} is `hold` for packages held by apt-mark.
DPKG_FORMAT = "${Package}\\t${Version}\\t${db:Status-Want}\\t${db:Status-Status}\\n"
RPM_FORMAT = "%{NAME}\\t%|EPOCH?{%{EPOCH}:}:{}|%{VERSION}-%{RELEASE}\\n"


class Wanted(TypedDict):
    """A package, its version or version pattern ('': any), and whether to hold it (None: no change)."""

    name: str
    version: str
    hold: bool | None


class Family(TypedDict):
    """Name patterns of packages that accompany the wanted ones, and their version."""

    names: list[str]
    version: str


class Present(TypedDict):
    """An installed package: its version, and whether it is held."""

    version: str
    held: bool


class Changes(TypedDict):
    """Packages to install (``name=version``), to remove, to hold and to unhold."""

    install: list[str]
    remove: list[str]
    hold: list[str]
    unhold: list[str]


def parse_dpkg(text: str) -> dict[str, Present]:
    """Return the installed packages in the output of `dpkg-query -W` in DPKG_FORMAT."""
    found: dict[str, Present] = {}
    for line in text.splitlines():
        name, version, want, status = line.split("\t")
        if status == "installed":
            found[name] = {"version": version, "held": want == "hold"}
    return found


def parse_rpm(text: str, locked: Iterable[str]) -> dict[str, Present]:
    """Return the installed packages in the output of `rpm -q` in RPM_FORMAT; `locked` are versionlock's lines.

    A package is held only by a lock on its installed version; a lock on another version makes dnf skip it.
    """
    locks = lock_lines("\n".join(locked))
    found: dict[str, Present] = {}
    for line in text.splitlines():
        name, tab, version = line.partition("\t")
        if tab:  # otherwise rpm reports a package that is not installed
            found[name] = {"version": version, "held": any(holds(lock, name, version) for lock in locks)}
    return found


def parse_madison(text: str) -> dict[str, list[str]]:
    """Return the versions of each package in the output of `apt-cache madison`, newest first."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        name, _, rest = line.partition("|")
        version, _, source = rest.partition("|")
        versions = found.setdefault(name.strip(), [])
        if not source.strip().endswith("Sources") and version.strip() not in versions:
            versions.append(version.strip())
    return found


def touched_packages(text: str, patterns: Iterable[str]) -> list[str]:
    """Return the packages that match a pattern and that `apt-get --simulate` would install, change or remove."""
    words = [line.split() for line in text.splitlines() if line.startswith(("Inst ", "Remv ", "Purg "))]
    wanted = list(patterns)
    return sorted({word[1] for word in words if any(fnmatchcase(word[1], pattern) for pattern in wanted)})


def version_fits(version: str, wanted: str) -> bool:
    """Return whether a version equals the wanted one or matches its pattern; rpm's epoch is optional.

    A version without a release matches all its releases: 570.133.20 matches 570.133.20-1.
    """
    shapes = {version, version.partition(":")[2] or version}
    patterns = {wanted} if "-" in wanted else {wanted, f"{wanted}-*"}
    return not wanted or any(fnmatchcase(shape, pattern) for shape in shapes for pattern in patterns)


def is_of_family(name: str, family: Family | None) -> bool:
    """Return whether a package matches a pattern of the family."""
    return family is not None and any(fnmatchcase(name, pattern) for pattern in family["names"])


def changes_for(
    wanted: Iterable[Wanted], absent: Iterable[str], present: Mapping[str, Present], family: Family | None = None
) -> Changes:
    """Return the required changes; `absent` contains names or patterns, and wanted packages are never removed."""
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
    if family and family["version"]:
        changes["hold"] += sorted(
            name
            for name, here in present.items()
            if name not in {*names, *changes["remove"]}
            and is_of_family(name, family)
            and not here["held"]
            and version_fits(here["version"], family["version"])
        )
    return changes


def resolved(install: Iterable[str], known: Mapping[str, Sequence[str]]) -> tuple[list[str], list[str]]:
    """Return ``name=version`` with the newest matching version for each word, and a line for each without one."""
    words, lacking = [], []
    for word in install:
        name, _, wanted = word.partition("=")
        versions = known.get(name, [])
        fitting = [version for version in versions if version_fits(version, wanted)]
        if fitting:
            words.append(f"{name}={fitting[0]}")
        else:
            lacking.append(f"{name} {wanted} (known: {', '.join(versions) or 'none'})")
    return words, lacking


def after_changes(present: Mapping[str, Present], changes: Changes) -> dict[str, Present]:
    """Return the packages that will be installed after the changes."""
    after = {name: item for name, item in present.items() if name not in changes["remove"]}
    for word in changes["install"]:
        name, _, version = word.partition("=")
        after[name] = {"version": version or "the newest", "held": name in present and present[name]["held"]}
    for names, held in ((changes["hold"], True), (changes["unhold"], False)):
        after |= {name: {"version": after[name]["version"], "held": held} for name in names if name in after}
    return after


def difference(before: Mapping[str, Present], after: Mapping[str, Present]) -> dict[str, str]:
    """Return Ansible's diff, with a line for each changed package."""
    changed = [name for name in sorted({*before, *after}) if before.get(name) != after.get(name)]

    def lines(found: Mapping[str, Present]) -> str:
        items = [(name, found[name]) for name in changed if name in found]
        return "".join(f"{name} {item['version']}{' held' if item['held'] else ''}\n" for name, item in items)

    headers = {"before_header": "packages", "after_header": "packages"}
    return {"before": lines(before), "after": lines(after), **headers}


# Locks: plugins/versionlock.py of github.com/rpm-software-management/dnf-plugins-core, 4.3 to 4.10. `versionlock add`
# writes a comment with the date, and NAME-EPOCH:VERSION-RELEASE.* with epoch 0 if the package has none. If any
# version of the package is already locked, it writes nothing and succeeds. A line with `!` is an exclude. Lines written
# by hand or with --raw may be any package specification; `versionlock delete` finds them only by their full text.
_WRITTEN = re.compile(r"(?P<name>.+)-\d+:[^-]+-[^-]+")
# A manually written lock: a name with a version, or with version and release.
_RAW = re.compile(r"(?P<name>.+?)-\d[^-]*(-[^-]+)?")


def lock_lines(text: str) -> list[str]:
    """Return the locks in the text of versionlock.list, without comments and excludes."""
    lines = (line.strip() for line in text.splitlines())
    return [line for line in lines if line and not line.startswith(("#", "!"))]


def lock_name(line: str) -> str:
    """Return the package name of a lock: 'nvlsm' for 'nvlsm-0:2025.10-1.el9.*'."""
    match = _WRITTEN.fullmatch(line) or _RAW.fullmatch(line)
    return match.group("name") if match else line


def holds(line: str, name: str, version: str) -> bool:
    """Return whether a lock holds a package at exactly this version, such as '3:580.95.05-1.el9'."""
    full = f"{name}-{version}" if ":" in version else f"{name}-0:{version}"
    return line == full or line.startswith(f"{full}.")


def locks_about(lines: Iterable[str], concerns: Callable[[str], bool]) -> list[str]:
    """Return the locks on packages whose name satisfies `concerns`."""
    return [line for line in lines if concerns(lock_name(line))]
