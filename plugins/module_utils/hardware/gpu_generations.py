"""Which driver each generation of NVIDIA GPUs takes: its least and last branch, and which kernel modules.

Sources of the figures:

- NVIDIA Driver Installation Guide, "Kernel Modules" (docs.nvidia.com/datacenter/tesla/driver-installation-guide):
  Maxwell, Pascal and Volta work with the proprietary modules only, the open ones need Turing or newer. Open is the
  default from branch 560 on. In the guide of release 620 the proprietary modules are gone; that of 615 has them.
- NVIDIA's announcement "NVIDIA Transitions Fully Towards Open-Source GPU Kernel Modules" (July 2024): Grace Hopper and
  Blackwell work with the open modules only. The open modules begin with branch 515.
- NVIDIA's announcements for Unix drivers: 580 is the last branch that drives Maxwell, Pascal and Volta.
- "Supported Drivers and CUDA Toolkit Versions": 580 is the long-term branch, maintained until June 2028.
- Least branches: B200 from the support matrix of NVIDIA's GPU Operator (570.133.20). B300 and GB300: 580, the oldest in
  any recording of them. For older generations the first data center branch, where in doubt the later one; all of these
  are out of maintenance, so that nobody is kept from a driver that is still to be had.
- PCI device numbers: the PCI ID repository (pci-ids.ucw.cz), where a chip has a range of its own, and the recordings of
  nvidia-smi that the tests read.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

__all__ = [
    "DEFAULT_BRANCH",
    "FIRST_OPEN_BRANCH",
    "GENERATIONS",
    "LAST_PROPRIETARY_BRANCH",
    "Generation",
    "generation_of",
    "generation_of_model",
    "generation_of_pci",
    "kernel_modules",
]

Modules = Literal["open", "proprietary", "either"]

# The long-term branch. It is the only one that drives every generation in the table.
DEFAULT_BRANCH = 580
FIRST_OPEN_BRANCH = 515
OPEN_IS_DEFAULT_FROM = 560
LAST_PROPRIETARY_BRANCH = 615


class Generation(NamedTuple):
    """A generation of GPUs, as far as drivers tell generations apart."""

    name: str
    least_branch: int
    # None: no branch has dropped it yet.
    last_branch: int | None
    modules: Modules
    # Whether NVSwitches of a box with these GPUs (NVLink 5 and newer) have their subnet manager, NVLSM, on the host.
    subnet_manager: bool = False


GENERATIONS: dict[str, Generation] = {
    "maxwell": Generation("Maxwell", 352, 580, "proprietary"),
    "pascal": Generation("Pascal", 375, 580, "proprietary"),
    "volta": Generation("Volta", 384, 580, "proprietary"),
    "turing": Generation("Turing", 410, None, "either"),
    "ampere": Generation("Ampere", 450, None, "either"),
    "ada": Generation("Ada Lovelace", 525, None, "either"),
    "hopper": Generation("Hopper", 515, None, "either"),
    "grace_hopper": Generation("Grace Hopper", 535, None, "open"),
    "blackwell": Generation("Blackwell", 570, None, "open", subnet_manager=True),
    "blackwell_ultra": Generation("Blackwell Ultra", 580, None, "open", subnet_manager=True),
}

# Searched in this order in the model without its brand, lower case: an RTX 6000 alone is Turing's or, with more words,
# that of a later generation.
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

# Numbers of one generation inside the range of another come first.
_PCI: tuple[tuple[int, int, str], ...] = (
    (0x2341, 0x2341, "blackwell"),
    (0x2342, 0x2348, "grace_hopper"),
    (0x3180, 0x31FF, "blackwell_ultra"),
    (0x2900, 0x29FF, "blackwell"),
    (0x2B00, 0x2FFF, "blackwell"),
    (0x2300, 0x23FF, "hopper"),
    (0x2680, 0x28FF, "ada"),
    (0x2080, 0x20FF, "ampere"),
    (0x2200, 0x22FF, "ampere"),
    (0x2400, 0x25FF, "ampere"),
    (0x1E00, 0x1FFF, "turing"),
    (0x2180, 0x21FF, "turing"),
    (0x1D80, 0x1DFF, "volta"),
    (0x15F0, 0x15FF, "pascal"),
    (0x1B00, 0x1D7F, "pascal"),
    (0x1340, 0x1430, "maxwell"),
    (0x1617, 0x1667, "maxwell"),
    (0x17C2, 0x17FD, "maxwell"),
)
_BRANDS = ("nvidia ", "tesla ", "geforce ", "quadro ", "graphics device")
_DEVICE = re.compile(r"^(?:10de:|0x)?([0-9a-f]{4})(?:10de)?$")


def generation_of_model(model: str) -> str | None:
    """Return the key in GENERATIONS of a model such as 'NVIDIA H100 80GB HBM3'; None for one that is not known."""
    name = " ".join(model.lower().replace("(tm)", "").split())
    for brand in _BRANDS:
        name = name.removeprefix(brand)
    return next((key for pattern, key in _MODELS if re.search(pattern, name.replace("-", " "))), None)


def generation_of_pci(device: str) -> str | None:
    """Return the key in GENERATIONS of a PCI device number.

    Args:
        device: as lspci ('10de:2330', '2330'), sysfs ('0x2330') or nvidia-smi ('0x233010DE') write it.
    """
    match = _DEVICE.match(device.strip().lower())
    if not match and len(device.strip()) == len("0x233010DE"):
        match = _DEVICE.match(device.strip().lower().removeprefix("0x"))
    if not match:
        return None
    number = int(match.group(1), 16)
    return next((key for first, last, key in _PCI if first <= number <= last), None)


def generation_of(model: str, pci: str = "") -> str | None:
    """Return the key in GENERATIONS of a GPU by its PCI number, which is surer, else by its model."""
    return (generation_of_pci(pci) if pci else None) or generation_of_model(model)


def kernel_modules(generation: Generation, branch: int) -> Literal["open", "proprietary"]:
    """Return which kernel modules a generation gets when nobody chooses.

    Where both would do, the open ones are taken from the branch on that recommends them.
    """
    if generation.modules != "either":
        return generation.modules
    return "open" if branch >= OPEN_IS_DEFAULT_FROM else "proprietary"
