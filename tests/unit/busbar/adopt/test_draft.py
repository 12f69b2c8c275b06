"""Tests of the draft of a site: its files, its report, and encrypted values."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import yaml
from busbar.adopt.draft import ASK, CARRIED, LEFT, Draft, Vaulted
from busbar.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

CIPHER = "$ANSIBLE_VAULT;1.1;AES256\n62313365396662343061\n6134333665353966363534\n"


@pytest.fixture
def draft() -> Draft:
    """Return a small draft."""
    draft = Draft("the files of a test", "lab")
    draft.hosts = {"head": {"ansible_host": "192.0.2.6"}, "ws1": {}, "ws2": {}}
    draft.groups = {"slurm_controller": ["head"], "slurm_compute": ["ws1", "ws2"], "monitoring": []}
    return draft


def _read(path: Path) -> dict[str, object]:
    found: dict[str, object] = yaml.safe_load(path.read_text())
    return found


def test_site_has_hosts_groups_and_options(draft: Draft, tmp_path: Path) -> None:
    draft.carry("chrony_timezone", {"hosts_timezone": "Asia/Tokyo"}, "group_vars/all.yml:8")
    draft.carry("KillWait", {"slurm_config": {"KillWait": 90}})
    draft.carry("TreeWidth", {"slurm_config": {"TreeWidth": 50}})
    draft.group_variables = {"slurm_compute": {"mig_layout": []}}
    paths = draft.write(tmp_path / "out")
    assert all(path.is_file() for path in paths)
    out = tmp_path / "out"
    hosts = _read(out / "inventory/hosts.yml")
    assert hosts["all"]["hosts"] == {"head": {"ansible_host": "192.0.2.6"}, "ws1": None, "ws2": None}  # type: ignore[index]
    assert list(hosts["all"]["children"]) == ["slurm_controller", "slurm_compute"]  # type: ignore[index]
    folder = out / "inventory/group_vars"
    assert _read(folder / "all/cluster.yml") == {"cluster_name": "lab", "hosts_timezone": "Asia/Tokyo"}
    assert _read(folder / "all/slurm.yml") == {"slurm_config": {"KillWait": 90, "TreeWidth": 50}}
    assert _read(folder / "slurm_compute.yml") == {"mig_layout": []}
    assert {"ansible.cfg", ".gitignore", "ADOPTED.md"} <= {path.name for path in out.iterdir()}


def test_report_lists_each_setting_with_its_reason_and_file(draft: Draft, tmp_path: Path) -> None:
    draft.note("users", ASK, "which UIDs?")
    draft.note("maas_repo", LEFT, "no MAAS | none", "group_vars/all.yml:3")
    draft.note("maas_repo", LEFT, "no MAAS | none", "group_vars/all.yml:3")
    draft.note("cluster", CARRIED, "cluster_name")
    draft.write(tmp_path)
    text = (tmp_path / "ADOPTED.md").read_text()
    assert text.count("| `maas_repo` | no MAAS \\| none | group_vars/all.yml:3 |") == 1
    assert text.index("## Questions") < text.index("## Not carried over") < text.index("## Carried over")
    assert "  maas_repo: no MAAS | none (group_vars/all.yml:3)" in list(draft.lines())


def test_option_of_all_hosts_is_declared_once(draft: Draft) -> None:
    draft.spread("enroot_enabled", {"head": True, "ws1": True, "ws2": True})
    draft.spread("hardware", {"ws1": "a", "ws2": "a"})
    assert draft.variables == {"enroot_enabled": True}
    assert [host.get("hardware") for host in draft.hosts.values()] == [None, "a", "a"]


def test_vaulted_value_is_written_unchanged(draft: Draft, tmp_path: Path) -> None:
    draft.carry("slurm_db_password", {"slurm_database_password": Vaulted(CIPHER)})
    draft.write(tmp_path)
    text = (tmp_path / "inventory/group_vars/all/slurm.yml").read_text()
    assert "slurm_database_password: !vault |\n" in text
    assert [line.strip() for line in text.splitlines()[-3:]] == CIPHER.splitlines()


def test_non_empty_folder_is_refused(draft: Draft, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    for place in (tmp_path, tmp_path / "a"):
        with pytest.raises(UsageError, match=str(place)):
            draft.write(place)
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
