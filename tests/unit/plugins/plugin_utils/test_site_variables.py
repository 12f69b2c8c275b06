"""Tests of a site's variables and the roles' options, read from files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from ansible.plugins.loader import init_plugin_loader
from ansible_collections.busbar.cluster.plugins.module_utils.common.problems import is_advice
from ansible_collections.busbar.cluster.plugins.plugin_utils.preflight.options import (
    type_problems,
    unknown_problems,
)
from ansible_collections.busbar.cluster.plugins.plugin_utils.site_variables import (
    SITE_VARIABLES,
    declared_options,
    family_names,
    site_settings,
    stray_files,
)

TOP = Path(__file__).resolve().parents[4]
# A variable that a template or a plugin reads although it may be unset.
READ = re.compile(r"(?<![\w.'])([a-z]\w*) *\| *default\(|\.get\(\"([a-z]\w*_\w+)\"|hostvars\[\w+\]\.([a-z]\w*)")
# Variables that one task passes to another.
GIVEN = re.compile(r"^ +([a-z]\w*):", re.MULTILINE)
# Facts that one role sets for another, and keys of entries.
NOT_SET_BY_SITES = {"tls_certificate", "slurm_type", "validation_backend", "backup_snapshot"}


@pytest.fixture(scope="module", autouse=True)
def _plugins_of_variables() -> None:
    init_plugin_loader()


@pytest.fixture(scope="module")
def known() -> set[str]:
    return {*declared_options(), *SITE_VARIABLES}


def test_every_option_of_every_role_is_known() -> None:
    options = declared_options()
    for path in TOP.glob("roles/*/defaults/main.yml"):
        for name in yaml.safe_load(path.read_text()) or {}:
            assert options[name].role == path.parts[-3], name
    assert {path.name for path in TOP.glob("roles/*")} - {"site"} <= set(family_names())


def test_site_variables_read_by_roles_and_plugins_are_known(known: set[str]) -> None:
    """A new site-wide variable must be named in SITE_VARIABLES, or sites that set it are refused."""
    prefixes = tuple(f"{family}_" for family in family_names())
    files = [*TOP.glob("roles/*/*/*.yml"), *TOP.glob("roles/*/templates/**/*.j2"), *TOP.glob("playbooks/**/*.yml")]
    files += [*TOP.glob("group_vars/all/*.yml"), *TOP.glob("plugins/*/*.py")]
    read = {name for path in files for found in READ.findall(path.read_text()) for name in found if name}
    tasks = [*TOP.glob("roles/*/tasks/*.yml"), *TOP.glob("playbooks/**/*.yml")]
    given = {name for path in tasks for name in GIVEN.findall(path.read_text())}
    assert {name for name in read if name.startswith(prefixes)} - known - given - NOT_SET_BY_SITES == set()
    assert not SITE_VARIABLES.keys() & {*declared_options()}, "each stands in one place"


@pytest.mark.parametrize("inventory", ["inventory/hosts.yml", "inventory/examples/lab/hosts.yml"])
def test_shipped_inventories_have_no_problem(inventory: str, known: set[str]) -> None:
    loader = DataLoader()
    sources = [str(TOP / inventory)]
    settings = site_settings(InventoryManager(loader=loader, sources=sources), loader, sources)
    assert len(settings) > 10
    assert unknown_problems(settings, known, family_names(), []) == []
    assert type_problems(settings, declared_options()) == []


def test_group_host_file_and_line_are_reported(tmp_path: Path) -> None:
    (tmp_path / "hosts.yml").write_text("all:\n  hosts:\n    gpu1:\n      munge_keys: a\n")
    (tmp_path / "group_vars").mkdir()
    (tmp_path / "group_vars" / "all.yml").write_text("---\nslurm_partition:\n  - {name: a}\n")
    (tmp_path / "host_vars").mkdir()
    (tmp_path / "host_vars" / "gpu1.yml").write_text("---\nssh_pot: 22\n")
    loader = DataLoader()
    sources = [str(tmp_path / "hosts.yml")]
    found = {each.name: each for each in site_settings(InventoryManager(loader, sources), loader, sources)}
    assert (found["slurm_partition"].scope, found["slurm_partition"].host) == ("group all", "")
    assert found["slurm_partition"].place == f"{tmp_path}/group_vars/all.yml:2"
    assert (found["ssh_pot"].host, found["ssh_pot"].place) == ("gpu1", f"{tmp_path}/host_vars/gpu1.yml:2")
    assert found["munge_keys"].place == f"{tmp_path}/hosts.yml:4"


def test_files_of_missing_groups_and_hosts_are_named(tmp_path: Path) -> None:
    (tmp_path / "hosts.yml").write_text("all: {hosts: {n01.site: , n02: }, children: {dgx_h100: }}\n")
    read = ("group_vars/dgx_h100.yml", "group_vars/all.yml", "host_vars/n01.site", "host_vars/n02.json", "host_vars/.x")
    stray = ("group_vars/slurm_logins.yml", "group_vars/dgx_h10.yml", "group_vars/old", "host_vars/n3.yml")
    for name in (*read, *stray):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("{}\n")
    sources = [str(tmp_path / "hosts.yml"), "n05,"]
    found = {each["key"]: each for each in stray_files(InventoryManager(DataLoader(), sources), sources)}
    assert found.keys() == {*stray}
    assert "did you mean slurm_login?" in found["group_vars/slurm_logins.yml"]["remedy"]
    assert "did you mean dgx_h100?" in found["group_vars/dgx_h10.yml"]["remedy"]
    assert is_advice(found["group_vars/old"])
    assert not is_advice(found["group_vars/dgx_h10.yml"])
