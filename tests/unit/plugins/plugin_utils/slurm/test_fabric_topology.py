"""Tests of the topology of InfiniBand fabrics: rails, fat trees, missing cables, invalid input."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.slurm.conf_lines import topology_lines
from ansible_collections.busbar.cluster.plugins.plugin_utils.slurm.fabric_topology import fabric_topology

Cables = dict[str, list[str]]


def discovered(cables: Cables) -> str:
    """Return the ibnetdiscover output for switches with these neighbours; hosts are given by node description."""
    joined = dict.fromkeys(
        (end, switch) if end in cables and end < switch else (switch, end)
        for switch, ends in cables.items()
        for end in ends
    )
    ports: dict[str, dict[str, int]] = {}
    for one, other in joined:
        for near, far in ((one, other), (other, one)):
            ports.setdefault(near, {})[far] = len(ports.get(near, {})) + 1
    lines = ["#", "# Topology file: generated on Sun Nov 22 18:00:00 2026", "#"]
    for switch in cables:
        lines += ["", "vendid=0x2c9", "devid=0xd2f2", f"switchguid=0x{guid(switch)}({guid(switch)})"]
        named = f'"MF0;{switch}:MQM9700/U1" enhanced port 0 lid 3 lmc 0'
        lines.append(f'Switch\t65 "S-{guid(switch)}"\t\t# {named}')
        for end, port in ports.get(switch, {}).items():
            there = ports[end][switch]
            if end in cables:
                lines.append(f'[{port}]\t"S-{guid(end)}"[{there}]\t\t# "MF0;{end}:MQM9700/U1" lid 5 4xNDR')
            else:
                lines.append(f'[{port}]\t"H-{guid(end)}"[{there}]({guid(end)}) \t\t# "{end}" lid 12 4xNDR')
    for host in [name for name in ports if name not in cables]:
        lines += ["", "vendid=0x2c9", "devid=0x1021", f"caguid=0x{guid(host)}", f'Ca\t1 "H-{guid(host)}"\t\t# "{host}"']
        for switch, port in ports[host].items():
            end = f'"S-{guid(switch)}"[{ports[switch][host]}]'
            lines.append(f'[{port}]({guid(host)}) \t{end}\t\t# lid 12 lmc 0 "MF0;{switch}:MQM9700/U1" lid 3 4xNDR')
    return "\n".join([*lines, ""])


def guid(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()[:16]


def hosts(first: int, last: int, rail: int = 0) -> list[str]:
    return [f"gpu{number} mlx5_{rail}" for number in range(first, last + 1)]


def topology(cables: Cables, nodes: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = fabric_topology(discovered(cables), nodes)["switches"]
    # The role accepts the result.
    assert len(topology_lines({"switches": found})) == len(found)
    return found


def test_single_switch_is_named() -> None:
    assert topology({"leaf1": hosts(1, 4)}) == [{"name": "leaf1", "nodes": "gpu[1-4]"}]


def test_two_level_fat_tree_with_a_file_server() -> None:
    cables = {
        "leaf1": [*hosts(1, 2), "nfs1 mlx5_0", "spine1", "spine2"],
        "leaf2": [*hosts(3, 4), "Mellanox Technologies Aggregation Node", "spine1", "spine2"],
        "spine1": ["leaf1", "leaf2"],
        "spine2": ["leaf1", "leaf2"],
    }
    assert topology(cables, ("gpu1", "gpu2", "gpu3", "gpu4")) == [
        {"name": "leaf1", "nodes": "gpu[1-2]"},
        {"name": "leaf2", "nodes": "gpu[3-4]"},
        {"name": "fabric", "switches": "leaf[1-2]"},
    ]


def test_rails_group_the_nodes_on_the_same_switches_into_a_unit() -> None:
    cables: Cables = {"spine1": [], "spine2": []}
    for unit, (first, last) in enumerate(((1, 2), (3, 4)), 1):
        for rail in range(2):
            cables[f"leaf{unit}r{rail}"] = [*hosts(first, last, rail), "spine1", "spine2"]
    assert topology(cables) == [
        {"name": "unit1", "nodes": "gpu[1-2]"},
        {"name": "unit2", "nodes": "gpu[3-4]"},
        {"name": "fabric", "switches": "unit[1-2]"},
    ]


def test_node_with_a_missing_cable_stays_in_its_unit() -> None:
    cables = {"a1": [*hosts(1, 3, 0), "s1"], "a2": [*hosts(1, 2, 1), "s1"], "s1": ["a1", "a2"]}
    found = fabric_topology(discovered(cables))
    assert found["switches"] == [{"name": "unit1", "nodes": "gpu[1-3]"}]
    assert found["notes"] == ["gpu3 is connected to 1 of the 2 switches of its neighbours: check its cables"]


def test_three_level_fat_tree() -> None:
    cables: Cables = {"core1": []}
    for pod in (1, 2):
        cables[f"spine{pod}"] = ["core1"]
        for leaf in (1, 2):
            number = 2 * (pod - 1) + leaf
            cables[f"leaf{number}"] = [*hosts(number, number), f"spine{pod}"]
    assert topology(cables) == [
        *({"name": f"leaf{number}", "nodes": f"gpu{number}"} for number in range(1, 5)),
        {"name": "level2-1", "switches": "leaf[1-2]"},
        {"name": "level2-2", "switches": "leaf[3-4]"},
        {"name": "fabric", "switches": "level2-[1-2]"},
    ]


@pytest.mark.parametrize(
    ("text", "nodes", "words"),
    [
        ("", (), "no switch with a cable to a host"),
        ("Switch: nothing of the kind\n[1] x", (), "no switch with a cable to a host"),
        (
            discovered({"leaf1": hosts(1, 2)}),
            ("gpu1", "gpu7", "gpu8"),
            r"no switch of the fabric has a cable to gpu\[7-8\]",
        ),
        (discovered({"leaf1": hosts(1, 2), "leaf2": hosts(3, 4)}), (), "no cable connects leaf1 and leaf2"),
    ],
)
def test_invalid_input_is_refused(text: str, nodes: tuple[str, ...], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        fabric_topology(text, nodes)


def test_truncated_text_is_refused_at_any_length() -> None:
    cables = {"leaf1": [*hosts(1, 2), "spine1"], "leaf2": [*hosts(3, 4), "spine1"], "spine1": ["leaf1", "leaf2"]}
    lines = discovered(cables).splitlines()
    last = max(number for number, line in enumerate(lines) if line.startswith("["))
    for end in range(last + 1):
        with pytest.raises(ValueError, match=r"only one end|no switch with a cable to a host"):
            fabric_topology("\n".join(lines[:end]))
    with pytest.raises(ValueError, match="only one end"):
        fabric_topology("\n".join([*lines[:last], lines[last][: lines[last].index("#")]]))
    with pytest.raises(ValueError, match="1 of 6 cables have only one end, such as port "):
        fabric_topology("\n".join(lines[:last]))


@pytest.mark.parametrize("blank", [True, False], ids=["blank-lines", "none"])
def test_blank_lines_are_optional(*, blank: bool) -> None:
    text = discovered({"leaf1": hosts(1, 2), "leaf2": [*hosts(3, 4), "leaf1"]})
    found = fabric_topology(text if blank else text.replace("\n\n", "\n"))["switches"]
    assert [entry["name"] for entry in found] == ["leaf1", "leaf2", "fabric"]
