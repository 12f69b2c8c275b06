# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Parse the output of busbar_storage_check: one result per line, from all nodes in any order."""

from __future__ import annotations

from typing import Any

from ...common.printable import json_object, plain_text

_MARK = "busbar-storage "
_MOST_RANK = 1_000_000
_COUNTS = ("reads", "missing", "wrong", "back", "other")


def read_storage(text: str) -> list[dict[str, Any]]:
    """Return the results of each node, ordered by rank; it never raises, and invalid values count as missing.

    Returns:
        For each node: node, rank, mount, type and source (strings), local_locks, free and needed (bytes), write_error
        (empty on success), back, tree, rename (peer and counts), lock (peer, result, error), each None if missing; sees
        (file, peer, version, result), problems (strings), and speed: write and read, each None or rate (bytes/s or
        None), mode and error.
    """
    nodes: dict[int, dict[str, Any]] = {}
    for line in text.splitlines():
        found = _parsed(line[len(_MARK) :]) if line.startswith(_MARK) else None
        if found is not None:
            _note(nodes.setdefault(found["rank"], _blank(found)), found)
    return [nodes[rank] for rank in sorted(nodes)]


def _parsed(text: str) -> dict[str, Any] | None:
    found = json_object(text)
    if not isinstance(found.get("check"), str) or not _words(found.get("node")):
        return None
    rank = _whole(found.get("rank"))
    return found if rank is not None and rank <= _MOST_RANK else None


def _whole(value: object) -> int | None:
    """Return an integer of at least 0, or None."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 62 else None


def _words(value: object) -> str:
    return plain_text(value) if isinstance(value, str) else ""


def _blank(found: dict[str, Any]) -> dict[str, Any]:
    return {
        "node": _words(found["node"]),
        "rank": found["rank"],
        **dict.fromkeys(("mount", "type", "source"), ""),
        "local_locks": False,
        **dict.fromkeys(("free", "needed", "write_error", "back", "tree", "rename", "lock")),
        "sees": [],
        "speed": {"write": None, "read": None},
        "problems": [],
    }


def _note(node: dict[str, Any], found: dict[str, Any]) -> None:
    """Store a result, which replaces an earlier one of the same kind."""
    check, peer = found["check"], _whole(found.get("peer"))
    if check == "see" and peer is not None:
        entry = {"file": _words(found.get("file")), "peer": peer, "version": _whole(found.get("version"))}
        node["sees"].append({**entry, "result": _words(found.get("result"))})
    elif check == "rename" and peer is not None:
        node["rename"] = {"peer": peer, **{key: _whole(found.get(key)) or 0 for key in _COUNTS}}
    elif check == "lock" and peer is not None:
        node["lock"] = {"peer": peer, "result": _words(found.get("result")), "error": _words(found.get("error"))}
    elif check in {"speed-write", "speed-read"}:
        node["speed"][check.removeprefix("speed-")] = _speed(found)
    elif check == "problem":
        node["problems"].append(f"{_words(found.get('phase'))}: {_words(found.get('error'))}")
    else:
        _note_own(node, found)


def _note_own(node: dict[str, Any], found: dict[str, Any]) -> None:
    """Store a result that does not depend on other nodes."""
    check = found["check"]
    if check == "mount":
        node |= {key: _words(found.get(key)) for key in ("mount", "type", "source")}
        node["local_locks"] = found.get("locks") == "local"
    elif check == "room":
        node |= {"free": _whole(found.get("free")), "needed": _whole(found.get("needed"))}
    elif check == "write":
        node["write_error"] = _words(found.get("error")) or ("" if found.get("ok") is True else "unknown error")
    elif check == "back":
        node["back"] = _words(found.get("result"))
    elif check == "tree":
        node["tree"] = _whole(found.get("tree"))


def _speed(found: dict[str, Any]) -> dict[str, Any]:
    rate = _whole(found.get("rate"))
    error = _words(found.get("error"))
    return {"rate": rate or None, "mode": _words(found.get("mode")), "error": error if rate else error or "no rate"}
