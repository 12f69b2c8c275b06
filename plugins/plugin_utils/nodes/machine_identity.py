# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Detect by host keys and serial numbers whether the machine of a node was replaced."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from .dossier import REPLACED

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ...module_utils.hardware.machine_parts import Part

# Events for the same machine: reinstalled, or unchanged and allowed by an option.
REINSTALLED, AGAIN = "reinstalled", "provisioned again"
ADMITTED = "admitted"
_OPTION = "-e replace_node_same_machine=true"
_KINDS = (("machine", "serial"), ("machine", "id"), ("gpu", "serial"), ("gpu", "id"), ("nic", "id"))


class Change(NamedTuple):
    """The event to record for a node's machine, or the problem if the machine is rejected."""

    event: str = ""
    problem: str = ""
    remedy: str = ""


def known_parts(node: str, records: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Return the parts of a node's last recorded machine, or an empty list."""
    found = [each["parts"] for each in records if each["node"] == node and isinstance(each.get("parts"), list)]
    return [part for part in (found[-1] if found else []) if isinstance(part, dict)]


def compared(
    before: Iterable[Part | Mapping[str, str]], after: Iterable[Part | Mapping[str, str]]
) -> tuple[str, str, bool]:
    """Return the identifiers of two machines, of the best kind that both have, and whether they are the same machine.

    Machines without a common kind of identifier count as different.
    """
    first, second = ([dict(part) for part in parts] for parts in (before, after))

    def numbers(parts: list[dict[str, Any]], kind: str, key: str) -> set[str]:
        return {str(part[key]) for part in parts if part.get("kind") == kind and part.get(key)}

    for kind, key in _KINDS:
        one, other = numbers(first, kind, key), numbers(second, kind, key)
        if one and other:
            shown = [", ".join(sorted(each)) for each in (one, other)]
            return shown[0], shown[1], bool(one & other)
    # The machines have no kind of identifier in common.
    shown = [
        next((", ".join(sorted(found)) for each in _KINDS if (found := numbers(parts, *each))), "")
        for parts in (first, second)
    ]
    return shown[0], shown[1], False


def change_of(  # noqa: PLR0913 - one for each identifier
    node: str,
    key: str,
    *,
    known: Mapping[str, str],
    former: Iterable[str],
    records: Sequence[Mapping[str, Any]],
    same_serial: bool,
    allow_same: bool,
) -> Change:
    """Return the event for the current machine of a node, or the problem if it is rejected.

    Args:
        node: name of the node.
        key: current public host key of the machine.
        known: certified host key of each host.
        former: revoked host keys.
        records: the site's records, oldest first.
        same_serial: whether the machine has the serial number of the previous one.
        allow_same: whether the same machine may be provisioned again.
    """
    if key in former:
        return Change(
            problem="its host key is revoked: it is a former machine, or has a copy of that machine's disk",
            remedy="generate new host keys there: rm /etc/ssh/ssh_host_*; ssh-keygen -A; systemctl restart ssh",
        )
    holder = next((host for host, own in known.items() if own == key and host != node), "")
    if holder:
        return Change(
            problem=f"it has the host key of {holder}: its disk is a copy of {holder}'s, or it has {holder}'s address",
            remedy="correct ansible_host, or generate new host keys there: rm /etc/ssh/ssh_host_*; ssh-keygen -A",
        )
    if known.get(node) == key and not allow_same:
        # An interrupted run may already have recorded this machine, so do not record it again.
        own = [each for each in records if each["node"] == node]
        if own and own[-1]["event"] != ADMITTED and own[-1].get("host_key") == key:
            return Change(event="")
        return Change(
            problem="it is still the old machine: its host key is already recorded"
            + (", and so is its serial number" if same_serial else ""),
            remedy=f"replace the machine and run again; to reprovision the same machine: {_OPTION}",
        )
    if known.get(node) == key:
        return Change(event=AGAIN)
    return Change(event=REINSTALLED if same_serial else REPLACED)
