# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Identify the machines, GPUs and NICs of a job by their serial numbers and ids."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Part", "known_number", "parts_of", "read_parts"]

KINDS = ("machine", "gpu", "nic")
_LINE = re.compile(rf"^# busbar part: (\S{{1,255}}) ({'|'.join(KINDS)}) ([^,]*), ([^,]*), (.*)$", re.MULTILINE)
_FIELDS = ("id", "serial", "name")
_LONGEST = 200
_MOST = 64
_MOST_NODES = 10_000
# Placeholders for missing serial numbers, from nvidia-smi and from vendors' DMI tables.
_NONE = re.compile(r"(\[?n/?a\]?|\[not supported\]|none|0+|default string|to be filled.*|not specified)", re.IGNORECASE)


class Part(TypedDict):
    """A part of a node; kind is machine, gpu or nic, and unknown values are empty.

    Attributes:
        id: UUID of a GPU, GUID or hardware address of a NIC.
        serial: serial number.
        name: model, and for a NIC also its name on the node.
    """

    kind: str
    id: str
    serial: str
    name: str


def parts_of(text: str | None) -> dict[str, list[Part]]:
    """Return the parts of each node in the output of a job; parts without id and serial number are omitted.

    The job prints ``# busbar part: NODE KIND ID, SERIAL, NAME`` for each.
    """
    found: dict[str, list[Part]] = {}
    for node, kind, *values in _LINE.findall(text or ""):
        known = {key: known_number(value) for key, value in zip(_FIELDS, values)}
        if known["id"] or known["serial"]:
            _add(found, node, {"kind": kind, **known})
    return found


def known_number(text: str) -> str:
    """Return a serial number or id, or '' for a placeholder."""
    return "" if _NONE.fullmatch(text.strip()) else text.strip()


def read_parts(value: object, plain: Callable[[object], str]) -> dict[str, list[Part]]:
    """Return the parts of each node from an untrusted report.

    Args:
        value: value of the key `parts` of a test.
        plain: converts any object to printable text.
    """
    found: dict[str, list[Part]] = {}
    for node, parts in value.items() if isinstance(value, dict) else ():
        for part in parts if isinstance(parts, list) else ():
            if isinstance(part, dict) and part.get("kind") in KINDS:
                _add(found, plain(node), {key: plain(part.get(key) or "") for key in ("kind", *_FIELDS)})
    return found


def _add(found: dict[str, list[Part]], node: str, part: dict[str, Any]) -> None:
    """Add a part, unless it is a duplicate or the limits are reached."""
    if node not in found and len(found) >= _MOST_NODES:
        return
    known = found.setdefault(node, [])
    short: Part = {
        "kind": part["kind"],
        "id": part["id"][:_LONGEST],
        "serial": part["serial"][:_LONGEST],
        "name": part["name"][:_LONGEST],
    }
    if short not in known and len(known) < _MOST:
        known.append(short)
