"""Commands that create a scratch file system on disks; none of them overwrites a disk that is not blank.

mdadm, LVM and mkfs.xfs refuse to overwrite data without a confirmation or force option, which these commands do not
give. So if the plan overlooks data, the command fails and the data stays intact.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Declared = Mapping[str, Any]

__all__ = ["array_path", "create_steps", "format_steps", "mapper_path", "md_uuid", "start_steps", "wipe_steps"]

SETTLE = ["udevadm", "settle", "--timeout=30"]


def array_path(declared: Declared) -> str:
    """Return the path of the array or volume."""
    name = declared["name"]
    return f"/dev/md/{name}" if declared["raid"] == "mdadm" else f"/dev/{name}/{name}"


def mapper_path(declared: Declared) -> str:
    """Return the path of the volume in the output of lsblk."""
    return f"/dev/mapper/{declared['name']}-{declared['name']}"


def md_uuid(uuid: str) -> str:
    """Return a UUID in mdadm's format: four groups of eight digits."""
    digits = uuid.replace("-", "").lower()
    return ":".join(digits[at : at + 8] for at in range(0, 32, 8))


def wipe_steps(devices: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Return the commands that remove all signatures from the disks, starting with their partitions.

    wipefs opens each device exclusively, so it fails if a device is in use.
    """
    steps = []
    for item in devices:
        if item["contents"]:
            parts = [part["path"] for part in item["above"] if part["kind"] == "part"]
            steps.append(["wipefs", "--all", *parts, item["path"]])
    return [*steps, SETTLE] if steps else []


def create_steps(declared: Declared, paths: Sequence[str]) -> list[list[str]]:
    """Return the commands that create the array or volume on blank disks.

    Signatures from an older array may reappear in the new array. They are wiped, because the disks were blank or
    the site permits wiping them.
    """
    name, chunk, count = declared["name"], str(declared["chunk_kb"]), str(len(paths))
    if declared["raid"] == "mdadm":
        made = ["mdadm", "--create", array_path(declared), "--name", name, "--homehost", "any", "--metadata", "1.2"]
        made += ["--uuid", md_uuid(declared["uuid"]), "--level", "0", "--chunk", chunk, "--raid-devices", count, *paths]
        return [made, SETTLE, ["wipefs", "--all", array_path(declared)]]
    if declared["raid"] == "lvm":
        volume = ["lvcreate", "--yes", "--wipesignatures", "y", "--name", name, "--extents", "100%FREE"]
        return [["vgcreate", name, *paths], [*volume, "--stripes", count, "--stripesize", chunk, name], SETTLE]
    return []


def format_steps(declared: Declared, paths: Sequence[str]) -> list[list[str]]:
    """Return the commands that create the file system; mkfs.xfs detects the stripes of array and volume."""
    target = paths[0] if declared["raid"] == "none" else array_path(declared)
    made = ["mkfs.xfs", "-q", "-L", declared["name"], "-m", f"uuid={declared['uuid']}", *declared["mkfs_options"]]
    return [[*made, target], SETTLE]


def start_steps(declared: Declared, uuid: str) -> list[list[str]]:
    """Return the commands that start an existing array or volume."""
    if declared["raid"] == "mdadm":
        return [["mdadm", "--assemble", array_path(declared), "--uuid", md_uuid(uuid)], SETTLE]
    return [["vgchange", "--activate", "y", declared["name"]], SETTLE]
