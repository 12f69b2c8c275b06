"""Tests of the consistency of the inventory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.catalogue.builtin_profiles import shipped_profile
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.catalogue.merged_profiles import site_catalogue
from ansible_collections.busbar.cluster.plugins.plugin_utils.preflight.inventory import (
    GroupValue,
    HostEntry,
    catalogue_problems,
    competing_groups,
    domain_problems,
    hardware_choice_problems,
    host_problems,
)

if TYPE_CHECKING:
    from ansible_collections.busbar.cluster.plugins.module_utils.common.problems import Problem

CATALOGUE: dict[str, Any] = {"small": {}, "large": {}}


def entry(name: str, address: str = "", hardware: str | None = "small", groups: tuple[str, ...] = ()) -> HostEntry:
    return {"name": name, "address": address or name, "hardware": hardware, "groups": list(groups)}


def value(group: str, hardware: str, *ancestors: str) -> GroupValue:
    return {"group": group, "value": hardware, "ancestors": list(ancestors)}


def briefly(problems: list[Problem]) -> list[tuple[list[str], str]]:
    return [(problem["hosts"], problem["key"]) for problem in problems]


@pytest.mark.parametrize(
    ("hosts", "expected"),
    [
        ([entry("gpu1", "10.0.0.1"), entry("gpu2", "10.0.0.2"), entry("ctl")], []),
        ([entry("gpu1", "10.0.0.1"), entry("gpu2", "10.0.0.1")], [(["gpu1", "gpu2"], "ansible_host")]),
        ([entry("gpu1", "fd00::1"), entry("gpu2", "fd00:0::1")], [(["gpu1", "gpu2"], "ansible_host")]),
        ([entry("gpu1"), entry("gpu2", "GPU1.")], [(["gpu1", "gpu2"], "ansible_host")]),
        ([entry("gpu_1")], [(["gpu_1"], "host name")]),
        ([entry("-gpu")], [(["-gpu"], "host name")]),
        ([entry("g" * 64)], [(["g" * 64], "host name")]),
        ([entry("17")], [(["17"], "host name")]),
        ([entry("DEFAULT")], [(["DEFAULT"], "host name")]),
        ([entry("gpu1.site.org")], [(["gpu1.site.org"], "host name")]),
        ([entry("gpu1", "a"), entry("GPU1", "b")], [(["gpu1", "GPU1"], "host name")]),
    ],
)
def test_names_and_addresses(hosts: list[HostEntry], expected: list[tuple[list[str], str]]) -> None:
    assert briefly(host_problems(hosts)) == expected


def test_fully_qualified_name_is_reported_with_the_remedy() -> None:
    assert "ansible_host: gpu1.site.org" in host_problems([entry("gpu1.site.org")])[0]["remedy"]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], []),
        ([value("a", "small")], []),
        ([value("a", "small"), value("b", "small")], []),
        ([value("a", "small"), value("b", "large")], ["a", "b"]),
        ([value("all", "small"), value("b", "large", "all")], []),
        ([value("a", "small", "all"), value("b", "large", "a", "all"), value("c", "large")], []),
        ([value("a", "small", "all"), value("b", "large", "a", "all"), value("c", "small")], ["b", "c"]),
    ],
)
def test_competing_groups(values: list[GroupValue], expected: list[str]) -> None:
    assert [found["group"] for found in competing_groups(values)] == expected


@pytest.mark.parametrize(
    ("host", "own", "compute", "expected"),
    [
        (entry("gpu1"), [], ["gpu1"], ""),
        (entry("ctl", hardware=None), [], ["gpu1"], ""),
        (entry("gpu1", hardware=None), [], ["gpu1"], "is not set for a compute node"),
        (entry("gpu1", hardware="huge"), [], ["gpu1"], "unknown hardware 'huge'"),
        (entry("ctl", hardware="huge"), [], [], "unknown hardware 'huge'"),
        (
            entry("gpu1", groups=("a", "b")),
            [],
            ["gpu1"],
            "is in several groups that set different values (a: small, b: large)",
        ),
        (entry("gpu1", groups=("a", "b")), ["gpu1"], ["gpu1"], ""),
        (entry("gpu1", groups=("a",)), [], ["gpu1"], ""),
    ],
)
def test_hardware_choice(host: HostEntry, own: list[str], compute: list[str], expected: str) -> None:
    values = [value("a", "small"), value("b", "large")]
    problems = hardware_choice_problems([host], values, own, CATALOGUE, compute)
    assert [problem["problem"] for problem in problems] == ([expected] if expected else [])


def test_each_problem_of_a_profile_names_its_hosts_and_key() -> None:
    hosts = [entry("gpu1", hardware="l40s"), entry("gpu2", hardware="l40s"), entry("ctl", hardware=None)]
    assert catalogue_problems(hosts, site_catalogue({})) == []
    catalogue = site_catalogue({"l40s": {"sockets": 0, "colour": "green"}, "spare": {}})
    problems = catalogue_problems(hosts, catalogue)
    assert all("profile.schema.json" in problem["remedy"] for problem in problems)
    ours = [(each["hosts"], each["problem"][:24]) for each in problems if each["key"] == "hardware_profiles_extra.l40s"]
    assert sorted(ours) == [
        (["gpu1", "gpu2"], "colour: unknown key; exp"),
        (["gpu1", "gpu2"], "sockets: 0 is less than "),
    ]
    assert {each["key"] for each in problems if not each["hosts"]} == {"hardware_profiles_extra.spare"}


def test_invalid_profile_of_the_collection_is_named_by_its_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(shipped_profile("l40s"), "sockets", 0)
    (problem,) = catalogue_problems([], site_catalogue({}))
    assert problem["key"] == "plugins/plugin_utils/engine/catalogue/hardware/l40s.yml"


@pytest.mark.parametrize(
    ("domains", "hardware", "expected"),
    [
        ({"t1": "rack1", "t2": "rack1"}, "rack", []),
        ({"t1": "rack1", "t2": None}, "rack", [(["t2"], "nvlink_domain")]),
        ({"t1": 1}, "rack", [(["t1"], "nvlink_domain")]),
        ({"t1": "rack 1"}, "rack", [(["t1"], "nvlink_domain")]),
        ({"t1": "r", "t2": "r", "t3": "r"}, "rack", [(["t1", "t2", "t3"], "nvlink_domain")]),
        ({"t1": None}, "small", []),
        ({"t1": "rack1"}, "small", [(["t1"], "nvlink_domain")]),
        ({"t1": None}, "nobody knows", []),
    ],
)
def test_nvlink_domains(domains: dict[str, Any], hardware: str, expected: list[tuple[list[str], str]]) -> None:
    known = {**CATALOGUE, "rack": {"nvlink_domain_nodes": 2}}
    found = domain_problems(domains, dict.fromkeys(domains, hardware), known)
    assert briefly(found) == expected
    assert all(problem["remedy"] for problem in found)
