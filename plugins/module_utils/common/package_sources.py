"""Format apt and dnf repository files, and find other files that name the same repository."""

from __future__ import annotations

import configparser
import io
import re
from typing import TYPE_CHECKING, TypedDict
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = [
    "NORMAL_PRIORITY",
    "Pin",
    "Source",
    "apt_paths",
    "apt_preferences",
    "apt_source",
    "configures_url",
    "dnf_paths",
    "dnf_repository",
    "source_problems",
]

# apt's default priority: apt_preferences(5).
NORMAL_PRIORITY = 500
# dnf.conf(5): lower numbers take precedence; the default is 99.
DNF_NORMAL_PRIORITY, DNF_PREFERRED_PRIORITY = 99, 90
NAME = re.compile(r"[a-z0-9][a-z0-9_.-]*")


class Source(TypedDict):
    """A repository: short name, URL, suite and components (apt only), and priority."""

    name: str
    url: str
    suite: str
    components: list[str]
    priority: int


class Pin(TypedDict):
    """Packages (names or patterns, separated by spaces), their pinned version, and the priority."""

    packages: str
    version: str
    priority: int


def apt_paths(name: str) -> dict[str, str]:
    """Return the paths of key, source and preferences of a repository on Debian."""
    return {
        "key": f"/etc/apt/keyrings/busbar-{name}.asc",
        "source": f"/etc/apt/sources.list.d/busbar-{name}.sources",
        "preferences": f"/etc/apt/preferences.d/busbar-repository-{name}.pref",
    }


def dnf_paths(name: str) -> dict[str, str]:
    """Return the paths of key and source of a repository on Red Hat systems."""
    return {
        "key": f"/etc/pki/rpm-gpg/RPM-GPG-KEY-busbar-{name}",
        "source": f"/etc/yum.repos.d/busbar-{name}.repo",
    }


def source_problems(source: Source) -> list[tuple[str, str, str]]:
    """Return the errors in a source, each as (option, problem, remedy)."""
    found = []
    if not NAME.fullmatch(source["name"]):
        found.append(("name", f"{source['name']!r} is not valid in a file name", "use letters, digits, - and _"))
    parts = urlsplit(source["url"])
    if parts.scheme not in {"http", "https", "file"} or re.search(r"\s", source["url"]):
        remedy = "set the URL of the repository: https://mirror.example.org/cuda/"
        found.append(("url", f"{source['url']!r} is not a URL", remedy))
    flat = source["suite"].endswith("/")
    if flat and source["components"]:
        remedy = "remove the components, or set a suite that does not end in /"
        found.append(("components", f"suite {source['suite']!r} is a flat repository, which has no components", remedy))
    if not flat and not source["components"]:
        remedy = "set its components, or use ./ for a repository without suites"
        found.append(("suite", f"suite {source['suite']!r} needs components", remedy))
    return found


def apt_source(source: Source, key: str, header: str) -> str:
    """Return the text of a .sources file that trusts only the given key file."""
    lines = [header, "Types: deb", f"URIs: {source['url']}", f"Suites: {source['suite']}"]
    if source["components"]:
        lines.append(f"Components: {' '.join(source['components'])}")
    return "\n".join([*lines, f"Signed-By: {key}"]) + "\n"


def apt_preferences(pins: Iterable[Pin], header: str, source: Source | None = None) -> str:
    """Return an apt preferences file with the priority of a repository (by its host) and the pins, or ''."""
    stanzas = []
    if source and source["priority"] != NORMAL_PRIORITY:
        host = urlsplit(source["url"]).hostname or ""
        stanzas.append(f'Package: *\nPin: origin "{host}"\nPin-Priority: {source["priority"]}\n')
    stanzas += [
        f"Package: {pin['packages']}\nPin: version {pin['version']}\nPin-Priority: {pin['priority']}\n" for pin in pins
    ]
    return "\n".join([f"{header}\n", *stanzas]) if stanzas else ""


def dnf_repository(source: Source, key: str, header: str, checks: Mapping[str, bool]) -> str:
    """Return the text of a .repo file; `checks` states whether `packages` and `metadata` are signed."""
    priority = DNF_NORMAL_PRIORITY if source["priority"] <= NORMAL_PRIORITY else DNF_PREFERRED_PRIORITY
    parser = configparser.ConfigParser(interpolation=None)
    parser[f"busbar-{source['name']}"] = {
        "name": f"{source['name']} (busbar)",
        "baseurl": source["url"],
        "enabled": "1",
        "gpgcheck": str(int(checks["packages"])),
        "repo_gpgcheck": str(int(checks["metadata"])),
        "gpgkey": f"file://{key}",
        "priority": str(priority),
    }
    stream = io.StringIO()
    parser.write(stream, space_around_delimiters=False)
    return f"{header}\n{stream.getvalue().rstrip()}\n"


def configures_url(text: str, url: str) -> bool:
    """Return whether the text of an apt source, in either format, names the repository at `url`."""
    wanted = url.rstrip("/")
    words = (word for line in text.splitlines() if not line.lstrip().startswith("#") for word in line.split())
    return any(word.rstrip("/") == wanted for word in words)
