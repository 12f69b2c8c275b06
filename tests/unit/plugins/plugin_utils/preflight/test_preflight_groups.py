"""Tests of unknown groups with suggestions, and of hosts without a group."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.common.problems import Problem, is_advice
from ansible_collections.busbar.cluster.plugins.plugin_utils.preflight.groups import (
    KNOWN_GROUPS,
    group_problems,
    limit_problems,
)

TOP = Path(__file__).resolve().parents[5]
SOUND = {
    "all": ["ctl", "gpu1", "gpu2"],
    "ungrouped": [],
    "slurm_controller": ["ctl"],
    "slurm_database": ["ctl"],
    "slurm_compute": ["gpu1", "gpu2"],
    "dgx_h100": ["gpu1", "gpu2"],
    "rack1": ["gpu1"],
    "empty": [],
}


def _refused(groups: dict[str, list[str]], *allowed: str) -> list[Problem]:
    return [each for each in group_problems({**SOUND, **groups}, allowed) if not is_advice(each)]


def test_groups_of_the_site_are_accepted() -> None:
    assert group_problems(SOUND) == []
    assert group_problems({**SOUND, "busbar_new_nodes": ["gpu2"]}) == []


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("monitorng", "monitoring"),
        ("monitorings", "monitoring"),
        ("nfs_servers", "nfs_server"),
        ("nfs-server", "nfs_server"),
        ("slurm_logins", "slurm_login"),
        ("Slurm_Login", "slurm_login"),
        ("slurm_computes", "slurm_compute"),
        ("portals", "portal"),
        ("sclurm_databse", "slurm_database"),
        ("slurm_db", "slurm_database"),
        ("server_nfs", "nfs_server"),
    ],
)
def test_misspelt_group_is_refused_with_a_suggestion(written: str, meant: str) -> None:
    (found,) = _refused({written: ["ctl", "login1"], "all": [*SOUND["all"], "login1"]})
    assert "login1" in found["hosts"]
    assert found["key"] == f"group {written}"
    assert f"did you mean {meant}?" in found["remedy"]
    assert "preflight_allowed_variables" in found["remedy"]
    assert _refused({written: ["ctl"]}, written) == []


def test_similar_group_with_hosts_of_the_known_group_is_accepted() -> None:
    assert group_problems({**SOUND, "slurm_compute2": ["gpu2"], "compute": ["gpu1", "gpu2"], "head": ["ctl"]}) == []


@pytest.mark.parametrize(
    ("written", "toolkit", "meant"),
    [
        ("slurm-master", "DeepOps", "slurm_controller and slurm_database"),
        ("slurm-node", "DeepOps", "slurm_compute"),
        ("slurm-metric", "DeepOps", "monitoring"),
        ("slurm_control_node", "Omnia", "slurm_controller and slurm_database"),
        ("openondemand", "ansible-slurm-appliance", "portal"),
        ("openhpc", "ansible-slurm-appliance", "slurm_controller and slurm_compute and slurm_login"),
        ("compute_to_add", "oci-hpc", "slurm_compute"),
        ("slurmexechosts", "galaxyproject.slurm", "slurm_compute"),
    ],
)
def test_group_of_another_toolkit_is_refused_with_the_busbar_group(written: str, toolkit: str, meant: str) -> None:
    (found,) = _refused({written: ["other"], "all": [*SOUND["all"], "other"]})
    assert (found["hosts"], found["key"]) == (["other"], f"group {written}")
    assert toolkit in found["problem"]
    assert f"add its hosts to {meant}" in found["remedy"]
    assert ("busbar adopt deepops" in found["remedy"]) == (toolkit in {"DeepOps", "ansible-slurm-appliance"})


def test_common_group_name_is_refused_only_if_no_other_group_has_its_role() -> None:
    groups = {"login": ["front"], "all": [*SOUND["all"], "front"]}
    (found,) = _refused(groups)
    assert (found["hosts"], found["key"]) == (["front"], "group login")
    assert "add its hosts to slurm_login of busbar" in found["remedy"]
    groups["slurm_login"] = ["ctl"]
    assert _refused(groups) == []
    (shown,) = group_problems({**SOUND, **groups})
    assert (shown["key"], is_advice(shown)) == ("group login", True)


def test_inventory_without_a_busbar_group_is_refused_with_the_list() -> None:
    (found,) = group_problems({"all": ["a", "b"], "ungrouped": ["a"], "gpus": ["b"]})
    assert not is_advice(found)
    assert "gpus" in found["problem"]
    assert all(name in found["remedy"] for name in KNOWN_GROUPS)
    assert group_problems({"all": [], "ungrouped": []}) == []
    deepops = {"all": ["m", "n"], "slurm-master": ["m"], "slurm-node": ["n"], "slurm-cluster": ["m", "n"]}
    assert [each["key"] for each in group_problems(deepops)] == ["group slurm-master", "group slurm-node", "inventory"]


def test_host_without_a_busbar_group_is_shown() -> None:
    (shown,) = group_problems({**SOUND, "all": [*SOUND["all"], "pdu1", "localhost"]})
    assert (shown["hosts"], is_advice(shown)) == (["pdu1"], True)
    assert "slurm_compute" in shown["remedy"]


def test_misspelt_child_group_is_refused_with_the_affected_hosts() -> None:
    groups = {"all": [*SOUND["all"], "gpu3"], "l40s": ["gpu3"], "l4os": []}
    (found,) = _refused(groups)
    assert (found["hosts"], found["key"]) == (["gpu3"], "group l4os")
    assert "did you mean l40s?" in found["remedy"]


def test_all_groups_of_the_playbooks_are_known() -> None:
    files = [*TOP.glob("playbooks/**/*.yml"), *TOP.glob("roles/*/*/*.yml")]
    text = "".join(path.read_text() for path in files)
    assert [name for name in KNOWN_GROUPS if name not in text] == []
    assert [name for name in ("portal", "scratch", "pxe_server", "ldap_server") if name not in KNOWN_GROUPS] == []


@pytest.mark.parametrize("limit", ["", "gpu1", "gpu1,slurm_compute", "gpu[1:9]", "all:!gpu1", "gpu*", "~gpu", "@file"])
def test_limit_to_hosts_groups_and_patterns_is_accepted(limit: str) -> None:
    assert limit_problems(limit, SOUND) == []


@pytest.mark.parametrize("limit", ["gpu1:gpu12", "all:!gpu12", "all,!gpu12", "all:&gpu12"])
def test_each_part_of_a_limit_must_exist(limit: str) -> None:
    """If an excluded host were misspelt, the run would change it with the others."""
    (found,) = limit_problems(limit, SOUND)
    assert "gpu12" in found["problem"]


def test_limit_to_a_missing_host_is_refused() -> None:
    first, second = limit_problems("gpu1,gpu12,elsewhere", SOUND)
    assert (first["key"], "gpu12" in first["problem"], "did you mean gpu" in first["remedy"]) == ("--limit", True, True)
    assert "elsewhere" in second["problem"]
    assert "did you mean" not in second["remedy"]
