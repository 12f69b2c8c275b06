"""Tests of the modules for RDMA and GPUDirect: refusals, files, and the results that the role uses."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.busbar.cluster.plugins.modules import gpudirect, rdma
from module_run import module_result

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    Call = Callable[..., dict[str, Any]]

PORT = {"device": "mlx5_0", "port": "1", "active": True, "state": "ACTIVE", "rate_gbps": 400.0, "guid": "00aa"}
PORT |= {"link_layer": "Ethernet", "address": "0000:1a:00.0", "roce_gids": [3]}
FOUND: dict[str, Any] = {
    "container": "",
    "raises_limits": True,
    "memlock_hard": "8388608 bytes",
    "ports": [PORT],
    "pci_nics": [{"address": "0000:1a:00.0", "vendor": "15b3"}],
    "interfaces": [{"name": "ib0", "infiniband": True, "up": True, "addresses": []}],
    "default_interfaces": ["eth0"],
    "manager": "networkd",
    "modules_loaded": ["ib_ipoib"],
    "packages": {"rdma-core": "56.1"},
    "files": [],
    "subnet_managers": [],
    "answering": [],
}
DECLARED: dict[str, Any] = {
    "nics": [],
    "source": "distribution",
    "memlock": "unlimited",
    "kernel_managed": "auto",
    "naming": "fallback",
    "modules": ["ib_umad", "ib_ipoib"],
    "names": {},
    "interface_names": {},
    "ipoib": [],
    "networks": [],
    "opensm": False,
    "roce_mode": "",
    "roce_tos": -1,
    "gid_index": "",
}
MODULES_FILE, ORDER_FILE = "/etc/modules-load.d/busbar-gpudirect.conf", "/etc/modprobe.d/busbar-gpudirect.conf"
AUTO = {"host": "gpu1", "mode": "auto", "rdma": True}
GPU: dict[str, Any] = {
    "container": "",
    "kernel": "6.1.0",
    "driver": "580.95.05",
    "open": False,
    "loaded": True,
    "peermem_there": True,
    "peermem_loaded": False,
    "peer_memory": True,
    "gdrcopy_loaded": False,
    "devices": ["0000:17:00.0"],
    "acs": {"0000:16:01.0": True},
    "iommu": [],
}


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Call:
    """Return a function that runs a module on a host with these facts and files."""

    def run(
        plugin: ModuleType,
        found: dict[str, Any],
        options: dict[str, Any],
        files: dict[str, str],
        *,
        check: bool = False,
    ) -> dict[str, Any]:
        def keep(module: Any, wanted: list[dict[str, str]]) -> tuple[list[str], list[dict[str, str]]]:  # noqa: ANN401
            changed = []
            for item in wanted:
                text = "" if item.get("state") == "absent" else item["content"]
                if files.get(item["path"], "") != text:
                    changed.append(item["path"])
                    if not module.check_mode:
                        files[item["path"]] = text
            return changed, [{"before_header": path, "before": "", "after": "x"} for path in changed]

        reader = "read_rdma" if plugin is rdma else "read_gpudirect"
        monkeypatch.setattr(plugin, reader, lambda *_, **__: found)
        monkeypatch.setattr(plugin, "keep_files", keep)
        return module_result(plugin, capsys, **options, _ansible_check_mode=check)

    return run


def declared(packages: list[str], **settings: object) -> dict[str, Any]:
    """Return the options of the module rdma."""
    return {"host": "gpu1", "packages": packages, "settings": {**DECLARED, **settings}}


def test_rdma_is_set_up_once(call: Call) -> None:
    files: dict[str, str] = {}
    ipoib = [{"name": "ib0", "address": "10.10.0.1/16"}]
    nics = [{"count": 2, "gbps": 400, "rdma": True}]
    options = declared(["rdma-core"], ipoib=ipoib, gid_index="auto", nics=nics)
    planned = call(rdma, FOUND, options, files, check=True)
    assert (planned["changed"], files) == (True, {})
    done = call(rdma, FOUND, options, files)
    assert done["changed_paths"] == planned["changed_paths"] == [item["before_header"] for item in done["diff"]]
    assert "LimitMEMLOCK=infinity" in files["/etc/systemd/system/slurmd.service.d/busbar-rdma.conf"]
    assert (done["load"], done["nccl_gid"]) == (["ib_umad"], {"index": "3", "note": ""})
    assert ["networkctl", "reload"] in done["commands"]
    assert done["missing_nics"].splitlines()[0].startswith("gpu1: RDMA NICs: 2 x 400 Gb/s declared, but 1 active")
    addressed = {**FOUND, "modules_loaded": ["ib_umad", "ib_ipoib"]}
    addressed["interfaces"] = [{**FOUND["interfaces"][0], "addresses": ["10.10.0.1/16"]}]
    again = call(rdma, addressed, options, files)
    assert (again["changed"], again["load"], again["commands"]) == (False, [], [])


def test_rdma_is_refused_with_the_key_and_the_remedy(call: Call) -> None:
    files: dict[str, str] = {}
    answer = call(rdma, {**FOUND, "packages": {"rdma-core": "2501mlnx56-1"}}, declared(["rdma-core"]), files)
    assert answer["busbar_refused"] is True
    assert re.match(
        r"This step changed nothing:\ngpu1: rdma_source: distribution, but DOCA-OFED .*\n {4}remedy: ", answer["msg"]
    )
    assert (files, answer["problems"][0]["key"]) == ({}, "rdma_source")


def test_nothing_is_written_before_the_packages_are_installed(call: Call) -> None:
    files: dict[str, str] = {}
    options = declared(["rdma-core", "perftest"])
    answer = call(rdma, FOUND, options, files)
    assert (answer["changed"], answer["missing_packages"], files) == (False, ["perftest"], {})
    planned = call(rdma, FOUND, options, files, check=True)
    assert (planned["changed"], files) == (True, {})


def test_gpudirect_mode_is_selected_and_written(call: Call) -> None:
    files: dict[str, str] = {}
    options = {**AUTO, "gdrcopy": True}
    answer = call(gpudirect, GPU, options, files)
    assert (answer["mode"], answer["load"]) == ("nvidia_peermem", ["nvidia_peermem", "gdrdrv"])
    assert files[MODULES_FILE] == "#\n# Ansible managed\n#\nnvidia_peermem\ngdrdrv\n"
    assert files[ORDER_FILE].endswith("softdep nvidia_peermem pre: nvidia ib_uverbs\n")
    assert answer["notes"][0].startswith("nvidia_peermem: no dma-buf: ")
    assert (answer["acs_redirects"], "ACS routes" in answer["notes"][1]) == (True, True)
    again = call(gpudirect, {**GPU, "peermem_loaded": True, "gdrcopy_loaded": True}, options, files)
    assert (again["changed"], again["load"]) == (False, [])
    # With open kernel modules it is no longer needed.
    call(gpudirect, {**GPU, "open": True}, AUTO, files)
    assert set(files.values()) == {""}


@pytest.mark.parametrize(
    ("found", "mode"),
    [({"driver": "", "open": None, "loaded": False}, ""), ({"container": "podman"}, "nvidia_peermem")],
)
def test_gpudirect_leaves_unknown_hosts_and_containers_unchanged(call: Call, found: dict[str, Any], mode: str) -> None:
    files = {MODULES_FILE: "as before"}
    answer = call(gpudirect, {**GPU, **found}, AUTO, files)
    assert (answer["mode"], answer["load"], answer["changed"]) == (mode, [], False)
    assert files == {MODULES_FILE: "as before"}


def test_gpudirect_refuses_an_unsupported_mode(call: Call) -> None:
    answer = call(gpudirect, GPU, {**AUTO, "mode": "dmabuf"}, {})
    assert answer["busbar_refused"] is True
    assert answer["msg"].startswith("This step changed nothing.\ngpu1: gpudirect_mode: dmabuf is not possible: ")
    assert answer["msg"].endswith("\n    remedy: set gpudirect_mode: auto, which selects an available one")
