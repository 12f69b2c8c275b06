"""Format an apt source and preferences that allow only one release of Slurm from another suite."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ..common.package_sources import apt_source

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = [
    "PREFERENCES",
    "SLURM_PACKAGES",
    "SOURCE",
    "distribution_archive",
    "preferences_text",
    "repository_problems",
    "source_text",
]

SOURCE = "/etc/apt/sources.list.d/busbar-slurm.sources"
PREFERENCES = "/etc/apt/preferences.d/busbar-slurm.pref"
SLURM_PACKAGES = ("slurm*", "libslurm*", "libpam-slurm*", "sackd")
_HEADER = "# Managed by Ansible (slurm_repository)."
_PREFERRED, _NEVER = 990, -10
_KEYS = frozenset({"release", "suite", "url", "components", "keyring", "packages", "expired"})
_RELEASE = re.compile(r"\d\d\.\d\d")
_WORD = re.compile(r"[A-Za-z0-9*][A-Za-z0-9.+:~/*_-]*")
_FIELDS = 3
_ORIGINS = ("Debian", "Ubuntu")


def repository_problems(repository: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Return the errors in `slurm_repository`, each as (key, problem, remedy)."""
    if not repository:
        return []
    found = [
        (f"slurm_repository.{key}", "is not a valid key", f"use one of {', '.join(sorted(_KEYS))}")
        for key in sorted(set(repository) - _KEYS)
    ]
    if not _RELEASE.fullmatch(str(repository.get("release") or "")):
        remedy = 'set the major release as a string, such as "26.05"'
        found.append(("slurm_repository.release", f"{repository.get('release')!r} is not a Slurm release", remedy))
    words = [repository.get("suite") or "x", *repository.get("components", ()), *repository.get("packages", ())]
    bad = [word for word in words if not isinstance(word, str) or not _WORD.fullmatch(word)]
    found += [
        ("slurm_repository", f"{word!r} is not valid in an apt source", "remove spaces and special characters")
        for word in bad
    ]
    if repository.get("url") and not repository.get("suite"):
        remedy = "set suite, or add the repository to apt yourself and set only release"
        found.append(("slurm_repository.suite", "is missing (required with url)", remedy))
    return found


def distribution_archive(output: str, codename: str) -> str:
    """Return the URL of the distribution's archive; '' if unknown.

    Args:
        output: lines ``SITE|CODENAME|ORIGIN`` of `apt-get indextargets`.
        codename: codename of the distribution release, such as ``trixie``.
    """
    rows = [line.split("|") for line in output.splitlines()]
    return next((row[0] for row in rows if len(row) == _FIELDS and row[1] == codename and row[2] in _ORIGINS), "")


def source_text(repository: Mapping[str, Any], url: str, keyring: str) -> str:
    """Return the text of the apt source; '' if `slurm_repository` has no suite."""
    if not repository.get("suite"):
        return ""
    components = list(repository.get("components") or ["main"])
    source = {"name": "slurm", "url": url, "suite": repository["suite"], "components": components, "priority": 500}
    text = apt_source(source, keyring, _HEADER)  # type: ignore[arg-type]
    return f"{text}Check-Valid-Until: no\n" if repository.get("expired") else text


def preferences_text(repository: Mapping[str, Any], also: Sequence[str]) -> str:
    """Return apt preferences that pin Slurm's release, allow its dependencies, and block the rest of the suite.

    Args:
        repository: `slurm_repository`.
        also: packages to allow from the suite if the repository lists none.
    """
    suite = repository.get("suite")
    more = list(repository.get("packages") or also)
    stanzas = [(" ".join(SLURM_PACKAGES), f"version {repository['release']}.*", _PREFERRED)]
    if suite:
        # Debian suites have a name and a codename; sites may use either.
        for kind in ("a", "n"):
            stanzas += [(" ".join(more), f"release {kind}={suite}", _PREFERRED)] if more else []
        stanzas += [("*", f"release {kind}={suite}", _NEVER) for kind in ("a", "n")]
    texts = [f"Package: {names}\nPin: {pin}\nPin-Priority: {priority}\n" for names, pin, priority in stanzas]
    return "\n".join([f"{_HEADER}\n", *texts])
