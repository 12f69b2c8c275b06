"""Tests that the driver module reads the host once and runs nvidia-smi only if the driver is loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible_collections.busbar.cluster.plugins.modules import nvidia_driver
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.catalogue.merged_profiles import site_catalogue
from module_run import module_result

if TYPE_CHECKING:
    import pytest

OLD, NEW = "580.65.06", "580.95.05"
OPTIONS: dict[str, Any] = {
    "host": "gpu1",
    "hardware": site_catalogue({})["l40s"],
    "settings": {"source": "nvidia", "branch": "580", "kernel_parts": "managed"},
    "system": {"distribution": "Debian", "major": "12", "container": False},
}
FOUND: dict[str, Any] = {
    "index": True,
    "kernels": ["linux-image-amd64"],
    "kernel_release": "6.1.0-28-amd64",
    "headers": True,
    "built": [NEW],
    "dkms": [],
    "make_log": {"path": "", "lines": []},
    "modules": {"nvidia": True, "nvidia-uvm": True, "ib_umad": False},
    "loaded": NEW,
    "parameters": {},
    "gpus": 8,
    "slurm": ["slurmd"],
    "persistence_command": "/usr/bin/nvidia-persistenced --no-persistence-mode",
    "nouveau": False,
    "initramfs": "update-initramfs",
    "units": {"nvidia-persistenced": {"enabled": "enabled", "active": "active"}},
    "imex_nodes": "",
    "secure_boot": False,
    "signing_key": "",
    "key_enrolled": False,
}
DROP_IN = "/etc/systemd/system/nvidia-persistenced.service.d/busbar.conf"


def choose(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    found: dict[str, Any],
    answering: int | None = None,
    **options: Any,  # noqa: ANN401 - as given
) -> dict[str, Any]:
    """Return the module's result for these facts and number of GPUs; None forbids nvidia-smi."""

    def offered(_module: object, names: list[str], _family: list[str]) -> dict[str, Any]:
        versions = {name: [f"{OLD}-1", f"{NEW}-1"] for name in names}
        installed = dict.fromkeys(names, f"{found['loaded']}-1") if found["loaded"] else {}
        return {**found, "available": versions, "installed": installed}

    def answer() -> dict[str, Any]:
        assert answering is not None, "the GPUs were asked"
        gpus = [{"index": number, "lost": False} for number in range(answering)]
        return {"smi_state": "ok", "errors": [], "gpus": gpus}

    monkeypatch.setattr(nvidia_driver, "read_driver", offered)
    monkeypatch.setattr(nvidia_driver, "read_answering_gpus", answer)
    return module_result(nvidia_driver, capsys, **(OPTIONS | options))


def test_host_in_the_declared_state_is_unchanged(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    count = OPTIONS["hardware"]["gpu"]["count"]
    told = choose(capsys, monkeypatch, FOUND, answering=count)
    assert (told["changed"], told["version"], told["unready"], told["problems"]) == (False, NEW, [], [])
    assert (told["moves"], told["reboot"], told["load"], told["build"]) == (False, [], [], False)
    assert [item["right"] for item in told["services"]] == [True]
    assert told["found"]["slurm"] == ["slurmd"]
    assert DROP_IN in {item["path"] for item in told["files"]}


def test_cluster_version_is_used_if_none_is_declared(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fresh = {**FOUND, "loaded": "", "built": [], "units": {}, "persistence_command": ""}
    assert choose(capsys, monkeypatch, fresh)["version"] == NEW
    told = choose(capsys, monkeypatch, fresh, locked={"580": OLD, "570": "570.133.20"})
    assert (told["version"], told["locked"], told["offer"]["versions"]) == (OLD, OLD, [OLD, NEW])
    assert {item["version"].partition("-")[0] for item in told["packages"] if item["version"]} == {OLD}
    declared = {**OPTIONS["settings"], "version": NEW}
    assert choose(capsys, monkeypatch, fresh, settings=declared, locked={"580": OLD})["version"] == NEW


def test_missing_gpus_are_reported_without_querying_another_driver(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    count = OPTIONS["hardware"]["gpu"]["count"]
    assert choose(capsys, monkeypatch, FOUND, answering=0)["unready"] == [f"0 of {count} GPUs answer"]
    told = choose(capsys, monkeypatch, {**FOUND, "loaded": OLD}, locked={"580": NEW})
    assert told["unready"] == [f"the driver {OLD} is loaded, {NEW} is declared"]
    assert told["moves"] is True
    assert "reboot needed" in told["blocked"][0]["problem"]


def test_container_without_kernel_parts_is_not_checked(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {**OPTIONS["settings"], "kernel_parts": "auto"}
    system = {**OPTIONS["system"], "container": True}
    told = choose(capsys, monkeypatch, FOUND, settings=settings, system=system)
    assert (told["kernel"], told["unready"], told["services"]) == (False, [], [])
    assert "a container shares the kernel of its host" in told["notes"][0]
