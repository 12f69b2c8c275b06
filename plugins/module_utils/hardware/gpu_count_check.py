"""Check that all declared GPUs are present and that nvidia-smi works."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from .pci_devices import normal_address

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = ["KNOWN_FAILURES", "Fault", "presence_faults"]

_LOOK = "look for Xid and NVRM in dmesg and for the board in lspci; reseat it or have it replaced"
KNOWN_FAILURES = (
    ("version mismatch", "the loaded driver differs from the installed one: reboot the node"),
    ("couldn't communicate", "load the driver (modprobe nvidia; dmesg shows the error) or reboot the node"),
    ("did not answer", "nvidia-smi hangs in the driver: look for Xid in dmesg, then reboot the node"),
)


class Fault(NamedTuple):
    """A problem with nvidia-smi or with the number of GPUs: component, problem and remedy."""

    key: str
    problem: str
    remedy: str


def presence_faults(declared: int, facts: Mapping[str, Any]) -> list[Fault]:
    """Return a fault if nvidia-smi fails, and one if the number of GPUs differs from `declared`.

    Args:
        declared: expected number of GPUs.
        facts: result of `join_sources`, with `errors`.
    """
    return [*_program(facts), *_count(declared, facts)]


def _program(facts: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield a fault if nvidia-smi is installed and fails; if it is missing, the nvidia_driver role installs it."""
    if facts["smi_state"] not in {"failed", "hung"}:
        return
    why = next(iter(facts["errors"]), "its output is unusable")
    found = (remedy for sign, remedy in KNOWN_FAILURES if sign in why)
    yield Fault("nvidia-smi", f"fails: {why}", next(found, _LOOK))


def _count(declared: int, facts: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield a fault if the number of GPUs is wrong; it lists GPUs that are only visible on the PCI bus."""
    listed = int(facts["gpu_count"])
    if listed == declared or (facts["source"] == "pci" and listed > declared):
        return
    problem = f"{declared} declared, {listed} found"
    if listed > declared:
        yield Fault("GPUs", problem, "correct gpu.count in the hardware profile, or the hardware of the host")
        return
    seen = {normal_address(gpu["pci_bus_id"]) for gpu in facts["gpus"] if gpu["pci_bus_id"]}
    silent = [address for address in facts["pci_gpus"] if address not in seen]
    if silent:
        problem += f"; on the PCI bus but not answering: {', '.join(silent)}"
    elif facts["source"] != "pci":
        problem += f": {', '.join(_places(facts['gpus'])) or 'none'}"
    yield Fault("GPUs", problem, f"{_LOOK}; or correct gpu.count in the hardware profile")


def _places(gpus: Sequence[Mapping[str, Any]]) -> list[str]:
    return [f"{gpu['index']} at {normal_address(gpu['pci_bus_id'])}" for gpu in gpus if gpu["pci_bus_id"]]
