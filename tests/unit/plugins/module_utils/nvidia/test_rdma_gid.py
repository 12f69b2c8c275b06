"""NCCL's GID index: one that all ports of a RoCE fabric have, and no setting elsewhere."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.nvidia.rdma_plan import nccl_gid_index


def port(name: str, *gids: int, rate: float = 400, layer: str = "Ethernet", active: bool = True) -> dict[str, Any]:
    return {"device": name, "active": active, "rate_gbps": rate, "link_layer": layer, "roce_gids": list(gids)}


@pytest.mark.parametrize(
    ("wanted", "ports", "index"),
    [
        ("", [port("mlx5_0", 3)], ""),
        ("5", [], "5"),
        ("auto", [port("mlx5_0", 3), port("mlx5_1", 3, 5)], "3"),
        # The slower one is the machine's own, and has no part in the fabric.
        ("auto", [port("mlx5_0", 3), port("mlx5_2", rate=25)], "3"),
        ("auto", [port("mlx5_0", 3), port("mlx5_1", active=False)], "3"),
        ("auto", [port("mlx5_0", layer="InfiniBand")], ""),
        ("auto", [port("mlx5_0", 3), port("mlx5_1", layer="InfiniBand")], ""),
    ],
)
def test_the_index(wanted: str, ports: list[dict[str, Any]], index: str) -> None:
    assert nccl_gid_index(wanted, ports) == {"index": index, "note": ""}


@pytest.mark.parametrize(
    ("ports", "note"),
    [
        ([], "no RDMA port is active"),
        ([port("mlx5_0", 3), port("mlx5_1")], "no index is a GID of RoCE v2 on all ports (mlx5_0: [3], mlx5_1: none)"),
    ],
)
def test_the_reason_without_a_result(ports: list[dict[str, Any]], note: str) -> None:
    found = nccl_gid_index("auto", ports)
    assert found["index"] == ""
    assert found["note"].startswith(note)
