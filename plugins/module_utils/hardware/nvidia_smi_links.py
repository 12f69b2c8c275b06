"""Parse NVLinks and their errors from `nvidia-smi nvlink -s` and `-e`. Never raises."""

from __future__ import annotations

import re
from typing import Any

__all__ = ["nominal_link_gbs", "parse_link_errors", "parse_nvlink"]

_LONGEST_LINE = 2000
_GPU = re.compile(r"^GPU (\d+): (.*?) \(UUID: ([^)]*)\)\s*$")
_LINK = re.compile(r"^\s*Link (\d+): (.*\S)\s*$")
_NUMBERED = re.compile(r"^GPU (\d+):")
_CRC = re.compile(r"^\s*(?:Link \d+:\s*)?(?:Link \d+: )?CRC[^:]*Errors?:\s*(\d+)\s*$", re.IGNORECASE)
_RATE = re.compile(r"^(\d+(?:\.\d+)?) GB/s$")
# Line rates per direction in GB/s: NVLink 1, NVLink 2 to 4, NVLink 5. The driver adds the encoding overhead.
_NOMINAL_GBS = (20.0, 25.0, 50.0, 100.0)


def nominal_link_gbs(rate: float) -> float:
    """Return the line rate of a link in GB/s per direction from the driver's value: 26.562 gives 25."""
    return max((each for each in _NOMINAL_GBS if each <= rate * 1.001), default=rate)


def parse_nvlink(text: str) -> dict[str, Any]:
    """Return the NVLinks of each GPU.

    Returns:
        `gpus`, each with `index`, `name`, `uuid`, `links_active`, `links_inactive`, `speeds_gb_s` (distinct rates in
        GB/s per direction, ascending), `inactive` (link numbers), and `note`, the reason for missing data, such as a
        GPU without NVLink or in MIG mode. `errors` has the lines that do not belong to a GPU.
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


def parse_link_errors(text: str) -> dict[int, int]:
    """Return the CRC errors of all NVLinks by GPU from `nvidia-smi nvlink -e`."""
    found: dict[int, int] = {}
    index = None
    for line in text.splitlines():
        gpu, errors = _NUMBERED.match(line.strip()), _CRC.match(line)
        if gpu:
            index = int(gpu.group(1))
        elif errors and index is not None:
            found[index] = found.get(index, 0) + int(errors.group(1))
    return found
