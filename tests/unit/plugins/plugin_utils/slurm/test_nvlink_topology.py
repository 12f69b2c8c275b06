"""Tests of the block topology from NVLink domains."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.slurm.conf_lines import topology_lines
from ansible_collections.busbar.cluster.plugins.plugin_utils.slurm.nvlink_topology import nvlink_topology

ONE, TWO = "11111111-0000-0000-0000-000000000001", "22222222-0000-0000-0000-000000000002"
NONE = "00000000-0000-0000-0000-000000000000"


def tray(*fabrics: tuple[str | None, int | None]) -> dict[str, Any]:
    return {"gpus": [{"fabric": {"cluster_uuid": uuid, "clique_id": clique}} for uuid, clique in fabrics] * 2}


RACKS = {**{f"a{n}": tray((ONE, 1)) for n in (1, 2)}, "b1": tray((TWO, 1)), "b2": tray((TWO, 2))}


def test_each_cluster_and_clique_is_a_block() -> None:
    found = nvlink_topology(RACKS, {"a1": "rack1", "a2": "rack1", "b1": ""})
    assert found["blocks"] == [
        {"name": "rack1", "nodes": "a[1-2]"},
        {"name": "block2", "nodes": "b1"},
        {"name": "block3", "nodes": "b2"},
    ]
    assert found["notes"][2] == f"block3: ClusterUUID {TWO}, CliqueId 2"
    assert len(topology_lines({"blocks": found["blocks"]})) == 3


@pytest.mark.parametrize(
    ("facts", "domains", "words"),
    [
        ({**RACKS, "c1": tray((NONE, 0)), "c2": {"gpus": []}}, {}, r"^the GPUs of c\[1-2\] report no ClusterUUID"),
        ({"c1": tray((None, None))}, {}, "^the GPUs of c1 report no ClusterUUID"),
        ({**RACKS, "c1": tray((ONE, 1), (ONE, 2))}, {}, "^the GPUs of c1 belong to several NVLink domains"),
        (RACKS, dict.fromkeys(RACKS, "rack1"), "^several NVLink domains share one nvlink_domain"),
    ],
)
def test_facts_without_valid_blocks_are_refused(facts: dict[str, Any], domains: dict[str, str], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        nvlink_topology(facts, domains)
