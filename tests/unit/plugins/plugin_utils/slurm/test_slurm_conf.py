"""Tests of the lines of Slurm's configuration files."""

from __future__ import annotations

import time
from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.slurm import conf_lines as slurm_conf

CATALOGUE: dict[str, dict[str, Any]] = {
    "dgx": {
        "sockets": 2,
        "cores_per_socket": 56,
        "threads_per_core": 2,
        "memory_mb": 2000000,
        "gpu": {"count": 8, "slurm_type": "h100", "device_files": "/dev/nvidia[0-7]"},
    },
    "lab": {
        "sockets": 1,
        "cores_per_socket": 8,
        "threads_per_core": 2,
        "memory_mb": 32000,
        "gpu": {"count": 1, "slurm_type": "rtx3060", "device_files": "/dev/nvidia0"},
    },
    "cpu": {"sockets": 1, "cores_per_socket": 4, "threads_per_core": 1, "memory_mb": 8000},
    "cpu_null": {"sockets": 1, "cores_per_socket": 4, "threads_per_core": 1, "memory_mb": 8000, "gpu": None},
}
DGX = "CPUs=224 Sockets=2 CoresPerSocket=56 ThreadsPerCore=2 RealMemory=2000000 Gres=gpu:h100:8"


def node(name: str, hardware: str | None = "dgx", **variables: object) -> slurm_conf.Node:
    return slurm_conf.inventory_node(name, {"hardware": hardware, **variables})


@pytest.mark.parametrize(
    ("own", "site", "merged"),
    [
        ({"A": 1}, {}, {"A": 1}),
        ({"A": 1, "B": 2}, {"b": 3}, {"A": 1, "b": 3}),
        ({"A": 1}, {"a": None}, {}),
        ({"A": None}, {}, {}),
        ({}, {"New": "x"}, {"New": "x"}),
    ],
)
def test_merge_config(own: dict[str, Any], site: dict[str, Any], merged: dict[str, Any]) -> None:
    assert slurm_conf.merge_config(own, site) == merged


@pytest.mark.parametrize(
    ("config", "lines"),
    [
        ({"A": "x"}, ["A=x"]),
        ({"A": True, "B": False, "C": 0}, ["A=yes", "B=no", "C=0"]),
        ({"TaskPlugin": ["task/cgroup", "task/affinity"]}, ["TaskPlugin=task/cgroup,task/affinity"]),
        ({"SlurmctldHost": ["a", "b"]}, ["SlurmctldHost=a", "SlurmctldHost=b"]),
        ({"nodeset": ["x Feature=f", "y Nodes=n"]}, ["nodeset=x Feature=f", "nodeset=y Nodes=n"]),
    ],
)
def test_config_lines(config: dict[str, Any], lines: list[str]) -> None:
    assert slurm_conf.config_lines(config) == lines


@pytest.mark.parametrize("value", [{"a": 1}, "one\ntwo", [["nested"]]])
def test_config_lines_refuse_invalid_values(value: object) -> None:
    with pytest.raises(ValueError, match="Key: "):
        slurm_conf.config_lines({"Key": value})


@pytest.mark.parametrize(
    ("nodes", "lines"),
    [
        ([node("gpu1"), node("gpu2")], [f"NodeName=gpu[1-2] {DGX} State=UNKNOWN"]),
        (
            [node("gpu1"), node("gpu2", slurm_node_features=["ib", "new"], slurm_node_weight=5)],
            [f"NodeName=gpu1 {DGX} State=UNKNOWN", f"NodeName=gpu2 {DGX} Feature=ib,new Weight=5 State=UNKNOWN"],
        ),
        (
            [node("c1", "cpu"), node("c2", "cpu_null")],
            ["NodeName=c[1-2] CPUs=4 Sockets=1 CoresPerSocket=4 ThreadsPerCore=1 RealMemory=8000 State=UNKNOWN"],
        ),
        (
            [node("c1", "cpu", slurm_node_params={"realmemory": 7000, "Core": "x"})],
            ["NodeName=c1 CPUs=4 Sockets=1 CoresPerSocket=4 ThreadsPerCore=1 realmemory=7000 Core=x State=UNKNOWN"],
        ),
    ],
)
def test_node_lines(nodes: list[slurm_conf.Node], lines: list[str]) -> None:
    assert slurm_conf.node_lines(nodes, CATALOGUE) == lines


def test_unknown_hardware_is_named() -> None:
    with pytest.raises(
        ValueError,
        match=r"gpu1: hardware: unknown hardware 'dgx_h900'\. Remedy: set hardware to one of: cpu, cpu_null, dgx",
    ):
        slurm_conf.node_lines([node("gpu1", "dgx_h900")], CATALOGUE)


def test_gres_lines_leave_out_nodes_without_gpus() -> None:
    nodes = [node("gpu1"), node("gpu2"), node("lab1", "lab"), node("c1", "cpu"), node("c2", "cpu_null")]
    assert slurm_conf.gres_lines(nodes, CATALOGUE) == [
        "NodeName=gpu[1-2] Name=gpu Type=h100 File=/dev/nvidia[0-7]",
        "NodeName=lab1 Name=gpu Type=rtx3060 File=/dev/nvidia0",
    ]
    assert slurm_conf.gpu_types(nodes, CATALOGUE) == ["h100", "rtx3060"]


def test_gpu_without_type_and_files() -> None:
    catalogue = {"x": {**CATALOGUE["cpu"], "gpu": {"count": 4}}}
    assert slurm_conf.gres_lines([node("n1", "x")], catalogue) == ["NodeName=n1 Name=gpu Count=4"]
    assert "Gres=gpu:4" in slurm_conf.node_lines([node("n1", "x")], catalogue)[0]


@pytest.mark.parametrize(
    ("nodes", "mib"),
    [
        ([], None),
        ([node("gpu1")], 8928),
        ([node("gpu1"), node("lab1", "lab"), node("c1", "cpu")], 2000),
        ([node("c1", "cpu", slurm_node_params={"RealMemory": 4000})], 1000),
    ],
)
def test_default_mem_per_cpu(nodes: list[slurm_conf.Node], mib: int | None) -> None:
    assert slurm_conf.default_mem_per_cpu(nodes, CATALOGUE) == mib


@pytest.mark.parametrize(
    ("partition", "line"),
    [
        ({"name": "batch", "default": True}, "PartitionName=batch Nodes=ALL Default=yes MaxTime=INFINITE State=UP"),
        ({"name": "p", "nodes": "gpu[1-2]"}, "PartitionName=p Nodes=gpu[1-2] MaxTime=INFINITE State=UP"),
        ({"name": "p", "nodes": ["gpu1", "gpu3"]}, "PartitionName=p Nodes=gpu[1,3] MaxTime=INFINITE State=UP"),
        ({"name": "p", "groups": ["mixed"]}, "PartitionName=p Nodes=gpu3 MaxTime=INFINITE State=UP"),
        (
            {"name": "p", "nodes": "gpu1", "groups": ["mixed"], "params": {"maxtime": "1:00:00"}},
            "PartitionName=p Nodes=gpu[1,3] State=UP maxtime=1:00:00",
        ),
    ],
)
def test_partition_lines(partition: dict[str, Any], line: str) -> None:
    groups = {"mixed": ["ctl", "gpu3"]}
    assert slurm_conf.partition_lines([partition], groups, ["gpu1", "gpu2", "gpu3"]) == [line]


def test_partition_of_unknown_group() -> None:
    with pytest.raises(ValueError, match=r"slurm_partitions\[p\]: group 'nope' is not in the inventory"):
        slurm_conf.partition_lines([{"name": "p", "groups": ["nope"]}], {}, [])


@pytest.mark.parametrize(
    ("topology", "lines"),
    [
        ({}, []),
        (
            {"switches": [{"name": "s1", "nodes": "gpu[1-2]"}, {"name": "top", "switches": "s1"}]},
            ["SwitchName=s1 Nodes=gpu[1-2]", "SwitchName=top Switches=s1"],
        ),
        (
            {"blocks": [{"name": "b1", "nodes": "gpu[1-4]"}], "block_sizes": [2, 4]},
            ["BlockName=b1 Nodes=gpu[1-4]", "BlockSizes=2,4"],
        ),
    ],
)
def test_topology_lines(topology: dict[str, Any], lines: list[str]) -> None:
    assert slurm_conf.topology_lines(topology) == lines


def test_empty_switch_is_refused() -> None:
    with pytest.raises(ValueError, match=r"slurm_topology.switches\[s1\]: has neither"):
        slurm_conf.topology_lines({"switches": [{"name": "s1"}]})


def test_thousands_of_nodes_are_folded_into_one_line_quickly() -> None:
    nodes = [node(f"gpu{number:05}") for number in range(5000)]
    began = time.monotonic()
    assert slurm_conf.node_lines(nodes, CATALOGUE) == [f"NodeName=gpu[00000-04999] {DGX} State=UNKNOWN"]
    assert time.monotonic() - began < 5
