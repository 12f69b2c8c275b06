"""Tests of NCCL's GID index: one common to all ports of a RoCE fabric, and no setting otherwise."""

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
        # The slower port is the management port and not part of the fabric.
        ("auto", [port("mlx5_0", 3), port("mlx5_2", rate=25)], "3"),
        ("auto", [port("mlx5_0", 3), port("mlx5_1", active=False)], "3"),
        ("auto", [port("mlx5_0", layer="InfiniBand")], ""),
        ("auto", [port("mlx5_0", 3), port("mlx5_1", layer="InfiniBand")], ""),
    ],
)
def test_gid_index_is_selected(wanted: str, ports: list[dict[str, Any]], index: str) -> None:
    assert nccl_gid_index(wanted, ports) == {"index": index, "note": ""}


@pytest.mark.parametrize(
    ("ports", "note"),
    [
        ([], "no RDMA port is active"),
        ([port("mlx5_0", 3), port("mlx5_1")], "no index is a GID of RoCE v2 on all ports (mlx5_0: [3], mlx5_1: none)"),
    ],
)
def test_missing_gid_index_has_a_reason(ports: list[dict[str, Any]], note: str) -> None:
    found = nccl_gid_index("auto", ports)
    assert found["index"] == ""
    assert found["note"].startswith(note)
