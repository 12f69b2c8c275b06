"""Tests of problems with containers and IP over InfiniBand."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.busbar.cluster.plugins.plugin_utils.preflight.software import node_software_problems
from ansible_collections.busbar.cluster.roles.enroot import checks as enroot
from ansible_collections.busbar.cluster.roles.pyxis import checks as pyxis
from ansible_collections.busbar.cluster.roles.rdma import checks as rdma

SHA256 = "0123456789abcdef" * 4


def told(**variables: Any) -> list[str]:  # noqa: ANN401 - any variable
    """Return the problems of two hosts with the same variables."""
    hosts = {"gpu1": {"ansible_host": "10.0.0.1", **variables}, "gpu2": {"ansible_host": "10.0.0.2", **variables}}
    cluster = {"groups": {"all": list(hosts)}, "hostvars": hosts}
    found = [each for role in (enroot, pyxis, rdma) for each in role.check_inventory({}, cluster)]
    assert all(item["remedy"] and item["hosts"] for item in found)
    return [f"{','.join(item['hosts'])} {item['key']}: {item['problem']}" for item in found]


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"enroot_enabled": False, "pyxis_enabled": "no"},
        {"enroot_enabled": True, "enroot_checksums": {"enroot.deb": SHA256}},
        {"enroot_enabled": True},
        {"enroot_enabled": "yes", "enroot_version": "4.1.2", "enroot_checksums": {}},
        {"pyxis_enabled": "true", "pyxis_sha256": SHA256},
        {"pyxis_enabled": True},
        {"pyxis_enabled": True, "pyxis_version": "0.24.0"},
    ],
)
def test_complete_or_empty_declaration_is_accepted(variables: dict[str, Any]) -> None:
    assert told(**variables) == []


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"enroot_enabled": True, "enroot_version": "4.1.1"}, "gpu1,gpu2 enroot_checksums: is empty"),
        (
            {"enroot_enabled": "yes", "enroot_checksums": {}, "enroot_packages": ["enroot-hardened"]},
            "gpu1,gpu2 enroot_checksums: is empty",
        ),
        ({"pyxis_enabled": True, "pyxis_version": "0.23.0"}, "gpu1,gpu2 pyxis_sha256: is not a SHA-256"),
        ({"pyxis_enabled": True, "pyxis_sha256": ""}, "gpu1,gpu2 pyxis_sha256: is not a SHA-256"),
        ({"pyxis_enabled": True, "pyxis_sha256": SHA256[1:]}, "gpu1,gpu2 pyxis_sha256: is not a SHA-256"),
        (
            {"rdma_ipoib_interfaces": [{"name": "ib0", "address": "10.9.0.1/24"}]},
            "10.9.0.1 is declared more than once",
        ),
        (
            {"rdma_ipoib_interfaces": [{"name": "ib0", "address": "10.0.0.2/24"}]},
            "10.0.0.2 is the management address of gpu2",
        ),
    ],
)
def test_unverifiable_or_conflicting_options_are_reported_for_all_hosts_at_once(
    variables: dict[str, Any], words: str
) -> None:
    assert any(words in line for line in told(**variables)), told(**variables)


def test_versions_with_known_checksums_match_the_role_pyxis() -> None:
    role = Path(__file__).resolve().parents[5] / "roles/pyxis"
    known = yaml.safe_load((role / "vars/main.yml").read_text())["__pyxis_known"]
    assert tuple(known) == pyxis.KNOWN
    assert yaml.safe_load((role / "defaults/main.yml").read_text())["pyxis_version"] in known
    assert all(re.fullmatch(r"[0-9a-f]{64}", each) for each in known.values())


def test_versions_of_enroot_that_are_built_match_the_role() -> None:
    role = Path(__file__).resolve().parents[5] / "roles/enroot"
    known = yaml.safe_load((role / "vars/main.yml").read_text())["__enroot_known"]
    assert tuple(known) == enroot.KNOWN
    assert yaml.safe_load((role / "defaults/main.yml").read_text())["enroot_version"] in known
    for archives in known.values():
        assert all(re.fullmatch(r"[0-9a-f]{64}", each["sha256"]) for each in archives)


@pytest.mark.parametrize(
    ("system", "checksums", "refused"),
    [("debian", {}, False), ("ubuntu", {}, False), ("rocky", {}, True), ("rocky", {"enroot.rpm": SHA256}, False)],
)
def test_enroot_packages_need_checksums_if_not_built(system: str, checksums: dict[str, str], *, refused: bool) -> None:
    variables = {"enroot_enabled": True, "enroot_checksums": checksums}
    found = node_software_problems("gpu1", variables, None, [], system)
    assert [(item["hosts"], item["key"]) for item in found] == ([(["gpu1"], "enroot_checksums")] if refused else [])


GPUS = {"gpu": {"count": 8}}
PYXIS = {"pyxis_enabled": True}
NO_TOOLKIT = {"nvidia_container_toolkit_source": "none", "validation_image": "/images/nccl.sqsh"}


@pytest.mark.parametrize(
    ("variables", "hardware", "programs", "words"),
    [
        (PYXIS, None, [], "pyxis_enabled: is true, but Pyxis requires Enroot"),
        (PYXIS, None, ["enroot"], ""),
        ({**PYXIS, "enroot_enabled": "yes"}, None, [], ""),
        ({"pyxis_enabled": "false"}, None, [], ""),
        (NO_TOOLKIT, GPUS, [], "validation_image: needs GPUs in containers"),
        ({"nvidia_container_toolkit_source": "none", "examples_image": "a"}, GPUS, [], "examples_image: needs GPUs"),
        (NO_TOOLKIT, GPUS, ["nvidia-container-cli"], ""),
        (NO_TOOLKIT, {"gpu": None}, [], ""),
        (NO_TOOLKIT, None, [], ""),
        ({**NO_TOOLKIT, "validation_backend": "mpi"}, GPUS, [], ""),
        ({**NO_TOOLKIT, "nvidia_container_toolkit_source": "nvidia"}, GPUS, [], ""),
        ({"validation_image": "a"}, GPUS, [], ""),
    ],
)
def test_missing_container_requirements_of_a_node_are_reported(
    variables: dict[str, Any], hardware: dict[str, Any] | None, programs: list[str], words: str
) -> None:
    found = node_software_problems("gpu1", variables, hardware, programs)
    told = [f"{item['key']}: {item['problem']}" for item in found]
    assert [line for line in told if words and words in line] == told
    assert bool(told) is bool(words)
    assert all(item["hosts"] == ["gpu1"] and item["remedy"] for item in found)
