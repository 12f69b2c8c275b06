"""Reads the hardware of a node with shell commands, and derives its hardware profile."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from ansible_collections.busbar.cluster.plugins.module_utils.hardware.gpu_facts_merge import join_sources
from ansible_collections.busbar.cluster.plugins.module_utils.hardware.network_facts import (
    network_interfaces,
    rdma_ports,
)
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.catalogue.profile_from_machine import (
    describe_machine,
    machine_notes,
)

# Each line belongs to a section; sysfs prints a file as PATH=VALUE, and a link to a device as PATH=.
HARDWARE = r"""
section() { sed "s|^|# $node $1 |"; }
node=${SLURMD_NODENAME:-$(uname -n)}
LC_ALL=C lscpu | section cpu
head -n 1 /proc/meminfo | section memory
if command -v nvidia-smi >/dev/null; then
  timeout 60 nvidia-smi -q -x | section smi
  timeout 30 nvidia-smi nvlink -s | section nvlink
fi
for file in /sys/class/infiniband/*/ports/*/state /sys/class/infiniband/*/ports/*/rate \
  /sys/class/infiniband/*/ports/*/link_layer /sys/class/net/*/operstate /sys/class/net/*/speed; do
  read -r value <"$file" && echo "$file=$value"
done 2>/dev/null | section sys
for link in /sys/class/net/*/device /sys/class/infiniband/*/device/physfn /sys/class/net/*/device/physfn; do
  [ ! -e "$link" ] || echo "$link="
done | section sys
"""


class Node(NamedTuple):
    """The output of the probe on a node, as lines by section."""

    name: str
    sections: dict[str, list[str]]

    def lines(self, section: str) -> list[str]:
        """Return the lines of a section."""
        return self.sections.get(section, [])


def nodes_of(text: str) -> dict[str, Node]:
    """Return the nodes of the output of one or several probes, by name."""
    found: dict[str, Node] = {}
    for name, section, line in re.findall(r"^# (\S+) (\w+) (.*)$", text, re.MULTILINE):
        found.setdefault(name, Node(name, {})).sections.setdefault(section, []).append(line)
    return found


def profile_of(node: Node) -> tuple[dict[str, Any], list[str]]:
    """Return the hardware profile of a node, and notes on it."""
    cpu = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in node.lines("cpu"))}
    memory = re.search(r"(\d+) kB", " ".join(node.lines("memory")))
    machine = {
        "sockets": _whole(cpu.get("Socket(s)")),
        "cores_per_socket": _whole(cpu.get("Core(s) per socket")),
        "threads_per_core": _whole(cpu.get("Thread(s) per core")),
        "memory_mb": int(memory[1]) // 1024 if memory else 1,
    }
    smi = {"state": "ok" if node.lines("smi") else "absent"}
    smi |= {key: "\n".join(node.lines(name)) for key, name in (("query", "smi"), ("nvlink", "nvlink"))}
    with tempfile.TemporaryDirectory(prefix="busbar-") as folder:
        for line in node.lines("sys"):
            path, _, value = line.partition("=")
            place = Path(folder, path.lstrip("/"))
            if value:
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_text(value, encoding="utf-8")
            else:
                place.mkdir(parents=True, exist_ok=True)
        nics = {"rdma_ports": rdma_ports(Path(folder)), "network_interfaces": network_interfaces(Path(folder))}
    facts = {**join_sources(smi, {}, []), **nics}
    return describe_machine(machine, facts), machine_notes(facts, "")[1:]


def _whole(text: str | None) -> int:
    return int(text) if text and text.isdigit() else 1
