"""Tests of a host's hardware profile, and of errors about unknown names and invalid entries."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.catalogue.builtin_profiles import (
    profile_names,
    shipped_profile,
)
from templates import settings, worked_out

pytestmark = pytest.mark.slow
TOP = Path(__file__).resolve().parents[4]
LOOKUP = "lookup('busbar.cluster.hardware', hardware | default('')"
VARIABLES = {
    (path.parts[-3], name): value
    for path in sorted([*TOP.glob("roles/*/defaults/main.yml"), *TOP.glob("roles/*/vars/main.yml")])
    for name, value in yaml.safe_load(path.read_text()).items()
    # The preflight reports all unknown names itself.
    if LOOKUP in str(value) and path.parts[-3] != "preflight"
}
# Roles with the variables that enable them.
ROLES: dict[str, dict[str, Any]] = {role: {} for role, _ in VARIABLES} | {
    "enroot": {"enroot_enabled": True},
    "slurm": {"slurm_components": ["compute"]},
    "examples": {"examples_enabled": True},
    "prometheus": {},
}


def asked(term: str = "hardware | default('')", **variables: object) -> Any:  # noqa: ANN401
    return worked_out(f"{{{{ lookup('busbar.cluster.hardware', {term}) }}}}", **variables)


def test_profile_of_the_host_is_returned() -> None:
    shipped = shipped_profile("dgx_h100")
    assert asked(hardware="dgx_h100") == {**shipped, "gpu": {**shipped["gpu"], "generation": "hopper"}}
    assert asked("'l40s'", hardware="dgx_h100")["description"] == shipped_profile("l40s")["description"]


@pytest.mark.parametrize("variables", [{}, {"hardware": ""}, {"hardware": None}])
def test_host_without_hardware_has_an_empty_profile(variables: dict[str, Any]) -> None:
    assert asked(**variables) == {}


def test_site_entries_are_merged_over_the_profiles() -> None:
    own = {**shipped_profile("l40s"), "sockets": 1}
    own["gpu"] = {**own["gpu"], "generation": "ada"}
    extra = {"l40s": {"gpu": {"count": "{{ eight }}"}}, "own": own}
    variables: dict[str, Any] = {"eight": 8, "hardware_profiles_extra": extra}
    assert asked("'l40s'", **variables)["gpu"] == {**shipped_profile("l40s")["gpu"], "count": 8, "generation": "ada"}
    assert asked("'own'", **variables) == own
    everything = asked("", **variables)
    assert set(everything) == {*profile_names(), "own"}
    assert everything["l40s"]["gpu"]["count"] == 8


@pytest.mark.parametrize("term", ["'l40s'", ""])
@pytest.mark.parametrize(
    ("extra", "words"),
    [
        (
            {"l40s": {"gpu": {"nvlnk_gbs": 1}}},
            "gpu7: hardware_profiles_extra: hardware l40s: gpu.nvlnk_gbs: unknown key (did you mean nvlink_gbs?)",
        ),
        ({"l40s": {"busbw": {"inter_node": {"floor_gbs": 26}}}}, "floor 26 is above limit 25"),
        ({"l40s": None}, "hardware l40s: profile: None is not a dictionary"),
        (["l40s"], "gpu7: hardware_profiles_extra: is not a dictionary of profiles by name"),
    ],
)
def test_invalid_site_entry_is_refused(term: str, extra: object, words: str) -> None:
    with pytest.raises(LookupError) as caught:
        asked(term, hardware_profiles_extra=extra)
    assert words in str(caught.value)


def test_check_false_returns_invalid_entries_unchanged() -> None:
    extra = {"l40s": {"gpu": {"nvlnk_gbs": 1}}}
    found = asked("check=false", hardware_profiles_extra=extra)
    assert found["l40s"]["gpu"]["nvlnk_gbs"] == 1


def test_invalid_entry_stops_only_hosts_that_use_it() -> None:
    assert asked(hardware="dgx_h100", hardware_profiles_extra={"l40s": None}) == asked(hardware="dgx_h100")


@pytest.mark.parametrize(
    ("hardware", "words"),
    [
        ("dgx_h10", "gpu7: hardware: unknown hardware 'dgx_h10' (did you mean dgx_h100 or "),
        ("DGX-H100", "gpu7: hardware: unknown hardware 'DGX-H100' (did you mean dgx_h100 or "),
        ("abacus", "gpu7: hardware: unknown hardware 'abacus'. Remedy: set hardware to one of: c4140_v100, dgx1, "),
        ("abacus", "rtx_pro_6000, rudra_a100_pcie, sandbox_gpu, small; or describe it in hardware_profiles_extra."),
        ("../profiles/l40s", "unknown hardware '../profiles/l40s'"),
        (4090, "gpu7: hardware: 4090 is not a profile name"),
        (["l40s"], "gpu7: hardware: ['l40s'] is not a profile name"),
    ],
)
def test_unknown_hardware_name_is_refused(hardware: object, words: str) -> None:
    with pytest.raises(LookupError) as caught:
        asked(hardware=hardware, hardware_profiles_extra={"small": {}})
    assert words in str(caught.value)


def test_given_catalogue_is_searched_exclusively() -> None:
    own = {"abacus": {"sockets": 1}}
    assert asked("'abacus', catalogue=own", own=own) == {"sockets": 1}
    with pytest.raises(LookupError) as caught:
        asked("'l40s', catalogue=own", own=own)
    assert "gpu7: unknown hardware 'l40s'. Remedy: set hardware to one of: abacus; " in str(caught.value)


def test_all_roles_that_use_the_hardware_are_covered() -> None:
    roles = {role for role, _ in VARIABLES}
    assert roles >= {"cuda", "dcgm", "enroot", "gpu_settings", "gpudirect", "mig", "node_exporter"}
    assert roles >= {"nvidia_container_toolkit", "nvidia_driver", "rdma", "slurm"}


@pytest.mark.parametrize(("role", "variable"), [key for key in VARIABLES if key[0] != "slurm"])
def test_hardware_variable_refuses_an_unknown_name(role: str, variable: str) -> None:
    text = VARIABLES[role, variable]
    assert not worked_out(text)
    assert worked_out(text, hardware="dgx_h100")
    with pytest.raises(LookupError) as caught:
        worked_out(text, hardware="dgx_h10")
    assert "gpu7: hardware: unknown hardware 'dgx_h10'" in str(caught.value)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"hardware": "dgx_h10"}, "hardware: unknown hardware 'dgx_h10'"),
        (
            {"hardware": "dgx_h100", "hardware_profiles_extra": {"dgx_h100": {"memory_gb": 2000}}},
            "hardware_profiles_extra: hardware dgx_h100: memory_gb: unknown key",
        ),
    ],
)
def test_each_role_alone_refuses_invalid_hardware_before_any_change(
    tmp_path: Path, wrong: dict[str, Any], words: str
) -> None:
    """Each host runs one role; only its inclusion and the validation of its arguments may succeed."""
    inventory, playbook = tmp_path / "hosts.yml", tmp_path / "play.yml"
    hosts = {
        f"host_{role}": {"ansible_connection": "local", **wrong, "role": role, **variables}
        for role, variables in ROLES.items()
        # Prometheus reads all profiles.
        if role != "prometheus" or "hardware_profiles_extra" in wrong
    }
    groups = {"slurm_controller": {"hosts": {"ctl": None}}, "slurm_compute": {"hosts": hosts}}
    inventory.write_text(json.dumps(groups))
    task = {"name": "Run the role", "include_role": {"name": "busbar.cluster.{{ role }}"}}
    playbook.write_text(json.dumps([{"hosts": "slurm_compute", "gather_facts": False, "tasks": [task]}]))
    done = played(inventory, playbook=playbook)
    assert done.returncode == 2, done.stdout + done.stderr
    said = " ".join(done.stdout.replace("''", "'").split())
    for host in hosts:
        assert f"{host}: {words}" in said, done.stdout
        recap = re.search(rf"^{host} +: ok=(\d+) +changed=0 +unreachable=0 +failed=1 ", done.stdout, re.MULTILINE)
        assert recap, done.stdout
        assert int(recap[1]) <= 2, done.stdout


def played(
    inventory: Path, *more: str, playbook: Path = TOP / "playbooks/nvidia.yml"
) -> subprocess.CompletedProcess[str]:
    """Run a playbook in check mode, like a user of the collection without group_vars."""
    command = ["ansible-playbook", "-i", str(inventory), str(playbook), "--check", *more]
    return subprocess.run(command, check=False, capture_output=True, text=True, cwd=TOP, env=settings())
