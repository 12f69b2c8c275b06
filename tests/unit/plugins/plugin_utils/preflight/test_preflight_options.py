"""Tests of unknown options and values of the wrong type, with place and remedy."""

from __future__ import annotations

import re
from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.common.problems import is_advice
from ansible_collections.busbar.cluster.plugins.plugin_utils.preflight import other_toolkits
from ansible_collections.busbar.cluster.plugins.plugin_utils.preflight.groups import KNOWN_GROUPS
from ansible_collections.busbar.cluster.plugins.plugin_utils.preflight.options import (
    Option,
    Setting,
    former_problems,
    type_problems,
    unknown_problems,
)
from ansible_collections.busbar.cluster.plugins.plugin_utils.preflight.removed_options import REMOVED
from ansible_collections.busbar.cluster.plugins.plugin_utils.site_variables import SITE_VARIABLES, declared_options

KNOWN = ("slurm_partitions", "slurm_port", "munge_key", "hardware_profiles_extra")
FAMILIES = ("slurm", "munge", "hardware")
SPECS: dict[str, dict[str, Any]] = {
    "slurm_partitions": {"type": "list", "elements": "dict", "options": {"name": {"type": "str", "required": True}}},
    "slurm_config": {"type": "dict"},
    "slurm_port": {"type": "int"},
    "slurm_name": {"type": "str"},
    "slurm_stages": {"type": "list", "elements": "str", "choices": ["node", "pair"]},
    "slurm_enabled": {"type": "bool"},
    "slurm_any": {"type": "raw"},
}
OPTIONS = {name: Option("slurm", spec) for name, spec in SPECS.items()}


def _unknown(*settings: Setting, allowed: tuple[str, ...] = ()) -> list[Any]:
    return unknown_problems(settings, KNOWN, FAMILIES, allowed)


def test_misspelt_option_is_reported_with_the_nearest_name_and_its_place() -> None:
    (found,) = _unknown(Setting("slurm_partition", [], "group gpu", place="inventory/group_vars/gpu.yml:3"))
    assert (found["key"], found["hosts"]) == ("slurm_partition", [])
    assert "set for group gpu in inventory/group_vars/gpu.yml:3" in found["problem"]
    assert "did you mean slurm_partitions?" in found["remedy"]
    assert "preflight_allowed_variables" in found["remedy"]


def test_one_name_on_many_hosts_is_one_problem() -> None:
    hosts = [f"gpu{number}" for number in range(1, 7)]
    (found,) = _unknown(*(Setting("munge_keys", "x", f"host {host}", host) for host in hosts))
    assert found["hosts"] == hosts
    assert "and 3 more" in found["problem"]


@pytest.mark.parametrize(
    "name", ["slurm_port", "slurm", "slurmdb_host", "site_slurm_port", "__slurm_own", "ansible_host", "ansible_user"]
)
def test_options_and_names_with_other_prefixes_are_accepted(name: str) -> None:
    assert _unknown(Setting(name, 1, "group all")) == []


def test_site_can_allow_its_own_names() -> None:
    setting = Setting("hardware_room", "B12", "group all")
    assert len(_unknown(setting)) == 1
    assert _unknown(setting, allowed=("hardware_room",)) == []
    (given,) = _unknown(Setting("slurm_x_y_z_far_away", 1, "-e"))
    assert "given by -e" in given["problem"]
    assert "did you mean" not in given["remedy"]


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("slurm_partitions", {"name": "a"}, "is a mapping (expected a list of mappings)"),
        ("slurm_partitions", "batch", "is text (expected a list of mappings"),
        ("slurm_partitions", ["batch"], "has an entry that is text (expected a list of mappings)"),
        ("slurm_config", ["a"], "is a list (expected a mapping"),
        ("slurm_port", "many", "is text (expected an integer"),
        ("slurm_name", ["a"], "is a list (expected text"),
        ("slurm_enabled", "perhaps", "is text (expected a truth value"),
        ("slurm_stages", ["node", "rack"], "must be one of: node, pair"),
        ("slurm_stages", "node,pair", "is text (expected a list of texts"),
    ],
)
def test_wrong_type_is_reported_under_the_option_of_the_user(name: str, value: object, words: str) -> None:
    (found,) = type_problems([Setting(name, value, "host ctl", "ctl", "hosts.yml:4")], OPTIONS)
    assert (found["key"], found["hosts"]) == (name, ["ctl"])
    assert words in found["problem"]
    assert "hosts.yml:4" in found["problem"]
    assert found["remedy"] == "see the options in roles/slurm/README.md"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("slurm_partitions", [{"name": "a"}]),
        ("slurm_partitions", "{{ site_partitions }}"),
        ("slurm_partitions", [{"name": "{{ which }}"}]),
        ("slurm_partitions", None),
        ("slurm_config", {}),
        ("slurm_port", "6817"),
        ("slurm_enabled", "yes"),
        ("slurm_any", ["a", {"b": 1}]),
        ("other", object()),
    ],
)
def test_values_accepted_by_ansible_are_accepted(name: str, value: object) -> None:
    assert type_problems([Setting(name, value, "group all")], OPTIONS) == []


def test_list_can_be_text_only_if_the_role_splits_it() -> None:
    stages = {"validation_stages": Option("validation", SPECS["slurm_stages"])}
    assert type_problems([Setting("validation_stages", "node,pair", "-e")], stages) == []
    (found,) = type_problems([Setting("slurm_stages", "node,pair", "-e")], OPTIONS)
    assert "given by -e" in found["problem"]


def test_value_is_not_shown_or_changed() -> None:
    value = ["s3cret", {"name": "a"}]
    (found,) = type_problems([Setting("slurm_partitions", value, "group all")], OPTIONS)
    assert "s3cret" not in found["problem"] + found["remedy"]
    assert value == ["s3cret", {"name": "a"}]


@pytest.mark.parametrize(
    ("former", "present"),
    [
        ("nccl_validation_floor_gbs", "validation_floor_gbs"),
        ("nccl_validation_time_limit", "validation_test_time_limit"),
        ("nccl_validation_total_limit", "validation_time_limit"),
        ("slurm_health_check", "node_health_check"),
        ("slurm_health_check_paths", "node_health_paths"),
        ("tls_own_files", "tls_custom_certificate"),
        ("tls_reached_by", "tls_subject_alt_names"),
        ("alertmanager_own_routes", "alertmanager_extra_routes"),
        ("node_exporter_facts", "node_exporter_extra_metrics"),
    ],
)
def test_former_name_of_an_option_is_reported_with_the_current_one(former: str, present: str) -> None:
    settings = [Setting(former, 1, "host gpu1", "gpu1"), Setting(present, 1, "-e")]
    (found,) = former_problems(settings, declared_options())
    assert (found["hosts"], found["key"]) == (["gpu1"], former)
    assert found["problem"] == f"is now called {present} (set for host gpu1)"
    assert found["remedy"] == f"set {present} instead"
    assert unknown_problems(settings, [present], FAMILIES, []) == []


@pytest.mark.parametrize("name", [*REMOVED, "nccl_validation_storage_user", "slurm_health_check_states_of_old"])
def test_removed_option_is_reported(name: str) -> None:
    setting = Setting(name, 1, "group all", place="inventory/group_vars/all/a.yml:3")
    (found,) = former_problems([setting], declared_options())
    assert found["key"] == name
    assert "was removed (set for group all in inventory/group_vars/all/a.yml:3)" in found["problem"]
    assert found["remedy"].startswith("delete the line")
    assert "did you mean" not in found["remedy"]
    assert unknown_problems([setting], [*declared_options()], FAMILIES, []) == []


def test_existing_option_is_not_listed_as_removed() -> None:
    assert not REMOVED.keys() & declared_options().keys()


def test_replacement_of_a_removed_option_exists() -> None:
    known = {*declared_options(), *SITE_VARIABLES}
    named = {name for remedy in REMOVED.values() for name in re.findall(r"\b(?:set|and|or) ([a-z]+_\w+)", remedy)}
    assert "node_exporter_textfile_dir" in named
    assert named - known == set()


@pytest.mark.parametrize(
    ("name", "toolkit", "ours"),
    [
        ("slurm_autodetect_nvml", "DeepOps", "slurm_gres_mode"),
        ("slurm_health_check_program", "DeepOps", "node_health_check"),
        ("slurm_install_prefix", "DeepOps", "delete it"),
        ("slurm_nfs_path", "oci-hpc", "slurm_state_directory"),
    ],
)
def test_variable_of_another_toolkit_is_reported_as_such(name: str, toolkit: str, ours: str) -> None:
    (found,) = _unknown(Setting(name, 1, "host gpu1", "gpu1", "hosts.yml:9"))
    assert (found["hosts"], found["key"], is_advice(found)) == (["gpu1"], name, False)
    assert toolkit in found["problem"]
    assert "hosts.yml:9" in found["problem"]
    assert ours in found["remedy"]
    assert "did you mean" not in found["remedy"]


@pytest.mark.parametrize("name", ["users", "nfs_exports", "openhpc_partitions", "appliances_mode"])
def test_variable_that_a_site_may_use_is_only_shown(name: str) -> None:
    (found,) = _unknown(Setting(name, 1, "group all"))
    assert is_advice(found)
    assert found["key"] == name
    assert _unknown(Setting(name, 1, "group all"), allowed=(name,)) == []


@pytest.mark.parametrize(
    ("name", "meant"), [("mung_key", "munge_key"), ("slrum_port", "slurm_port"), ("ansible_hosts", "ansible_host")]
)
def test_misspelt_role_prefix_is_refused(name: str, meant: str) -> None:
    (found,) = _unknown(Setting(name, 1, "group all", place="hosts.yml:2"))
    assert (found["key"], is_advice(found)) == (name, False)
    assert f"did you mean {meant}?" in found["remedy"]
    assert "hosts.yml:2" in found["problem"]


USERS = Option(
    "users",
    {
        "type": "list",
        "elements": "dict",
        "options": {
            "name": {"type": "str", "required": True},
            "uid": {"type": "int"},
            "state": {"type": "str", "choices": ["present", "absent"]},
            "keys": {"type": "list", "elements": "str"},
            "home": {"type": "dict", "options": {"quota_gib": {"type": "int"}}},
        },
    },
)


def test_all_entries_with_wrong_keys_or_values_are_reported_at_once() -> None:
    value = [
        {"name": "alice", "uid": "many", "kyes": []},
        {"uid": 3, "state": "gone"},
        {"name": "bob", "uid": "2001", "keys": {"a": 1}, "home": {"quota_gib": "x", "quota": 1}},
        {"name": "erin", "keys": "ssh-ed25519 AAAA erin"},
        {"name": "carol", "uid": "{{ number }}", "keys": ["{{ lookup('file', 'x') }}"], "state": None},
        "{{ more }}",
        "dave",
    ]
    found = type_problems([Setting("users", value, "group all", place="a.yml:1")], {"users": USERS})
    assert [each["key"] for each in found] == [
        "users",
        "users[alice].uid",
        "users[alice].kyes",
        "users[1].state",
        "users[1]",
        "users[bob].keys",
        "users[bob].home.quota_gib",
        "users[bob].home.quota",
        "users[erin].keys",
    ]
    assert all("a.yml:1" in each["problem"] for each in found)
    assert "has an entry that is text" in found[0]["problem"]
    assert "did you mean keys?" in found[2]["remedy"]
    assert "must be one of: present, absent" in found[3]["problem"]
    assert "lacks name" in found[4]["problem"]
    assert "is text (expected a list of texts)" in found[8]["problem"]


class _Uncopied(dict[str, Any]):
    """A stand-in for an unevaluated Ansible value, whose copy includes all variables and takes seconds."""

    def __deepcopy__(self, memo: object) -> dict[str, Any]:
        message = "copied"
        raise AssertionError(message)


@pytest.mark.parametrize(
    ("name", "value"), [("slurm_partitions", [_Uncopied(name="all")]), ("slurm_config", _Uncopied(MaxJobCount=9))]
)
def test_entries_are_not_copied(name: str, value: object) -> None:
    assert type_problems([Setting(name, value, "group all")], OPTIONS) == []
    (found,) = type_problems([Setting("slurm_port", value, "group all")], OPTIONS)
    assert "(expected an integer)" in found["problem"]


def test_replacement_of_a_variable_of_another_toolkit_exists() -> None:
    known = {*declared_options(), *SITE_VARIABLES, *KNOWN_GROUPS, "ansible_user"}
    for names in other_toolkits._VARIABLES.values():  # noqa: SLF001 - a table
        for name, ours in names.items():
            assert name not in known
            assert set(re.findall(r"[a-z]+_[a-z_]+", ours)) <= known, name
