"""Tests of the flags, counters and package of dcgm-exporter, and of refused options."""

from __future__ import annotations

import csv
from typing import Any

import pytest
from role_files import named, rendered, value

H100 = {"model": "NVIDIA H100 80GB HBM3", "generation": "hopper"}
RTX, P100 = ({"model": f"NVIDIA {name}"} for name in ("GeForce RTX 4090", "P100"))
GIVEN: dict[str, Any] = {
    "dcgm_exporter_address": "10.0.0.21",
    "__dcgm_hardware": {"gpu": H100},
    "__site_monitoring_tls_groups": [],
    "__site_monitoring_exporter_web_config": {},
}
UNIT = "etc/systemd/system/nvidia-dcgm-exporter.service.d/busbar.conf.j2"
ARCHIVE = {"url": "https://mirror.example.org/d/exporter_4.8.2-1_amd64.deb", "sha256": "a" * 64, "version": "4.8.2-1"}
XID = {"name": "DCGM_FI_DEV_XID_ERRORS", "type": "gauge", "help": "last Xid"}


def options(own: dict[str, Any]) -> dict[str, Any]:
    """Return variables of the role, of options without the prefix of the exporter."""
    plain = ("dcgm_source", "family", "hardware")
    site = {name: own.pop(name) for name in [*own] if name.startswith("__site_")}
    given = {name if name in plain else f"exporter_{name}": each for name, each in own.items()}
    return GIVEN | site | named("dcgm", given, ("dcgm_source", "family"))


def flags(**own: object) -> str:
    """Return the command of the unit in one line."""
    text = rendered("dcgm", UNIT, **options(own))
    command = text.partition("ExecStart=\nExecStart=")[2].partition("\nRestart=")[0]
    return " ".join(command.replace("\\\n", "").split())


def counters(gpu: dict[str, Any], **own: object) -> list[list[str]]:
    """Return the rows of the counters file."""
    text = rendered("dcgm", "etc/dcgm-exporter/busbar.csv.j2", **options({"hardware": {"gpu": gpu}, **own}))
    return list(csv.reader((line for line in text.splitlines() if not line.startswith("#")), skipinitialspace=True))


def test_exporter_reads_the_host_engine_and_listens_on_one_address() -> None:
    assert flags() == (
        '/usr/bin/dcgm-exporter -f /etc/dcgm-exporter/busbar.csv -r "127.0.0.1:5555" '
        '--hpc-job-mapping-dir "/run/busbar/gpu_jobs" -c 15000 -a 10.0.0.21:9400'
    )


@pytest.mark.parametrize(
    ("own", "said"),
    [
        ({"address": "fd00::21"}, "-a [fd00::21]:9400"),
        ({"interval_s": 5}, "-c 5000"),
        # --extra-vars passes text.
        ({"interval_s": "5"}, "-c 5000 "),
        (
            {"__site_monitoring_exporter_web_config": {"tls_server_config": {}}},
            "--web-config-file /etc/dcgm-exporter/web.yml",
        ),
        ({"arguments": ["--debug"]}, '"--debug"'),
    ],
)
def test_flags(own: dict[str, Any], said: str) -> None:
    assert said in flags(**own)


def test_embedded_engine_without_job_labels() -> None:
    assert flags(host_engine="", job_directory="") == (
        "/usr/bin/dcgm-exporter -f /etc/dcgm-exporter/busbar.csv -c 15000 -a 10.0.0.21:9400"
    )


def test_version_is_pinned_with_and_without_epoch() -> None:
    def pins(version: str) -> list[str]:
        found = value("dcgm", "__dcgm_exporter_pins", **options({"version": version}))
        return [each["version"] for each in found]

    assert pins("4.8.2-1") == ["4.8.2-1", "1:4.8.2-1"]
    assert value("dcgm", "__dcgm_exporter_pins", **options({"version": 4.8}))[0]["version"] == "4.8-*"
    assert pins("4.8.2") == ["4.8.2-*", "1:4.8.2-*"]


@pytest.mark.parametrize(
    ("model", "generation", "wanted"),
    [
        ("NVIDIA H100 80GB HBM3", "hopper", True),
        ("Tesla V100-SXM2-32GB", "volta", True),
        ("NVIDIA X9000", "hopper", True),
        ("NVIDIA GeForce RTX 4090", "ada", False),
        ("NVIDIA RTX A6000", "ampere", False),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "blackwell", False),
        ("Tesla P100-PCIE-16GB", "pascal", False),
    ],
)
def test_profiling_metrics_depend_on_the_gpu(model: str, generation: str, wanted: bool) -> None:  # noqa: FBT001 - a table
    names = {row[0] for row in counters({"model": model, "generation": generation})}
    assert ("DCGM_FI_PROF_SM_ACTIVE" in names) is wanted
    assert "DCGM_FI_DEV_GPU_UTIL" in names
    assert "DCGM_FI_PROF_SM_ACTIVE" not in {row[0] for row in counters({"model": "Simulated GPU"})}


def test_profiling_option_overrides_the_default_of_the_gpu() -> None:
    def profiled(gpu: dict[str, Any], profiling: str) -> bool:
        return any(row[0] == "DCGM_FI_PROF_SM_ACTIVE" for row in counters(gpu, profiling=profiling))

    assert not profiled(H100, "never")
    assert profiled(RTX, "always")


def test_site_adds_replaces_and_removes_counters() -> None:
    fan = {"name": "DCGM_FI_DEV_FAN_SPEED", "help": "Fan (%)"}
    away = {"name": "DCGM_FI_DEV_ENC_UTIL", "type": "none"}
    found = counters(P100, counters_extra=[fan, away, XID])
    assert [row for row in found if row[0] == XID["name"]] == [[XID["name"], "gauge", "last Xid"]]
    assert "DCGM_FI_DEV_ENC_UTIL" not in {row[0] for row in found}
    assert ["DCGM_FI_DEV_FAN_SPEED", "gauge", "Fan (%)"] in found
    assert counters(H100, counters=[{**XID, "type": None}])[0][1] == "gauge"
    assert counters(H100, counters=[XID]) == [[XID["name"], "gauge", "last Xid"]]


def test_each_counter_has_three_fields() -> None:
    assert {len(row) for row in counters(H100)} == {3}


@pytest.mark.parametrize(
    ("own", "key", "said"),
    [
        ({"dcgm_source": "none", "source": "nvidia"}, "source", "no host engine answers on 127.0.0.1:5555"),
        ({"version": "3.3.9-1"}, "version", "does not work with DCGM 4"),
        ({"port": 0}, "port", "0 is not a valid port"),
        ({"port": 94000}, "port", "94000 is not a valid port"),
        ({"interval_s": 0}, "interval_s", "0 is not a valid interval"),
        ({"arguments": ["-a", ":1"]}, "arguments", "-a is already set"),
        ({"arguments": ["--address=:1"]}, "arguments", "--address is already set"),
        ({"arguments": ["--a\n--b"]}, "arguments", "contains a line break"),
        ({"source": "url"}, "packages.x86_64", "url, sha256, version is missing"),
        (
            {"source": "url", "packages": {"x86_64": ARCHIVE | {"sha256": "x"}}},
            "packages.x86_64",
            "sha256 'x' is not valid",
        ),
        (
            {"counters_extra": [{"name": "DCGM_FI_DEV_XID_ERROR"}]},
            "counters_extra[DCGM_FI_DEV_XID_ERROR]",
            "is not a field of DCGM",
        ),
    ],
)
def test_refused(own: dict[str, Any], key: str, said: str) -> None:
    (problem,) = value("dcgm", "__dcgm_exporter_problems", **options(own))
    assert (problem["hosts"], problem["key"]) == (["gpu7"], f"dcgm_exporter_{key}")
    assert said in problem["problem"]
    assert problem["remedy"]


@pytest.mark.parametrize("engine", ["", "10.0.0.9:5555"])
def test_embedded_or_remote_engine_needs_no_local_engine(engine: str) -> None:
    own = {"dcgm_source": "none", "source": "nvidia", "host_engine": engine}
    assert value("dcgm", "__dcgm_exporter_problems", **options(own)) == []
