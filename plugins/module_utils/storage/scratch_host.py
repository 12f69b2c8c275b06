"""Read the current state of disks with lsblk, wipefs, mdadm and LVM."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .blank_disk import data_offset
from .scratch_facts import DEAD, array_of, block_tree, mount_at, pv_group, signatures

if TYPE_CHECKING:
    from collections.abc import Callable

    from ansible.module_utils.basic import AnsibleModule

    # Runs a program; returns exit status (None if the program is missing), output and errors.
    Run = Callable[[list[str]], tuple[int | None, str, str]]

__all__ = ["module_run", "read_scratch"]

BY_ID = Path("/dev/disk/by-id")
# lsblk prints a tree only if the column NAME is selected.
LSBLK = ["lsblk", "--json", "--bytes", "--paths", "--output", "NAME,PATH,MAJ:MIN,TYPE,SIZE,RO,MOUNTPOINTS"]
PVS = ["pvs", "--reportformat", "json", "--options", "pv_name,vg_name,vg_uuid,pv_count"]
# Links named after the contents or position of a disk instead of the disk.
NO_IDENTITY = ("lvm-pv-uuid-", "md-", "dm-")
# Links without model name and serial number.
OPAQUE = ("wwn-", "nvme-eui.", "nvme-uuid.", "nvme-nvme.", "scsi-0", "scsi-1", "scsi-3")
MAX_SHOWN = 3
# Unknown until mdadm or LVM is installed.
UNKNOWN = {"name": "", "uuid": "", "level": "unknown", "devices": 0}


def module_run(module: AnsibleModule) -> Run:
    """Return a function that runs programs in the C locale, with empty input, so that no prompt is confirmed."""

    def run(words: list[str]) -> tuple[int | None, str, str]:
        if module.get_bin_path(words[0]) is None:
            return None, "", f"{words[0]} is not installed"
        status, out, err = module.run_command(words, data="", environ_update={"LC_ALL": "C.UTF-8"})
        return status, out, err

    return run


def disk_ids(path: str, folder: Path = BY_ID) -> list[str]:
    """Return the paths of a disk in /dev/disk/by-id, starting with those that contain model and serial number."""
    if not folder.is_dir():
        return []
    links = [link for link in folder.iterdir() if not link.name.startswith(NO_IDENTITY)]
    ours = [link.name for link in links if os.path.realpath(link) == path]
    return [str(folder / name) for name in sorted(ours, key=lambda name: (name.startswith(OPAQUE), name))]


def is_busy(path: str) -> bool:
    """Return whether opening the device exclusively fails: it is mounted, a member of an array, or held open.

    This also covers partitions in use, and mounts in other mount namespaces.
    """
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_EXCL))
    except OSError:
        return True
    return False


def read_group(run: Run, path: str, contents: list[dict[str, str]]) -> dict[str, Any] | None:
    """Return the array or volume group of a disk, or None.

    The level is `unknown` if mdadm or LVM is not installed.
    """
    types = [item["type"] for item in contents if item["device"] == path]
    if "linux_raid_member" in types:
        status, out, _ = run(["mdadm", "--examine", "--export", path])
        return UNKNOWN if status is None else array_of(out)
    if "LVM2_member" in types:
        status, out, _ = run([*PVS, path])
        return UNKNOWN if status is None else pv_group(out)
    return None


def read_contents(run: Run, path: str) -> list[dict[str, str]]:
    """Return the signatures of one device, each with `device`.

    Raises:
        ValueError: the device cannot be read, so it is unknown whether it is blank.
    """
    status, out, err = run(["wipefs", "--json", path])
    if status != 0:
        message = f"{path} cannot be read: {(err or out).strip()}"
        raise ValueError(message)
    return [{"device": path, **item} for item in signatures(out)]


def read_data(path: str, contents: list[dict[str, str]]) -> int | None:
    """Return the offset of data on a device without signatures; None if it is blank or has signatures.

    Raises:
        ValueError: the device cannot be read.
    """
    if contents:
        return None
    try:
        return data_offset(path)
    except OSError as exc:
        message = f"{path} cannot be read: {exc.strerror or exc}"
        raise ValueError(message) from exc


def array_state(path: str) -> str:
    """Return the kernel's state of a RAID array, or '' for other devices."""
    try:
        return Path("/sys/class/block", Path(path).name, "md", "array_state").read_text().strip()
    except OSError:
        return ""


def read_device(run: Run, given: str) -> dict[str, Any]:
    """Return one declared device.

    `path` is the real device, '' if missing; `above` are arrays, volumes and partitions on it; `data` is the offset of
    data without a signature.

    Raises:
        ValueError: the device cannot be read.
    """
    path = os.path.realpath(given)
    if not Path(path).is_block_device():
        return {"given": given, "path": "", "kind": "other" if Path(path).exists() else "missing"}
    status, out, err = run([*LSBLK, path])
    if status != 0:
        message = f"{path} cannot be read: {(err or out).strip()}"
        raise ValueError(message)
    device, *above = block_tree(out)
    contents = read_contents(run, path)
    for item in above:
        item["state"] = array_state(item["path"])
        item["contents"] = read_contents(run, item["path"]) if item["size"] else []
        is_target = item["size"] and item["kind"] != "part" and item["state"] not in DEAD
        item["data"] = read_data(item["path"], item["contents"]) if is_target else None
    contents += [found for item in above if item["kind"] == "part" for found in item["contents"]]
    return {
        **device,
        "given": given,
        "ids": disk_ids(path),
        "busy": is_busy(path),
        "contents": contents,
        "data": read_data(path, contents),
        "group": read_group(run, path, contents),
        "above": above,
    }


def read_scratch(run: Run, devices: list[str], path: str) -> dict[str, Any]:
    """Return the `devices` in order, and the state of the mount point.

    `place` is absent, directory or other; `entries` are the first names in it if it is not a mount point.

    Raises:
        ValueError: a device cannot be read.
    """
    mount = mount_at(Path("/proc/self/mountinfo").read_text(), path)
    spot = Path(path)
    place = "absent"
    if spot.is_symlink() or spot.exists():
        place = "directory" if spot.is_dir() and not spot.is_symlink() else "other"
    entries = sorted(item.name for item in spot.iterdir())[:MAX_SHOWN] if place == "directory" and not mount else []
    return {
        "devices": [read_device(run, given) for given in devices],
        "mount": mount,
        "place": place,
        "entries": entries,
    }
