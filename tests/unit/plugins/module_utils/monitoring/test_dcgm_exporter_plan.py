"""How dcgm-exporter runs on a host, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.monitoring.dcgm_exporter_plan import dcgm_exporter_plan

H100 = {"model": "NVIDIA H100 80GB HBM3"}
SETTINGS: dict[str, Any] = {
    "source": "nvidia",
    "dcgm_source": "nvidia",
    "architecture": "x86_64",
    "package": "datacenter-gpu-manager-exporter",
    "version": "",
    "hold": True,
    "packages": {},
    "address": "10.0.0.21",
    "port": 9400,
    "host_engine": "127.0.0.1:5555",
    "interval_s": 15,
    "profiling": "auto",
    "counters": [],
    "counters_extra": [],
    "job_directory": "/run/busbar/gpu_jobs",
    "arguments": [],
    "web_config": False,
}
ARCHIVE = {"url": "https://mirror.example.org/d/exporter_4.8.2-1_amd64.deb", "sha256": "a" * 64, "version": "4.8.2-1"}


def plan(**changes: Any) -> dict[str, Any]:  # noqa: ANN401 - options are of any kind
    return dcgm_exporter_plan(H100, SETTINGS | changes, "gpu1")


def words(**changes: Any) -> str:  # noqa: ANN401 - options are of any kind
    return str(plan(**changes)["command"].replace(" \\\n ", "").removeprefix("/usr/bin/dcgm-exporter "))


def test_it_asks_the_host_engine_and_listens_at_one_address() -> None:
    wanted = "-f /etc/dcgm-exporter/busbar.csv -a 10.0.0.21:9400 -c 15000 -r 127.0.0.1:5555"
    assert words() == f"{wanted} --hpc-job-mapping-dir /run/busbar/gpu_jobs"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"address": "fd00::21"}, "-a [fd00::21]:9400"),
        ({"interval_s": 5}, "-c 5000"),
        ({"web_config": True}, "--web-config-file /etc/dcgm-exporter/web.yml"),
        ({"arguments": ["--debug"]}, "--debug"),
    ],
)
def test_arguments(changes: dict[str, Any], said: str) -> None:
    assert said in words(**changes)


def test_an_engine_of_its_own_and_no_jobs() -> None:
    assert words(host_engine="", job_directory="") == "-f /etc/dcgm-exporter/busbar.csv -a 10.0.0.21:9400 -c 15000"


def test_a_version_is_pinned_with_and_without_epoch_and_held() -> None:
    found = plan(version="4.8.2-1")
    assert found["packages"] == [{"name": "datacenter-gpu-manager-exporter", "version": "4.8.2-1", "hold": True}]
    assert [pin["version"] for pin in found["pins"]] == ["4.8.2-1", "1:4.8.2-1"]
    assert [pin["version"] for pin in plan(version="4.8.2")["pins"]] == ["4.8.2-*", "1:4.8.2-*"]
    assert (plan()["pins"], plan()["packages"][0]["hold"]) == ([], False)


def test_a_package_by_its_address() -> None:
    (found,) = plan(source="url", packages={"x86_64": ARCHIVE})["files"]
    assert found["source"] == "https://mirror.example.org/d"
    assert found["packages"][0]["file"] == "exporter_4.8.2-1_amd64.deb"


def test_counters_are_those_of_the_gpu() -> None:
    assert "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE, gauge, " in plan()["counters"]
    assert "PROF" not in plan(profiling="never")["counters"]


@pytest.mark.parametrize(
    ("changes", "key", "said"),
    [
        ({"dcgm_source": "none"}, "dcgm_exporter_source", "no host engine answers on 127.0.0.1:5555"),
        ({"version": "3.3.9-1"}, "dcgm_exporter_version", "does not work with DCGM 4"),
        ({"port": 0}, "dcgm_exporter_port", "0 is no port"),
        ({"port": 94000}, "dcgm_exporter_port", "94000 is no port"),
        ({"interval_s": 0}, "dcgm_exporter_interval_s", "0 is no interval"),
        ({"arguments": ["-a", ":1"]}, "dcgm_exporter_arguments", "-a is set already"),
        ({"arguments": ["--address=:1"]}, "dcgm_exporter_arguments", "--address is set already"),
        ({"arguments": ["--a\n--b"]}, "dcgm_exporter_arguments", "has a line break"),
        ({"source": "url"}, "dcgm_exporter_packages.x86_64", "url, sha256, version is missing"),
        (
            {"source": "url", "packages": {"x86_64": ARCHIVE | {"sha256": "x"}}},
            "dcgm_exporter_packages.x86_64",
            "sha256 'x' is none",
        ),
        (
            {"counters_extra": [{"name": "DCGM_FI_DEV_XID_ERROR"}]},
            "dcgm_exporter_counters_extra[DCGM_FI_DEV_XID_ERROR]",
            "is no field of DCGM",
        ),
    ],
)
def test_what_is_refused(changes: dict[str, Any], key: str, said: str) -> None:
    found = plan(**changes)
    (problem,) = found["problems"]
    assert (problem["hosts"], problem["key"]) == (["gpu1"], key)
    assert said in problem["problem"]
    assert problem["remedy"]
    assert list(found) == ["problems"]


def test_an_engine_elsewhere_needs_none_here() -> None:
    assert plan(dcgm_source="none", host_engine="")["problems"] == []
    assert plan(dcgm_source="none", host_engine="10.0.0.9:5555")["problems"] == []
