"""Tests of the order of a Slurm upgrade, its blockers, and resuming an interrupted one."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.slurm.apt_source import (
    distribution_archive,
    preferences_text,
    repository_problems,
    source_text,
)
from ansible_collections.busbar.cluster.plugins.module_utils.slurm.busbar_drain_reasons import UPGRADE_REASON
from ansible_collections.busbar.cluster.plugins.plugin_utils.slurm.upgrade import upgrade_plan

OLD, NEW = "24.11.5-4+deb13u1", "26.05.5-1"
CLUSTER = {
    "slurm_database": ["db"],
    "slurm_controller": ["ctl1", "ctl2"],
    "slurm_compute": ["gpu1", "gpu2", "gpu3"],
    "slurm_login": ["login"],
}
PACKAGES = {
    "db": ["slurmdbd"],
    "ctl1": ["slurmctld"],
    "ctl2": ["slurmctld"],
    "gpu1": ["slurmd"],
    "gpu2": ["slurmd"],
    "gpu3": ["slurmd"],
    "login": ["sackd"],
}
SEEN = {"nodes": "gpu1|mixed|none\ngpu2|idle|none\ngpu3|idle|none\n", "queue": "7|alice|gpu1\n"}


def host(name: str, before: str = OLD, after: str = NEW, **more: Any) -> dict[str, Any]:  # noqa: ANN401
    packages = [*PACKAGES.get(name, ["slurmd"]), "slurm-client"]
    daemons = dict.fromkeys((each for each in packages if each != "slurm-client"), "current")
    found = {
        "installed": dict.fromkeys(packages, before),
        "offered": dict.fromkeys(packages, after),
        "daemons": daemons,
    }
    return {**found, "removes": [], "error": "", **more}


def hosts(**changed: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {name: host(name) for name in PACKAGES} | changed


def told(plan: dict[str, Any]) -> list[str]:
    return [f"{','.join(each['hosts'])}: {each['key']}: {each['problem']}" for each in plan["problems"]]


def test_cluster_is_upgraded_in_order() -> None:
    plan = upgrade_plan(hosts(), CLUSTER, SEEN, "50%")
    assert plan["problems"] == []
    assert plan["stages"] == CLUSTER
    assert plan["serial"] == 1
    assert plan["packages"]["db"] == [{"name": "slurmdbd", "version": NEW}, {"name": "slurm-client", "version": NEW}]
    assert plan["lines"] == [
        f"1. slurmdbd of db: {OLD} -> {NEW}",
        f"2. slurmctld of ctl[1-2]: {OLD} -> {NEW}",
        f"3. slurmd of gpu[1-3]: {OLD} -> {NEW}",
        "   in 3 batches: gpu1; gpu2; gpu3",
        f"4. commands of Slurm of login: {OLD} -> {NEW}",
        "running jobs that continue: job 7 of alice",
    ]


def test_daemons_of_one_controller_host_are_upgraded_together() -> None:
    both = {"slurmdbd": "current", "slurmctld": "current"}
    cluster = CLUSTER | {"slurm_database": ["ctl1"]}
    one = host(
        "ctl1", daemons=both, installed={"slurmdbd": OLD, "slurmctld": OLD}, offered={"slurmdbd": NEW, "slurmctld": NEW}
    )
    plan = upgrade_plan(hosts(ctl1=one), cluster, SEEN)
    assert plan["stops"]["ctl1"] == ["slurmctld", "slurmdbd"]
    assert plan["stops"]["gpu1"] == []


def test_second_run_has_nothing_to_do() -> None:
    plan = upgrade_plan({name: host(name, NEW) for name in PACKAGES}, CLUSTER, SEEN)
    assert set(map(len, plan["stages"].values())) == {0}
    assert plan["lines"] == [f"nothing to do: all hosts have {NEW}"]


def test_interrupted_run_continues_where_it_stopped() -> None:
    done = {name: host(name, NEW) for name in PACKAGES}
    done["ctl1"]["daemons"] = {"slurmctld": "stopped"}
    done["gpu2"]["daemons"] = {"slurmd": "stale"}
    done["login"] = host("login")
    seen = {"nodes": f"gpu1|drained|{UPGRADE_REASON}\ngpu2|idle|none\ngpu3|drained|fans\n", "queue": ""}
    plan = upgrade_plan(done, CLUSTER, seen)
    assert plan["stages"] == {
        "slurm_database": [],
        "slurm_controller": ["ctl1"],
        "slurm_compute": ["gpu1", "gpu2"],
        "slurm_login": ["login"],
    }
    assert plan["drained"] == ["gpu1"]
    assert f"2. slurmctld of ctl1: {NEW} is installed, but not active yet" in plan["lines"]


def test_upgrade_outside_the_window_is_reported_with_hosts_versions_and_remedy() -> None:
    plan = upgrade_plan({name: host(name, "22.05.8-4", OLD) for name in PACKAGES}, CLUSTER, SEEN)
    (problem,) = plan["problems"]
    assert problem["hosts"] == [*PACKAGES]
    assert "22.05.8-4 is installed, and 24.11.5-4+deb13u1 only accepts state and jobs of" in problem["problem"]
    assert "23.11, then 24.11" in problem["remedy"]


def test_single_outdated_node_is_refused() -> None:
    plan = upgrade_plan(hosts(gpu3=host("gpu3", "22.05.8-4")), CLUSTER, SEEN)
    assert [each["hosts"] for each in plan["problems"]] == [["gpu3"]]


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"db": host("db", OLD, OLD)}, f"slurmctld {NEW} would be newer than slurmdbd {OLD} on db"),
        ({"ctl2": host("ctl2", OLD, OLD)}, f"slurmd {NEW} would be newer than slurmctld {OLD} on ctl2"),
    ],
)
def test_daemon_must_not_be_newer_than_its_controller(changed: dict[str, Any], problem: str) -> None:
    package, _, rest = problem.partition(" ")
    lines = told(upgrade_plan(hosts(**changed), CLUSTER, SEEN))
    assert any(f"{package}: {rest}" in line for line in lines), lines


def test_removals_and_errors_of_apt_are_refused() -> None:
    plan = upgrade_plan(hosts(gpu1=host("gpu1", removes=["libpmix2t64"]), db=host("db", error="held")), CLUSTER, SEEN)
    assert told(plan) == [
        "db: slurm_repository: held",
        "gpu1: slurm_repository: apt would remove libpmix2t64",
    ]


def test_unreachable_node_is_skipped_and_unreachable_controller_refused() -> None:
    answering = hosts()
    del answering["gpu3"]
    plan = upgrade_plan(answering, CLUSTER, SEEN)
    assert plan["stages"]["slurm_compute"] == ["gpu1", "gpu2"]
    assert "gpu3 is unreachable, and is not upgraded" in plan["lines"]
    del answering["ctl2"]
    assert told(upgrade_plan(answering, CLUSTER, SEEN)) == [
        "ctl2: slurm_controller: is unreachable or not part of this run, but must be part of an upgrade"
    ]


def test_database_on_a_compute_node_and_invalid_batch_are_refused() -> None:
    cluster = CLUSTER | {"slurm_database": ["gpu1"]}
    one = host("gpu1", installed={"slurmdbd": OLD, "slurmd": OLD}, offered={"slurmdbd": NEW, "slurmd": NEW})
    assert "runs slurmdbd and slurmd" in told(upgrade_plan(hosts(gpu1=one), cluster, SEEN))[0]
    assert "upgrade_slurm_batch: '0'" in told(upgrade_plan(hosts(), CLUSTER, SEEN, 0))[0]


def test_plan_works_without_a_responding_controller() -> None:
    plan = upgrade_plan(hosts(), CLUSTER, {"nodes": "", "queue": ""})
    assert "slurmctld does not answer, so running jobs are unknown" in plan["lines"]


def test_only_slurm_and_its_dependencies_come_from_the_suite() -> None:
    text = preferences_text({"release": "26.05", "suite": "testing"}, ["libhwloc*"])
    assert "Package: slurm* libslurm* libpam-slurm* sackd\nPin: version 26.05.*\nPin-Priority: 990\n" in text
    assert "Package: libhwloc*\nPin: release a=testing\nPin-Priority: 990\n" in text
    assert "Package: *\nPin: release n=testing\nPin-Priority: -10\n" in text
    assert preferences_text({"release": "26.05"}, ["libhwloc*"]).count("Package:") == 1


def test_apt_source_uses_the_system_archive_with_another_suite() -> None:
    said = "http://other/|trixie|Other\nhttp://archive/debian/|trixie|Debian\nhttp://sec/|trixie-security|Debian\n"
    assert distribution_archive(said, "trixie") == "http://archive/debian/"
    text = source_text({"release": "26.05", "suite": "testing", "expired": True}, "http://archive/debian/", "/key.gpg")
    assert "URIs: http://archive/debian/\nSuites: testing\nComponents: main\nSigned-By: /key.gpg\n" in text
    assert text.endswith("Check-Valid-Until: no\n")
    assert source_text({"release": "26.05"}, "", "") == ""


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"release": "26.05.5"}, "'26.05.5' is not a Slurm release"),
        ({"release": "26.05", "suit": "testing"}, "slurm_repository.suit: is not a valid key"),
        ({"release": "26.05", "suite": "a b"}, "'a b' is not valid in an apt source"),
        ({"release": "26.05", "url": "http://x/"}, "slurm_repository.suite: is missing"),
    ],
)
def test_invalid_repository_is_refused(given: dict[str, Any], said: str) -> None:
    assert any(said in f"{key}: {problem}" for key, problem, _remedy in repository_problems(given))


def test_valid_repository_is_accepted() -> None:
    assert repository_problems({"release": "26.05", "suite": "testing", "packages": ["libhwloc*"]}) == []
    assert repository_problems({"release": 26.05}) == []
    assert repository_problems({}) == []


def test_incompatible_foreign_plugin_is_reported_with_hosts_file_and_remedy() -> None:
    plugin = {"library": "/opt/greet.so", "file": "/etc/slurm/plugstack.conf", "slurm": "24.11.5"}
    with_it = {name: host(name, plugins=[plugin]) for name in ("gpu1", "login")}
    (problem,) = upgrade_plan(hosts(**with_it), CLUSTER, SEEN)["problems"]
    assert problem["hosts"] == ["gpu1", "login"]
    assert problem["problem"].startswith("/opt/greet.so is built for Slurm 24.11.5; Slurm 26.05 would reject it")
    assert "remove its line from /etc/slurm/plugstack.conf until you have built it for 26.05" in problem["remedy"]


def test_foreign_plugin_for_the_new_release_is_accepted() -> None:
    plugin = {"library": "/opt/greet.so", "file": "/etc/slurm/plugstack.conf", "slurm": "26.05.0"}
    assert upgrade_plan(hosts(gpu1=host("gpu1", plugins=[plugin])), CLUSTER, SEEN)["problems"] == []
