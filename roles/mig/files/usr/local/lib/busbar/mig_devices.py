#!/usr/bin/python3
"""Creates stable names for the device files of MIG instances, for MultipleFiles in Slurm's gres.conf.

The driver renumbers instances with each layout and each boot. The device files of instance 9 of GPU 0 are
/dev/nvidia-caps/nvidia-capN, with the minor numbers N of gpu0/gi9/access and gpu0/gi9/ci0/access in
/proc/driver/nvidia-caps/mig-minors, as Slurm's plugin reads them (src/plugins/gpu/nvml/gpu_nvml.c,
_nvml_get_mig_minor_numbers). This program names them by profile: the first 1g.10gb of GPU 0 is
/dev/busbar/gpu0-1g.10gb-0-gi and -ci, and the GPU is /dev/busbar/gpu0. Instances with the same profile are sorted by
number, as in nvidia-smi. These names use a GPU's index in nvidia-smi; device files and mig-minors use its minor number.

The program prints a line for each name that it changes (with --check: would change), and removes all names if no GPU
uses MIG.
"""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

ROW = re.compile(r"^\|\s*(\d+)\s+MIG\s+(\S+)\s+\d+\s+(\d+)\s+\d+:\d+\s*\|", re.MULTILINE)
TIMEOUT_S = 120
NONE_THERE = 6


class MissingError(Exception):
    """A resource that a MIG instance requires does not exist."""


def gpus(query: str) -> list[tuple[int, dict[int, int]]]:
    """Return the minor number of each GPU, with the compute instance of each of its GPU instances.

    Args:
        query: output of `nvidia-smi -q -x`.
    """
    found = []
    for gpu in ET.fromstring(query).findall("gpu"):  # noqa: S314 - output of nvidia-smi
        minor = (gpu.findtext("minor_number") or "").strip()
        if not minor.isdigit():
            message = f"nvidia-smi reports no minor number for GPU {gpu.get('id')} (found {minor!r}, expected a number)"
            raise MissingError(message)
        devices = gpu.findall("mig_devices/mig_device")
        pairs = [(each.findtext("gpu_instance_id"), each.findtext("compute_instance_id")) for each in devices]
        found.append((int(minor), {int(gi or -1): int(ci or -1) for gi, ci in pairs}))
    return found


def minors(text: str) -> dict[str, int]:
    """Return the minor numbers in mig-minors by name, such as gpu0/gi9/ci0/access."""
    words = (line.split() for line in text.splitlines())
    return {pair[0]: int(pair[1]) for pair in words if len(pair) == 2 and pair[1].isdigit()}  # noqa: PLR2004 - a pair


def links(query: str, listing: str, caps: dict[str, int]) -> dict[str, str]:
    """Return the device file of each name; empty if no GPU uses MIG.

    Args:
        query: output of `nvidia-smi -q -x`.
        listing: output of `nvidia-smi mig -lgi`.
        caps: result of minors().

    Raises:
        MissingError: mig-minors lacks an instance, or an instance has no compute instance.
    """
    rows = sorted((int(gpu), int(identity), name) for gpu, name, identity in ROW.findall(listing))
    known = gpus(query)
    found = {f"gpu{index}": f"/dev/nvidia{minor}" for index, (minor, _) in enumerate(known)} if rows else {}
    counted: dict[tuple[int, str], int] = {}
    for gpu, identity, profile in rows:
        if gpu >= len(known):
            message = f"`nvidia-smi mig -lgi` lists GPU {gpu}, but `nvidia-smi -q` lists {len(known)} GPUs"
            raise MissingError(message)
        minor, computes = known[gpu]
        if identity not in computes:
            message = f"GPU {gpu}: instance {identity} ({profile}) has no compute instance"
            raise MissingError(message)
        number = counted[gpu, profile] = counted.get((gpu, profile), -1) + 1
        place = f"gpu{minor}/gi{identity}"
        for end, key in (("gi", f"{place}/access"), ("ci", f"{place}/ci{computes[identity]}/access")):
            if key not in caps:
                message = f"/proc/driver/nvidia-caps/mig-minors has no {key}"
                raise MissingError(message)
            name = f"gpu{gpu}-{profile.replace('+', '_')}-{number}-{end}"
            found[name] = f"/dev/nvidia-caps/nvidia-cap{caps[key]}"
    return found


def create_device_file(path: Path, devices: str) -> None:
    """Create a capability's device file if the driver's program has not created it yet.

    Args:
        path: the file.
        devices: content of /proc/devices.

    Raises:
        MissingError: another file has that name, or the major number is unknown.
    """
    if path.exists():
        if not stat.S_ISCHR(path.stat().st_mode):
            message = f"{path} is not a character device"
            raise MissingError(message)
        return
    major = re.search(r"^\s*(\d+) nvidia-caps$", devices, re.MULTILINE)
    number = re.search(r"nvidia-cap(\d+)$", path.name)
    if not major or not number:
        message = f"{path} does not exist, and /proc/devices does not list nvidia-caps"
        raise MissingError(message)
    path.parent.mkdir(mode=0o755, exist_ok=True)
    os.mknod(path, stat.S_IFCHR | 0o444, os.makedev(int(major[1]), int(number[1])))
    path.chmod(0o444)


def sync_links(folder: Path, wanted: dict[str, str], *, check: bool = False) -> list[str]:
    """Synchronize the links in a folder with `wanted` and return the changes; with `check` only return them."""
    there = {path.name: str(path.readlink()) for path in folder.iterdir()} if folder.is_dir() else {}
    changed = [name for name in sorted({*there, *wanted}) if there.get(name) != wanted.get(name)]
    changes = [f"{name}: {there.get(name, 'nothing')} -> {wanted.get(name, 'nothing')}" for name in changed]
    if check:
        return changes
    if wanted:
        folder.mkdir(mode=0o755, exist_ok=True)
    for name in changed:
        part = folder / f".{name}"
        if name in wanted:
            part.unlink(missing_ok=True)
            part.symlink_to(wanted[name])
            part.replace(folder / name)
        else:
            (folder / name).unlink()
    if there and not wanted:
        folder.rmdir()
    return changes


def nvidia_smi(words: list[str]) -> str:
    """Return the output of nvidia-smi; empty if it reports that no instances exist.

    Raises:
        MissingError: nvidia-smi fails.
    """
    path = f"{os.environ.get('PATH', '')}:/usr/local/nvidia/bin"
    try:
        done = subprocess.run(  # noqa: S603 - a list
            ["timeout", "-k", "5", str(TIMEOUT_S), "nvidia-smi", *words],  # noqa: S607 - the path depends on the driver package
            check=False,
            capture_output=True,
            text=True,
            env={**os.environ, "PATH": path, "LC_ALL": "C"},
        )
    except OSError as exc:
        raise MissingError(str(exc)) from exc
    if done.returncode == NONE_THERE and words[0] == "mig":
        return ""
    if done.returncode:
        message = f"`nvidia-smi {' '.join(words)}`: {' '.join((done.stdout + done.stderr).split())[:300]}"
        raise MissingError(message)
    return done.stdout


def main(words: list[str], root: Path = Path("/")) -> int:
    """Update the links and return the exit status."""
    check = words == ["--check"]
    caps = root / "proc/driver/nvidia-caps/mig-minors"
    try:
        listing = nvidia_smi(["mig", "-lgi"])
        known = minors(caps.read_text()) if caps.exists() else {}
        wanted = links(nvidia_smi(["-q", "-x"]), listing, known) if listing else {}
        devices = (root / "proc/devices").read_text()
        for target in sorted({each for each in wanted.values() if "nvidia-caps" in each and not check}):
            create_device_file(root / target.lstrip("/"), devices)
        for line in sync_links(root / "dev/busbar", wanted, check=check):
            sys.stdout.write(f"{line}\n")
    except (MissingError, OSError, ET.ParseError) as exc:
        sys.stderr.write(f"cannot determine the device files of MIG instances: {exc}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
