"""The example directories of DeepOps become the sites that their index expects."""

from __future__ import annotations

import re
import shutil
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import pytest
from adopted_sites import FIXTURES, HARDWARE, doctor_errors
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.common.hostlist import unfold_hosts
from busbar.adopt.draft import ASK, CARRIED, DEFAULT, LEFT
from busbar.adopt.source import Source

if TYPE_CHECKING:
    from pathlib import Path

    from adopted_sites import Site

    Sites = dict[str, Site]
    Cases = dict[str, dict[str, Any]]

pytestmark = pytest.mark.slow

NAMES = list(HARDWARE)
each = pytest.mark.parametrize("name", NAMES)


@each
def test_groups_and_addresses(name: str, sites: Sites, cases: Cases) -> None:
    for group, hosts in cases[name]["groups"].items():
        assert sorted(sites[name].groups[group]) == sorted(hosts), group
    for host, address in cases[name]["hosts"].items():
        if host in sites[name].hosts:
            assert sites[name].hosts[host]["ansible_host"] == address
    assert sites[name].groups["slurm_controller"] == cases[name]["groups"]["slurm_controller"]


@each
def test_partitions(name: str, sites: Sites, cases: Cases) -> None:
    made = {partition["name"]: partition for partition in sites[name].all["slurm_partitions"]}
    assert made.keys() == cases[name]["partitions"].keys()
    for partition, wanted in cases[name]["partitions"].items():
        nodes = wanted.get("nodes") or wanted.get("Nodes")
        found = made[partition].get("nodes", "all")
        assert (found == nodes == "all") or sorted(unfold_hosts(found)) == sorted(unfold_hosts(nodes))
        assert made[partition].get("default", False) == (
            wanted.get("default") or wanted.get("Default") == "YES" or False
        )
        params = made[partition].get("params", {})
        for key, value in wanted.items():
            if key not in {"nodes", "Nodes", "default", "Default", "State", "MaxNodes"}:
                default = {"PriorityTier": "1", "PreemptMode": "OFF"}.get(key)
                assert str(params.get(key, default)) == str(value), f"{partition}.{key}"


@each
def test_variables_are_classified(name: str, sites: Sites, cases: Cases) -> None:
    site, known = sites[name], Source(FIXTURES / "deepops" / name).names()
    for text in cases[name]["default"]:
        variable = re.split(r"[: (]", text)[0]
        if variable in known:
            assert site.results(variable) == {DEFAULT}, variable
    for text in cases[name]["not_carried"]:
        for pattern in re.findall(r"[a-z][a-z_]+\*?(?=[,:\]\s]|$)", re.sub(r"[:(].*?(?=,|$)", "", text)):
            for variable in (each for each in known if fnmatchcase(each, pattern)):
                vaulted = variable == "slurm_db_password" and name == "institute-ini"
                partly = variable in {"users", "software_extra_packages", "slurm_cluster_install_cuda"}
                assert vaulted or partly or site.results(variable) <= {LEFT, ASK}, variable
                assert site.said(variable)


@each
def test_every_variable_is_in_the_report_with_its_lines(name: str, sites: Sites) -> None:
    report = (sites[name].out / "ADOPTED.md").read_text()
    for variable in Source(FIXTURES / "deepops" / name).names():
        line = next(line for line in report.splitlines() if line.startswith("|") and f"`{variable}`" in line)
        assert re.search(r"(group_vars/|host_vars/|inventory)\S*:\d+[ ,]", line), line


@each
def test_no_secret_in_clear_text_is_copied(name: str, sites: Sites) -> None:
    text = "".join(path.read_text() for path in sites[name].out.rglob("*") if path.is_file())
    for secret in ("ReplaceWithASecure", "NOT-A-KEY", "$6$IrxI27V4ogJFfgTV", "password: 'admin'", "password: admin"):
        assert secret not in text


@each
def test_keys_missing_in_the_old_file_keep_the_default_of_slurm(name: str, sites: Sites) -> None:
    config = sites[name].all["slurm_config"]
    for key in ("EnforcePartLimits", "LaunchParameters", "DefMemPerCPU"):
        assert key in config
        assert config[key] is None
    assert config["ReturnToService"] == "1"
    assert config["SelectTypeParameters"].startswith("CR_Core_Memory,CR_CORE_DEFAULT_DIST_BLOCK")


@each
def test_site_passes_the_checks_of_busbar(name: str, tmp_path: Path) -> None:
    folder = tmp_path / name
    shutil.copytree(FIXTURES / "deepops" / name, folder)
    users = folder / "group_vars/all.yml"
    # Answers to the questions: a valid key, and the GID of a group.
    key = "AAAAC3NzaC1lZDI1NTE5AAAAIHr2pQF9oDT2V5FBJCQPmZBLTGlNXjJ1Jn8SHkhsJ2x9"
    text = re.sub(r"AAAAC3\S+EXAMP", key, users.read_text())
    users.write_text(f"{text}\ngroups_to_create: [{{name: mlteam, gid: 2100}}]\n")
    slurm = folder / "group_vars/slurm-cluster.yml"
    slurm.write_text(re.sub(r"slurm_db_password: !vault \|\n( +\S+\n)+", "", slurm.read_text()))
    assert doctor_errors(folder, tmp_path / "out", HARDWARE[name]) == []


def test_draft_of_the_lab(sites: Sites) -> None:
    site = sites["lab-ini"]
    assert site.all["ansible_user"] == "labadmin"
    assert site.all["hosts_timezone"] == "Asia/Tokyo"
    assert site.all["hosts_time_upstream"] == ["0.pool.ntp.org", "1.pool.ntp.org"]
    assert (site.all["nvidia_driver_branch"], site.all["nvidia_driver_kernel_modules"]) == ("580", "open")
    assert (site.all["enroot_enabled"], site.all["pyxis_enabled"], site.all["slurm_pam_adopt"]) == (True, True, False)
    config = site.all["slurm_config"]
    assert (config["AccountingStorageEnforce"], config["GresTypes"]) == ("limits,qos", "gpu,shard")
    assert config["RebootProgram"] == '"/bin/systemctl reboot"'
    normal, guests = site.all["slurm_qos"]
    assert normal["limits"]["MaxTRESPerUser"] == "cpu=96,gres/gpu=2,gres/shard=8,mem=244G"
    assert (normal["limits"]["MaxJobsPerUser"], guests["limits"]["MaxJobsPerUser"]) == (10, 5)
    assert [(account["name"], account["qos"]) for account in site.all["slurm_accounts"]] == [
        ("lab", ["normal"]),
        ("guests", ["guests"]),
    ]
    assert site.all["slurm_gres_config"] == ["NodeName=ws1 Name=shard Count=8", "NodeName=ws2 Name=shard Count=8"]
    assert site.hosts["ws1"]["slurm_node_params"]["Gres"].endswith("shard:8")
    assert site.hosts["ws4"]["slurm_node_features"] == ["cpu"]
    (mount,) = site.group_vars("nfs_client")["nfs_client_mounts"]
    assert (mount["src"], mount["path"], "vers=4.2" in mount["options"]) == ("head:/home", "/home", True)
    assert "fsid=0" in site.group_vars("nfs_server")["nfs_server_exports"][0]["options"]
    assert "public" in site.said("munge key")
    assert "rotate_secrets=munge" in site.said("munge key")
    assert "aoki, bando, chiba, doi" in site.said("UIDs")
    assert (
        "# - {name: doi, uid: , slurm: {account: guests}}"
        in (site.out / "inventory/group_vars/all/users.yml").read_text()
    )
    assert "published password" in site.said("users[nvidia]")
    assert site.results("gpu_clock_lock") == {ASK}


def test_draft_of_the_institute(sites: Sites) -> None:
    site = sites["institute-ini"]
    source = (FIXTURES / "deepops/institute-ini/group_vars/slurm-cluster.yml").read_text()
    cipher = [line.strip() for line in source.split("slurm_db_password: !vault |")[1].splitlines()[1:7]]
    assert site.all["slurm_database_password"].split() == cipher
    assert site.all["cluster_name"] == "observatory"
    config = site.all["slurm_config"]
    wanted = {"KillWait": "90", "UnkillableStepTimeout": "180", "PriorityWeightQOS": "10000", "PreemptMode": "REQUEUE"}
    wanted |= {"PreemptType": "preempt/qos", "AccountingStorageEnforce": "associations,limits,qos"}
    assert {key: config[key] for key in wanted} == wanted
    assert site.all["node_health_interval"] == 300
    assert site.all["enroot_path"] == "/scratch/enroot"
    assert site.all["enroot_settings"]["https_proxy"] == "http://proxy.institute.example:3128"
    assert site.hosts["kepler"]["mig_layout"] == [
        {"profile": "1g.10gb", "count": 7, "gpus": [0]},
        {"profile": "3g.40gb", "count": 2, "gpus": [1, 2]},
    ]
    assert "mig_layout" not in site.hosts["tycho"]
    assert "which nodes have the layout" in site.said("mig_manager_profile")
    assert "titan" not in site.hosts
    assert "titan" in site.said("group storage")
    assert "compare with sinfo" in site.said("slurm.conf PartitionName")
    assert "NodeName=" in site.said("slurm.conf")
    assert site.results("nvidia_driver_ubuntu_branch") == {ASK}
    assert "nvidia_driver_branch" not in site.all
    assert site.all["hosts_packages"] == ["curl", "tmux", "build-essential"]
    assert "linux-headers" in site.said("software_extra_packages")
    assert "check_nv_gpu_count 4" in site.said("nhc_config_template")


def test_draft_of_the_dgx_cluster(sites: Sites) -> None:
    site = sites["dgx-yaml"]
    assert (site.all["slurm_state_directory"], site.all["slurm_state_shared"]) == ("/shared/slurm/state", True)
    assert site.all["ansible_ssh_common_args"].startswith("-o ProxyCommand=")
    assert site.all["slurm_pam_adopt_users"] == ["emin", "prometheus"]
    assert site.all["slurm_config"]["AccountingStorageEnforce"] is None
    mounts = {mount["path"]: mount for mount in site.all["storage_mounts_entries"]}
    assert mounts["/home"]["src"] == "filer-01.example.com:/export/home"
    assert "vers=3" in mounts["/home"]["options"]
    assert "proto=rdma" in mounts["/shared"]["options"]
    assert site.all["enroot_path"] == "/raid/enroot"
    assert site.all["enroot_settings"]["ENROOT_MOUNT_HOME"] == "n"
    emin, robot, gone = site.all["users_accounts"]
    assert (emin["uid"], emin["groups"], len(emin["authorized_keys"])) == (3001, ["sudo", "mlteam"], 1)
    assert (robot["uid"], robot["group"], robot["home"]) == (3002, "mlteam", "/var/lib/robot")
    assert robot["shell"] == "/usr/sbin/nologin"
    assert gone == {"name": "oldstaff", "uid": 3003, "state": "absent", "remove_home": True}
    assert "GID" in site.said("group mlteam")
    assert [entry["profile"] for entry in site.hosts["dgx01"]["mig_layout"]] == ["1g.10gb", "2g.20gb", "3g.40gb"]
    assert not {"dgx04", "hgx01"} & {name for name, host in site.hosts.items() if "mig_layout" in host}
    assert site.hosts["hgx01"]["cuda_source"] == "none"
    assert site.groups["dgx"] == ["dgx01", "dgx02", "dgx03", "dgx04"]
    assert "vault" in site.said("group_vars/vault.yml")
    assert "gpu:8 becomes gpu:a100:8" in site.said("slurm.conf Gres of dgx04")
    assert "slurm.conf Gres of dgx01" not in {note.name for note in site.draft.notes}
    assert "clear text" in site.said("docker_login_registries")
    assert "define" in site.said("slurm_db_password")
    assert site.results("slurm_max_job_timelimit") == {LEFT}


def test_nodes_match_the_report_of_slurm(sites: Sites, cases: Cases) -> None:
    for name, node in cases["dgx-yaml"]["slurm_says"]["nodes"].items():
        params = sites["dgx-yaml"].hosts[name]["slurm_node_params"]
        keys = ("CPUs", "Sockets", "CoresPerSocket", "ThreadsPerCore", "RealMemory")
        wanted = [node[key] for key in ("cpus", "sockets", "cores_per_socket", "threads_per_core", "memory_mb")]
        assert [params[key] for key in keys] == wanted
    assert sites["dgx-yaml"].results("slurm.conf NodeName") == {CARRIED}
