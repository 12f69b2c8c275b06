"""Fold and unfold host lists with ClusterShell, for code on the provisioning host.

ClusterShell is not installed on nodes, where `module_utils.slurm.hostlist` is used instead.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ClusterShell.NodeSet import NodeSet, NodeSetException

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_COMMON_NAME = re.compile(r"[A-Za-z][A-Za-z0-9._-]*")
_NUMBERED = re.compile(r"(.*?)([0-9]+)", re.DOTALL)


def fold_hosts(hosts: Iterable[str]) -> str:
    """Return folded host names: ['gpu1', 'gpu2', 'ctl'] gives 'ctl,gpu[1-2]'."""
    names = list(hosts)
    if len(names) == 1 and _COMMON_NAME.fullmatch(names[0]):
        return names[0]
    try:
        return str(NodeSet.fromlist(names))
    except NodeSetException:  # names may be invalid in error messages
        return ",".join(sorted(set(names)))


def fold_for_slurm(names: Iterable[str]) -> str:
    """Return host names folded in Slurm's syntax: ['gpu1', 'gpu2', 'ctl'] gives 'ctl,gpu[1-2]'.

    Slurm allows brackets only at the end of a name, so only a number at the end is folded.
    """
    numbered: dict[tuple[str, int], list[int]] = {}
    plain = []
    for name in dict.fromkeys(names):
        match = _NUMBERED.fullmatch(name)
        if match is None:
            plain.append(name)
        else:
            numbered.setdefault((match[1], len(match[2])), []).append(int(match[2]))
    folded = NodeSet()
    folded.fold_axis = (-1,)
    # ClusterShell is slow if names are added one by one.
    for (start, width), numbers in numbered.items():
        folded.add(f"{start}[{','.join(_ranges(numbers, width))}]")
    return ",".join([*sorted(plain), *filter(None, [str(folded)])])


def _ranges(numbers: list[int], width: int) -> Iterator[str]:
    """Yield consecutive numbers as ranges: [3, 4, 7] of width 2 gives 03-04 and 07."""
    numbers.sort()
    first = 0
    for place, number in enumerate(numbers, 1):
        if place == len(numbers) or numbers[place] != number + 1:
            start = numbers[first]
            yield f"{start:0{width}}" if start == number else f"{start:0{width}}-{number:0{width}}"
            first = place


def unfold_hosts(given: str | Iterable[str]) -> list[str]:
    """Return the names in one or several folded lists: 'gpu[1-2],ctl' gives ['ctl', 'gpu1', 'gpu2'].

    Raises:
        ValueError: the string is not a host list.
    """
    text = given if isinstance(given, str) else ",".join(given)
    try:
        return list(NodeSet(str(text)))
    except NodeSetException as exc:
        message = f"{text!r} is not a list of hosts such as gpu[1-4],login ({exc})"
        raise ValueError(message) from exc
