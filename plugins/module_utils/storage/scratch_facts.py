"""Parse contents and users of disks from the JSON of lsblk and wipefs and the text of mdadm."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["DEAD", "DISK_KINDS", "array_of", "block_tree", "mount_at", "pv_group", "signatures"]

# lsblk types of whole disks; tests use loop devices.
DISK_KINDS = ("disk", "loop", "mpath")
# Kernel states of an array that cannot be read.
DEAD = frozenset({"broken", "inactive", "clear", "suspended"})


def signatures(text: str) -> list[dict[str, str]]:
    """Return `type`, `label` and `uuid` of each signature in the JSON of `wipefs --json`, without duplicates.

    A GPT has copies at both ends of a disk, which count as one.

    Raises:
        ValueError: the text is not JSON.
    """
    found: list[dict[str, str]] = []
    if not text.strip():  # some releases print nothing for a blank disk
        return found
    for entry in json.loads(text).get("signatures") or []:
        item = {key: str(entry.get(key) or "") for key in ("type", "label", "uuid")}
        if item not in found:
            found.append(item)
    return found


def _node(entry: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of one block device in the output of lsblk."""
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
    """Return a device, followed by the devices on top of it, from `lsblk --json --bytes --paths`.

    Each has `path`, `kind` (disk, part, raid0, lvm, crypt, …), `number` (major:minor), `size` (bytes), `read_only` and
    `mountpoints` ([SWAP] for active swap).

    Raises:
        ValueError: the text is not JSON, or has no device.
    """
    roots = json.loads(text).get("blockdevices") or []
    if not roots:
        message = "lsblk does not list this device"
        raise ValueError(message)
    found, waiting = [], [roots[0]]
    while waiting:
        entry = waiting.pop(0)
        found.append(_node(entry))
        waiting += entry.get("children") or []
    return found


def array_of(text: str) -> dict[str, Any] | None:
    """Return `name`, `uuid`, `level` and `devices` of an array from `mdadm --examine --export` of a member.

    The name excludes the host; the UUID is formatted like that of a file system. None if the device is not a member.
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
    """Return `name`, `uuid`, `level` and `devices` of the volume group in the JSON of `pvs`, or None.

    Raises:
        ValueError: the text is not JSON.
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
    """Return `number`, `source` and `type` of the mount at a path from the text of /proc/self/mountinfo.

    Return None if the path is not a mount point. If several mounts are on top of each other, the last one is visible.
    """
    found = None
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        _, _, number, _, place, *_ = before.split()
        kind, source, *_ = after.split()
        # A space in a path is escaped as \040.
        if place.encode().decode("unicode_escape") == path:
            found = {"number": number, "source": source, "type": kind}
    return found
