"""Reads `nvidia-smi nvlink -s` and `nvidia-smi topo -m`: what joins the GPUs. Never raises."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["nominal_link_gbs", "parse_nvlink", "parse_topology"]

_LONGEST_LINE = 2000
_TERMINAL = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_GPU = re.compile(r"^GPU (\d+): (.*?) \(UUID: ([^)]*)\)\s*$")
_LINK = re.compile(r"^\s*Link (\d+): (.*\S)\s*$")
_RATE = re.compile(r"^(\d+(?:\.\d+)?) GB/s$")
_DEVICE = re.compile(r"^(?:GPU|NIC)\d+$|^(?:mlx|bnxt_re|efa|irdma|ib)[\w.:-]*$")
_LEGEND = re.compile(r"^\s+(NIC\d+): (\S+)\s*$")
_AFFINITY = re.compile(r"^(?:\d+(?:-\d+)?(?:,\d+(?:-\d+)?)*|N/A)$")
# Line rates in one direction, GB/s: NVLink 1, NVLink 2 to 4, NVLink 5. The driver shows them with the coding's share.
_NOMINAL_GBS = (20.0, 25.0, 50.0, 100.0)


def nominal_link_gbs(rate: float) -> float:
    """Return the line rate of a link, GB/s and direction, from what the driver shows: 26.562 gives 25."""
    return max((each for each in _NOMINAL_GBS if each <= rate * 1.001), default=rate)


def parse_nvlink(text: str) -> dict[str, Any]:
    """Return the NVLinks of each GPU.

    Returns:
        `gpus`, each with `index`, `name`, `uuid`, `links_active`, `links_inactive`, `speeds_gb_s` (the rates that
        occur, GB/s and direction, ascending), `inactive` (their numbers), and `note`: why there is nothing to tell,
        such as a GPU without NVLink or in MIG mode. `errors` has the lines that belong to no GPU.
    """
    gpus: list[dict[str, Any]] = []
    errors: list[str] = []
    for line in (whole[:_LONGEST_LINE] for whole in text.splitlines()):
        gpu, link = _GPU.match(line.strip()), _LINK.match(line)
        if gpu:
            gpus.append(_no_links(int(gpu.group(1)), gpu.group(2), gpu.group(3)))
        elif link and gpus:
            _add_link(gpus[-1], int(link.group(1)), link.group(2))
        elif line.strip() and gpus:
            gpus[-1]["note"] = line.strip()
        elif line.strip():
            errors.append(line.strip()[:300])
    return {"gpus": gpus, "gpu_count": len(gpus), "errors": errors[:20]}


def _no_links(index: int, name: str, uuid: str) -> dict[str, Any]:
    links = {"links_active": 0, "links_inactive": 0, "speeds_gb_s": [], "inactive": [], "note": None}
    return {"index": index, "name": name, "uuid": uuid, **links}


def _add_link(gpu: dict[str, Any], number: int, state: str) -> None:
    rate = _RATE.match(state)
    if rate and float(rate.group(1)) > 0:
        gpu["links_active"] += 1
        gpu["speeds_gb_s"] = sorted({*gpu["speeds_gb_s"], float(rate.group(1))})
    else:
        gpu["links_inactive"] += 1
        gpu["inactive"].append(number)


def parse_topology(text: str) -> dict[str, Any]:
    """Return how GPUs and NICs are joined.

    Returns:
        `rows`: device to `links` (device to `X`, `NV18`, `PIX`, `PXB`, `PHB`, `NODE`, `SYS`), `cpu_affinity` and
        `numa_affinity` (None for NICs); `nics`: name in the matrix to the device's name; `gpus` and `nic_count`; and
        `errors`.
    """
    lines = [_TERMINAL.sub("", line) for line in text.splitlines()]
    start, columns = _header(lines)
    if start is None:
        return {"rows": {}, "nics": {}, "gpus": 0, "nic_count": 0, "errors": ["there is no matrix of devices"]}
    rows, errors = {}, []
    for line in lines[start + 1 :]:
        words = line.split()
        if words and words[0] in columns:
            rows[words[0]] = _row(columns, words[1:])
            if len(words) <= len(columns):
                errors.append(f"the row of {words[0]} is cut off")
    errors += [f"there is no row of {name}" for name in columns if name not in rows]
    nics = {match.group(1): match.group(2) for match in map(_LEGEND.match, lines) if match}
    gpus = [name for name in columns if name.startswith("GPU")]
    return {"rows": rows, "nics": nics, "gpus": len(gpus), "nic_count": len(columns) - len(gpus), "errors": errors}


def _header(lines: Sequence[str]) -> tuple[int | None, list[str]]:
    """Return the number of the line with the names of the columns, and those that are devices."""
    for number, line in enumerate(lines):
        words = line.split()
        devices = [word for word in words if _DEVICE.match(word)]
        if words and devices and words[: len(devices)] == devices and words[:1] == ["GPU0"]:
            rest = words[len(devices) :]
            if not rest or rest[0] in {"CPU", "NUMA"}:
                return number, devices
    return None, []


def _row(columns: Sequence[str], words: Sequence[str]) -> dict[str, Any]:
    rest = [word for word in words[len(columns) :] if _AFFINITY.match(word)]
    return {
        "links": dict(zip(columns, words)),  # noqa: B905 - a row may be cut off
        "cpu_affinity": rest[0] if rest else None,
        "numa_affinity": rest[1] if len(rest) > 1 else None,
    }
