"""Module that tells which machine a node is, and what its health check found over time."""

from __future__ import annotations

DOCUMENTATION = r"""
module: machine_record
author: busbar contributors
short_description: Which machine a node is, and the history of its health check
description:
  - Returns serial numbers, versions, the time of the boot and the history of the health check, in one go.
  - What hangs is left behind after O(timeout_s); what cannot be read is named, and no failure.
extends_documentation_fragment: busbar.cluster.attributes.read_only
options:
  history:
    description: File in which the health check keeps its history.
    type: path
    default: /var/lib/busbar/node_health/history.jsonl
  key_file:
    description: Path of the private host key, beside which the public one is.
    type: path
    default: /etc/ssh/ssh_host_ed25519_key
  most:
    description: How many entries of the history are returned, the last ones.
    type: int
    default: 200
  timeout_s:
    description: How long nvidia-smi may take, in seconds.
    type: int
    default: 10
"""

EXAMPLES = r"""
- name: Read which machine this is
  busbar.cluster.machine_record:
  register: __example_machine
"""

RETURN = r"""
record:
  description: What was found.
  returned: always
  type: dict
  contains:
    parts:
      description: >-
        Machine, GPUs and NICs, each with C(kind), C(id), C(serial) and C(name), as reports of a validation have them.
      type: list
    versions: {description: "Kernel, system, driver, CUDA and DCGM, as far as they are known.", type: dict}
    booted: {description: "Seconds since 1970, 0 when not known.", type: int}
    host_key: {description: Public host key; empty when there is none., type: str}
    history: {description: "Entries of the health check, the oldest first.", type: list}
    problems: {description: What could not be read and why., type: dict}
"""

import platform
import re
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.common.node_info import parse_os_release
from ..module_utils.common.software_versions import versions
from ..module_utils.hardware.gpu_reading import find_smi, listed, pci_devices, read, read_gpus
from ..module_utils.hardware.machine_parts import known_number
from ..module_utils.hardware.network import rdma_ports
from ..module_utils.health.history import last_entries

ROOT = Path("/")
_BOOTED = re.compile(r"^btime (\d+)$", re.MULTILINE)


def machine_parts(root: Path, gpus: list[dict[str, object]]) -> list[dict[str, str]]:
    """Return machine, GPUs and NICs; parts without any number are left out."""
    dmi = root / "sys/class/dmi/id"
    # Of boards with a device tree, such as Arm's.
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


def record(params: dict[str, object], root: Path = ROOT) -> dict[str, object]:
    """Return what the module's documentation promises as `record`."""
    problems: dict[str, str] = {}
    gpus = read_gpus(root, pci_devices(root)["gpu"], find_smi(), float(str(params["timeout_s"])), links=False)
    if gpus["smi_state"] not in {"ok", "absent"}:
        problems["GPUs"] = "; ".join(gpus["errors"]) or f"nvidia-smi: {gpus['smi_state']}"
    try:
        history, damaged = last_entries(root / str(params["history"]).lstrip("/"), int(str(params["most"])))
    except OSError as exc:
        history, damaged = [], 0
        problems["history of the health check"] = str(exc.strerror or exc)
    if damaged:
        problems["history of the health check"] = f"{damaged} damaged lines in {params['history']}"
    booted = _BOOTED.search(read(root / "proc/stat"))
    system = parse_os_release(read(root / "etc/os-release") or read(root / "usr/lib/os-release"))
    said = {"system": system["name"], "kernel": platform.release(), **versions(root)}
    return {
        "parts": machine_parts(root, gpus["gpus"]),
        "versions": {key: value for key, value in said.items() if value},
        "booted": int(booted.group(1)) if booted else 0,
        "host_key": " ".join(read(root / f"{params['key_file']}.pub".lstrip("/")).split()[:2]),
        "history": history,
        "problems": problems,
    }


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "history": {"type": "path", "default": "/var/lib/busbar/node_health/history.jsonl"},
            "key_file": {"type": "path", "default": "/etc/ssh/ssh_host_ed25519_key", "no_log": False},
            "most": {"type": "int", "default": 200},
            "timeout_s": {"type": "int", "default": 10},
        },
        supports_check_mode=True,
    )
    module.exit_json(changed=False, record=record(module.params))


if __name__ == "__main__":
    main()
