# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Parse the lines that a job prints about its nodes: failed steps, software versions, and port error counters.

The job prints ``# busbar counter: before NODE DEVICE NAME VALUE`` before its tests and the same with ``after`` at the
end, omitting zeros; the last line of a node has the device ``-`` and the counter ``read``. Names are those of Linux'
Documentation/ABI/stable/sysfs-class-infiniband (IBTA's PortCounters), of ``rx_crc_errors`` in
Documentation/ABI/testing/sysfs-class-net-statistics, and of the mlx5 driver's hardware counters and ``ethtool -S``.
"""

from __future__ import annotations

import re
from collections import Counter

from ..common.hostlist import fold_hosts
from ..common.printable import plain_text

# Messages of Pyxis in slurmstepd's format (slurm_error, Slurm 24.11), with or without the prefix of srun --label. Pyxis
# 0.24 repeats Enroot's log after "printing enroot log file:", indented by four more spaces (common.c, memfd_print_log).
_PYXIS_LINE = re.compile(
    r"^(?:\s*\d{1,6}: )?slurmstepd(?:-(?P<node>[\w.-]+))?: error: pyxis:(?P<log> {5})?\s*(?P<words>\S.*?)\s*$"
)
_ENROOT = re.compile(r"\[ERROR\]\s*(\S.*)")
_NO_REASON = re.compile(
    r"\[(INFO|WARN)\]|printing \w+ log file|(child \d+|container start) failed with error code"
    r"|container was not started successfully by another task"
)
_VARIABLE = re.compile(r"^(?:\s*\d{1,6}: )?# busbar variable: (?P<node>\S+) (?P<words>\w+ is .*, the job set .*)$")
# The first rank in the table of nccl-tests and of busbar_collectives.
_FIRST_RANK = re.compile(r"^#\s+Rank\s+0\s", re.MULTILINE)


def container_fault(text: str) -> str:
    """Return why the container of a step did not start, with the node if known; empty if it started.

    The result is, in order of preference, the first error in Enroot's log, its first line, the first message of Pyxis
    with a reason, or its first message.
    """
    matches = [match for line in text.splitlines() if "pyxis:" in line and (match := _PYXIS_LINE.match(line))]
    for match in matches:
        if reason := _ENROOT.match(match["words"]):
            return _of_node(match["node"], f"container: {reason[1]}")
    reasons = [match for match in matches if not _NO_REASON.match(match["words"])]
    # "printing … log file" alone does not report a fault.
    others = [match for match in matches if not match["log"] and not match["words"].startswith("printing ")]
    best = [*(match for match in reasons if match["log"]), *reasons, *others]
    return _of_node(best[0]["node"], f"container: {best[0]['words']}") if best else ""


def changed_variable(text: str) -> str:
    """Return the variable that a program received with a different value than the job set; empty if none."""
    for line in text.splitlines():
        if "# busbar variable: " in line and (match := _VARIABLE.match(line)):
            words = f"{match['words']}: remove it from the image, hook or task prolog that sets it"
            return _of_node(match["node"], f"the program did not run as requested: {words}")
    return ""


def unconnected(step: str, ranks: int) -> str:
    """Return a message if the processes of a step did not connect, because several report rank 0; otherwise empty.

    This happens with Open MPI 5 under srun without PMIx (open-mpi/ompi#13523), and with a program built without MPI.

    Args:
        step: the output of the step.
        ranks: number of requested ranks.
    """
    programs = len(_FIRST_RANK.findall(step))
    if programs <= 1:
        return ""
    return (
        f"{programs} programs with one rank each ran instead of one with {ranks} ranks, so no communication was "
        "measured: build the program with MPI, and the MPI library with the launcher's interface (PMIx, PMI-2)"
    )


def step_fault(text: str | None, *, ran: bool) -> str:
    """Return why the values in an output are invalid; empty if they are valid.

    Args:
        text: output of the job, or of a part of it; None if missing.
        ran: whether the program finished with a result; a container fault then belongs to another job step.
    """
    return changed_variable(text or "") or ("" if ran else container_fault(text or ""))


def _of_node(node: str | None, words: str) -> str:
    return f"{node}: {plain_text(words)}" if node else plain_text(words)


_PREFIX = "# busbar: "
_MOST_LINES = 64
_LONGEST = 400
_NODE_LINE = re.compile(r"^# busbar node: (\S{1,255}) ([^=]{1,40})=(.{1,400})$", re.MULTILINE)
_MOST_NODES = 10_000
_MOST_FACTS = 16
_MOST_SHOWN = 4
_COUNTER_LINE = re.compile(
    r"^# busbar counter: (before|after) (\S{1,255}) (\S{1,64}) ([a-z0-9_]{1,64}) (\d{1,20})$", re.MULTILINE
)
_MOST_COUNTERS = 100_000
_MOST_FINDINGS = 8
# Counters that increase with a bad cable, transceiver or port, but not with a slow node.
_CABLE = frozenset(
    {
        "symbol_error",
        "link_error_recovery",
        "link_downed",
        "port_rcv_errors",
        "local_link_integrity_errors",
        "rx_icrc_encapsulated",
        "rx_crc_errors",
        "rx_symbol_err_phy",
        "rx_pcs_symbol_err_phy",
    }
)


def environment_of(text: str | None) -> dict[str, str]:
    """Return the environment of a job from lines such as ``# busbar: Kernel=6.1.0-44-amd64``.

    Lines before the first such line are skipped; parsing stops at the next line of a different form.
    """
    found: dict[str, str] = {}
    for line in (text or "")[: _MOST_LINES * _LONGEST].splitlines():
        if line.startswith(_PREFIX) and "=" in line:
            key, value = line[len(_PREFIX) :].split("=", 1)
            if len(found) < _MOST_LINES and value.strip():
                found.setdefault(key.strip()[:_LONGEST], value.strip()[:_LONGEST])
        elif found:
            break
    return found


def of_nodes(text: str | None) -> dict[str, dict[str, str]]:
    """Return the environment of each node of a job by fact, such as ``Kernel``.

    The job prints ``# busbar node: NODE FACT=VALUE`` for each.
    """
    found: dict[str, dict[str, str]] = {}
    for node, fact, value in _NODE_LINE.findall(text or ""):
        if node not in found and len(found) >= _MOST_NODES:
            continue
        facts = found.setdefault(node, {})
        if len(facts) < _MOST_FACTS and value.strip():
            facts.setdefault(fact.strip(), value.strip())
    return found


def differences(nodes: dict[str, dict[str, str]]) -> dict[str, dict[str, list[str]]]:
    """Return the facts that differ between nodes, each with the nodes by value, the most frequent value first.

    A node without a fact that others report, such as the version of a missing library, has an empty value.
    """
    found: dict[str, dict[str, list[str]]] = {}
    for fact in dict.fromkeys(fact for facts in nodes.values() for fact in facts):
        values = {node: facts.get(fact, "") for node, facts in nodes.items()}
        counted = Counter(values.values())
        if len(counted) > 1:
            found[fact] = {
                value: [node for node, own in values.items() if own == value] for value, _count in counted.most_common()
            }
    return found


def difference_words(fact: str, values: dict[str, list[str]]) -> str:
    """Return a sentence about the nodes that differ from the majority.

    Args:
        fact: name of the fact, such as Kernel.
        values: the fact's entry in the result of differences.
    """
    (most, same), *others = values.items()
    shown = [f"{value or 'nothing'} on {fold_hosts(nodes)}" for value, nodes in others[:_MOST_SHOWN]]
    more = f" and {len(others) - _MOST_SHOWN} more values" if len(others) > _MOST_SHOWN else ""
    rest = fold_hosts(same) if len(same) <= _MOST_SHOWN else f"the other {len(same)}"
    return f"{fact} differs between nodes: {', '.join(shown)}{more}; {most or 'nothing'} on {rest}"


def port_findings(text: str | None, *, slow: bool) -> list[str]:
    """Return a finding for each port whose error counters increased during a job.

    Args:
        text: the output of the job.
        slow: whether the test did not pass; signs of congestion, which are otherwise normal, are then also reported.
    """
    before: dict[tuple[str, str, str], int] = {}
    after: dict[tuple[str, str, str], int] = {}
    for number, (when, node, device, name, value) in enumerate(_COUNTER_LINE.findall(text or "")):
        if number >= _MOST_COUNTERS:
            break
        (before if when == "before" else after)[node, device, name] = int(value)
    read_nodes = {node for node, _device, name in before if name == "read"}
    cables: dict[tuple[str, str], list[str]] = {}
    crowded: dict[str, set[str]] = {}
    for (node, device, name), value in sorted(after.items()):
        # A counter that was reset during the job is ignored.
        rose = value - before.get((node, device, name), 0) if node in read_nodes else 0
        if rose > 0 and name in _CABLE:
            cables.setdefault((node, device), []).append(f"{name} +{rose}")
        elif rose > 0 and slow:
            crowded.setdefault(name, set()).add(node)
    found = [
        f"cable, transceiver or switch port at {device} of {node}: {', '.join(rises)} during the test"
        for (node, device), rises in cables.items()
    ]
    more = [f"errors on {len(found) - _MOST_FINDINGS} more ports"] if len(found) > _MOST_FINDINGS else []
    signs = [
        f"congestion or packet loss: {name} increased on {fold_hosts(sorted(nodes))}" for name, nodes in crowded.items()
    ]
    return found[:_MOST_FINDINGS] + more + signs
