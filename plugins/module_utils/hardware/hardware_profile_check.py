"""Compare the GPUs and NICs of a node with its hardware profile."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from ..common.problems import Problem, make_problem
from .gpu_count_check import presence_faults
from .gpu_faults import gpu_faults, gpu_label
from .nvidia_smi_links import nominal_link_gbs

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = ["claim_problems", "link_faults", "model_name", "nic_problems", "nvlink_faults"]

_BRANDS = ("NVIDIA ", "Tesla ", "GeForce ", "Quadro ")
_UNKNOWN_MODELS = {"graphics device", ""}
_WRONG_HARDWARE = "correct the hardware profile of the host, or install the declared boards"
# Highest performance state; in lower ones an idle GPU reduces its link speed.
_AWAKE = "P0"


def claim_problems(
    host: str, hardware: Mapping[str, Any], facts: Mapping[str, Any], limits: Mapping[str, Any]
) -> list[Problem]:
    """Return the differences between a node and its hardware profile, and the faults of its GPUs.

    Args:
        host: name of the host.
        hardware: its hardware profile; without `gpu` nothing is compared.
        facts: `devices` of `node_info`.
        limits: `gpu_tolerance`, allowed relative difference of memory; `driver_branch`, major version of the driver,
            empty for any.
    """
    claim = hardware.get("gpu")
    # An nvidia-smi without the options -q and -x returns no data to compare.
    if not claim or facts["smi_state"] == "unusable":
        return []
    return [
        *(make_problem([host], *fault) for fault in presence_faults(int(claim["count"]), facts)),
        *_driver(host, str(limits.get("driver_branch") or ""), facts),
        *nic_problems(host, hardware.get("nics") or [], facts),
        *_gpu_problems(host, facts["gpus"], _faults(claim, facts["gpus"], float(limits["gpu_tolerance"]))),
    ]


def _faults(
    claim: Mapping[str, Any], gpus: Sequence[Mapping[str, Any]], tolerance: float
) -> list[tuple[Mapping[str, Any], str, str]]:
    """Return the faults of each GPU, with the remedy."""
    found = []
    for gpu in gpus:
        faults = [(fault.problem, fault.remedy) for fault in gpu_faults(gpu)]
        other = [] if gpu["lost"] else [*_model(claim, gpu)]
        faults += other or ([] if gpu["lost"] else [*_memory(claim, gpu, tolerance)])
        found += [(gpu, problem, remedy) for problem, remedy in faults]
        # Do not compare the NVLinks of another model.
        own = {**claim, "nvlink_gbs": 0} if other else claim
        found += [each for each in link_faults(own, gpus) if each[0] is gpu]
    return found


def link_faults(
    claim: Mapping[str, Any], gpus: Sequence[Mapping[str, Any]]
) -> list[tuple[Mapping[str, Any], str, str]]:
    """Return the NVLink and PCIe faults of each GPU that is not lost, with the remedy.

    Args:
        claim: `gpu` of the hardware profile.
        gpus: GPUs of `parse_query`.
    """
    widths = _usual(gpus, "pcie_width_current")
    generations = _usual([gpu for gpu in gpus if gpu["performance_state"] == _AWAKE], "pcie_gen_current")
    return [
        (gpu, problem, remedy)
        for gpu in gpus
        if not gpu["lost"]
        for problem, remedy in (
            *nvlink_faults(claim, gpu.get("nvlink")),
            *_link_width(claim, gpu, widths),
            *_link_generation(claim, gpu, generations),
        )
    ]


def _gpu_problems(
    host: str, gpus: Sequence[Mapping[str, Any]], faults: Sequence[tuple[Mapping[str, Any], str, str]]
) -> Iterator[Problem]:
    """Yield the faults of GPUs; a fault that all GPUs share is yielded once, because identical hosts are merged."""
    struck = Counter(problem for _, problem, _ in faults)
    reported = set()
    for gpu, problem, remedy in faults:
        everywhere = struck[problem] == len(gpus) > 1
        if everywhere and problem in reported:
            continue
        reported.add(problem)
        index = ",".join(str(each["index"]) for each in gpus) if everywhere else str(gpu["index"])
        place = f"all {len(gpus)} GPUs" if everywhere else f"GPU {gpu['index']} ({gpu_label(gpu)})"
        yield make_problem([host], place, problem, remedy.replace("INDEX", index))


def model_name(name: str) -> str:
    """Return a model name without the brand that only some driver versions print: 'NVIDIA A40' gives 'a40'."""
    for brand in _BRANDS:
        name = name.removeprefix(brand)
    return " ".join(name.lower().split())


def _driver(host: str, branch: str, facts: Mapping[str, Any]) -> Iterator[Problem]:
    version = str(facts["driver_version"] or "")
    if branch and version and version.partition(".")[0] != branch.partition(".")[0]:
        problem = f"wrong driver branch (found version {version}, expected branch {branch})"
        yield make_problem(
            [host], "driver", problem, f"install driver branch {branch} and reboot, or correct preflight_driver_branch"
        )


def _model(claim: Mapping[str, Any], gpu: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    name = gpu["product_name"]
    if name is None or model_name(name) == model_name(str(claim["model"])):
        return
    if model_name(name) in _UNKNOWN_MODELS:
        yield f"{claim['model']} declared, but the driver does not recognise the board", "install a newer driver"
    else:
        yield f"wrong model (found {name}, expected {claim['model']})", _WRONG_HARDWARE


def _memory(claim: Mapping[str, Any], gpu: Mapping[str, Any], tolerance: float) -> Iterator[tuple[str, str]]:
    declared, found = float(claim["memory_mb"]), gpu["memory_total_mib"]
    if found is not None and abs(found - declared) > tolerance * declared:
        yield f"wrong memory size (found {found} MiB, expected {declared:.0f} MiB)", _WRONG_HARDWARE


def nvlink_faults(claim: Mapping[str, Any], links: Mapping[str, Any] | None) -> Iterator[tuple[str, str]]:
    """Yield missing or slow NVLinks of a GPU, with the remedy.

    Args:
        claim: `gpu` of the hardware profile.
        links: NVLinks of the GPU from `parse_nvlink`; None if unknown.

    Links are counted, not summed: the driver's rates include encoding (26.562 for 25 GB/s), so the sum of 17 links
    reaches the line rate of 18.
    """
    declared = float(claim.get("nvlink_gbs") or 0)
    if not declared or not links or "MIG" in str(links["note"] or ""):
        return
    remedy = "reset all GPUs of the node or reboot; then check the baseboard, NVSwitches and the fabric manager"
    rates = [nominal_link_gbs(rate) for rate in links["speeds_gb_s"]]
    if not rates:
        yield f"NVLink of {declared:g} GB/s declared, but no link is up ({links['note'] or 'all inactive'})", remedy
        return
    if min(rates) < max(rates):
        yield f"an NVLink runs at {min(rates):g} GB/s, the others at {max(rates):g}", remedy
    expected, active = round(declared / max(rates)), int(links["links_active"])
    if active < expected:
        down = f" (down: {', '.join(map(str, links['inactive']))})" if links["inactive"] else ""
        yield f"{active} of {expected} NVLinks are up{down}", remedy


def _usual(gpus: Sequence[Mapping[str, Any]], key: str) -> int | None:
    """Return the most common value of several GPUs, or None without a majority."""
    counted = Counter(gpu[key] for gpu in gpus if gpu[key] is not None)
    if not counted or len(gpus) == 1:
        return None
    value, times = counted.most_common(1)[0]
    return int(value) if 2 * times > len(gpus) else None


def _link_width(claim: Mapping[str, Any], gpu: Mapping[str, Any], usual: int | None) -> Iterator[tuple[str, str]]:
    """Yield a link with fewer lanes than declared, or than the other GPUs have.

    Some servers connect all boards with 8 of 16 lanes, so the board's maximum is not the expected value.
    """
    lanes, declared = gpu["pcie_width_current"], claim.get("pcie_width") or usual
    if lanes is not None and declared and lanes < declared:
        kind = "expected" if claim.get("pcie_width") else "other GPUs:"
        yield (
            f"uses {lanes} PCIe lanes ({kind} {declared})",
            "reseat the board or its riser; check the slot's setting in the BIOS",
        )


def _link_generation(claim: Mapping[str, Any], gpu: Mapping[str, Any], usual: int | None) -> Iterator[tuple[str, str]]:
    """Yield a PCIe link of an older generation than declared, or than the other GPUs' links while all are active.

    An idle board may drop to generation 1; then the link's maximum generation counts.
    """
    remedy = "reseat the board or its riser; check the slot's setting in the BIOS and the errors in dmesg (AER)"
    most, now, declared = gpu["pcie_gen_max"], gpu["pcie_gen_current"], claim.get("pcie_gen")
    if declared and most is not None and most < declared:
        yield f"PCIe generation is too low (maximum {most}, expected {declared})", remedy
    elif now is not None and usual and gpu["performance_state"] == _AWAKE and now < usual:
        yield f"PCIe link trained down to generation {now} (other GPUs: {usual})", remedy


def nic_problems(host: str, claims: Sequence[Mapping[str, Any]], facts: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield the problems with a node's network cards.

    Args:
        host: name of the host.
        claims: `nics` of the hardware profile.
        facts: `rdma_ports`, `network_interfaces` and `pci_nics` from `devices` of the `node_info` module.
    """
    for claim in claims:
        yield from (_rdma_ports if claim["rdma"] else _interfaces)(host, claim, facts)


def _rdma_ports(host: str, claim: Mapping[str, Any], facts: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield a problem if too few RDMA ports run at the declared rate; boards without a driver are only counted."""
    ports, count, rate = facts["rdma_ports"], int(claim["count"]), float(claim["gbps"])
    if not ports:
        if len(facts["pci_nics"]) < count:
            problem = f"RDMA NICs are missing from the PCI bus (found {len(facts['pci_nics'])}, expected {count})"
            yield make_problem(
                [host], "NICs", problem, "look for the boards in lspci, or correct nics in the hardware profile"
            )
        return
    good = [port for port in ports if port["active"] and (port["rate_gbps"] or 0) >= rate]
    if len(good) < count:
        others = ", ".join(
            f"{port['device']}/{port['port']} {port['state']} {port['rate_gbps'] or 0:g} Gb/s"
            for port in ports
            if port not in good
        )
        problem = f"too few RDMA ports are active at {rate:g} Gb/s (found {len(good)}, expected {count})"
        problem += f"; the others: {others}" if others else ""
        remedy = "check cables, transceivers and the switch ports (ibstat), or correct nics in the hardware profile"
        yield make_problem([host], "NICs", problem, remedy)


def _interfaces(host: str, claim: Mapping[str, Any], facts: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield a problem if too few interfaces run at the declared rate; an unknown rate counts as sufficient."""
    found, count, rate = facts["network_interfaces"], int(claim["count"]), float(claim["gbps"])
    good = [each for each in found if each["up"] and (each["rate_gbps"] is None or each["rate_gbps"] >= rate)]
    # Interfaces of virtual machines and containers have no visible hardware.
    if not found or len(good) >= count:
        return
    shown = ", ".join(
        f"{each['name']} {each['rate_gbps'] or 0:g} Gb/s" if each["up"] else f"{each['name']} down"
        for each in found
        if each not in good
    )
    problem = f"too few interfaces are up at {rate:g} Gb/s (found {len(good)}, expected {count}); the others: {shown}"
    yield make_problem(
        [host], "NICs", problem, "check cables and switch ports (ethtool), or correct nics in the hardware profile"
    )
