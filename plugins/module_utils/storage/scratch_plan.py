"""Plan the commands that turn disks into a scratch file system, or report why the disks must not be changed.

A disk with contents is wiped only if `scratch_wipe_devices` names its id for that host, and never while it is in use.
The role recognizes scratch file systems from earlier runs by name or UUID and leaves them unchanged.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ..common.problems import Problem, make_problem
from .scratch_facts import DEAD, DISK_KINDS
from .scratch_steps import array_path, create_steps, format_steps, mapper_path, md_uuid, start_steps, wipe_steps

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Declared = Mapping[str, Any]
    Device = Mapping[str, Any]

__all__ = ["declaration_problems", "path_problems", "scratch_plan"]

NAME = re.compile(r"[a-z][a-z0-9_]{0,11}")
BY_ID = "/dev/disk/by-id/"
EXAMPLE = f"use the disk's persistent name: {BY_ID}nvme-MODEL_SERIAL; `ls -l {BY_ID}` shows them"
PATH = re.compile(r"/[A-Za-z0-9_./-]+")
# Directories of the operating system. In /tmp and /var/tmp a user could replace the directory by a link.
SYSTEM = re.compile(r"/((home|opt|srv|var)?|(bin|boot|dev|etc|lib|lib64|proc|root|run|sbin|sys|tmp|usr|var/tmp)(/.*)?)")
MEBIBYTE = 1 << 20
GIGABYTE = 1e9
RAIDS = ("mdadm", "lvm", "none")


def declaration_problems(host: str, declared: Declared) -> list[Problem]:
    """Return errors in the declaration that do not depend on the disks of the host.

    Args:
        host: name of the host.
        declared: `devices`, `raid`, `name`, `path`, `wipe` (host to list of ids), `uuid`, `minimum_mb`, `chunk_kb`,
            `mkfs_options`.
    """
    devices, path, raid, name = list(declared["devices"]), declared["path"], declared["raid"], declared["name"]
    wrong = [
        ("devices", f"{item!r} is not a path under /dev", EXAMPLE) for item in devices if not item.startswith("/dev/")
    ]
    twice = dict.fromkeys(item for item in devices if devices.count(item) > 1)
    wrong += [("devices", f"{item} is listed twice", "list each disk once") for item in twice]
    if raid not in RAIDS or (raid == "none") != (len(devices) == 1):
        wrong.append(
            (
                "raid",
                f"{raid!r} is not possible with {len(devices)} device(s)",
                "use none for one disk, else mdadm or lvm",
            )
        )
    if not NAME.fullmatch(name):
        wrong.append(("name", f"{name!r} is not a valid array name", "use a letter, then up to 11 of a-z, 0-9 and _"))
    for item in declared["wipe"].get(host) or []:
        if not str(item).startswith(BY_ID):
            wrong.append(("wipe_devices", f"{item!r} is not a persistent disk name", EXAMPLE))
        elif devices and item not in devices and all(given.startswith(BY_ID) for given in devices):
            wrong.append(("wipe_devices", f"{item} is not in scratch_devices of this host", "correct one of the two"))
    found = [make_problem([host], f"scratch_{key}", problem, remedy) for key, problem, remedy in wrong]
    return found + path_problems([host], path)


def path_problems(hosts: Sequence[str], path: str) -> list[Problem]:
    """Return a problem if a path cannot be the scratch directory."""
    if PATH.fullmatch(path) and not SYSTEM.fullmatch(path) and not {"", ".", ".."} & set(path[1:].split("/")):
        return []
    problem = f"{path!r} is not a usable mount point"
    return [make_problem(hosts, "scratch_path", problem, "set an unused absolute path, such as /scratch")]


def size_text(size: int) -> str:
    """Return a size in bytes as text in GB or MB (powers of ten, as disks are sold)."""
    return f"{size / GIGABYTE:.1f} GB" if size >= GIGABYTE else f"{size / 1e6:.0f} MB"


def contents_text(contents: Sequence[Mapping[str, str]]) -> str:
    """Describe the contents of a disk: type, label, UUID and partition of each signature."""
    return ", ".join(
        " ".join(
            filter(
                None,
                (item["type"], item["label"] and f"labelled {item['label']!r}", item["uuid"], f"on {item['device']}"),
            )
        )
        for item in contents
    )


def use_text(device: Device) -> str:
    """Describe what uses a disk, or return '' if it is free."""
    uses = []
    for item in [device, *device["above"]]:
        uses += [
            f"{item['path']} {'is swap in use' if place == '[SWAP]' else f'is mounted at {place}'}"
            for place in item["mountpoints"]
        ]
    uses += [f"{item['path']} ({item['kind']}) uses it" for item in device["above"] if item["kind"] != "part"]
    return "; ".join(uses) or ("it is held open exclusively" if device["busy"] else "")


def is_from_role(declared: Declared, name: str, uuid: str) -> bool:
    """Return whether the role created an array, volume group or file system."""
    return bool(name == declared["name"] or uuid == declared["uuid"])


def scratch_uuid(declared: Declared, device: Device) -> str:
    """Return the UUID of the scratch file system that a disk belongs to, or ''."""
    group, contents = device["group"], device["contents"]
    if declared["raid"] == "none":
        own = [
            item for item in contents if item["type"] == "xfs" and is_from_role(declared, item["label"], item["uuid"])
        ]
        return str(own[0]["uuid"]) if own == contents and own else ""
    levels = ("lvm",) if declared["raid"] == "lvm" else ("raid0",)
    if group and group["level"] in levels and is_from_role(declared, group["name"], group["uuid"]):
        return str(group["uuid"])
    return ""


def device_problems(host: str, declared: Declared, devices: Sequence[Device]) -> list[Problem]:
    """Return the devices that cannot be used: missing, not a disk, listed twice, too small or read-only."""
    found: list[Problem] = []
    seen: dict[str, str] = {}
    for item in devices:
        given, path = item["given"], item["path"]
        if not path:
            problem = "is not a block device" if item["kind"] == "other" else "does not exist"
            remedy = f"check `ls -l {BY_ID}` on {host}; an incomplete scratch file system is not changed"
        elif item["kind"] == "part":
            problem, remedy = f"({path}) is a partition", "set the whole disk"
        elif item["kind"] not in DISK_KINDS:
            problem, remedy = f"({path}) is a {item['kind']}, not a disk", "set the underlying disks"
        elif path in seen:
            problem, remedy = f"and {seen[path]} are the same disk, {path}", "list each disk once"
        elif item["size"] < declared["minimum_mb"] * MEBIBYTE:
            problem = f"({path}) has only {size_text(item['size'])} (scratch_minimum_mb: {declared['minimum_mb']})"
            remedy = "remove it, or lower scratch_minimum_mb"
        elif item["read_only"]:
            problem, remedy = f"({path}) is read-only", f"check `dmesg | grep {path.rpartition('/')[2]}`"
        else:
            seen[path] = given
            continue
        found.append(make_problem([host], "scratch_devices", f"{given} {problem}", remedy))
    return found


def wipe_line(host: str, names: Sequence[str]) -> str:
    """Return the `scratch_wipe_devices` setting that allows wiping these disks on a host."""
    return f"scratch_wipe_devices: {{{host}: [{', '.join(names)}]}}"


def manual_wipe(item: Mapping[str, Any]) -> str:
    """Return the command that empties a device: `wipefs`, or `blkdiscard` for data without a signature."""
    command = "wipefs --all" if item["contents"] else "blkdiscard --zeroout"
    return f"wipe it manually: {command} {item['path']}"


def data_text(item: Mapping[str, Any]) -> str:
    """Describe data without a known signature by its offset, or return '' for a blank disk."""
    offset = item["data"]
    return "" if offset is None else f"data without a known signature, first at byte {offset}"


def content_problems(host: str, declared: Declared, devices: Sequence[Device]) -> list[Problem]:
    """Return the disks for a new scratch file system that are in use, or have contents and may not be wiped."""
    named, found = list(declared["wipe"].get(host) or []), []
    for item in devices:
        what = f"{item['given']} ({item['path']}, {size_text(item['size'])})"
        held, use = contents_text(item["contents"]) or data_text(item), use_text(item)
        if use:
            holds = f"; it holds {held}" if held else ""
            remedy = "remove it from scratch_devices, or free it first; a disk in use is never wiped"
            found.append(make_problem([host], "scratch_devices", f"{what} is in use: {use}{holds}", remedy))
        elif held and not set(named) & set(item["ids"]):
            line = wipe_line(host, [*named, *item["ids"][:1]])
            remedy = f"to destroy all data on this disk: {line}"
            if not item["ids"]:
                remedy = f"it has no name under {BY_ID}; {manual_wipe(item)}"
            found.append(make_problem([host], "scratch_devices", f"{what} holds {held}", remedy))
    return found


def membership_problems(host: str, declared: Declared, devices: Sequence[Device]) -> list[Problem]:
    """Report a declaration that mixes disks of an existing scratch file system with other disks.

    It is accepted as a new file system only if no disk of the old one is in use and all of them may be wiped.
    """
    named = set(declared["wipe"].get(host) or [])
    ours = [item for item in devices if scratch_uuid(declared, item)]
    if all(not use_text(item) and named & set(item["ids"]) for item in ours):
        return []
    owned = {scratch_uuid(declared, item) for item in ours}
    others = ", ".join(item["given"] for item in devices if item not in ours)
    names = ", ".join(item["given"] for item in ours)
    problem = f"{names} belong to the scratch file system {', '.join(sorted(owned))}"
    problem += f", but {others} does not" if others else ", which are different file systems"
    return [make_problem([host], "scratch_devices", f"the list has changed: {problem}", _remake(declared))]


def target_of(declared: Declared, devices: Sequence[Device]) -> Mapping[str, Any] | None:
    """Return the running array or volume, or the disk without RAID; None if the array or volume is not running."""
    if declared["raid"] == "none":
        return devices[0]
    if declared["raid"] == "mdadm":
        return next((item for item in devices[0]["above"] if item["kind"].startswith(("raid", "md"))), None)
    return next((item for item in devices[0]["above"] if item["path"] == mapper_path(declared)), None)


def existing_problems(
    host: str, declared: Declared, devices: Sequence[Device], target: Mapping[str, Any] | None
) -> list[Problem]:
    """Return the problems that make an existing scratch file system unusable."""
    found, group = [], devices[0]["group"]
    if group and group["devices"] != len(devices):
        problem = f"the scratch file system on these disks has {group['devices']} disks (declared: {len(devices)})"
        found.append(make_problem([host], "scratch_devices", problem, _remake(declared)))
    if target is None:
        return found
    if target.get("state") in DEAD:
        problem = f"{target['path']} is {target['state']}: one of its disks is broken or missing"
        remedy = f"check /proc/mdstat and dmesg; if all disks work: mdadm --stop {target['path']}, then run again"
        return [*found, make_problem([host], "scratch_devices", problem, remedy)]
    strange = [item for item in target["contents"] if item["type"] != "xfs"]
    named = set(declared["wipe"].get(host) or [])
    if not target["contents"] and target["data"] is not None and not all(named & set(item["ids"]) for item in devices):
        problem = f"{target['path']} contains {data_text(target)} instead of XFS"
        line = wipe_line(host, sorted({*named, *(name for item in devices for name in item["ids"][:1])}))
        remedy = f"save its data; to destroy all data on these disks: {line}"
        found.append(make_problem([host], "scratch_devices", problem, remedy))
    if strange:
        problem = f"{target['path']} contains {contents_text(strange)} instead of XFS"
        remedy = f"save its data and wipe it manually: wipefs --all {target['path']}"
        found.append(make_problem([host], "scratch_devices", problem, remedy))
    elsewhere = [place for place in target["mountpoints"] if place != declared["path"]]
    if elsewhere:
        problem = f"the scratch file system is already mounted at {', '.join(elsewhere)}"
        remedy = f"set scratch_path to it, or unmount it and remove its line from /etc/fstab on {host}"
        found.append(make_problem([host], "scratch_path", problem, remedy))
    return found


def _remake(declared: Declared) -> str:
    """Return the remedy for a scratch file system that was built from different disks."""
    path, array = declared["path"], array_path(declared)
    stop = {"mdadm": f"; mdadm --stop {array}", "lvm": f"; vgchange -an {declared['name']}"}.get(declared["raid"], "")
    return (
        f"declare its original disks; or discard its data: umount {path}{stop}, "
        "and set the disks in scratch_wipe_devices"
    )


def place_problems(host: str, declared: Declared, facts: Mapping[str, Any], number: str) -> list[Problem]:
    """Report a mount point that is taken; `number` is the device number of the scratch file system, or ''."""
    mount, path = facts["mount"], declared["path"]
    if mount and mount["number"] != number:
        problem = f"{mount['source']} ({mount['type']}) is mounted at {path}"
        return [
            make_problem(
                [host], "scratch_path", problem, "choose another path, or unmount it and remove it from /etc/fstab"
            )
        ]
    if facts["place"] == "other":
        return [
            make_problem(
                [host], "scratch_path", f"{path} exists and is not a directory", "remove it, or choose another path"
            )
        ]
    if facts["entries"]:
        problem = f"{path} is not empty ({', '.join(facts['entries'])}, …), and a mount would hide its contents"
        return [make_problem([host], "scratch_path", problem, "move the contents away, or choose another path")]
    return []


def _of_existing(host: str, declared: Declared, facts: Mapping[str, Any], found: str) -> dict[str, Any]:
    """Return `problems`, `steps`, `array` and `uuid` for an existing scratch file system with UUID `found`."""
    devices = facts["devices"]
    target, paths = target_of(declared, devices), [item["given"] for item in devices]
    problems = existing_problems(host, declared, devices, target)
    problems += place_problems(host, declared, facts, target["number"] if target else "")
    plan: dict[str, Any] = {"problems": problems, "array": md_uuid(found)}
    if target is None:
        return {**plan, "steps": start_steps(declared, found)}
    if not target["contents"]:
        return {**plan, "steps": format_steps(declared, paths)}
    return {**plan, "uuid": target["contents"][0]["uuid"]}


def _of_new(host: str, declared: Declared, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return `problems` and `steps` for disks that become a new scratch file system."""
    devices = facts["devices"]
    paths = [item["given"] for item in devices]
    problems = membership_problems(host, declared, devices) or content_problems(host, declared, devices)
    problems += place_problems(host, declared, facts, "")
    steps = [*wipe_steps(devices), *create_steps(declared, paths), *format_steps(declared, paths)]
    return {"problems": problems, "steps": steps}


def _is_unknown(declared: Declared, device: Device) -> bool:
    """Return whether a disk might belong to the role; mdadm or LVM, not installed yet, could confirm it."""
    own = {"mdadm": "linux_raid_member", "lvm": "LVM2_member"}.get(declared["raid"])
    unknown = device["group"] and device["group"]["level"] == "unknown"
    return bool(unknown) and own in {item["type"] for item in device["contents"]}


def scratch_plan(host: str, declared: Declared, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the steps from the current disks to the declared scratch file system.

    Args:
        host: name of the host.
        declared: see `declaration_problems`.
        facts: result of `scratch_host.read_scratch`.

    Returns:
        `problems` (if there are any, ignore the rest), `steps` (commands to run now; empty if nothing changes),
        `recipe` (commands that create the file system on blank disks), `uuid` of the file system, `array` (its UUID in
        mdadm's format), and `undecided`: whether mdadm or LVM must be installed before a decision is possible.
    """
    devices, uuid = facts["devices"], declared["uuid"]
    plan = {"problems": [], "steps": [], "uuid": uuid, "array": md_uuid(uuid), "undecided": False}
    problems = device_problems(host, declared, devices)
    if problems:
        return {**plan, "problems": problems, "recipe": []}
    marks = {scratch_uuid(declared, item) for item in devices}
    if any(_is_unknown(declared, item) for item in devices):
        plan["undecided"] = True
    elif len(marks) == 1 and "" not in marks:
        plan.update(_of_existing(host, declared, facts, marks.pop()))
    else:
        plan.update(_of_new(host, declared, facts))
    kept, paths = {**declared, "uuid": plan["uuid"]}, [item["given"] for item in devices]
    return {**plan, "recipe": [*create_steps(kept, paths), *format_steps(kept, paths)]}
