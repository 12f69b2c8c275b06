"""Module that reads what GPUs and NICs a host has."""

from __future__ import annotations

DOCUMENTATION = r"""
module: nvidia_gpu_info
author: busbar contributors
short_description: What GPUs and NICs a host has, and how they are
description:
  - Reads C(nvidia-smi -q -x) and C(nvidia-smi nvlink -s). Where they do not answer, /proc/driver/nvidia and the PCI bus
    tell what is there.
  - Never fails because there is no GPU or no driver, and never waits longer than it is told to; what went wrong is
    in C(errors).
attributes:
  check_mode:
    description: Changes nothing in any mode.
    support: full
options:
  timeout_s:
    description: How long to wait for each run of nvidia-smi, in seconds. One that hangs is left behind.
    type: int
    default: 30
"""

EXAMPLES = r"""
- name: Read the GPUs
  busbar.cluster.nvidia_gpu_info:
  register: __example_gpus
"""

RETURN = r"""
source:
  description: Where the GPUs were read, V(nvidia-smi), V(proc) or V(pci).
  returned: always
  type: str
smi_state:
  description: >-
    V(ok), V(absent), V(failed), V(hung), or V(unusable) when nvidia-smi does not know the options.
  returned: always
  type: str
driver_version:
  description: Version of the loaded driver.
  returned: always
  type: str
cuda_version:
  description: Newest CUDA that the driver can run.
  returned: always
  type: str
attached_gpus:
  description: GPUs that the driver counts.
  returned: always
  type: int
gpu_count:
  description: GPUs that are listed.
  returned: always
  type: int
gpus:
  description: The GPUs, as C(busbar gpu parse) prints them; what is not known is null.
  returned: always
  type: list
  elements: dict
pci_gpus:
  description: Addresses of the NVIDIA GPUs on the PCI bus.
  returned: always
  type: list
  elements: str
rdma_ports:
  description: Ports of RDMA devices with C(device), C(port), C(active), C(state), C(rate_gbps), C(link_layer).
  returned: always
  type: list
  elements: dict
network_interfaces:
  description: Interfaces with hardware behind them, with C(name), C(up), C(rate_gbps), C(address).
  returned: always
  type: list
  elements: dict
pci_nics:
  description: Addresses of the network cards on the PCI bus.
  returned: always
  type: list
  elements: str
errors:
  description: What went wrong, one line each.
  returned: always
  type: list
  elements: str
"""

import os
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.gpu_sources import join_sources, link_generation  # noqa: TID252 - a module of its collection
from ..module_utils.nvidia_smi import failure_lines  # noqa: TID252
from ..module_utils.pci_devices import classify  # noqa: TID252

MOST_OUTPUT = 1 << 25
# What nvidia-smi ends with when it does not know an option.
INVALID_ARGUMENT = 2
NETWORK = "02"
NO_WIDTH = (0, 63, 255)
PATHS = ["/usr/local/bin", "/usr/local/nvidia/bin", "/usr/lib/wsl/lib"]


def read(path: Path) -> str:
    """Return the text of a small file, empty when it cannot be read."""
    try:
        with path.open(errors="replace") as file:
            return file.read(1 << 16).strip()
    except OSError:
        return ""


def listed(path: Path) -> list[Path]:
    """Return what is in a folder, sorted; nothing when there is none."""
    try:
        return sorted(path.iterdir())
    except OSError:
        return []


def run_limited(command: list[str], timeout_s: float) -> tuple[int | None, str]:
    """Return exit status and output of a program, None and what it had printed when it was still running.

    The output goes through a file and the end of a killed program is not awaited: one that hangs in the driver cannot
    even be killed, and would hold a pipe open.
    """
    with tempfile.TemporaryFile() as output:
        environment = {**os.environ, "LC_ALL": "C"}
        process = subprocess.Popen(  # noqa: S603
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        )
        status: int | None = None
        try:
            status = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
        output.seek(0)
        return status, output.read(MOST_OUTPUT).decode(errors="replace")


def ask_smi(program: str | None, timeout_s: float) -> tuple[dict[str, Any], list[str]]:
    """Return what nvidia-smi says, and what went wrong."""
    if not program:
        return {"state": "absent"}, []
    try:
        status, query = run_limited([program, "-q", "-x"], timeout_s)
    except OSError as exc:
        return {"state": "failed"}, [f"nvidia-smi cannot be run: {exc.strerror}"]
    if status is None:
        return {"state": "hung"}, [f"nvidia-smi did not answer in {timeout_s:g} s"]
    if status == INVALID_ARGUMENT:
        return {"state": "unusable"}, ["nvidia-smi does not know the options -q -x"]
    if status and "<gpu " not in query:
        first = next((line.strip() for line in query.splitlines() if line.strip()), f"ended with {status}")
        return {"state": "failed", "query": query}, [] if failure_lines(query) else [f"nvidia-smi: {first[:300]}"]
    status, links = run_limited([program, "nvlink", "-s"], timeout_s)
    return {"state": "ok", "query": query, "nvlink": "" if status is None else links}, []


def pci_devices(root: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the GPUs and the network cards on the bus."""
    found: dict[str, list[dict[str, Any]]] = {"gpu": [], "nic": []}
    for folder in listed(root / "sys/bus/pci/devices"):
        number = read(folder / "class")[2:6]
        kind = "nic" if number.startswith(NETWORK) else classify(read(folder / "vendor")[2:], number)
        if kind in found and not (folder / "physfn").exists():
            widths = (read(folder / f"{which}_link_width") for which in ("current", "max"))
            width, width_max = (int(text) if text.isdigit() and int(text) not in NO_WIDTH else None for text in widths)
            found[kind].append(
                {
                    "address": folder.name,
                    "width": width,
                    "width_max": width_max,
                    "generation": link_generation(read(folder / "current_link_speed")),
                    "generation_max": link_generation(read(folder / "max_link_speed")),
                }
            )
    return found


def address(device: Path) -> str | None:
    """Return the PCI address behind the link `device` of a class folder."""
    try:
        name = device.resolve(strict=True).name
    except OSError:
        return None
    return name if name.count(":") == 2 else None  # noqa: PLR2004 - domain:bus:device.function


def rdma_ports(root: Path) -> list[dict[str, Any]]:
    """Return the ports of all RDMA devices; virtual functions of a device that is here, too, are left out."""
    ports = []
    for device in listed(root / "sys/class/infiniband"):
        if (device / "device/physfn").exists():
            continue
        for port in listed(device / "ports"):
            state, rate = read(port / "state"), read(port / "rate").partition(" ")[0]
            ports.append(
                {
                    "device": device.name,
                    "port": port.name,
                    "active": state.endswith("ACTIVE"),
                    "state": state.rpartition(": ")[2],
                    "rate_gbps": float(rate) if rate.replace(".", "", 1).isdigit() else None,
                    "link_layer": read(port / "link_layer"),
                    "address": address(device / "device"),
                }
            )
    return ports


def network_interfaces(root: Path) -> list[dict[str, Any]]:
    """Return the interfaces with hardware behind them."""
    found = []
    for folder in listed(root / "sys/class/net"):
        if not (folder / "device").exists() or (folder / "device/physfn").exists():
            continue
        speed = read(folder / "speed")
        found.append(
            {
                "name": folder.name,
                "up": read(folder / "operstate") == "up",
                "rate_gbps": int(speed) / 1000 if speed.isdigit() and int(speed) else None,
                "address": address(folder / "device"),
            }
        )
    return found


def gather(root: Path, program: str | None, timeout_s: float) -> dict[str, Any]:
    """Return all that the module returns."""
    smi, errors = ask_smi(program, timeout_s)
    proc = root / "proc/driver/nvidia"
    files = {folder.name: read(folder / "information") for folder in listed(proc / "gpus")}
    pci = pci_devices(root)
    found = join_sources(smi, {"version": read(proc / "version"), "gpus": files}, pci["gpu"])
    return {
        **found,
        "errors": [*errors, *found["errors"]],
        "rdma_ports": rdma_ports(root),
        "network_interfaces": network_interfaces(root),
        "pci_nics": [device["address"] for device in pci["nic"]],
    }


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={"timeout_s": {"type": "int", "default": 30}},
        supports_check_mode=True,
    )
    program = module.get_bin_path("nvidia-smi") or module.get_bin_path("nvidia-smi", opt_dirs=PATHS)
    module.exit_json(changed=False, **gather(Path("/"), program, module.params["timeout_s"]))


if __name__ == "__main__":
    main()
