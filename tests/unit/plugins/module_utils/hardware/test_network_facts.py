"""Tests of a host's network ports, from /sys, ip and sminfo."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from ansible_collections.busbar.cluster.plugins.module_utils.hardware.network_facts import (
    parse_addresses,
    parse_sminfo,
    pci_nics,
    rdma_ports,
)

if TYPE_CHECKING:
    from pathlib import Path


def port(root: Path, device: str, **files: str) -> Path:
    folder = root / "sys/class/infiniband" / device / "ports/1"
    (folder / "gids").mkdir(parents=True)
    for name, text in files.items():
        (folder / name.replace("gid", "gids/0")).write_text(text + "\n")
    return folder


def test_ports_of_infiniband_and_ethernet(tmp_path: Path) -> None:
    gid = "fe80:0000:0000:0000:b83f:d203:0012:3456"
    port(tmp_path, "mlx5_0", state="4: ACTIVE", rate="400 Gb/sec (4X NDR)", link_layer="InfiniBand", gid=gid)
    port(tmp_path, "mlx5_1", state="1: DOWN", rate="", link_layer="Ethernet")
    virtual = port(tmp_path, "mlx5_2", state="4: ACTIVE", rate="400 Gb/sec", link_layer="InfiniBand")
    (virtual.parents[1] / "device/physfn").mkdir(parents=True)
    found = rdma_ports(tmp_path)
    assert [(each["device"], each["active"], each["rate_gbps"]) for each in found] == [
        ("mlx5_0", True, 400.0),
        ("mlx5_1", False, None),
    ]
    assert [each["guid"] for each in found] == ["b83fd20300123456", ""]
    assert rdma_ports(tmp_path / "none") == []


def test_gids_of_roce(tmp_path: Path) -> None:
    ethernet = port(tmp_path, "mlx5_0", state="4: ACTIVE", rate="400 Gb/sec", link_layer="Ethernet")
    (ethernet / "gid_attrs/types").mkdir(parents=True)
    local, mapped = "fe80:0000:0000:0000:b83f:d2ff:fe12:3456", "0000:0000:0000:0000:0000:ffff:0a01:0005"
    kinds = ("IB/RoCE v1", "RoCE v2")
    for index, (kind, gid) in enumerate((kind, gid) for gid in (local, mapped) for kind in kinds):
        (ethernet / "gid_attrs/types" / str(index)).write_text(f"{kind}\n")
        (ethernet / "gids" / str(index)).write_text(f"{gid}\n")
    infiniband = port(tmp_path, "mlx5_1", state="4: ACTIVE", rate="400 Gb/sec", link_layer="InfiniBand", gid=local)
    (infiniband / "gid_attrs/types").mkdir(parents=True)
    assert [each["roce_gids"] for each in rdma_ports(tmp_path)] == [[3], []]


def test_network_cards_on_the_bus(tmp_path: Path) -> None:
    for address, kind, vendor in (("0000:1a:00.0", "0x020700", "0x15b3"), ("0000:1b:00.0", "0x030200", "0x10de")):
        folder = tmp_path / "sys/bus/pci/devices" / address
        folder.mkdir(parents=True)
        (folder / "class").write_text(kind)
        (folder / "vendor").write_text(vendor)
    assert pci_nics(tmp_path) == [{"address": "0000:1a:00.0", "vendor": "15b3"}]


def test_addresses() -> None:
    text = [
        {
            "ifname": "ib0",
            "link_type": "infiniband",
            "flags": ["UP"],
            "addr_info": [
                {"local": "10.10.0.1", "prefixlen": 16, "scope": "global"},
                {"local": "fe80::1", "prefixlen": 64, "scope": "link"},
            ],
        },
        {"ifname": "eth0", "link_type": "ether"},
    ]
    assert parse_addresses(json.dumps(text)) == [
        {"name": "ib0", "infiniband": True, "up": True, "addresses": ["10.10.0.1/16"]},
        {"name": "eth0", "infiniband": False, "up": False, "addresses": []},
    ]
    assert parse_addresses("") == []


def test_subnet_manager() -> None:
    line = "sminfo: sm lid 2 sm guid 0x2c90200259201, activity count 6881 priority 15 state 3 SMINFO_MASTER\n"
    assert parse_sminfo(line) == {"guid": "0002c90200259201", "lid": "2", "priority": "15", "state": "MASTER"}
    assert parse_sminfo("ibwarn: [9] _do_madrpc: recv failed: Connection timed out\nsminfo: query failed\n") is None
