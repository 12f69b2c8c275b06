#!/usr/bin/python3
"""Gives the device files of each MIG instance names that stay, for the lines MultipleFiles of Slurm's gres.conf.

The driver numbers instances anew with each layout and each boot, and the files of instance 9 of GPU 0 are
/dev/nvidia-caps/nvidia-cap of whatever /proc/driver/nvidia-caps/mig-minors says of gpu0/gi9/access and
gpu0/gi9/ci0/access, as Slurm's own plugin reads it (src/plugins/gpu/nvml/gpu_nvml.c, _nvml_get_mig_minor_numbers). Here
they are called by what is declared: the first 1g.10gb of GPU 0 is /dev/busbar/gpu0-1g.10gb-0-gi and -ci, and gpu0 is
its GPU. Of equal instances those with the lower number come first, as nvidia-smi shows them. A GPU's number here is its
place in nvidia-smi; in device files and in mig-minors it is its minor number.

It prints a line for each name that it changed (with --check, that it would change), and removes all of them where no
GPU is divided.
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
    """What an instance needs is not there."""


def gpus(query: str) -> list[tuple[int, dict[int, int]]]:
    """Return of each GPU its minor number, and the compute instance of each GPU instance.

    Args:
        query: what `nvidia-smi -q -x` printed.
    """
    found = []
    for gpu in ET.fromstring(query).findall("gpu"):  # noqa: S314 - of the driver's own program
        minor = (gpu.findtext("minor_number") or "").strip()
        if not minor.isdigit():
            message = f"nvidia-smi tells no minor number of GPU {gpu.get('id')}: {minor or 'nothing'}"
            raise MissingError(message)
        devices = gpu.findall("mig_devices/mig_device")
        pairs = [(each.findtext("gpu_instance_id"), each.findtext("compute_instance_id")) for each in devices]
        found.append((int(minor), {int(gi or -1): int(ci or -1) for gi, ci in pairs}))
    return found


def minors(text: str) -> dict[str, int]:
    """Return the minor numbers of mig-minors by name, such as gpu0/gi9/ci0/access."""
    words = (line.split() for line in text.splitlines())
    return {pair[0]: int(pair[1]) for pair in words if len(pair) == 2 and pair[1].isdigit()}  # noqa: PLR2004 - a pair


def links(query: str, listing: str, caps: dict[str, int]) -> dict[str, str]:
    """Return each name with the device file that it stands for; none where no GPU is divided.

    Args:
        query: what `nvidia-smi -q -x` printed.
        listing: what `nvidia-smi mig -lgi` printed.
        caps: as minors() gives it.

    Raises:
        MissingError: mig-minors does not know an instance, or one has no compute instance.
    """
    rows = sorted((int(gpu), int(identity), name) for gpu, name, identity in ROW.findall(listing))
    known = gpus(query)
    found = {f"gpu{index}": f"/dev/nvidia{minor}" for index, (minor, _) in enumerate(known)} if rows else {}
    counted: dict[tuple[int, str], int] = {}
    for gpu, identity, profile in rows:
        if gpu >= len(known):
            message = f"`nvidia-smi mig -lgi` tells of GPU {gpu}, `nvidia-smi -q` of {len(known)} GPUs"
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


def provide(path: Path, devices: str) -> None:
    """Make a capability's device file where the driver's own program has not made it yet.

    Args:
        path: the file.
        devices: what /proc/devices says.

    Raises:
        MissingError: it is another file, or nobody knows its major number.
    """
    if path.exists():
        if not stat.S_ISCHR(path.stat().st_mode):
            message = f"{path} is no character device"
            raise MissingError(message)
        return
    major = re.search(r"^\s*(\d+) nvidia-caps$", devices, re.MULTILINE)
    number = re.search(r"nvidia-cap(\d+)$", path.name)
    if not major or not number:
        message = f"{path} is not there, and /proc/devices names no nvidia-caps"
        raise MissingError(message)
    path.parent.mkdir(mode=0o755, exist_ok=True)
    os.mknod(path, stat.S_IFCHR | 0o444, os.makedev(int(major[1]), int(number[1])))
    path.chmod(0o444)


def lay(folder: Path, wanted: dict[str, str], *, check: bool = False) -> list[str]:
    """Make the folder hold these links and nothing else; returns what was changed, or would be."""
    there = {path.name: str(path.readlink()) for path in folder.iterdir()} if folder.is_dir() else {}
    changed = [name for name in sorted({*there, *wanted}) if there.get(name) != wanted.get(name)]
    said = [f"{name}: {there.get(name, 'nothing')} -> {wanted.get(name, 'nothing')}" for name in changed]
    if check:
        return said
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
    return said


def ask(words: list[str]) -> str:
    """Return what nvidia-smi printed; nothing where it says that there are no instances.

    Raises:
        MissingError: it does not answer.
    """
    path = f"{os.environ.get('PATH', '')}:/usr/local/nvidia/bin"
    try:
        done = subprocess.run(  # noqa: S603 - a list
            ["timeout", "-k", "5", str(TIMEOUT_S), "nvidia-smi", *words],  # noqa: S607 - wherever the driver has it
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
    """Lay the links; returns the exit status."""
    check = words == ["--check"]
    caps = root / "proc/driver/nvidia-caps/mig-minors"
    try:
        listing = ask(["mig", "-lgi"])
        known = minors(caps.read_text()) if caps.exists() else {}
        wanted = links(ask(["-q", "-x"]), listing, known) if listing else {}
        devices = (root / "proc/devices").read_text()
        for target in sorted({each for each in wanted.values() if "nvidia-caps" in each and not check}):
            provide(root / target.lstrip("/"), devices)
        for line in lay(root / "dev/busbar", wanted, check=check):
            sys.stdout.write(f"{line}\n")
    except (MissingError, OSError, ET.ParseError) as exc:
        sys.stderr.write(f"the device files of MIG instances are not known: {exc}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
