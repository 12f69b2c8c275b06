"""Tests of the filter node_description: descriptions, and errors about unknown and unreachable nodes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.busbar.cluster.plugins.filter.node_description import node_description

RECORDED = Path(__file__).parents[3] / "fixtures" / "lldp" / "rails.json"
FABRIC = {"cluster_uuid": "11111111-0000-0000-0000-000000000001", "clique_id": 7}


def hostvars(**answers: Any) -> dict[str, dict[str, Any]]:  # noqa: ANN401 - any result
    return {node: {"nvlink_domain": "rack1", "found": answer} for node, answer in answers.items()}


def test_lldp() -> None:
    answer = {"rc": 0, "stdout": RECORDED.read_text()}
    found = node_description(
        ["gpu1", "gpu2"], hostvars(gpu1=answer, gpu2=answer), {"lldp": "found"}, "lldp", interfaces="eth_r*"
    )
    assert found["problem"] == ""
    assert yaml.safe_load(found["text"]) == {"slurm_topology": {"switches": [{"name": "unit1", "nodes": "gpu[1-2]"}]}}


def test_nvlink() -> None:
    answer = {"reached": True, "devices": {"gpus": [{"fabric": FABRIC}]}}
    found = node_description(["t1", "t2"], hostvars(t1=answer, t2=answer), {"nvlink": "found"}, "nvlink")
    assert found["text"].startswith(f"# rack1: ClusterUUID {FABRIC['cluster_uuid']}, CliqueId 7\nslurm_topology:\n")
    assert yaml.safe_load(found["text"]) == {"slurm_topology": {"blocks": [{"name": "rack1", "nodes": "t[1-2]"}]}}


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (["gpu1", "gpu8", "gpu9"], "gpu[8-9] is not in the inventory"),
        (["gpu1", "gpu2", "gpu3"], "gpu[2-3] did not answer"),
        (["gpu1"], "gpu1: `lldpctl -f json0` printed no JSON: install and start lldpd there"),
    ],
)
def test_nodes_without_an_answer_are_named(asked: list[str], words: str) -> None:
    silent = hostvars(gpu1={"rc": 2, "msg": "No such file"}, gpu2=None, gpu3={"unreachable": True})
    assert node_description(asked, silent, {"lldp": "found"}, "lldp") == {"text": "", "problem": words}
