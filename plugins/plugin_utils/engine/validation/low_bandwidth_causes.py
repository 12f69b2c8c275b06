# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Find known causes of low bandwidth in NCCL's log lines, and decide which are faults even if the floor is reached.

A cause is a fault if the hardware profile rules out a normal explanation, and otherwise a finding:

- NET/Socket, fewer NICs than in the profile, a NIC that is missing or idle on one node: a fault if an RDMA network
  connects the nodes. Trays of one NVLink domain do not need it.
- GPUDirect RDMA off: a fault if each GPU has NVLink and at most two share a NIC. NCCL uses it up to PATH_PXB
  (src/graph/paths.cc, ncclTopoCheckGdr), so a GPU that reaches the NIC only through the CPU cannot use it.
- NVLS off: a fault for an all-reduce on three or more GPUs of Hopper or newer behind an NVSwitch
  (src/transport/nvls.cc, ncclNvlsInit: no NVLS up to two GPUs).
- A NIC that is idle on one node: a fault in collectives in which all ranks have the same role. Collectives with a root
  or with pairs use only some rails.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ..catalogue.floors import domain_nodes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# Prefix of the reason if a test fails because of a known fault although its bandwidth is sufficient.
KNOWN_CAUSE = "a known cause of low bandwidth"
_HOPPER_LINE = 450
_FEWEST_OF_NVLS = 3
_GPUS_OF_A_NIC = 2
_ALIKE = frozenset({"all_reduce", "all_gather", "reduce_scatter", "alltoall"})


class Cause(NamedTuple):
    """A description of a cause, and whether it is a fault even if the floor is reached."""

    words: str
    counts: bool


def causes(
    runs: Sequence[dict[str, Any]],
    profile: dict[str, Any] | None,
    collective: str,
    nodes: int,
    domains: Sequence[int] | None,
) -> list[Cause]:
    """Return the causes found in NCCL's log lines without duplicates, in the order of the runs.

    Args:
        runs: results of parse_text; only their fabric is read.
        profile: the hardware profile; None if unknown.
        collective: name of the nccl-tests program without "_perf".
        nodes: number of nodes.
        domains: number of nodes in each NVLink domain; None if unknown.
    """
    found: list[Cause] = []
    gpu = (profile or {}).get("gpu") or {}
    nics = sum(int(nic["count"]) for nic in (profile or {}).get("nics") or [] if nic.get("rdma"))
    within = domain_nodes(profile) > 1 and domains is not None and len(domains) == 1
    gpus = int(gpu.get("count") or 1)
    nvlink = float(gpu.get("nvlink_gbs") or 0)
    for run in runs:
        fabric = run.get("fabric") or {}
        if nics and nodes > 1:
            near = nvlink > 0 and gpus <= _GPUS_OF_A_NIC * nics
            found += _network(fabric, nics, counts=not within, near=near)
            found += _rails(fabric.get("rails") or {}, counts=not within, alike=collective in _ALIKE)
        if fabric.get("nvls") is False and nvlink >= _HOPPER_LINE:
            each = (run.get("ranks") or 0) // max(1, run.get("nodes") or nodes)
            summed = collective == "all_reduce" and each >= _FEWEST_OF_NVLS and bool(gpu.get("nvswitch"))
            found.append(Cause("NVLS not in use: check the fabric manager, the driver and NCCL_NVLS_ENABLE", summed))
    return list(dict.fromkeys(found))


def _network(fabric: dict[str, Any], nics: int, *, counts: bool, near: bool) -> Iterator[Cause]:
    if any(name.lower().startswith("socket") for name in fabric.get("networks") or []):
        yield Cause("InfiniBand not used (NET/Socket)", counts)
    elif fabric.get("gdrdma") is False:
        yield Cause("GPUDirect RDMA off", counts and near)
    found = len(fabric.get("nics") or [])
    if found and found != nics:
        yield Cause(f"wrong number of NICs: NCCL uses {found} (expected {nics})", counts and found < nics)


def _rails(rails: dict[str, dict[str, list[str]]], *, counts: bool, alike: bool) -> Iterator[Cause]:
    """Yield NICs that are missing or idle on a node although at least half of the nodes use a NIC of that name."""
    most = max((len(nics["listed"]) for nics in rails.values()), default=0)
    for key, words in (("listed", "is not in use"), ("carried", "is idle")):
        reported = {host: set(nics[key]) for host, nics in rails.items() if nics[key]}
        names = sorted({name for nics in reported.values() for name in nics})
        usual = [name for name in names if 2 * sum(name in nics for nics in reported.values()) >= len(reported)]
        for host, nics in sorted(reported.items()):
            # If a node has the same number of NICs with different names, none is missing.
            sure = alike if key == "carried" else len(nics) < most
            for name in usual:
                if name not in nics and (key == "listed" or name in rails[host]["listed"]):
                    yield Cause(f"rail {name} of node {host} {words}, but is used on other nodes", counts and sure)
