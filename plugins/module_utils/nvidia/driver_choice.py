"""Choose the NVIDIA driver of a host by its GPUs: branch, kernel modules and fabric components.

Sources of the values of each generation:

- NVIDIA Driver Installation Guide, "Kernel Modules" (docs.nvidia.com/datacenter/tesla/driver-installation-guide):
  Maxwell, Pascal and Volta need the proprietary modules, the open ones need Turing or newer. Open is the default since
  branch 560. The guide for release 620 no longer mentions the proprietary modules; the one for 615 does.
- NVIDIA's announcement "NVIDIA Transitions Fully Towards Open-Source GPU Kernel Modules" (July 2024): Grace Hopper and
  Blackwell need the open modules, which exist since branch 515.
- NVIDIA's announcements for Unix drivers: 580 is the last branch for Maxwell, Pascal and Volta.
- "Supported Drivers and CUDA Toolkit Versions": 580 is the long-term branch, maintained until June 2028.
- Minimum branches: B200 from the support matrix of NVIDIA's GPU Operator (570.133.20). B300 and GB300: 580, the oldest
  branch in any recorded nvidia-smi output. Older generations: approximately the first data center branch; all of these
  branches are out of maintenance, so no available driver is excluded.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from .driver_packages import Choice, distribution_branch, first_branch

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = [
    "DEFAULT_BRANCH",
    "FIRST_OPEN_BRANCH",
    "GENERATIONS",
    "LAST_PROPRIETARY_BRANCH",
    "NODES_FILE",
    "Generation",
    "driver_branch",
    "driver_choice",
    "generation_of_architecture",
    "generation_of_model",
    "imex_changes",
    "kernel_modules",
    "known_generation",
    "nvlink_racks",
    "wanted_parts",
]

Modules = Literal["open", "proprietary", "either"]

# The long-term branch, and the only one that supports every generation in the table.
DEFAULT_BRANCH = 580
FIRST_OPEN_BRANCH = 515
OPEN_IS_DEFAULT_FROM = 560
LAST_PROPRIETARY_BRANCH = 615


class Generation(NamedTuple):
    """Driver requirements of a GPU generation."""

    name: str
    least_branch: int
    # None if the newest branch still supports it.
    last_branch: int | None
    modules: Modules
    # Whether the host runs the subnet manager (NVLSM) of its NVSwitches (NVLink 5 and newer).
    subnet_manager: bool = False
    # Whether nvidia-smi reports the fabric state of a GPU.
    fabric_state: bool = False


GENERATIONS: dict[str, Generation] = {
    "maxwell": Generation("Maxwell", 352, 580, "proprietary"),
    "pascal": Generation("Pascal", 375, 580, "proprietary"),
    "volta": Generation("Volta", 384, 580, "proprietary"),
    "turing": Generation("Turing", 410, None, "either"),
    "ampere": Generation("Ampere", 450, None, "either"),
    "ada": Generation("Ada Lovelace", 525, None, "either"),
    "hopper": Generation("Hopper", 515, None, "either", fabric_state=True),
    "grace_hopper": Generation("Grace Hopper", 535, None, "open", fabric_state=True),
    "blackwell": Generation("Blackwell", 570, None, "open", subnet_manager=True, fabric_state=True),
    "blackwell_ultra": Generation("Blackwell Ultra", 580, None, "open", subnet_manager=True, fabric_state=True),
}

# Searched in this order in the lower-case model name without its brand: "RTX 6000" without a suffix is Turing, with a
# suffix such as "Ada" it is a later generation.
_MODELS: tuple[tuple[str, str], ...] = (
    (r"^gb300\b|^b300\b", "blackwell_ultra"),
    (r"^gb200\b|^gb10\b|^b[12]00\b|\bblackwell\b|^rtx 50[5-9]0\b|^rtx pro \d+", "blackwell"),
    (r"^gh200\b", "grace_hopper"),
    (r"^h100\b|^h200\b|^h800\b|^h20\b", "hopper"),
    (r"\bada\b|^rtx 40[5-9]0\b|^l4\b|^l20\b|^l40s?\b|^l2\b", "ada"),
    (r"^a(2|10|10g|10m|16|30|30x|40|100|100x|800)\b|^rtx a\d{3,4}\b|^rtx 30[5-9]0\b|^drive-pg199", "ampere"),
    (r"^t4g?\b|^t\d{3,4}\b|^rtx 20[5-9]0\b|^gtx 16[0-9]0\b|^rtx [3-8]000\b|^titan rtx\b|^t10\b", "turing"),
    (r"^v100s?\b|^gv100\b|^titan v\b|^pg5\d\d", "volta"),
    (r"^p(4|6|40|100)\b|^gp100\b|^gtx 10\d0\b|^gt 10\d0\b|^p[1-6]\d{2,3}\b|^titan x[p]?\b", "pascal"),
    (r"^m(4|6|10|40|60)\b|^gtx (9\d0|750|745)\b|^m[1-6]\d00m?\b|^gtx titan x\b|^k[126]20[0]?\b", "maxwell"),
)

_BRANCH = re.compile(r"\d{3,4}")
_BRANDS = ("nvidia ", "tesla ", "geforce ", "quadro ", "graphics device")


def generation_of_model(model: str) -> str | None:
    """Return the key in GENERATIONS for a model such as 'NVIDIA H100 80GB HBM3', or None if unknown."""
    name = " ".join(model.lower().replace("(tm)", "").split())
    for brand in _BRANDS:
        name = name.removeprefix(brand)
    return next((key for pattern, key in _MODELS if re.search(pattern, name.replace("-", " "))), None)


def generation_of_architecture(name: str) -> str | None:
    """Return the key in GENERATIONS for nvidia-smi's architecture name, such as 'Ada Lovelace', or None."""
    return next((key for key, generation in GENERATIONS.items() if generation.name.lower() == name.lower()), None)


def kernel_modules(generation: Generation, branch: int) -> Literal["open", "proprietary"]:
    """Return the default kernel modules of a generation.

    If both work, the open ones are the default since the branch that recommends them.
    """
    if generation.modules != "either":
        return generation.modules
    return "open" if branch >= OPEN_IS_DEFAULT_FROM else "proprietary"


def driver_branch(settings: Mapping[str, Any], system: Mapping[str, str] | None = None) -> int | None:
    """Return the driver branch: the declared one, the branch of the declared version, or the source's default.

    Return None if it depends on an unknown distribution, or if the declared value is not a branch.
    """
    for text in (str(settings.get("branch") or ""), str(settings.get("version") or "").partition(".")[0]):
        if text:
            return int(text) if _BRANCH.fullmatch(text) else None
    if settings["source"] == "nvidia":
        return max(DEFAULT_BRANCH, first_branch(system))
    return distribution_branch(system["distribution"], system["major"]) if system else None


def known_generation(gpu: Mapping[str, Any]) -> Generation | None:
    """Return the generation of the GPUs in a hardware profile, or None if unknown."""
    key = str(gpu.get("generation") or "") or generation_of_model(str(gpu.get("model") or ""))
    return GENERATIONS.get(key or "")


def wanted_parts(
    hardware: Mapping[str, Any], generation: Generation | None, settings: Mapping[str, Any]
) -> dict[str, bool]:
    """Return whether a host needs each fabric component.

    In an NVLink rack, separate switch trays run the fabric manager and NVLSM; the compute trays need only IMEX
    (docs.nvidia.com/multi-node-nvlink-systems). In a single machine, NVLSM is needed since the fourth NVSwitch
    generation.
    """
    switched = bool(hardware["gpu"].get("nvswitch"))
    needed = {
        "fabric_manager": switched,
        "nvlsm": switched and bool(generation and generation.subnet_manager),
        "imex": int(hardware.get("nvlink_domain_nodes") or 1) > 1,
    }
    choices = {part: str(settings.get(part) or "auto") for part in needed}
    return {part: need if choices[part] == "auto" else choices[part] == "present" for part, need in needed.items()}


def driver_choice(
    hardware: Mapping[str, Any], settings: Mapping[str, Any], system: Mapping[str, str], branch: int, release: str = ""
) -> Choice:
    """Return the driver choice, with unset options decided by the hardware; `release` is the kernel release."""
    generation = known_generation(hardware["gpu"])
    choice = str(settings.get("kernel_modules") or "auto")
    modules = kernel_modules(generation, branch) if choice == "auto" and generation else choice
    parts = wanted_parts(hardware, generation, settings)
    return Choice(
        source=settings["source"],
        distribution=system["distribution"],
        major=system["major"],
        branch=branch,
        modules=modules,
        build=str(settings.get("build") or "dkms"),
        kernel_release=release,
        kernel_flavour=str(settings.get("kernel_flavour") or ""),
        **parts,
    )


# NVIDIA's IMEX guide, "Deployment Models": the nodes_config.cfg of each member has the IP addresses of all, the
# service reads it at start, and members with different lists do not connect. Therefore one run changes the whole rack.
NODES_FILE = "/etc/nvidia-imex/nodes_config.cfg"


def nvlink_racks(hosts: Sequence[str], variables: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, list[str]]]:
    """Return `hosts` and `addresses` of each NVLink rack, in inventory order.

    Args:
        hosts: possible members.
        variables: variables of each host: `nvlink_domain` is the rack; the address is `hosts_address`, or else
            `ansible_host`, or else the name.
    """
    racks: dict[str, dict[str, list[str]]] = {}
    for host in hosts:
        own = variables[host]
        domain = own.get("nvlink_domain")
        if domain:
            rack = racks.setdefault(str(domain), {"hosts": [], "addresses": []})
            rack["hosts"].append(host)
            rack["addresses"].append(str(own.get("hosts_address") or own.get("ansible_host") or host))
    return racks


def imex_changes(wanted: Sequence[str], found: Mapping[str, Any]) -> bool:
    """Return whether a running IMEX has a member list other than the declared one.

    Args:
        wanted: addresses.
        found: `imex_nodes` (text of the file) and `units` of `driver_host.read_driver`.
    """
    unit = (found.get("units") or {}).get("nvidia-imex") or {}
    there = [line.strip() for line in str(found.get("imex_nodes") or "").splitlines() if line.strip()]
    return unit.get("active") in {"active", "activating", "reloading"} and there != list(wanted)
