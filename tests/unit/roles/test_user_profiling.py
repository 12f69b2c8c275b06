"""Tests of user_profiling, which lets users profile: its settings on each host, and explicit settings of the site."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template
from busbar.paths import collection

ROLES = collection() / "roles"
GROUPS = {"slurm_controller": ["ctl"], "slurm_login": ["login"], "slurm_compute": ["gpu1"]}
OPEN = {"kernel.perf_event_paranoid": 1, "kernel.kptr_restrict": 0}


def value(role: str, name: str, host: str = "gpu1", system: str = "Debian", **given: object) -> Any:  # noqa: ANN401 - any variable
    """Return a variable of a role on a host of a site as Ansible evaluates it."""
    files = [
        ROLES / "site/defaults/main.yml",
        ROLES / role / "defaults/main.yml",
        ROLES / role / f"vars/{'RedHat' if system == 'Rocky' else 'Debian'}.yml",
        ROLES / role / "vars/main.yml",
    ]
    facts = {"distribution": system, "kernel": "6.8.0-124-generic", "virtualization_tech_guest": []}
    found: dict[str, Any] = {"groups": GROUPS, "inventory_hostname": host, "ansible_facts": facts}
    for path in files:
        found |= yaml.safe_load(path.read_text(encoding="utf-8")) if path.exists() else {}
    found |= given
    texts = {key: trust_as_template(text) for key, text in found.items() if isinstance(text, str)}
    asked = found[name]
    return Templar(loader=DataLoader(), variables={**found, **texts}).template(
        trust_as_template(asked) if isinstance(asked, str) else asked
    )


def test_profiling_is_disabled_by_default() -> None:
    assert not set(OPEN) & set(value("hosts", "__hosts_sysctl"))
    assert value("hosts", "__hosts_profiling") is False


@pytest.mark.parametrize(("host", "opened"), [("gpu1", True), ("login", False), ("ctl", False)])
def test_profiling_is_enabled_only_on_compute_nodes(host: str, opened: bool) -> None:  # noqa: FBT001 - a row of the table
    sysctl = value("hosts", "__hosts_sysctl", host, user_profiling=True)
    assert OPEN.items() <= sysctl.items() if opened else not set(OPEN) & set(sysctl)
    assert "vm.max_map_count" in sysctl


def test_explicit_setting_of_the_site_is_kept() -> None:
    given: dict[str, Any] = {"user_profiling": True, "hosts_sysctl": {"kernel.perf_event_paranoid": -1}}
    assert value("hosts", "__hosts_sysctl", **given) == {"kernel.perf_event_paranoid": -1, "kernel.kptr_restrict": 0}


@pytest.mark.parametrize(
    ("system", "packages"),
    [
        ("Debian", ["linux-perf"]),
        ("Ubuntu", ["linux-tools-common", "linux-tools-6.8.0-124-generic"]),
        ("Rocky", ["perf"]),
    ],
)
def test_package_of_perf(system: str, packages: list[str]) -> None:
    assert value("hosts", "__hosts_perf_packages", system=system) == packages


def restricted(**given: object) -> Any:  # noqa: ANN401 - any variable
    """Return the module parameters of the driver."""
    declared = yaml.safe_load((ROLES / "nvidia_driver/vars/main.yml").read_text(encoding="utf-8"))
    asked = declared["__nvidia_driver_settings"]["module_parameters"]
    variables = {"user_profiling": False, "nvidia_driver_module_parameters": {}, **given}
    return Templar(loader=DataLoader(), variables=variables).template(trust_as_template(asked))


def test_driver_permits_users_to_read_counters() -> None:
    assert restricted() == {}
    opened = {"nvidia": {"NVreg_RestrictProfilingToAdminUsers": 0}}
    assert restricted(user_profiling=True) == opened
    own = {"nvidia": {"NVreg_NvLinkDisable": 1}, "nvidia-uvm": {"uvm_x": 1}}
    merged = restricted(user_profiling=True, nvidia_driver_module_parameters=own)
    assert merged == {"nvidia": {**opened["nvidia"], **own["nvidia"]}, "nvidia-uvm": {"uvm_x": 1}}
    kept = {"nvidia": {"NVreg_RestrictProfilingToAdminUsers": 1}}
    assert restricted(user_profiling=True, nvidia_driver_module_parameters=kept) == kept
