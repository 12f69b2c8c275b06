"""Tests of a host's RDMA devices, from programs and files; missing ones give empty results."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.common.package_commands import installed_versions
from ansible_collections.busbar.cluster.plugins.module_utils.nvidia import gpudirect_host, rdma_host

if TYPE_CHECKING:
    from pathlib import Path


class Host:
    """An AnsibleModule whose installed programs are those with an output."""

    def __init__(self, answers: dict[str, str]) -> None:
        """Store the output of each beginning of a command line."""
        self.answers = answers

    def get_bin_path(self, name: str, opt_dirs: object = None) -> str | None:
        """Return the path of an installed program."""
        del opt_dirs
        return name if any(words.split()[0] == name for words in self.answers) else None

    def run_command(self, words: list[str], **_: object) -> tuple[int, str, str]:
        """Return the output of the command; fail for an unknown one."""
        asked = " ".join(words)
        found = next((answer for question, answer in self.answers.items() if asked.startswith(question)), None)
        return (1, "", "no") if found is None else (0, found, "")


def unit(name: str, state: str) -> str:
    return f"Id={name}.service\nActiveState={state}\n"


@pytest.mark.parametrize(
    ("running", "expected"),
    [
        ((), ""),
        (("networking",), "ifupdown"),
        (("NetworkManager", "networking"), "NetworkManager"),
        (("systemd-networkd",), "networkd"),
    ],
)
def test_network_manager_is_the_active_unit(running: tuple[str, ...], expected: str) -> None:
    units = ("systemd-networkd", "NetworkManager", "networking")
    text = "\n".join(unit(name, "active" if name in running else "inactive") for name in units)
    assert rdma_host.manager(Host({"systemctl show": text})) == expected
    assert rdma_host.manager(Host({})) == ""


def test_versions_of_packages() -> None:
    text = "rdma-core installed 56.1-1\nopensm config-files 3.3.23-3.1\n"
    assert installed_versions(Host({"dpkg-query -W": text}), ["rdma-core"]) == {"rdma-core": "56.1-1"}
    text = "rdma-core 51.0-1.el9\npackage opensm is not installed\n"
    assert installed_versions(Host({"rpm -q": text}), ["rdma-core"]) == {"rdma-core": "51.0-1.el9"}


def test_subnet_managers_of_active_ports_of_infiniband() -> None:
    line = "sminfo: sm lid 1 sm guid 0xaa, activity count 3 priority 15 state 3 SMINFO_MASTER"
    port = {"device": "mlx5_0", "port": "1", "active": True, "link_layer": "InfiniBand"}
    others = [port | {"device": "mlx5_1", "active": False}, port | {"device": "mlx5_2", "link_layer": "Ethernet"}]
    host = Host({"sminfo -C mlx5_0": line, "sminfo -C": "sminfo: sm lid 9 sm guid 0xbb, state 3 SMINFO_MASTER"})
    assert [each["lid"] for each in rdma_host.subnet_managers(host, [port, *others])] == ["1"]


def test_only_foreign_addresses_are_pinged() -> None:
    own = [{"addresses": ["10.10.0.1/16"]}]
    host = Host({"ping -c 1 -W 1 10.10.0.1": "", "ping -c 1 -W 1 10.10.0.2": "1 received"})
    assert rdma_host.answering(host, ["10.10.0.1", "10.10.0.2", "10.10.0.3"], own) == ["10.10.0.2"]


@pytest.mark.parametrize(("effective", "expected"), [("000001ffffffffff", True), ("000001fffcfcffff", False)])
def test_raising_limits_requires_the_capability(effective: str, expected: bool) -> None:  # noqa: FBT001
    assert rdma_host.may_raise_limits(f"Name:\tinit\nCapEff:\t{effective}\n") is expected
    assert not rdma_host.may_raise_limits("")


def test_kernel_support_for_peer_memory_is_read(tmp_path: Path) -> None:
    assert gpudirect_host.peer_memory(tmp_path) is None
    assert gpudirect_host.peermem_there(tmp_path, "6.1") is None
    (tmp_path / "sys/module/ib_core").mkdir(parents=True)
    assert gpudirect_host.peer_memory(tmp_path) is None
    (tmp_path / "proc").mkdir()
    symbols = tmp_path / "proc/kallsyms"
    symbols.write_text("0000000000000000 T ib_register_client\t[ib_core]\n")
    assert gpudirect_host.peer_memory(tmp_path) is False
    symbols.write_text("0000000000000000 T ib_register_peer_memory_client\t[ib_core]\n")
    assert gpudirect_host.peer_memory(tmp_path) is True
    modules = tmp_path / "lib/modules/6.1"
    modules.mkdir(parents=True)
    (modules / "modules.dep").write_text("extra/nvidia.ko:\n")
    assert gpudirect_host.peermem_there(tmp_path, "6.1") is False
    (modules / "modules.dep").write_text(
        "updates/dkms/nvidia-peermem.ko.xz: kernel/ib_core.ko updates/dkms/nvidia.ko\n"
    )
    assert gpudirect_host.peermem_there(tmp_path, "6.1") is True


@pytest.mark.parametrize(
    ("license_text", "expected"), [("Dual MIT/GPL", ("580.65.06", True)), ("NVIDIA", ("580.65.06", False))]
)
def test_installed_driver_is_read_from_modinfo(license_text: str, expected: tuple[str, bool]) -> None:
    host = Host({"modinfo -F version": "580.65.06\n", "modinfo -F license": f"{license_text}\n"})
    assert gpudirect_host.installed_driver(host) == expected
    assert gpudirect_host.installed_driver(Host({"modinfo -F license": license_text})) is None
    assert gpudirect_host.installed_driver(Host({})) is None


def test_acs_of_the_bus_is_read(tmp_path: Path) -> None:
    """Only root can read ACS: a truncated configuration space counts as unreadable."""
    devices = tmp_path / "sys/bus/pci/devices"
    devices.mkdir(parents=True)
    tree = tmp_path / "sys/devices/pci0000:16/0000:16:01.0"
    for address, kind, vendor in (("0000:17:00.0", "0x030200", "0x10de"), ("0000:18:00.0", "0x020700", "0x15b3")):
        place = tree / address
        (place / "iommu_group").mkdir(parents=True)
        (place / "iommu_group/type").write_text("DMA-FQ\n")
        (place / "class").write_text(kind)
        (place / "vendor").write_text(vendor)
        (devices / address).symlink_to(place)
    (tree / "config").write_bytes(bytes(64))
    (devices / "0000:16:01.0").symlink_to(tree)
    found = gpudirect_host.bus(tmp_path)
    assert found == {"devices": ["0000:17:00.0", "0000:18:00.0"], "acs": {"0000:16:01.0": None}, "iommu": ["DMA-FQ"]}
