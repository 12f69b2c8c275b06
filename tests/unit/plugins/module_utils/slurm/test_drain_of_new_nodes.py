"""Tests of the nodes that a new slurm.conf drains before they can run a job."""

from __future__ import annotations

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.slurm.busbar_drain_reasons import is_new, new_reason
from ansible_collections.busbar.cluster.plugins.module_utils.slurm.config_change import unready_nodes
from ansible_collections.busbar.cluster.plugins.module_utils.slurm.new_nodes import gate_lines, gated_in_file

OLD = "ClusterName=x\nNodeName=gpu[1-2] CPUs=4 State=UNKNOWN\nPartitionName=all Nodes=ALL\n"
BOTH = "NodeName=gpu[1-3] CPUs=4\n"
GATE = 'DownNodes=gpu3,gpu4 State=DRAIN Reason="busbar: new"'
OTHERS = 'DownNodes=gpu3 State=DOWN Reason="fan is loud"\n'


@pytest.mark.parametrize(
    ("before", "nodes", "lines"),
    [
        (OLD, ["gpu1", "gpu2", "gpu3", "gpu4"], [GATE]),
        (OLD, ["gpu1", "gpu2"], []),
        (OLD, ["gpu1"], []),
        # The first configuration of a cluster drains no nodes.
        ("", ["gpu1", "gpu2"], []),
        # A run interrupted after writing the file: slurmctld may not have read it.
        (f"NodeName=gpu[1-4] CPUs=4\n{GATE}\n", ["gpu1", "gpu2", "gpu3", "gpu4"], [GATE]),
        (f"{BOTH}{OTHERS}", ["gpu1", "gpu3"], []),
        # A comment names no node.
        (f"{OLD}# NodeName=gpu3\n", ["gpu1", "gpu3"], ['DownNodes=gpu3 State=DRAIN Reason="busbar: new"']),
    ],
)
def test_new_nodes_are_drained_by_the_configuration_that_adds_them(
    before: str, nodes: list[str], lines: list[str]
) -> None:
    assert gate_lines(before, nodes) == lines


def test_downnodes_line_of_the_site_is_not_a_gate() -> None:
    assert gated_in_file(f"{OTHERS}{GATE}\n# {GATE.replace('gpu', 'old')}\n") == {"gpu3", "gpu4"}


@pytest.mark.parametrize(
    ("reason", "new"),
    [
        ("busbar: new", True),
        (new_reason("gpu3: slow"), True),
        ("busbar: new : Not responding", True),
        ("busbar: new: gpu3: slow : Not responding", True),
        ("busbar: newer firmware : Not responding", False),
        ("busbar: newer firmware", False),
        ("busbar: node-gpu3: slow", False),
        ("", False),
    ],
)
def test_new_node_is_recognised_by_its_reason_even_if_slurm_extends_it(reason: str, *, new: bool) -> None:
    assert is_new(reason) is new


@pytest.mark.parametrize(
    ("line", "ready"),
    [
        ("gpu3|drained|slurm|busbar: new", True),
        ("gpu3|drained|slurm|Kill task failed", False),
        ("gpu3|drained*|slurm|busbar: new", False),
    ],
)
def test_gated_node_is_ready_when_it_responds(line: str, *, ready: bool) -> None:
    assert (unready_nodes(f"{line}\n", ["gpu3"]) == []) is ready
