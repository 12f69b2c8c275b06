"""An environment of ansible-slurm-appliance becomes a site."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from adopted_sites import Site, doctor_errors
from busbar.adopt.deepops import adopt_deepops
from busbar.adopt.draft import ASK, CARRIED, LEFT

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow
HOSTS = """\
all:
  vars: {openhpc_cluster_name: slurmdemo, ansible_user: rocky}
control: {hosts: {demo-control: {ansible_host: 10.0.0.1}}}
login: {hosts: {demo-login-0: {ansible_host: 10.0.0.2}}}
demo_general: {hosts: {"demo-gen-[0:1]": }}
slurmdemo_gpu: {hosts: {demo-gpu-0: {ansible_host: 10.0.0.9}}}
compute: {children: {demo_general: , slurmdemo_gpu: }}
prometheus: {children: {control: }}
nfs: {children: {control: , login: , compute: }}
"""
VARIABLES = """\
openhpc_nodegroups:
  - {name: gpu, gres: [{conf: "gpu:h100:2"}], features: [h100], node_params: {Weight: 3}}
  - {name: demo_general}
openhpc_partitions:
  - {name: general, nodegroups: [demo_general], default: true, maxtime: "1-0", partition_params: {PriorityTier: 2}}
  - {name: gpu}
openhpc_config: {SlurmctldDebug: debug, LaunchParameters: [use_interactive_step]}
openhpc_state_save_location: /var/lib/state/slurmctld
openhpc_munge_key_b64: "{{ vault_openhpc_mungekey }}"
key: ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHr2pQF9oDT2V5FBJCQPmZBLTGlNXjJ1Jn8SHkhsJ2x9
basic_users_users:
  - {comment: Alice Example, name: alice, uid: 2005, public_key: "{{ key }}"}
  - {name: gone, uid: 2006, state: absent}
nfs_server_default: "{{ hostvars[groups['control'] | first].ansible_host }}"
nfs_configurations:
  - comment: homes
    nfs_enable:
      server: "{{ inventory_hostname in groups['control'] }}"
      clients: "{{ inventory_hostname in groups['nfs'] and inventory_hostname not in groups['control'] }}"
    nfs_server: "{{ nfs_server_default }}"
    nfs_export: /exports/home
    nfs_client_mnt_point: /home
    nfs_client_mnt_options: "defaults,nosuid,nodev"
prometheus_storage_retention: 31d
"""
HARDWARE = ["demo-gpu-0=l40s", "demo-gen-[0-1]=rtx_4090"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return an environment."""
    place = tmp_path / "production"
    (place / "inventory/group_vars/all").mkdir(parents=True)
    (place / "inventory/hosts.yml").write_text(HOSTS)
    (place / "inventory/group_vars/all/openhpc.yml").write_text(VARIABLES)
    return place


def test_environment_becomes_a_site(folder: Path, tmp_path: Path) -> None:
    site = Site(adopt_deepops(folder, "23.08", HARDWARE), tmp_path / "out")
    assert site.all["cluster_name"] == "slurmdemo"
    assert (
        site.groups["slurm_controller"]
        == site.groups["slurm_database"]
        == site.groups["monitoring"]
        == ["demo-control"]
    )
    assert site.groups["slurm_compute"] == ["demo-gen-0", "demo-gen-1", "demo-gpu-0"]
    general, gpu = site.all["slurm_partitions"]
    assert (general["nodes"], general["default"]) == ("demo-gen-[0-1]", True)
    assert general["params"] == {"MaxTime": "1-0", "PriorityTier": 2}
    assert gpu["nodes"] == "demo-gpu-0"
    assert site.hosts["demo-gpu-0"]["slurm_node_features"] == ["h100"]
    assert site.hosts["demo-gpu-0"]["slurm_node_params"] == {"Weight": 3}
    assert site.all["slurm_config"]["SlurmctldDebug"] == "debug"
    assert site.all["slurm_state_directory"] == "/var/lib/state/slurmctld"
    (alice,) = site.all["users_accounts"]
    assert (alice["name"], alice["uid"], len(alice["authorized_keys"])) == ("alice", 2005, 1)
    (mount,) = site.group_vars("nfs_client")["nfs_client_mounts"]
    assert (mount["src"], mount["path"]) == ("demo-control:/exports/home", "/home")
    assert site.all["prometheus_retention_time"] == "31d"
    assert site.results("openhpc_munge_key_b64") == {LEFT}
    assert site.results("openhpc_nodegroups") == {ASK, CARRIED}
    assert "busbar adopt cluster" in site.said("slurm.conf")


def test_site_passes_the_checks_of_busbar(folder: Path, tmp_path: Path) -> None:
    assert doctor_errors(folder, tmp_path / "out", HARDWARE) == []
