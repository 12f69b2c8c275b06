"""Tests of the cluster's driver version: the newest that every host can install; later runs keep it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.nvidia.driver_packages import PackageSet
from ansible_collections.busbar.cluster.plugins.module_utils.nvidia.driver_plan import driver_plan, lock_key, make_offer
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.catalogue.merged_profiles import site_catalogue
from ansible_collections.busbar.cluster.plugins.plugin_utils.nvidia.driver_lock import (
    choose_lock,
    lock_text,
    parse_lock,
)

if TYPE_CHECKING:
    from ansible_collections.busbar.cluster.plugins.module_utils.nvidia.driver_plan import Offer

A, B, C = "580.65.06", "580.95.05", "580.105.08"
PATH = "/site/nvidia_driver.lock.yml"
PARTS = PackageSet(("nvidia-driver-cuda", "nvidia-fabricmanager"))


def offer(*versions: str, installed: str = "", key: str = "580", known: bool = True) -> Offer:
    return {"key": key, "known": known, "versions": list(versions), "installed": installed}


def chosen(*offers: Offer, locked: dict[str, str] | None = None, **given: Any) -> dict[str, Any]:  # noqa: ANN401
    hosts = {f"gpu{number}": each for number, each in enumerate(offers, 1)}
    return dict(choose_lock(hosts, locked or {}, **{"elsewhere": None, "upgrade": False, **given}))


def test_host_offers_versions_available_for_all_packages() -> None:
    """The newest fabric manager is missing, and one of its versions is only installed, not in the repository."""
    found = {
        "available": {
            "nvidia-driver-cuda": [f"{B}-1", f"{C}-1", "570.195.03-1", f"{A}-1"],
            "nvidia-fabricmanager": [f"{B}-1", "570.195.03-1"],
        },
        "installed": {"nvidia-fabricmanager": f"{A}-1"},
        "index": True,
    }
    expected = {"key": "580", "known": True, "versions": [A, B], "installed": ""}
    assert make_offer("580", PARTS, 580, found) == expected


def test_new_host_gets_the_newest_version_available_for_all_packages() -> None:
    hardware, system = site_catalogue({})["dgx_h100"], {"distribution": "Debian", "major": "12", "container": True}
    names = driver_plan("gpu1", hardware, {"source": "nvidia"}, system)["names"]
    available = {name: [f"{B}-1", f"{C}-1"] for name in names} | {"nvidia-fabricmanager": [f"{B}-1"]}
    found = {"available": available, "installed": {}, "index": True, "gpus": 8, "loaded": "", "kernel_release": "6.1"}
    made = driver_plan("gpu1", hardware, {"source": "nvidia"}, system, found)
    assert (made["version"], made["problems"]) == (B, [])


@pytest.mark.parametrize(
    ("offers", "given", "version"),
    [
        # The newest version available to all hosts, not only to the first.
        ([offer(A, B, C), offer(A, B)], {}, B),
        # The locked version is kept regardless of newer or installed versions.
        ([offer(A, B, C, installed=C)], {"locked": {"580": A}}, A),
        ([offer(A, B, C), offer(A, B)], {"locked": {"580": A}, "upgrade": True}, B),
        # A cluster without a lock file: the version of most nodes, so that few nodes change.
        ([offer(A, B, C, installed=A), offer(A, B, C, installed=A), offer(A, B, C, installed=C)], {}, A),
        ([offer(A, B, C, installed=A), offer(B, C)], {}, C),
        # A new node, with other nodes outside of this run.
        ([offer(A, B, C)], {"elsewhere": {"known": True, "installed": A}}, A),
        ([offer(A, B, C)], {"elsewhere": {"known": True, "installed": ""}}, C),
        # In check mode a fresh host has no package index and imposes no limit.
        ([offer(A, B), offer(known=False)], {}, B),
    ],
)
def test_cluster_version_is_chosen(offers: list[Offer], given: dict[str, Any], version: str) -> None:
    made = chosen(*offers, **given)
    assert (made["versions"], made["problems"]) == ({"580": version}, [])
    assert made["renewed"] is (version != given.get("locked", {}).get("580"))


def test_version_is_not_locked_if_other_nodes_are_unknown() -> None:
    made = chosen(offer(A, B), elsewhere={"known": False, "installed": ""})
    assert (made["versions"], made["renewed"]) == ({"580": B}, False)


def test_lock_has_a_line_per_branch_and_distribution_source() -> None:
    made = chosen(offer(A), offer("535.261.03", key="debian12-535"), locked={"570": "570.195.03"})
    assert made["versions"] == {"570": "570.195.03", "580": A, "debian12-535": "535.261.03"}
    assert lock_key("nvidia", "Ubuntu", "24", 580) == lock_key("nvidia", "Debian", "12", 580) == "580"
    assert lock_key("distribution", "Debian", "12", 535) == "debian12-535"


def test_hosts_without_a_common_version_are_reported_by_name() -> None:
    made = chosen(offer(A, B), offer(C))
    (problem,) = made["problems"]
    assert problem["hosts"] == ["gpu1", "gpu2"]
    assert problem["problem"] == f"no version of 580 is available to all 2 hosts; gpu2 has {C}"
    assert (made["versions"], made["renewed"]) == ({}, False)
    (problem,) = chosen(offer(A), offer())["problems"]
    assert problem["problem"].endswith("gpu2 has no version common to all packages")


def test_lock_file_explains_how_to_change_it_and_is_read_back() -> None:
    text = lock_text({"580": B})
    assert text.endswith(f'\n"580": "{B}"\n')
    assert "-e nvidia_driver_upgrade=true" in text
    assert parse_lock({580: B}, PATH) == {"580": B}
    assert parse_lock(None, PATH) == {}


@pytest.mark.parametrize("values", [["580"], "580.95.05", {"580": "newest"}, {"580": 580}, {"580": None}])
def test_damaged_lock_file_is_named(values: object) -> None:
    with pytest.raises(ValueError, match=rf'^{PATH}: .*: not a valid version: write "580": "580\.95\.05", or move'):
        parse_lock(values, PATH)


def test_locked_version_missing_in_the_repository_is_reported_with_the_remedy() -> None:
    hardware, system = site_catalogue({})["l40s"], {"distribution": "Debian", "major": "12", "container": True}
    names = driver_plan("gpu1", hardware, {"source": "nvidia"}, system)["names"]
    available = {name: [f"{C}-1"] for name in names}
    found = {"available": available, "installed": {}, "index": True, "gpus": 8, "loaded": "", "kernel_release": "6.1"}
    settings = {"source": "nvidia", "locked": B}
    problems = driver_plan("gpu1", hardware, settings, system, found)["problems"]
    assert f"{B} is not available" in problems[0]["problem"]
    assert "-e nvidia_driver_upgrade=true" in problems[0]["remedy"]


def test_unreachable_el_repositories_are_an_error() -> None:
    hardware, system = site_catalogue({})["l40s"], {"distribution": "Rocky", "major": "9", "container": True}
    found = {"available": {}, "installed": {}, "index": False, "gpus": 8, "loaded": "", "kernel_release": "5.14"}
    (problem,) = driver_plan("gpu1", hardware, {"source": "nvidia"}, system, found)["problems"]
    assert problem["problem"].startswith("the host's repositories could not be queried")
    for settings in ({"version": B}, {"check_mode": True}):
        assert driver_plan("gpu1", hardware, {"source": "nvidia", **settings}, system, found)["problems"] == []
