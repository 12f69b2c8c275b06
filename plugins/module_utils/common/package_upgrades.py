"""Parse the upgrades that a package manager offers, and split them into selected and held ones."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

__all__ = ["FAMILIES", "Upgrade", "chosen", "held_patterns", "parse_apt", "parse_dnf"]

# Packages that have a separate upgrade procedure, or must have the same version on all hosts (Debian, Ubuntu and EL).
FAMILIES = {
    "kernel": ("linux-image*", "linux-headers*", "linux-modules*", "linux-generic*", "linux-virtual*", "kernel*"),
    "nvidia": ("nvidia-*", "libnvidia-*", "libcuda1*", "cuda-drivers*", "kmod-nvidia*", "xserver-xorg-video-nvidia*"),
    "slurm": ("slurm*", "libslurm*", "libpam-slurm*"),
}
_INST = re.compile(r"^Inst (\S+) (?:\[(\S+)\] )?\((\S+) (.*?) ?\[[\w-]+\]\)")
_REMV = re.compile(r"^Remv (\S+)")
_SECURITY = re.compile(r"security", re.IGNORECASE)
_DNF_FIELDS = 3


class Upgrade(NamedTuple):
    """An available upgrade: new version, old version, and whether it is a security update."""

    name: str
    version: str
    before: str = ""
    security: bool = False

    def __str__(self) -> str:
        """Return the upgrade as text."""
        return f"{self.name} {self.before} -> {self.version}" if self.before else f"{self.name} {self.version}"


def parse_apt(output: str) -> tuple[list[Upgrade], list[str]]:
    """Return the packages that `apt-get --simulate` would install, and the names of those that it would remove.

    A version with several origins lists all of them, such as
    `(3.0.15-1~deb12u1 Debian:12.9/oldstable, Debian-Security:12/oldstable-security [amd64])`.
    """
    found, removed = [], []
    for line in output.splitlines():
        installed, gone = _INST.match(line), _REMV.match(line)
        if installed:
            name, before, version, origins = installed.groups()
            found.append(Upgrade(name, version, before or "", bool(_SECURITY.search(origins))))
        elif gone:
            removed.append(gone.group(1))
    return found, removed


def parse_dnf(output: str) -> list[Upgrade]:
    """Return the upgrades in the output of `dnf -q check-update`, without the obsoleted packages after them.

    Without a terminal dnf assumes 80 columns; a field wider than its column ends the line, and the rest of the package
    is on the following lines (`fmtColumns` in its cli/output.py).
    """
    found: list[Upgrade] = []
    words: list[str] = []
    for line in output.partition("\nObsoleting")[0].splitlines():
        words = [*words, *line.split()] if line.startswith(" ") else line.split()
        if len(words) == _DNF_FIELDS and "." in words[0]:
            found.append(Upgrade(words[0].rpartition(".")[0], words[1]))
    return found


def held_patterns(families: Iterable[str]) -> list[str]:
    """Return the name patterns of held packages."""
    return [pattern for family in families for pattern in FAMILIES[family]]


def chosen(
    offered: Sequence[Upgrade], patterns: Collection[str], *, security: bool
) -> tuple[list[Upgrade], list[Upgrade]]:
    """Return the selected upgrades that are allowed, and those that are held."""
    selected = [each for each in offered if each.security or not security]
    held = [each for each in selected if any(fnmatchcase(each.name.partition(":")[0], pattern) for pattern in patterns)]
    return [each for each in selected if each not in held], held
