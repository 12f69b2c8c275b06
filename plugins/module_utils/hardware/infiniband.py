"""Reads `ibstat` and `ibstatus`: the ports of RDMA devices, InfiniBand and Ethernet alike. Never raises."""

from __future__ import annotations

import re
from typing import Any

__all__ = ["parse_ibstat", "parse_ibstatus"]

_CA = re.compile(r"^CA '([^']+)'")
_PORT = re.compile(r"^Port (\d+):$")
_FIELD = re.compile(r"^([A-Za-z][A-Za-z_ ]*?):\s*(.*)$")
_STATUS_HEAD = re.compile(r"^Infiniband device '([^']+)' port (\d+) status:")
_RATE = re.compile(r"^(\d+(?:\.\d+)?)")
_FAILURE = re.compile(r"panic|failed|error|not found", re.IGNORECASE)


def _rate(text: str | None) -> float | None:
    """Return Gb/s: '200', '2.5', '200 Gb/sec (4X HDR)'."""
    match = _RATE.match(text or "")
    return float(match.group(1)) if match else None


def _word(text: str | None) -> str | None:
    """Return a state without its number: '4: ACTIVE' gives 'ACTIVE'."""
    return text.rpartition(": ")[2].strip() or None if text else None


def _port(device: str, number: int, fields: dict[str, str], adapter: dict[str, str]) -> dict[str, Any]:
    state = _word(fields.get("state"))
    return {
        "device": device,
        "port": number,
        "state": state,
        "physical_state": _word(fields.get("physical state") or fields.get("phys state")),
        "active": (state or "").lower() == "active",
        "rate_gbps": _rate(fields.get("rate")),
        "link_layer": fields.get("link layer") or fields.get("link_layer") or None,
        "base_lid": fields.get("base lid") or None,
        "port_guid": fields.get("port guid") or None,
        "type": adapter.get("ca type") or None,
        "firmware": adapter.get("firmware version") or None,
        "node_guid": adapter.get("node guid") or None,
    }


def parse_ibstat(text: str) -> dict[str, Any]:
    """Return the ports that `ibstat` lists.

    Returns:
        `ports`, each with `device`, `port`, `state`, `physical_state`, `active`, `rate_gbps`, `link_layer`,
        `base_lid`, `port_guid`, `type`, `firmware`, `node_guid`, None for what is not given; and `errors`, such as a
        device that could not be asked.
    """
    found: list[tuple[str, int, dict[str, str], dict[str, str]]] = []
    device = ""
    adapter: dict[str, str] = {}
    fields: dict[str, str] = {}
    errors = []
    for line in (each.strip() for each in text.splitlines()):
        head, port, item = _CA.match(line), _PORT.match(line), _FIELD.match(line)
        if head:
            device, adapter = head.group(1), {}
            fields = adapter
        elif port and device:
            fields = {}
            found.append((device, int(port.group(1)), fields, adapter))
        elif _FAILURE.search(line):
            errors.append(line[:300])
        elif item and device:
            fields[item.group(1).lower()] = item.group(2)
    return {"ports": [_port(*each) for each in found], "errors": errors}


def parse_ibstatus(text: str) -> dict[str, Any]:
    """Return the ports that `ibstatus` lists, in the form of parse_ibstat()."""
    found: list[tuple[str, int, dict[str, str]]] = []
    errors = []
    for line in (each.strip() for each in text.splitlines()):
        head, item = _STATUS_HEAD.match(line), _FIELD.match(line)
        if head:
            found.append((head.group(1), int(head.group(2)), {}))
        elif item and found:
            found[-1][2][item.group(1).lower()] = item.group(2)
        elif _FAILURE.search(line):
            errors.append(line[:300])
    return {"ports": [_port(*each, {}) for each in found], "errors": errors}
