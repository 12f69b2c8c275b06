"""Check the GPUs of a node from the output of nvidia-smi.

The limits of 8 PCIe replays a minute and 100 NVLink CRC errors a second are those of DCGM's health watches
(NVIDIA/DCGM, DCGM_LIMIT_MAX_PCIREPLAY_RATE and DCGM_LIMIT_MAX_NVLINK_CRC_ERROR). These findings are events, which are
kept: on a drained node the links are idle and the errors stop.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ..hardware.gpu_count_check import presence_faults
from ..hardware.gpu_faults import gpu_label, persistent_faults, temporary_faults
from ..hardware.hardware_profile_check import link_faults, nvlink_faults
from ..hardware.nvidia_smi_links import parse_link_errors, parse_nvlink
from .counter_rates import rate
from .finding import ISOLATE, MONITOR, RESET, Answer, Finding

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ..hardware.gpu_faults import GpuFault
    from .finding import Node

__all__ = ["gpu_answer", "nvlink_answer"]

MINUTE_S = 60.0
_COUNTER = re.compile(r"^\s*Link \d+: .*:\s*\d+\s*$", re.MULTILINE)
# Counters of errors that NVLink 5 has corrected; uncorrectable errors are reported as Xids.
_CORRECTED = "FEC Errors"


def gpu_answer(node: Node, facts: Mapping[str, Any]) -> Answer:
    """Return the problems with the GPUs and their PCIe links, and the links' counters.

    Args:
        node: with `gpus` (expected number), `gpu` (part of the hardware profile) and `limits`.
        facts: result of `read_gpus`.
    """
    # An nvidia-smi that does not support these options reports nothing to compare.
    if facts["smi_state"] == "unusable":
        return Answer(unknown="nvidia-smi does not support the options -q -x")
    gpus = facts["gpus"]
    findings = [*_gpu_faults(gpus), *_presence(int(node.declared["gpus"]), facts)]
    alive = [gpu for gpu in gpus if not gpu["lost"]]
    for gpu, problem, remedy in link_faults(node.declared.get("gpu") or {}, alive):
        findings.append(Finding("gpu_links", RESET, f"GPU {gpu['index']} ({gpu_label(gpu)}) {problem}", remedy))
    samples: dict[str, float] = {}
    events: list[Finding] = []
    for gpu in alive:
        if gpu["pcie_replays"] is not None:
            name = f"pcie_replays {gpu['uuid'] or gpu['index']}"
            samples[name] = float(gpu["pcie_replays"])
            events += _replays(node, gpu, node.samples.get(name, ()))
    return Answer(findings, samples, events)


def _gpu_faults(gpus: Sequence[Mapping[str, Any]]) -> Iterator[Finding]:
    """Yield the faults of GPUs; several GPUs with the same fault give one finding."""
    for check, find_faults in (("gpu", persistent_faults), ("gpu_clocks", temporary_faults)):
        affected: dict[GpuFault, list[Mapping[str, Any]]] = {}
        for gpu in gpus:
            for gpu_fault in find_faults(gpu):
                affected.setdefault(gpu_fault, []).append(gpu)
        for gpu_fault, with_fault in affected.items():
            where = gpu_label(with_fault[0]) if len(with_fault) == 1 else f"of {len(gpus)}"
            index = ",".join(str(gpu["index"]) for gpu in with_fault)
            severity = ISOLATE if gpu_fault.needs_replacement else RESET if check == "gpu" else MONITOR
            problem = f"GPU {index} ({where}) {gpu_fault.problem}"
            yield Finding(check, severity, problem, gpu_fault.remedy.replace("INDEX", index))


def _presence(declared: int, facts: Mapping[str, Any]) -> Iterator[Finding]:
    for fault in presence_faults(declared, facts):
        yield Finding("gpu_count", RESET, f"{fault.key}: {fault.problem}", fault.remedy)
    if facts["smi_state"] == "absent":
        remedy = "reinstall the driver: busbar provision nvidia --limit NODE"
        yield Finding("gpu_count", RESET, "nvidia-smi: no longer installed", remedy)


def _replays(node: Node, gpu: Mapping[str, Any], earlier: Sequence[Sequence[float]]) -> Iterator[Finding]:
    grown = rate(earlier, node.now, float(gpu["pcie_replays"]), MINUTE_S)
    most = float(node.declared["limits"]["pcie_replays_per_minute"])
    if grown > most:
        problem = f"GPU {gpu['index']} ({gpu_label(gpu)}) {grown:.0f} PCIe replays a minute (limit {most:g})"
        remedy = "reseat the board or its riser; lspci -vv, dmesg | grep AER"
        yield Finding("pcie_replays", RESET, problem, remedy, f"GPU {gpu['index']}")


def nvlink_answer(node: Node, states: str, text: str) -> Answer:
    """Return NVLinks that are down, slow, or exceed the error limit.

    Args:
        node: with `gpu` (part of the hardware profile) and `limits`.
        states: output of `nvidia-smi nvlink -s`; empty if unknown.
        text: output of `nvidia-smi nvlink -e`; empty if unknown.
    """
    findings = [
        Finding("gpu_links", RESET, f"GPU {gpu['index']} {problem}", remedy)
        for gpu in parse_nvlink(states)["gpus"]
        for problem, remedy in nvlink_faults(node.declared.get("gpu") or {}, gpu)
    ]
    events, samples = [], {}
    most = float(node.declared["limits"]["nvlink_crc_per_second"])
    found = parse_link_errors(text)
    if not found and _COUNTER.search(text) and _CORRECTED not in text:
        return Answer(findings, unknown="nvidia-smi nvlink -e reports no CRC counters")
    for index, errors in found.items():
        name = f"nvlink_crc {index}"
        samples[name] = float(errors)
        grown = rate(node.samples.get(name, ()), node.now, float(errors), 1.0)
        if grown > most:
            problem = f"GPU {index}: {grown:.0f} CRC errors per second on its NVLinks (limit {most:g})"
            remedy = f"nvidia-smi --gpu-reset -i {index} once the node is empty; if it recurs, replace the board"
            events.append(Finding("nvlink_crc", RESET, problem, remedy, f"GPU {index}"))
    return Answer(findings, samples, events)
