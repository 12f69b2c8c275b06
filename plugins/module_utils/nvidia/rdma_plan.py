"""Plan the RDMA configuration of a host from its declaration and its current state."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Any

from ..common.problems import Problem, make_problem
from ..hardware.pci_devices import normal_address
from .rdma_files import (
    HEADER,
    IN_THE_WAY,
    LIMITS,
    MANAGERS,
    MODULES,
    NAMING_RULES,
    ROCE,
    ROCE_UNIT,
    SLURMD,
    apply_commands,
    ipoib_files,
    link_files,
    naming_rules,
    roce_script,
)
from .rdma_problems import declaration_problems

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = ["nccl_gid_index", "nic_problems", "rdma_plan"]

_MELLANOX = "15b3"
# Package versions from DOCA or MLNX_OFED contain one of these, as in 2501mlnx56-1.2501060.
_VENDOR = ("mlnx", "OFED")


def rdma_plan(host: str, declared: Mapping[str, Any], facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the plan for one host.

    Args:
        host: name of the host.
        declared: see declaration_problems(), with `memlock` and `kernel_managed`, which decides whether kernel files
            are managed (`always`, `never`, or `auto`: except in containers).
        facts: result of `rdma_host.read_rdma`.

    Returns:
        `problems`; `files` for the `templates` module; `load`, modules to load; `apply`, interfaces with `name`,
        `path`, `pending` and `commands`; `skipped` and `notes`, lines to print.
    """
    problems = declaration_problems(host, declared) or [*_found_problems(host, declared, facts)]
    if problems:
        return {"problems": problems}
    ipoib = [{"mode": "datagram", "mtu": 0, **entry} for entry in declared["ipoib"]]
    files = [_keep(SLURMD, f"{HEADER}[Service]\nLimitMEMLOCK={_systemd(declared['memlock'])}\n", declared["memlock"])]
    limits = f"{HEADER}* - memlock {declared['memlock']}\nroot - memlock {declared['memlock']}\n"
    files.append(_keep(LIMITS, limits, declared["memlock"] and facts["raises_limits"]))
    own = not facts["container"]
    managed = declared["kernel_managed"] == "always" or (declared["kernel_managed"] == "auto" and own)
    wanted = _kernel_files(declared, facts, ipoib) if managed else []
    files += wanted
    paths = {item["path"] for item in wanted}
    if managed:
        files += [{"path": path, "state": "absent"} for path in facts["files"] if path not in paths]
    return {
        "problems": [],
        "files": files,
        "load": [
            name
            for name in _modules(declared, facts)
            if own and managed and name.replace("-", "_") not in facts["modules_loaded"]
        ],
        "apply": _interfaces(ipoib, facts) if own and managed else [],
        "skipped": _skipped(declared, facts, managed=managed),
        "notes": list(_notes(declared, facts)),
    }


def _keep(path: str, content: str, wanted: object, mode: str = "0644") -> dict[str, str]:
    if not wanted:
        return {"path": path, "state": "absent"}
    return {"path": path, "content": content, "mode": mode}


def _systemd(memlock: str) -> str:
    """Return a limits.conf limit in KiB in systemd's format."""
    return "infinity" if memlock == "unlimited" else f"{memlock}K"


def _modules(declared: Mapping[str, Any], facts: Mapping[str, Any]) -> list[str]:
    """Return the modules to load; Mellanox modules only if the host has a Mellanox card."""
    mellanox = any(nic["vendor"] == _MELLANOX for nic in facts["pci_nics"])
    return [name for name in declared["modules"] if not name.startswith("mlx") or mellanox]


def _kernel_files(
    declared: Mapping[str, Any], facts: Mapping[str, Any], ipoib: Sequence[Mapping[str, Any]]
) -> list[dict[str, str]]:
    modules, names = _modules(declared, facts), declared["names"]
    named = names or declared["naming"] != "fallback"
    roce = declared["roce_mode"] or int(declared["roce_tos"]) >= 0
    files = [
        _keep(MODULES, HEADER + "".join(f"{name}\n" for name in modules), modules),
        _keep(NAMING_RULES, naming_rules(declared["naming"], names), named),
        _keep(ROCE, roce_script(declared["roce_mode"], int(declared["roce_tos"])), roce, "0755"),
        _keep(ROCE_UNIT, _roce_unit(), roce),
        *link_files(declared["interface_names"]),
    ]
    return files + (ipoib_files(facts["manager"], ipoib) if ipoib else [])


def _roce_unit() -> str:
    return (
        f"{HEADER}[Unit]\nDescription=Set the defaults of RoCE connections\n"
        "After=systemd-modules-load.service rdma-hw.target\nBefore=slurmd.service\n\n"
        f"[Service]\nType=oneshot\nRemainAfterExit=true\nExecStart={ROCE}\n\n[Install]\nWantedBy=multi-user.target\n"
    )


def _interfaces(ipoib: Sequence[Mapping[str, Any]], facts: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return commands, file and pending state of each existing interface; a pending one lacks its address."""
    there = {item["name"]: item for item in facts["interfaces"]}
    folder, prefix, suffix = MANAGERS.get(facts["manager"], ("", "", ""))
    return [
        {
            "name": entry["name"],
            "path": f"{folder}/{prefix}{entry['name']}{suffix}",
            "pending": entry["address"] not in there[entry["name"]]["addresses"],
            "commands": apply_commands(facts["manager"], entry["name"]),
        }
        for entry in ipoib
        if entry["name"] in there
    ]


def _skipped(declared: Mapping[str, Any], facts: Mapping[str, Any], *, managed: bool) -> list[str]:
    """Return the unmanaged parts, and why."""
    lines = []
    if facts["container"]:
        lines.append(
            f"the host is a container ({facts['container']}): kernel modules and interfaces are not configured"
        )
    elif not managed:
        lines.append("rdma_kernel_managed is never: names, modules and interfaces are not changed")
    if declared["memlock"] and not facts["raises_limits"]:
        lines.append(
            f"root cannot raise limits in this container, so the locked-memory limit is still {facts['memlock_hard']}"
        )
    return lines


def _notes(declared: Mapping[str, Any], facts: Mapping[str, Any]) -> Iterator[str]:
    """Yield changes that need a reboot, and findings to check."""
    now = {port["address"]: port["device"] for port in facts["ports"]}
    for where, name in sorted(declared["names"].items()):
        found = now.get(normal_address(where))
        if found and found != name:
            yield f"{found} at {where} is renamed to {name} at the next boot"
    there = {item["name"] for item in facts["interfaces"]}
    for entry in declared["ipoib"]:
        if entry["name"] not in there:
            yield f"{entry['name']} does not exist yet; its address is set when it appears"
        elif entry.get("mode") == "connected":
            yield f"{entry['name']}: ConnectX-4 and later stay in datagram mode unless ib_ipoib has ipoib_enhanced=0"
    own = {port["guid"] for port in facts["ports"] if port["guid"]}
    for manager in facts["subnet_managers"]:
        if declared["opensm"] and manager["state"] == "MASTER" and manager["guid"] not in own:
            yield (
                f"another subnet manager is master of the fabric (guid 0x{manager['guid']}, priority "
                f"{manager['priority']}): a managed fabric needs no opensm on this host; remove rdma_opensm"
            )


def _found_problems(host: str, declared: Mapping[str, Any], facts: Mapping[str, Any]) -> Iterator[Problem]:
    yield from _package_problems(host, declared["source"], facts["packages"])
    if not facts["container"]:
        on_bus = {nic["address"] for nic in facts["pci_nics"]}
        for key in ("names", "interface_names"):
            absent = [where for where in declared[key] if normal_address(str(where)) not in on_bus]
            if absent:
                shown = ", ".join(sorted(on_bus)) or "none"
                yield make_problem(
                    [host],
                    f"rdma_{key}",
                    f"no network card at {', '.join(map(str, absent))} (found {shown})",
                    "correct the address (lspci -D), or reseat the board",
                )
    if declared["ipoib"] and not facts["manager"]:
        yield make_problem(
            [host],
            "rdma_ipoib_interfaces",
            "no network manager found (systemd-networkd, NetworkManager or ifupdown)",
            "start one of them, or configure the interfaces outside of this role",
        )
    for entry in declared["ipoib"]:
        yield from _overlaps(host, entry, facts)


def _overlaps(host: str, entry: Mapping[str, Any], facts: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield interfaces that are not InfiniBand, and addresses in the network of another interface."""
    wanted = ipaddress.ip_interface(entry["address"])
    key = f"rdma_ipoib_interfaces[{entry['name']}]"
    for other in facts["interfaces"]:
        if other["name"] == entry["name"]:
            if not other["infiniband"]:
                yield make_problem([host], key, "is not an InfiniBand interface", "correct the name (ip link)")
            continue
        for text in other["addresses"]:
            network = ipaddress.ip_interface(text).network
            if wanted.version == network.version and wanted.network.overlaps(network):
                use = ", the management network" if other["name"] in facts["default_interfaces"] else ""
                yield make_problem(
                    [host],
                    key,
                    f"{entry['address']} overlaps {network} of {other['name']}{use}",
                    "choose a network that only the fabric uses",
                )
    if str(wanted.ip) in facts["answering"]:
        yield make_problem([host], key, f"{wanted.ip} is in use by another host", "choose a free address")


def _package_problems(host: str, source: str, packages: Mapping[str, str]) -> Iterator[Problem]:
    vendor = sorted(name for name, version in packages.items() if any(sign in version for sign in _VENDOR))
    if source == "distribution" and vendor:
        yield make_problem(
            [host],
            "rdma_source",
            f"distribution, but DOCA-OFED or MLNX_OFED is installed ({', '.join(vendor[:4])})",
            "set rdma_source: doca, or remove it first (ofed_uninstall.sh --force)",
        )
    blocking = sorted(name for name in packages if name in IN_THE_WAY and name not in vendor)
    if source == "doca" and blocking:
        yield make_problem(
            [host],
            "rdma_source",
            f"doca, but {', '.join(blocking)} of the distribution conflict with it",
            f"remove them first: {', '.join(blocking)}",
        )


def nic_problems(host: str, nics: Sequence[Mapping[str, Any]], facts: Mapping[str, Any]) -> list[Problem]:
    """Return the declared RDMA NICs without an active port at their rate.

    Args:
        host: name of the host.
        nics: NICs of its hardware profile, each with `count`, `gbps` and `rdma`.
        facts: result of `rdma_host.read_rdma`.
    """
    free = sorted((port for port in facts["ports"] if port["active"]), key=lambda port: -(port["rate_gbps"] or 0))
    problems = []
    for claim in sorted((nic for nic in nics if nic["rdma"]), key=lambda nic: -float(nic["gbps"])):
        count, rate = int(claim["count"]), float(claim["gbps"])
        good = [port for port in free if (port["rate_gbps"] or 0) >= rate][:count]
        free = [port for port in free if port not in good]
        if len(good) < count:
            problem = f"{count} x {rate:g} Gb/s declared, but {len(good)} active at that rate"
            problems.append(make_problem([host], "RDMA NICs", *_reason(problem, good, facts)))
    return problems


def _reason(problem: str, good: Sequence[Mapping[str, Any]], facts: Mapping[str, Any]) -> tuple[str, str]:
    """Return a problem with the NICs found, and the remedy."""
    boards = ", ".join(nic["address"] for nic in facts["pci_nics"])
    if facts["ports"]:
        others = ", ".join(
            f"{port['device']}/{port['port']} {port['state']} {port['rate_gbps'] or 0:g} Gb/s"
            for port in facts["ports"]
            if port not in good
        )
        remedy = "check cables, transceivers and the switch ports (ibstat), or correct nics in the hardware profile"
        return problem + (f"; the others: {others}" if others else ""), remedy
    if boards:
        return f"{problem}: no RDMA device, network cards at {boards}", "load the driver (dmesg shows the error)"
    return f"{problem}: no RDMA device and no network card on the PCI bus", "check that lspci lists the boards"


def nccl_gid_index(wanted: str, ports: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return the NCCL_IB_GID_INDEX for RoCE to write to /etc/nccl.conf, and an explanation.

    NCCL 2.21 and newer find a RoCE v2 GID automatically (NCCL user guide, NCCL_IB_GID_INDEX: -1); older releases use
    index 0, which is RoCE v1. The index applies to all ports of a node, including InfiniBand, so it is set only if all
    ports have it.

    Args:
        wanted: `auto`, an index, or empty for no index.
        ports: result of `rdma_ports`.

    Returns:
        `index`, empty if none should be written, and `note`, the reason.
    """
    if not wanted or wanted.isdigit():
        return {"index": wanted, "note": ""}
    active = [port for port in ports if port["active"]]
    fastest = max((port["rate_gbps"] or 0 for port in active), default=0)
    fabric = [port for port in active if (port["rate_gbps"] or 0) == fastest]
    if not fabric:
        return {"index": "", "note": "no RDMA port is active: NCCL_IB_GID_INDEX is not written"}
    if any(port["link_layer"] != "Ethernet" for port in fabric):
        return {"index": "", "note": ""}
    common = set(fabric[0]["roce_gids"]).intersection(*(port["roce_gids"] for port in fabric))
    if common:
        return {"index": str(min(common)), "note": ""}
    seen = ", ".join(f"{port['device']}: {port['roce_gids'] or 'none'}" for port in fabric)
    return {
        "index": "",
        "note": f"no index is a GID of RoCE v2 on all ports ({seen}): NCCL_IB_GID_INDEX is not written",
    }
