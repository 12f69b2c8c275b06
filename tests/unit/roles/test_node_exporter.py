"""Tests of node_exporter's flags, of its metrics from the inventory, and of refused options."""

from __future__ import annotations

from typing import Any

import pytest
from role_files import rendered, value

NICS = [{"count": 8, "gbps": 400, "rdma": True}, {"count": 2, "gbps": 25, "rdma": False}]
GIVEN: dict[str, Any] = {
    "node_exporter_address": "10.0.0.1",
    "__node_exporter_hardware": {},
    "__node_exporter_hardware_name": "",
    "__site_monitoring_tls_groups": [],
    "__site_monitoring_exporter_web_config": {},
    "node_exporter_systemd_units": ["slurmd", "nvidia-.+"],
}
UNIT = "etc/systemd/system/prometheus-node-exporter.service.d/busbar.conf.j2"


def words(**own: object) -> list[str]:
    """Return program and arguments as in the unit."""
    text = rendered("node_exporter", UNIT, **GIVEN, **own)
    command = text.partition("ExecStart=\nExecStart=")[2].partition("\nRestart=")[0]
    return [line.strip() for line in command.split(" \\\n")]


def metrics(**own: object) -> list[str]:
    """Return the lines of the metrics, without comments."""
    text = rendered("node_exporter", "busbar_node.prom.j2", **{**GIVEN, **own})
    return [line for line in text.splitlines() if not line.startswith("#")]


def test_flags() -> None:
    assert words(node_exporter_collectors_off=["arp"]) == [
        "/usr/bin/prometheus-node-exporter",
        '"--collector.textfile.directory=/var/lib/prometheus/node-exporter"',
        "--collector.filesystem.mount-timeout=5s",
        (
            '"--collector.filesystem.mount-points-exclude='
            '^/(dev|proc|run|sys|var/lib/docker/.+|var/lib/containers/storage/.+)($$|/)"'
        ),
        '"--collector.systemd"',
        '"--no-collector.arp"',
        '"--collector.systemd.unit-include=(slurmd|nvidia-.+)[.]service"',
        "--collector.systemd.enable-restarts-metrics",
        "--web.listen-address=10.0.0.1:9100",
    ]


def test_switch_is_not_repeated() -> None:
    # kingpin rejects a repeated switch, so node_exporter would not start.
    restarts = "--collector.systemd.enable-restarts-metrics"
    assert str(words(node_exporter_arguments=[restarts])).count(restarts) == 1


def test_arguments_of_the_site_are_escaped_for_systemd() -> None:
    assert words(node_exporter_arguments=['--a=b c%"\\$'])[-2] == '"--a=b c%%\\"\\\\$$"'


@pytest.mark.parametrize(
    ("family", "version", "source", "flag"),
    [
        ("Debian", "22.04", "distribution", "--web.config"),
        ("Debian", "22.04", "url", "--web.config.file"),
        ("Debian", "24.04", "distribution", "--web.config.file"),
        ("Debian", "12.12", "distribution", "--web.config.file"),
        ("RedHat", "9.4", "url", "--web.config.file"),
    ],
)
def test_flag_for_the_web_configuration_depends_on_the_release(
    family: str, version: str, source: str, flag: str
) -> None:
    facts = {"architecture": "x86_64", "distribution_version": version}
    given = {"family": family, "ansible_facts": facts, "node_exporter_source": source}
    text = rendered("node_exporter", UNIT, **{**GIVEN, "__site_monitoring_exporter_web_config": {"a": 1}, **given})
    assert f"  {flag}=/etc/prometheus/node_exporter_web.yml \\\n" in text


def test_metrics_of_a_gpu_node() -> None:
    profile = {"gpu": {"count": 8}, "nics": NICS}
    assert metrics(__node_exporter_hardware=profile, __node_exporter_hardware_name="dgx_h100") == [
        'busbar_node_info{hardware="dgx_h100"} 1',
        "busbar_node_expected_gpus 8",
        'busbar_node_expected_links{kind="ethernet"} 2',
        'busbar_node_expected_links{kind="infiniband"} 8',
        'busbar_node_expected_link_bytes_per_second{kind="ethernet"} 3125000000',
        'busbar_node_expected_link_bytes_per_second{kind="infiniband"} 50000000000',
    ]


def test_metrics_of_a_node_without_a_profile() -> None:
    assert metrics() == ["busbar_node_info 1", "busbar_node_expected_gpus 0"]


def test_names_of_metrics_are_case_sensitive() -> None:
    extra = [{"name": "a", "value": 1}, {"name": "A", "value": 2}]
    assert set(metrics(node_exporter_extra_metrics=extra)) >= {"a 1", "A 2"}


def test_metrics_of_the_site_are_grouped_by_name_and_escaped() -> None:
    extra: list[dict[str, Any]] = [{"name": name, "value": 0.5, "labels": {"n": n}} for n, name in enumerate("aba")]
    extra.append({"name": "c", "labels": {"path": 'x"\\\n'}, "value": 1, "help": "two\nlines"})
    text = rendered("node_exporter", "busbar_node.prom.j2", **GIVEN, node_exporter_extra_metrics=extra)
    assert text.endswith(
        '# HELP a a\n# TYPE a gauge\na{n="0"} 0.5\na{n="2"} 0.5\n'
        '# HELP b b\n# TYPE b gauge\nb{n="1"} 0.5\n'
        '# HELP c two\\nlines\n# TYPE c gauge\nc{path="x\\"\\\\\\n"} 1\n'
    )


@pytest.mark.parametrize(
    ("own", "words"),
    [
        ({"family": "RedHat"}, "node_exporter_source: this distribution does not package it"),
        ({"source": "url"}, "node_exporter_archives: has no url for x86_64"),
        ({"source": "url", "archives": {"x86_64": {"url": "https://m.site/a.tgz"}}}, "sha256 of https"),
        ({"collectors_off": ["systemd"]}, "systemd is also listed in node_exporter_collectors"),
        ({"arguments": ["--a\n--b"]}, "node_exporter_arguments: '--a\\n--b' contains a line break"),
        (
            {"extra_metrics": [{"name": "a b", "value": 1}]},
            "node_exporter_extra_metrics[0]: 'a b' is not a valid metric name",
        ),
        ({"extra_metrics": [{"name": "a", "value": "x"}]}, "extra_metrics[0]: value 'x' of a is not a number"),
        ({"extra_metrics": [{"name": "a", "value": 1, "labels": {"b-c": 1}}]}, "'b-c' is not a valid label name"),
        ({"extra_metrics": [{"name": "busbar_node_info", "value": 1}]}, "busbar_node_* is reserved for the role"),
    ],
)
def test_refused(own: dict[str, Any], words: str) -> None:
    given = {key if key == "family" else f"node_exporter_{key}": each for key, each in own.items()}
    (problem,) = value("node_exporter", "__node_exporter_problems", **GIVEN, **given)
    assert words in f"{problem['key']}: {problem['problem']}"
    assert problem["hosts"] == ["gpu7"]
    assert problem["remedy"]
