"""Tests of parsing the node output of several Slurm releases."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.slurm.scontrol_nodes import (
    count_gpus,
    plain_number,
    read_json_nodes,
    read_text_nodes,
)
from slurm_samples import json_node, text_node

CORPUS = Path(__file__).parents[6] / "shared" / "gpu" / "slurm"


@pytest.mark.parametrize(
    ("gres", "gpus"),
    [
        ("", {}),
        ("(null)", {}),
        ("gpu", {"gpu": 1}),
        ("gpu:4", {"gpu": 4}),
        ("gpu:h100", {"h100": 1}),
        ("gpu:h100:8(S:0-1)", {"h100": 8}),
        ("gpu:h100:4(IDX:0-1,4-5)", {"h100": 4}),
        ("gpu:a100:0(IDX:N/A)", {"a100": 0}),
        ("gpu:1g.10gb:21(S:1),gpu:h100:2(S:0),shard:8", {"1g.10gb": 21, "h100": 2}),
        ("gpu:h100:2,gpu:h100:2", {"h100": 4}),
        ("tmpdisk:100,craynetwork:4", {}),
    ],
)
def test_gpus_of_a_gres(gres: str, gpus: dict[str, int]) -> None:
    assert count_gpus(gres) == gpus


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (5, 5),
        ("5", 5),
        (5.7, 5),
        (None, 0),
        ("N/A", 0),
        ({"set": True, "infinite": False, "number": 5}, 5),
        ({"set": False, "infinite": False, "number": 5}, 0),
        ({"set": True, "infinite": True, "number": 0}, 0),
    ],
)
def test_numbers(value: object, number: int) -> None:
    assert plain_number(value) == number


def test_json_node_is_parsed() -> None:
    changes = {"state": ["MIXED", "DRAIN"], "reason": "ECC", "gres_used": "gpu:h100:3(IDX:0-2)"}
    (node,) = read_json_nodes({"nodes": [json_node("gpu7", alloc_cpus=8, alloc_memory=10, **changes)]})
    assert (node.name, node.state, node.reason, node.partitions) == ("gpu7", "draining", "ECC", ("batch",))
    assert (node.gpus, node.gpus_used) == ({"h100": 8}, {"h100": 3})
    assert (node.cpus, node.cpus_used, node.memory, node.memory_used) == (96, 8, 2000000 << 20, 10 << 20)


def test_text_node_is_parsed() -> None:
    nodes = read_text_nodes(text_node("gpu1", "DOWN*+DRAIN", "odd State=IDLE reason") + text_node("gpu2"))
    assert [(node.name, node.state, node.reason) for node in nodes] == [
        ("gpu1", "drained", "odd State=IDLE reason"),
        ("gpu2", "idle", ""),
    ]
    assert {(node.cpus, node.cpus_used, node.memory, node.memory_used) for node in nodes} == {
        (4, 2, 1000 << 20, 500 << 20)
    }
    assert all((node.gpus, node.gpus_used) == ({"sim": 2}, {"sim": 1}) for node in nodes)
    assert nodes[0].partitions == ("batch", "long")


# Counts from the raw fields of the recordings.
MODEL = "slurm-node-with-gpus-model-allocated"
RECORDED: dict[str, tuple[dict[str, int], dict[str, int], dict[str, int]]] = {
    "021-simula-slurmrestd-nodes": (  # 21.08
        {"idle": 38, "mixed": 12, "drained": 6, "allocated": 1},
        {"gpu": 4, "a100": 12, "mi210": 4, "tesla": 16},
        {"a100": 8, "mi210": 1, "tesla": 8},
    ),
    "034-telegraf-nodes": ({"drained": 2, "allocated": 1}, {}, {}),  # 22.05
    "022-slurmweb-24.05-0.0.41-slurm-nodes": ({"idle": 100}, {}, {}),
    f"023-slurmweb-24.05-0.0.41-{MODEL}": ({"allocated": 1}, {"h100": 4}, {"h100": 4}),
    "024-slurmweb-24.11-0.0.41-slurm-nodes": (
        {"idle": 2, "down": 1, "allocated": 1, "mixed": 1, "drained": 1},
        {"h100": 4, "h200": 8},
        {},
    ),
    f"025-slurmweb-24.11-0.0.41-{MODEL}": ({"mixed": 1}, {"h100": 4}, {"h100": 4}),
    "026-slurmweb-24.11-0.0.42-slurm-nodes": (
        {"idle": 3, "down": 1, "drained": 1, "allocated": 1},
        {"h100": 4, "h200": 8},
        {},
    ),
    f"027-slurmweb-24.11-0.0.42-{MODEL}": ({"allocated": 1}, {"h100": 2, "h200": 4}, {"h100": 2, "h200": 4}),
    "028-slurmweb-25.05-0.0.42-slurm-nodes": (
        {"idle": 2, "down": 1, "allocated": 1, "mixed": 1, "drained": 1},
        {"h100": 8},
        {},
    ),
    f"029-slurmweb-25.05-0.0.42-{MODEL}": ({"allocated": 1}, {"h100": 4}, {"h100": 4}),
    "030-slurmweb-25.11-0.0.43-slurm-nodes": ({"idle": 6, "down": 1, "drained": 1}, {"h100": 8, "gpu": 8}, {}),
    f"031-slurmweb-25.11-0.0.43-{MODEL}": ({"allocated": 1}, {"h100": 4}, {"h100": 4}),
    "032-slurmweb-25.11-0.0.44-slurm-nodes": (
        {"idle": 4, "down": 1, "allocated": 1, "mixed": 1, "drained": 1},
        {"h100": 8, "gpu": 8},
        {},
    ),
    f"033-slurmweb-25.11-0.0.44-{MODEL}": ({"allocated": 1}, {"h100": 4}, {"h100": 4}),
}


@pytest.mark.skipif(not CORPUS.is_dir(), reason=f"no recordings in {CORPUS}")
@pytest.mark.parametrize("file", RECORDED)
def test_recordings_of_each_release_are_parsed(file: str) -> None:
    nodes = read_json_nodes(json.loads((CORPUS / f"{file}.json").read_text(encoding="utf-8")))
    total: Counter[str] = Counter()
    used: Counter[str] = Counter()
    for node in nodes:
        total.update(node.gpus)
        used.update(node.gpus_used)
    assert (Counter(node.state for node in nodes), total, +used) == RECORDED[file]
