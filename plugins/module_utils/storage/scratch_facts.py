"""What disks hold and who uses them, from the JSON of lsblk and wipefs and the text of mdadm.

Everything here is pure and runs on a node's own python3 (3.9, standard library only).
"""

from __future__ import annotations

import json
from typing import Any

__all__ = ["DEAD", "DISK_KINDS", "array_of", "block_tree", "mount_at", "pv_group", "signatures"]

# Kinds in the words of lsblk that stand for a whole disk; a loop device serves as one in tests.
DISK_KINDS = ("disk", "loop", "mpath")
# States of an array, in the words of the kernel, in which nothing can be read from it.
DEAD = frozenset({"broken", "inactive", "clear", "suspended"})


def signatures(text: str) -> list[dict[str, str]]:
    """Return `type`, `label` and `uuid` of each signature in the JSON of `wipefs --json`; equal ones once.

    A GPT lies twice on a disk, at its start and at its end, and is one thing to who reads of it.

    Raises:
        ValueError: the text is not that JSON.
    """
    found: list[dict[str, str]] = []
    if not text.strip():  # some releases say nothing at all of a blank disk
        return found
    for entry in json.loads(text).get("signatures") or []:
        item = {key: str(entry.get(key) or "") for key in ("type", "label", "uuid")}
        if item not in found:
            found.append(item)
    return found


def _node(entry: dict[str, Any]) -> dict[str, Any]:
    """Return one block device of lsblk in our words."""
    several = entry.get("mountpoints")
    single = [entry.get("mountpoint")] if several is None else several
    return {
        "path": str(entry["path"]),
        "kind": str(entry["type"]),
        "number": str(entry["maj:min"]),
        "size": int(entry.get("size") or 0),
        "read_only": str(entry.get("ro")).lower() in {"true", "1"},
        "mountpoints": [str(place) for place in single if place],
    }


def block_tree(text: str) -> list[dict[str, Any]]:
    """Return the device and all that lies on it, itself first, from `lsblk --json --bytes --paths` of one device.

    Each has `path`, `kind` (disk, part, raid0, lvm, crypt, …), `number` (major:minor), `size` (bytes), `read_only` and
    `mountpoints` (swap in use stands there as [SWAP]).

    Raises:
        ValueError: the text is not that JSON, or has no device.
    """
    roots = json.loads(text).get("blockdevices") or []
    if not roots:
        message = "lsblk shows no such device"
        raise ValueError(message)
    found, waiting = [], [roots[0]]
    while waiting:
        entry = waiting.pop(0)
        found.append(_node(entry))
        waiting += entry.get("children") or []
    return found


def array_of(text: str) -> dict[str, Any] | None:
    """Return `name`, `uuid`, `level` and `devices` of the array in what `mdadm --examine --export` says of a member.

    The name is without the host, the UUID in the form of file systems. None when it says nothing of an array.
    """
    values = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    digits = values.get("MD_UUID", "").replace(":", "").lower()
    if not digits:
        return None
    return {
        "name": values.get("MD_NAME", "").rpartition(":")[2],
        "uuid": "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])),
        "level": values.get("MD_LEVEL", ""),
        "devices": int(values.get("MD_DEVICES") or 0),
    }


def pv_group(text: str) -> dict[str, Any] | None:
    """Return `name`, `uuid`, `level` and `devices` of the volume group in the JSON of `pvs`; None when in none.

    Raises:
        ValueError: the text is not that JSON.
    """
    rows = [row for part in json.loads(text or "{}").get("report") or [] for row in part.get("pv") or []]
    if not rows or not rows[0].get("vg_name"):
        return None
    row = rows[0]
    return {
        "name": row["vg_name"],
        "uuid": row.get("vg_uuid", ""),
        "level": "lvm",
        "devices": int(row.get("pv_count") or 0),
    }


def mount_at(text: str, path: str) -> dict[str, str] | None:
    """Return `number`, `source` and `type` of what is mounted at a path, from the text of /proc/self/mountinfo.

    None when it is no mount point; of several mounts over each other the last counts, since only that is seen.
    """
    found = None
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        _, _, number, _, place, *_ = before.split()
        kind, source, *_ = after.split()
        # A blank in a path stands there as \\040.
        if place.encode().decode("unicode_escape") == path:
            found = {"number": number, "source": source, "type": kind}
    return found
