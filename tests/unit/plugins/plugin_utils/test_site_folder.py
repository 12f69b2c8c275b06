"""Tests that the command line and Ansible use the same site folder."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template
from ansible_collections.busbar.cluster.plugins.plugin_utils.run_lock import lock_paths
from ansible_collections.busbar.cluster.plugins.plugin_utils.site_folder import is_read_whole, site_folder

ROLE = Path(__file__).resolve().parents[4] / "roles" / "site"


def of_ansible(inventory_dir: Path) -> str:
    variables = {"inventory_dir": str(inventory_dir)}
    for kind in ("vars", "defaults"):
        texts = yaml.safe_load((ROLE / kind / "main.yml").read_text())
        variables |= {name: trust_as_template(text) for name, text in texts.items() if isinstance(text, str)}
    return str(Templar(loader=DataLoader(), variables=variables).template(variables["cluster_dir"]))


@pytest.mark.parametrize(("folder", "site"), [("hall", "hall"), ("hall/inventory", "hall"), ("all/hall", "all/hall")])
def test_command_line_and_ansible_use_the_same_folder(tmp_path: Path, folder: str, site: str) -> None:
    inventory = tmp_path / folder
    inventory.mkdir(parents=True)
    (inventory / "hosts.yml").write_text("all: {}\n")
    assert site_folder(inventory) == site_folder(inventory / "hosts.yml") == tmp_path / site
    assert of_ansible(inventory) == str(tmp_path / site)
    (lock,) = lock_paths([str(inventory / "hosts.yml")])
    assert lock.parent == tmp_path / site


def test_inventory_directory_is_read_completely_by_ansible(tmp_path: Path) -> None:
    for name in ("inventory", "prod"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "hosts.yml").write_text("all: {}\n")
    assert is_read_whole(tmp_path / "prod")
    assert not is_read_whole(tmp_path / "prod" / "hosts.yml")
    assert not is_read_whole(tmp_path / "inventory")
    (lock,) = lock_paths([str(tmp_path / "prod")])
    assert lock.name.startswith("."), "Ansible reads no hidden file"
