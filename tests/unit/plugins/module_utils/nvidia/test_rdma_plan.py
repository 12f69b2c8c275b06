"""Tests of the files, commands, messages and refusals that follow from an RDMA declaration."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.nvidia.rdma_plan import nic_problems, rdma_plan
from ansible_collections.busbar.cluster.plugins.module_utils.nvidia.rdma_problems import address_problems
from ansible_collections.busbar.cluster.plugins.plugin_utils.common.problem_report import problem_report

DECLARED = {
    "source": "distribution",
    "naming": "fallback",
    "names": {},
    "interface_names": {},
    "modules": ["ib_umad", "ib-ipoib", "mlx5_ib"],
    "memlock": "unlimited",
    "kernel_managed": "auto",
    "ipoib": [],
    "networks": [],
    "opensm": False,
    "roce_mode": "",
    "roce_tos": -1,
    "gid_index": "",
}
PORT = {"device": "mlx5_0", "port": "1", "active": True, "state": "ACTIVE", "rate_gbps": 400.0, "guid": "00aa"}
PORT |= {"link_layer": "InfiniBand", "address": "0000:1a:00.0"}
IB0 = {"name": "ib0", "infiniband": True, "up": True, "addresses": []}
ETH0 = {"name": "eth0", "infiniband": False, "up": True, "addresses": ["192.168.0.7/24"]}
FACTS: dict[str, Any] = {
    "container": "",
    "raises_limits": True,
    "memlock_hard": "8388608 bytes",
    "ports": [PORT],
    "pci_nics": [{"address": "0000:1a:00.0", "vendor": "15b3"}],
    "interfaces": [ETH0, IB0],
    "default_interfaces": ["eth0"],
    "manager": "networkd",
    "modules_loaded": ["ib_ipoib"],
    "packages": {},
    "files": [],
    "subnet_managers": [],
    "answering": [],
}
ADDRESS = {"name": "ib0", "address": "10.10.0.1/16"}


def plan(facts: dict[str, Any] | None = None, **declared: object) -> dict[str, Any]:
    found = rdma_plan("n1", DECLARED | declared, FACTS | (facts or {}))
    assert found["problems"] == []
    return found


def files(found: dict[str, Any]) -> dict[str, str]:
    return {item["path"]: item["content"] for item in found["files"] if item.get("state") != "absent"}


def absent(found: dict[str, Any]) -> set[str]:
    return {item["path"] for item in found["files"] if item.get("state") == "absent"}


def refused(facts: dict[str, Any] | None = None, **declared: object) -> str:
    found = rdma_plan("n1", DECLARED | declared, FACTS | (facts or {}))
    assert set(found) == {"problems"}
    assert all(item["hosts"] == ["n1"] and item["remedy"] for item in found["problems"])
    return problem_report(found["problems"])


def test_host_without_options() -> None:
    found = plan()
    written = files(found)
    assert set(written) == {
        "/etc/systemd/system/slurmd.service.d/busbar-rdma.conf",
        "/etc/security/limits.d/85-busbar-rdma.conf",
        "/etc/modules-load.d/busbar-rdma.conf",
    }
    assert "LimitMEMLOCK=infinity" in written["/etc/systemd/system/slurmd.service.d/busbar-rdma.conf"]
    assert "* - memlock unlimited\nroot - memlock unlimited\n" in written["/etc/security/limits.d/85-busbar-rdma.conf"]
    assert written["/etc/modules-load.d/busbar-rdma.conf"].endswith("ib_umad\nib-ipoib\nmlx5_ib\n")
    assert found["load"] == ["ib_umad", "mlx5_ib"]
    assert found["apply"] == found["skipped"] == found["notes"] == []


def test_memlock_limit_is_in_kib() -> None:
    written = files(plan(memlock="1048576"))
    assert "LimitMEMLOCK=1048576K" in written["/etc/systemd/system/slurmd.service.d/busbar-rdma.conf"]
    assert {"/etc/security/limits.d/85-busbar-rdma.conf"} <= absent(plan(memlock=""))


def test_mellanox_modules_are_loaded_only_for_mellanox_nics() -> None:
    found = plan({"pci_nics": [{"address": "0000:1a:00.0", "vendor": "8086"}]})
    assert found["load"] == ["ib_umad"]
    assert "mlx5_ib" not in files(found)["/etc/modules-load.d/busbar-rdma.conf"]


def test_container_leaves_the_kernel_unchanged_with_a_note() -> None:
    inside = {"container": "podman", "raises_limits": False, "interfaces": [ETH0], "manager": "networkd"}
    found = plan(inside, ipoib=[ADDRESS])
    assert set(files(found)) == {"/etc/systemd/system/slurmd.service.d/busbar-rdma.conf"}
    assert found["load"] == found["apply"] == []
    assert "the host is a container (podman)" in found["skipped"][0]
    assert "the locked-memory limit is still 8388608 bytes" in found["skipped"][1]
    found = plan(inside, ipoib=[ADDRESS], kernel_managed="always")
    assert "/etc/systemd/network/20-busbar-ipoib-ib0.network" in files(found)
    assert found["load"] == found["apply"] == []


def test_kernel_managed_never_keeps_existing_files() -> None:
    found = plan({"files": ["/etc/systemd/network/10-busbar-rdma-ib9.link"]}, kernel_managed="never")
    assert len(files(found)) == 2
    assert found["load"] == []
    assert not absent(found)
    assert "rdma_kernel_managed is never" in found["skipped"][0]


def test_names_of_devices_and_interfaces() -> None:
    old = "/etc/systemd/network/10-busbar-rdma-old.link"
    names = {"1A:00.0": "rail0"}
    found = plan({"files": [old]}, names=names, interface_names={"0000:1a:00.0": "ibs0"}, naming="kernel")
    rules = files(found)["/etc/udev/rules.d/60-rdma-persistent-naming.rules"]
    assert 'KERNELS=="0000:1a:00.0", ENV{BUSBAR_NAME}="rail0"' in rules
    assert 'PROGRAM="rdma_rename %k NAME_FIXED %E{BUSBAR_NAME}"' in rules
    assert 'ENV{BUSBAR_NAME}=="", PROGRAM="rdma_rename %k NAME_KERNEL"' in rules
    link = files(found)["/etc/systemd/network/10-busbar-rdma-ibs0.link"]
    assert "Path=pci-0000:1a:00.0\n\n[Link]\nName=ibs0\n" in link
    assert old in absent(found)
    assert found["notes"] == ["mlx5_0 at 1A:00.0 is renamed to rail0 at the next boot"]


@pytest.mark.parametrize(
    ("manager", "path", "lines", "commands"),
    [
        (
            "networkd",
            "/etc/systemd/network/20-busbar-ipoib-ib0.network",
            ["Name=ib0", "MTUBytes=4092", "Address=10.10.0.1/16"],
            [["networkctl", "reload"], ["networkctl", "reconfigure", "ib0"]],
        ),
        (
            "NetworkManager",
            "/etc/NetworkManager/system-connections/busbar-ipoib-ib0.nmconnection",
            ["type=infiniband", "mtu=4092", "transport-mode=datagram", "address1=10.10.0.1/16", "never-default=true"],
            [["nmcli", "connection", "reload"], ["nmcli", "connection", "up", "busbar-ipoib-ib0"]],
        ),
        (
            "ifupdown",
            "/etc/network/interfaces.d/busbar-ipoib-ib0",
            ["iface ib0 inet static", "    address 10.10.0.1/16", "    mtu 4092"],
            [["ifdown", "--force", "ib0"], ["ifup", "ib0"]],
        ),
    ],
)
def test_network_manager_configures_infiniband(
    manager: str, path: str, lines: list[str], commands: list[list[str]]
) -> None:
    found = plan({"manager": manager}, ipoib=[ADDRESS | {"mtu": 4092}], networks=["10.10.0.0/16"])
    text = files(found)[path].splitlines()
    assert set(lines) <= set(text)
    (entry,) = found["apply"]
    assert (entry["path"], entry["pending"], entry["commands"][-2:]) == (path, True, commands)
    assert all(item.get("mode") == "0600" for item in found["files"] if "nmconnection" in item["path"])
    done = IB0 | {"addresses": ["10.10.0.1/16"]}
    assert not plan({"manager": manager, "interfaces": [ETH0, done]}, ipoib=[ADDRESS])["apply"][0]["pending"]


def test_address_of_a_missing_interface_is_postponed() -> None:
    found = plan({"interfaces": [ETH0]}, ipoib=[ADDRESS])
    assert found["apply"] == []
    assert found["notes"] == ["ib0 does not exist yet; its address is set when it appears"]
    assert "ipoib_enhanced=0" in plan(ipoib=[ADDRESS | {"mode": "connected", "mtu": 65520}])["notes"][0]


def test_roce_defaults_are_written() -> None:
    found = plan(roce_mode="v2", roce_tos=106)
    script = files(found)["/usr/local/lib/busbar/roce_defaults"]
    assert "echo 'RoCE v2' >\"$settings/default_roce_mode\"" in script
    assert 'echo 106 >"$settings/default_roce_tos"' in script
    assert "/etc/systemd/system/busbar-roce.service" in files(found)
    assert "default_roce_mode" not in files(plan(roce_tos=0))["/usr/local/lib/busbar/roce_defaults"]


def test_second_subnet_manager_is_warned_about() -> None:
    master = {"guid": "00bb", "lid": "1", "priority": "15", "state": "MASTER"}
    (note,) = plan({"subnet_managers": [master]}, opensm=True)["notes"]
    assert "another subnet manager is master of the fabric (guid 0x00bb, priority 15)" in note
    assert plan({"subnet_managers": [master | {"guid": "00aa"}]}, opensm=True)["notes"] == []
    assert plan({"subnet_managers": [master]})["notes"] == []


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        ({"source": "mofed"}, "rdma_source: 'mofed' is unknown"),
        ({"naming": "slot"}, "rdma_naming: 'slot' is unknown"),
        ({"roce_mode": "v3"}, "rdma_roce_mode: 'v3' is unknown"),
        ({"roce_tos": 300}, "rdma_roce_tos: 300 is not a type of service"),
        ({"gid_index": "three"}, "rdma_nccl_gid_index: 'three' is not a GID index"),
        ({"gid_index": -1}, "rdma_nccl_gid_index: '-1' is not a GID index"),
        ({"names": {"1a:00.0": "a", "0000:1A:00.0": "b"}}, "1a:00.0 and 0000:1A:00.0 are the same PCI address"),
        ({"interface_names": {"0000:1a:00.0": "ib0", "0000:1b:00.0": "ib0"}}, "get the same name ib0"),
        ({"names": {"eth0": "a"}}, "'eth0' is not a PCI address"),
        ({"names": {"0000:1a:00.0": "a b"}}, "'a b' is not a device name"),
        ({"interface_names": {"0000:1a:00.0": "a-name-that-is-too-long"}}, "is not a device name"),
        ({"names": {"0000:9a:00.0": "a"}}, "no network card at 0000:9a:00.0 (found 0000:1a:00.0)"),
        ({"modules": ["ib_umad; reboot"]}, "'ib_umad; reboot' is not a kernel module"),
        ({"ipoib": {"ib0": "10.10.0.1/16"}}, "rdma_ipoib_interfaces: is not a list"),
        ({"ipoib": [{"name": "ib0"}]}, "is not an interface"),
        ({"ipoib": [ADDRESS | {"netmask": "255.255.0.0"}]}, "is not an interface"),
        ({"ipoib": [ADDRESS, ADDRESS]}, "rdma_ipoib_interfaces[ib0]: is declared twice"),
        ({"ipoib": [ADDRESS | {"address": "10.10.0.1"}]}, "10.10.0.1 has no prefix"),
        ({"ipoib": [ADDRESS | {"address": "10.10.0.256/16"}]}, "'10.10.0.256/16' is not an IP address"),
        ({"ipoib": [ADDRESS | {"address": "10.10.0.0/16"}]}, "is the network or broadcast address"),
        ({"ipoib": [ADDRESS], "networks": ["10.20.0.0/16"]}, "is outside of rdma_ipoib_networks (10.20.0.0/16)"),
        ({"ipoib": [ADDRESS], "networks": ["10.10.0.1/16"]}, "rdma_ipoib_networks: 10.10.0.1/16"),
        ({"ipoib": [ADDRESS | {"mode": "turbo"}]}, "mode 'turbo' is unknown"),
        ({"ipoib": [ADDRESS | {"mtu": 65520}]}, "mtu 65520 is invalid in datagram mode"),
        ({"ipoib": [ADDRESS | {"name": "eth0", "address": "10.10.0.1/16"}]}, "is not an InfiniBand interface"),
        (
            {"ipoib": [ADDRESS | {"address": "192.168.0.9/24"}]},
            "192.168.0.9/24 overlaps 192.168.0.0/24 of eth0, the management network",
        ),
    ],
)
def test_invalid_input_is_refused(declared: dict[str, Any], said: str) -> None:
    assert said in refused(**declared)


@pytest.mark.parametrize(
    ("facts", "declared", "said"),
    [
        ({"answering": ["10.10.0.1"]}, {"ipoib": [ADDRESS]}, "10.10.0.1 is in use by another host"),
        ({"manager": ""}, {"ipoib": [ADDRESS]}, "no network manager found (systemd-networkd"),
        ({"packages": {"rdma-core": "2501mlnx56-1.2501060"}}, {}, "DOCA-OFED or MLNX_OFED is installed (rdma-core)"),
        (
            {"packages": {"mlnx-ofed-kernel-dkms": "25.01.OFED.25.01.0.6.0.1-1"}},
            {},
            "remedy: set rdma_source: doca, or remove it first",
        ),
        ({"packages": {"opensm": "3.3.23-2"}}, {"source": "doca"}, "opensm of the distribution conflict with it"),
    ],
)
def test_conflict_with_the_host_is_refused(facts: dict[str, Any], declared: dict[str, Any], said: str) -> None:
    assert said in refused(facts, **declared)


def test_each_source_accepts_its_own_packages() -> None:
    assert plan({"packages": {"rdma-core": "56.1-1", "opensm": "3.3.23-3.1"}})["problems"] == []
    vendor = {"rdma-core": "2501mlnx56-1", "opensm": "5.22.0.MLNX20250101.mlnx-1"}
    assert plan({"packages": vendor}, source="doca")["problems"] == []


def test_duplicate_address_is_refused() -> None:
    both = {"n1": [ADDRESS], "n2": [ADDRESS | {"address": "10.10.0.1/24"}], "n3": []}
    assert "n[1-2]: rdma_ipoib_interfaces: 10.10.0.1 is declared more than once" in problem_report(
        address_problems(both, {})
    )
    own = {"n1": [ADDRESS], "n2": [ADDRESS | {"address": "10.10.0.2/16"}]}
    assert address_problems(own, {"n1": "192.168.0.7"}) == []
    assert "10.10.0.1 is the management address of ctl" in problem_report(address_problems(own, {"ctl": "10.10.0.1"}))


@pytest.mark.parametrize(
    ("nics", "facts", "said"),
    [
        ([{"count": 1, "gbps": 400, "rdma": True}], {}, ""),
        ([{"count": 4, "gbps": 10, "rdma": False}], {"ports": []}, ""),
        (
            [{"count": 1, "gbps": 400, "rdma": True}, {"count": 1, "gbps": 100, "rdma": True}],
            {},
            "1 x 100 Gb/s declared",
        ),
        (
            [{"count": 2, "gbps": 400, "rdma": True}],
            {"ports": [PORT, PORT | {"device": "mlx5_1", "active": False, "state": "DOWN", "rate_gbps": None}]},
            "2 x 400 Gb/s declared, but 1 active at that rate; the others: mlx5_1/1 DOWN 0 Gb/s",
        ),
        (
            [{"count": 1, "gbps": 400, "rdma": True}],
            {"ports": [PORT | {"rate_gbps": 100.0}]},
            "0 active at that rate; the others: mlx5_0/1 ACTIVE 100 Gb/s",
        ),
        ([{"count": 1, "gbps": 400, "rdma": True}], {"ports": []}, "no RDMA device, network cards at 0000:1a:00.0"),
        ([{"count": 1, "gbps": 400, "rdma": True}], {"ports": [], "pci_nics": []}, "no network card on the PCI bus"),
    ],
)
def test_declared_nics_are_compared_with_the_host(nics: list[dict[str, Any]], facts: dict[str, Any], said: str) -> None:
    report = problem_report(nic_problems("n1", nics, FACTS | facts))
    assert (said in report) if said else report == ""
