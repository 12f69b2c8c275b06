"""Tests of Prometheus' scrape targets."""

from __future__ import annotations

import time
from typing import Any

import pytest
import yaml
from ansible_collections.busbar.cluster.plugins.plugin_utils.monitoring.scrape_targets import (
    scrape_targets,
    target_problems,
    targets_text,
)

CATALOGUE: dict[str, dict[str, Any]] = {"dgx": {"gpu": {"count": 8}}, "cpu": {"gpu": None}}
NODE = {"hosts": ["ctl", "gpu1", "cpu1"], "exporter": "node_exporter", "port": 9100}


def site(**more: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {
        "ctl": {"monitoring_address": "10.0.0.1"},
        "gpu1": {"monitoring_address": "10.0.0.2", "hardware": "dgx"},
        "cpu1": {"monitoring_address": "fd00::3", "hardware": "cpu"},
        **more,
    }


def addresses(job: dict[str, Any], variables: dict[str, dict[str, Any]]) -> list[str]:
    return [each["targets"][0] for each in scrape_targets({"job": job}, variables, CATALOGUE)["job"]]


def test_each_host_has_its_name_and_hardware() -> None:
    found = scrape_targets({"node": NODE}, site(), CATALOGUE)["node"]
    assert found == [
        {"targets": ["10.0.0.1:9100"], "labels": {"instance": "ctl", "node": "ctl"}},
        {"targets": ["10.0.0.2:9100"], "labels": {"instance": "gpu1", "node": "gpu1", "hardware": "dgx"}},
        {"targets": ["[fd00::3]:9100"], "labels": {"instance": "cpu1", "node": "cpu1", "hardware": "cpu"}},
    ]
    assert yaml.safe_load(targets_text(found)) == found
    assert len(targets_text(found).splitlines()) == 3


def test_exporter_settings_of_a_host_take_precedence() -> None:
    own = {"node_exporter_address": "192.168.0.9", "node_exporter_port": 9200}
    hosts = site(ctl={"monitoring_address": "10.0.0.1", **own})
    assert addresses(NODE, hosts)[0] == "192.168.0.9:9200"


def test_job_address_overrides_the_host_address() -> None:
    assert addresses({**NODE, "hosts": ["ctl"], "address": "127.0.0.1"}, site()) == ["127.0.0.1:9100"]


def test_job_for_gpus_includes_only_hosts_with_gpus() -> None:
    assert addresses({**NODE, "gpus": True}, site()) == ["10.0.0.2:9100"]


def test_unknown_hardware_is_not_a_host_without_gpus() -> None:
    hosts = site(gpu1={"monitoring_address": "10.0.0.2", "hardware": "dgz"})
    with pytest.raises(
        ValueError, match=r"gpu1: hardware: unknown hardware 'dgz' \(did you mean dgx\?\)\. Remedy: set "
    ):
        addresses({**NODE, "gpus": True}, hosts)


def test_host_without_the_exporter_is_left_out() -> None:
    hosts = site(gpu1={"monitoring_address": "10.0.0.2", "node_exporter_source": "none"})
    job = {**NODE, "source": ["node_exporter_source"]}
    assert addresses(job, hosts) == ["10.0.0.1:9100", "[fd00::3]:9100"]


def test_first_source_set_by_a_host_is_used() -> None:
    hosts = site(ctl={"first": "url", "second": "none"}, gpu1={"second": "none"}, cpu1={})
    job = {**NODE, "source": ["first", "second"]}
    assert addresses(job, hosts) == ["ctl:9100", "cpu1:9100"]
    assert addresses({**job, "source_default": "none"}, hosts) == ["ctl:9100"]


def test_default_address_is_the_one_that_ansible_uses() -> None:
    hosts = site(
        ctl={"ansible_host": "10.0.0.1"}, gpu1={"ansible_host": "1.1.1.1", "hosts_address": "10.9.0.2"}, cpu1={}
    )
    assert addresses(NODE, hosts) == ["10.0.0.1:9100", "10.9.0.2:9100", "cpu1:9100"]


def test_unknown_host_is_an_error() -> None:
    with pytest.raises(KeyError, match="gpu9"):
        scrape_targets({"node": {**NODE, "hosts": ["gpu9"]}}, site(), CATALOGUE)


def test_two_hosts_with_the_same_address_are_a_problem() -> None:
    hosts = site(gpu1={"monitoring_address": "10.0.0.1"})
    (problem,) = target_problems(scrape_targets({"node": NODE}, hosts, CATALOGUE))
    assert problem["hosts"] == ["ctl", "gpu1"]
    assert "10.0.0.1:9100" in problem["problem"]
    assert target_problems(scrape_targets({"node": NODE}, site(), CATALOGUE)) == []


class Counted(dict[str, dict[str, Any]]):
    """Variables that count the lookups of hosts, which are expensive."""

    lookups = 0

    def __getitem__(self, name: str) -> dict[str, Any]:
        """Count the lookup and return the variables of a host."""
        self.lookups += 1
        return super().__getitem__(name)


def test_each_of_1000_nodes_is_looked_up_once() -> None:
    variables = Counted({f"gpu{n}": {"monitoring_address": f"10.0.{n // 250}.{n % 250}"} for n in range(1000)})
    jobs = {name: {**NODE, "hosts": list(variables), "port": port} for port, name in enumerate(("node", "dcgm", "x"))}
    began = time.perf_counter()
    found = scrape_targets(jobs, variables, CATALOGUE)
    assert [len(each) for each in found.values()] == [1000, 1000, 1000]
    assert variables.lookups == 1000
    assert target_problems(found) == []
    assert time.perf_counter() - began < 2
