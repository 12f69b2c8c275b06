"""Identify the machine of a node by its serial numbers, and read the history of its health check."""

from __future__ import annotations

import platform
import re
from pathlib import Path

from ..common.node_info import parse_os_release
from ..common.software_versions import versions
from ..hardware.gpu_facts import find_smi, listed, pci_devices, read, read_gpus
from ..hardware.machine_parts import known_number
from ..hardware.network_facts import rdma_ports
from .check_history import last_entries

__all__ = ["machine_record"]

HISTORY = "/var/lib/busbar/node_health/history.jsonl"
KEY_FILE = "etc/ssh/ssh_host_ed25519_key.pub"
MOST_ENTRIES = 200
SMI_TIMEOUT_S = 10.0
_BOOTED = re.compile(r"^btime (\d+)$", re.MULTILINE)


def machine_parts(root: Path, gpus: list[dict[str, object]]) -> list[dict[str, str]]:
    """Return the machine, GPUs and NICs that have a serial number or other id."""
    dmi = root / "sys/class/dmi/id"
    # Fallback for machines with a device tree, such as Arm boards.
    tree = root / "sys/firmware/devicetree/base"
    vendor, product = read(dmi / "sys_vendor"), read(dmi / "product_name") or read(tree / "model").strip("\0")
    serial = known_number(read(dmi / "product_serial")) or known_number(read(tree / "serial-number").strip("\0"))
    found = [("machine", known_number(read(dmi / "product_uuid")), serial, f"{vendor} {product}".strip())]
    for gpu in gpus:
        identity, number, name = (known_number(str(gpu.get(key) or "")) for key in ("uuid", "serial", "product_name"))
        found.append(("gpu", identity, number, name))
    found += [
        ("nic", known_number(read(root / "sys/class/infiniband" / name / "node_guid")), "", name)
        for name in sorted({str(port["device"]) for port in rdma_ports(root)})
    ]
    for nic in listed(root / "sys/class/net"):
        if (nic / "device").exists() and not (nic / "device/physfn").exists():
            found.append(("nic", known_number(read(nic / "address")), "", nic.name))
    keys = ("kind", "id", "serial", "name")
    return [dict(zip(keys, each)) for each in found if each[1] or each[2]]


def machine_record(root: Path = Path("/"), history_file: str = HISTORY) -> dict[str, object]:
    """Return the machine's parts and its health history; `problems` lists the parts that cannot be read."""
    problems: dict[str, str] = {}
    gpus = read_gpus(root, pci_devices(root)["gpu"], find_smi(), SMI_TIMEOUT_S, links=False)
    if gpus["smi_state"] not in {"ok", "absent"}:
        problems["GPUs"] = "; ".join(gpus["errors"]) or f"nvidia-smi: {gpus['smi_state']}"
    try:
        history, damaged = last_entries(root / history_file.lstrip("/"), MOST_ENTRIES)
    except OSError as exc:
        history, damaged = [], 0
        problems["history of the health check"] = str(exc.strerror or exc)
    if damaged:
        problems["history of the health check"] = f"{damaged} damaged lines in {history_file}"
    booted = _BOOTED.search(read(root / "proc/stat"))
    system = parse_os_release(read(root / "etc/os-release") or read(root / "usr/lib/os-release"))
    machine = {"system": system["name"], "kernel": platform.release(), **versions(root)}
    return {
        "parts": machine_parts(root, gpus["gpus"]),
        "versions": {key: value for key, value in machine.items() if value},
        "booted": int(booted.group(1)) if booted else 0,
        "host_key": " ".join(read(root / KEY_FILE).split()[:2]),
        "history": history,
        "problems": problems,
    }
