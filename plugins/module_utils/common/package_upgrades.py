"""Which upgrades a package manager offers, which of them are asked for, and which are held. Pure."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

__all__ = ["FAMILIES", "Upgrade", "chosen", "held_patterns", "parse_apt", "parse_dnf"]

# What is updated by its own means, or must fit what other hosts have; the names of Debian, Ubuntu and of EL.
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
    """A package that can be upgraded: to which version, from which one, and whether that closes holes."""

    name: str
    version: str
    before: str = ""
    security: bool = False

    def __str__(self) -> str:
        """Return what happens in words."""
        return f"{self.name} {self.before} -> {self.version}" if self.before else f"{self.name} {self.version}"


def parse_apt(said: str) -> tuple[list[Upgrade], list[str]]:
    """Return what `apt-get --simulate` would install, and the names that it would remove.

    A version that comes from several places is named with all of them, such as
    `(3.0.15-1~deb12u1 Debian:12.9/oldstable, Debian-Security:12/oldstable-security [amd64])`.
    """
    found, removed = [], []
    for line in said.splitlines():
        installed, gone = _INST.match(line), _REMV.match(line)
        if installed:
            name, before, version, origins = installed.groups()
            found.append(Upgrade(name, version, before or "", bool(_SECURITY.search(origins))))
        elif gone:
            removed.append(gone.group(1))
    return found, removed


def parse_dnf(said: str) -> list[Upgrade]:
    """Return what `dnf -q check-update` offers; what it says of obsoleted packages comes after, and is no offer.

    Where there is no terminal dnf takes it to be 80 columns wide, and a field that is wider than its column ends the
    line, so that the rest of the package is on the next ones (`fmtColumns` in its cli/output.py).
    """
    found: list[Upgrade] = []
    words: list[str] = []
    for line in said.partition("\nObsoleting")[0].splitlines():
        words = [*words, *line.split()] if line.startswith(" ") else line.split()
        if len(words) == _DNF_FIELDS and "." in words[0]:
            found.append(Upgrade(words[0].rpartition(".")[0], words[1]))
    return found


def held_patterns(families: Iterable[str]) -> list[str]:
    """Return the patterns of the packages that are held."""
    return [pattern for family in families for pattern in FAMILIES[family]]


def chosen(
    offered: Sequence[Upgrade], patterns: Collection[str], *, security: bool
) -> tuple[list[Upgrade], list[Upgrade]]:
    """Return which upgrades are made, and which of those that were asked for are held."""
    asked = [each for each in offered if each.security or not security]
    held = [each for each in asked if any(fnmatchcase(each.name.partition(":")[0], pattern) for pattern in patterns)]
    return [each for each in asked if each not in held], held
