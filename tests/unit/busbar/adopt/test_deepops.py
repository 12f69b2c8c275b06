"""Tests of further forms of DeepOps inventories, and of refused input."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import pytest
from adopted_sites import FIXTURES, Site
from ansible_collections.busbar.cluster.plugins.plugin_utils.site_variables import declared_options
from busbar.adopt.cluster_source import HostReading
from busbar.adopt.deepops import adopt_deepops
from busbar.adopt.draft import ASK, CARRIED, CHANGED, LEFT
from busbar.adopt.tables import data, row_of, rows
from busbar.cli import main
from busbar.errors import UsageError
from gpu_samples import gpu_xml, log_xml

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

INI = """\
[all]
mgmt ansible_host=10.0.0.1
gpu[01:04]

[slurm-master]
mgmt
[big]
gpu[03:04]
[slurm-node]
gpu[01:02]
[slurm-node:children]
big
[slurm-cluster:children]
slurm-master
slurm-node
[slurm-cluster:vars]
ansible_user=ubuntu
"""
ON = "slurm_enable_nfs_server: true\nslurm_enable_nfs_client_nodes: true\n"


def _files(folder: Path, files: dict[str, str]) -> Path:
    for place, text in files.items():
        path = folder / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
    return folder


@pytest.fixture
def adopt(tmp_path: Path) -> Any:  # noqa: ANN401 - a function
    """Return a function that drafts the site of a directory with these files."""

    def made(release: str = "23.08", hardware: tuple[str, ...] = (), inventory: str = INI, **files: str) -> Site:
        named = {place.replace("__", "/"): text for place, text in files.items()}
        folder = _files(tmp_path / "config", {"inventory": inventory, **named})
        return Site(adopt_deepops(folder, release, hardware), tmp_path / "out")

    return made


def test_ranges_nested_groups_and_group_variables(adopt: Any) -> None:  # noqa: ANN401
    site = adopt(group_vars__big="mig_manager_profile: all-1g.10gb\n", hardware=("big=dgx_h100", "gpu[01-02]=l40s"))
    assert site.groups["slurm_compute"] == ["gpu01", "gpu02", "gpu03", "gpu04"]
    assert site.groups["slurm_login"] == ["mgmt"]
    assert site.groups["big"] == ["gpu03", "gpu04"]
    assert (site.all["ansible_user"], site.all["cluster_name"]) == ("ubuntu", "deepops")
    assert site.hosts["gpu01"] == {"hardware": "l40s"}
    assert site.hosts["gpu03"]["mig_layout"] == [{"profile": "1g.10gb", "count": 7}]
    assert "published placeholder" in site.said("munge key")


def test_underscores_in_groups_and_a_directory_for_all(adopt: Any) -> None:  # noqa: ANN401
    site = adopt(
        inventory=INI.replace("slurm-", "slurm_"),
        group_vars__all__one="slurm_cluster_name: first\nchrony_timezone: Europe/Rome\n",
        **{"group_vars__all__two.yml": "slurm_cluster_name: second\n"},
    )
    assert site.all["cluster_name"] == "second"
    assert site.all["hosts_timezone"] == "Europe/Rome"
    assert "group_vars/all/one:2" in site.said("chrony_timezone")


def test_a_directory_of_inventories_and_several_files(tmp_path: Path) -> None:
    hosts, groups = INI.split("\n\n", 1)
    (tmp_path / "both").mkdir()
    folder = _files(tmp_path / "both", {"inventory/a.ini": f"{hosts}\n", "inventory/b.ini": groups})
    assert adopt_deepops(folder, "23.08", ()).groups["slurm_controller"] == ["mgmt"]
    folder = _files(tmp_path / "several", {"inventory": f"{hosts}\n", "hosts.ini": groups})
    with pytest.raises(UsageError, match=r"inventory, hosts\.ini.*--inventory"):
        adopt_deepops(folder, "23.08", ())
    both = [str(folder / "inventory"), str(folder / "hosts.ini")]
    assert len(adopt_deepops(folder, "23.08", (), both).groups["slurm_compute"]) == 4


def test_templates_lists_as_text_and_facts(adopt: Any) -> None:  # noqa: ANN401
    site = adopt(
        group_vars__all="""\
            base: /raid
            enroot_data_path: "{{ base }}/enroot/data/user-$(id -u)"
            enroot_cache_path: "{{ base }}/enroot/cache/user-$(id -u)"
            slurm_install_enroot: "{{ 'yes' if groups['slurm-node'] | length > 3 else 'no' }}"
            chrony_config_server: ntp.example.org
            chrony_timezone: "{{ ansible_date_time.tz }}"
            slurm_return_to_service: 2
            slurm_max_job_timelimit: "{{ days }}-00:00:00"
            days: 3
            """,
    )
    assert site.all["enroot_path"] == "/raid/enroot"
    assert site.all["enroot_enabled"] is True
    assert site.all["hosts_time_upstream"] == ["ntp.example.org"]
    assert "hosts_timezone" not in site.all
    assert "facts" in site.said("chrony_timezone")
    assert site.all["slurm_config"]["ReturnToService"] == "2"
    (batch,) = site.all["slurm_partitions"]
    assert batch["params"] == {"DefMemPerCPU": 0, "OverSubscribe": "NO", "MaxTime": "3-00:00:00"}
    assert "ansible_date_time" not in (site.out / "inventory/group_vars/all/cluster.yml").read_text()


@pytest.mark.parametrize(
    ("release", "kill_wait", "reboot"), [("20.12", None, None), ("26.07", "120", '"/bin/systemctl reboot"')]
)
def test_defaults_follow_the_release(adopt: Any, release: str, kill_wait: str | None, reboot: str | None) -> None:  # noqa: ANN401
    site = adopt(release=release)
    config = site.all["slurm_config"]
    assert (config.get("KillWait"), config["RebootProgram"]) == (kill_wait, reboot)
    assert ("slurm_gres_mode" in site.all) == (release >= "23.08")


def test_exports_and_mounts(adopt: Any) -> None:  # noqa: ANN401
    site = adopt(
        **{
            "group_vars__slurm-cluster.yml": ON
            + """\
nfs_server_group: "slurm-master[0]"
nfs_client_group: "slurm-node:!big"
nfs_exports:
  - {path: /sw, options: "10.0.0.0/24(rw,sync) admin(rw,no_root_squash)"}
  - {path: /home, options: "*(rw,sync,no_root_squash)"}
nfs_mounts:
  - {mountpoint: /home, server: "{{ groups['slurm-master'][0] }}", path: /home, options: "async,vers=3"}
  - {mountpoint: /data, server: 192.0.2.9, path: /vol/data, options: vers=4.1}
"""
        }
    )
    exports = site.group_vars("nfs_server")["nfs_server_exports"]
    assert [export["path"] for export in exports] == ["/home", "/sw"]
    assert exports[0]["options"] == ["rw", "sync", "no_root_squash"]
    assert exports[1]["clients"] == ["10.0.0.0/24", "admin"]
    assert site.results("nfs_exports /sw") == {ASK}
    assert "hosts of the cluster" in site.said("nfs_exports /home")
    assert site.group_vars("nfs_server")["nfs_server_versions"] == ["3", "4.2"]
    assert site.groups["nfs_client"] == ["gpu01", "gpu02"]
    assert site.hosts["gpu01"]["storage_mounts_entries"][0]["src"] == "192.0.2.9:/vol/data"
    assert "storage_mounts_entries" not in site.hosts["gpu03"]


def test_users_with_declared_uids(adopt: Any) -> None:  # noqa: ANN401
    site = adopt(
        group_vars__all="""\
            users:
              - {username: ada, uid: 1001, gid: 2001, groups: "admin,video", ssh_key: [], password: $6$x$y}
              - {username: bob, uid: "1002", group: lab, password: secret, home: /home/bob, generate_ssh_key: yes}
              - {username: eve}
            groups_to_create: [{name: lab, gid: 3000}, {name: other}]
            slurm_accounts: {lab: {users: [ada, zoe], parent: root}}
            """,
    )
    ada, bob = site.all["users_accounts"]
    assert (ada["group"], ada["groups"], ada["password_hash"]) == ("ada", ["admin", "video"], "$6$x$y")
    assert ada["slurm"] == {"account": "lab"}
    assert bob == {"name": "bob", "uid": 1002, "group": "lab"}
    assert {group["name"]: group["gid"] for group in site.all["users_groups"]} == {"lab": 3000, "ada": 2001}
    assert "eve, zoe" in site.said("UIDs")
    assert "clear text" in site.said("users[bob].password")
    assert site.results("group other") == {ASK}
    assert "secret" not in (site.out / "inventory/group_vars/all/users.yml").read_text()


def test_forks_with_other_forms_of_partitions_and_qos(adopt: Any) -> None:  # noqa: ANN401
    site = adopt(
        group_vars__all="""\
            slurm_partitions:
              main: {nodes: [gpu01, gpu02, lost], default: yes, allow_qos: high, priority_tier: 5, colour: red}
            slurm_qos:
              - {name: high, priority: 10, max_wall: 1-00:00:00, flags: DenyOnLimit, settings: GraceTime=60 MaxJobsPU=4}
            """,
    )
    (main_partition,) = site.all["slurm_partitions"]
    assert main_partition == {
        "name": "main",
        "nodes": "gpu[01-02]",
        "default": True,
        "params": {"AllowQos": "high", "PriorityTier": 5},
    }
    assert "lost" in site.said("slurm_partitions")
    assert "colour=red" in site.said("slurm_partitions")
    (high,) = site.all["slurm_qos"]
    assert (high["priority"], high["flags"]) == (10, ["DenyOnLimit"])
    assert high["limits"] == {"maxwall": "1-00:00:00", "MaxJobsPU": 4}
    assert "GraceTime=60" in site.said("slurm_qos")


def test_external_template_is_a_question(adopt: Any) -> None:  # noqa: ANN401
    site = adopt(group_vars__all="slurm_conf_template: /srv/site/slurm.conf\nslurm_version: 22.05.2\n")
    assert site.results("slurm_conf_template") == {ASK}
    assert "busbar adopt cluster" in site.said("slurm_conf_template")
    assert site.results("slurm_version") == {LEFT}


def test_encrypted_password_stays_encrypted_and_unknown_variable_is_listed(adopt: Any) -> None:  # noqa: ANN401
    cipher = "$ANSIBLE_VAULT;1.1;AES256\n          6231336539\n          3438626666\n"
    text = f"ansible_become_password: !vault |\n          {cipher}my_own: 3\nslurm_db_password: abc\n"
    site = adopt(**{"group_vars__slurm-cluster": text})
    assert site.all["ansible_become_password"].split() == cipher.split()
    assert site.results("ansible_become_password") == {CARRIED}
    assert "not a variable of DeepOps" in site.said("my_own")
    assert "group_vars/slurm-cluster:5" in site.said("my_own")
    assert "slurm_database_password" not in site.all


def test_encrypted_file_of_a_group_is_a_question(adopt: Any) -> None:  # noqa: ANN401
    vault = "$ANSIBLE_VAULT;1.1;AES256\n6231336539\n"
    files = {"group_vars__all__vault.yml": vault, "group_vars__all__main.yml": 'slurm_password: "{{ vault_munge }}"\n'}
    site = adopt(**files)
    assert site.results("group_vars/all/vault.yml") == {ASK}
    assert "not in the inventory" not in site.said("group_vars/all/vault.yml")
    assert "does not define" in site.said("slurm_password")
    assert "secrets/munge.key" in site.said("munge key")


CONF = """\
# ClusterName=old
clustername=site   # lower case
SlurmctldPort = 7000
SchedulerParameters=bf_continue,\\
bf_window=2880
NodeName=DEFAULT CPUs=8 Feature=old
NodeName=gpu[01-02] Features=h100,ib Weight=10 State=UNKNOWN
NodeName=gpu[03-04] RealMemory=1000 NodeAddr=10.0.0.9
NodeSet=ns Feature=h100
PartitionName=DEFAULT MaxTime=1-0 State=UP
PartitionName=a Nodes=gpu[01-02] Default=yes AllowQoS=high
PartitionName=b Nodes=ALL State=DRAIN
Colour=red
"""


def test_static_slurm_conf(adopt: Any) -> None:  # noqa: ANN401
    site = adopt(group_vars__all="slurm_conf_template: ../../config/slurm.conf\n", **{"slurm.conf": CONF})
    assert site.all["slurm_port"] == 7000
    assert site.all["slurm_config"]["SchedulerParameters"] == "bf_continue,bf_window=2880"
    assert site.hosts["gpu01"]["slurm_node_features"] == ["h100", "ib"]
    assert site.hosts["gpu01"]["slurm_node_weight"] == 10
    assert site.hosts["gpu03"]["slurm_node_params"] == {"CPUs": 8, "RealMemory": 1000, "NodeAddr": "10.0.0.9"}
    a, b = site.all["slurm_partitions"]
    assert a == {"name": "a", "nodes": "gpu[01-02]", "default": True, "params": {"MaxTime": "1-0", "AllowQos": "high"}}
    assert b == {"name": "b", "params": {"MaxTime": "1-0", "State": "DRAIN"}}
    assert site.all["slurm_config"]["NodeSet"] == ["ns Feature=h100"]
    assert "Colour is not a key of slurm.conf" in site.said("slurm.conf")


def _host(name: str, files: dict[str, str], *, gpus: int, cores: int = 48) -> HostReading:
    """Return the reading of a host with H100 GPUs; eight of them are an HGX."""
    links = (f"\t Link {link}: 26.562 GB/s" for link in range(18))
    nvlink = [line for index in range(gpus) for line in (f"GPU {index}: X (UUID: GPU-{index})", *links)]
    port = "/sys/class/infiniband/mlx5_{}/ports/1/{}"
    values = {"state": "4: ACTIVE", "rate": "400 Gb/sec (4X NDR)", "link_layer": "InfiniBand"}
    sections = {
        "cpu": ["Socket(s): 2", f"Core(s) per socket: {cores}", "Thread(s) per core: 2"],
        "memory": ["MemTotal: 1056000000 kB"],
        "smi": log_xml(*map(gpu_xml, range(gpus))).splitlines() if gpus else [],
        "nvlink": nvlink,
        "sys": [f"{port.format(at, key)}={value}" for at in range(gpus) for key, value in values.items()],
    }
    text = "".join(f"# {name} {section} {line}\n" for section, lines in sections.items() for line in lines)
    return HostReading(files, {"hardware": text, "sshd-T": SSHD, "timezone": "/usr/share/zoneinfo/Asia/Seoul\n"})


SSHD = "passwordauthentication no\nauthorizedkeysfile .ssh/keys\nhostcertificate none\n"


def test_hardware_and_settings_are_read_from_reachable_hosts(adopt: Any, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: ANN401
    asked: dict[str, str] = {}
    ada, bob = "ada:x:1001:1001::/home/ada:/bin/bash\n", "bob:x:1002:1002::/home/bob:/bin/bash\n"
    kim = "kim:x:1003:2100::/home/kim:/bin/bash\nlea:x:1004:2100::/home/lea:/bin/bash\n"
    group = {"/etc/group": "lab:x:2100:ada\n"}

    def read(places: dict[str, str], arguments: str) -> dict[str, HostReading]:
        asked.update({host: f"{arguments} {place}".strip() for host, place in places.items()})
        known = {
            "mgmt": _host("mgmt", {"/etc/hosts": "127.0.0.1 mgmt\n", "/etc/passwd": ada + bob, **group}, gpus=0),
            "gpu01": _host(
                "gpu01", {"/etc/chrony.conf": "server 10.0.0.8\n", "/etc/passwd": ada + kim, **group}, gpus=8
            ),
            "gpu03": _host("gpu03", {"/etc/passwd": bob.replace("1002", "1009")}, gpus=8, cores=20),
        }
        return {host: known.get(host) or HostReading(error="ssh failed: No route to host") for host in places}

    monkeypatch.setattr("busbar.adopt.steps.read_hosts", read)
    site = adopt(
        group_vars__all="ssh_max_auth_retries: 4\nchrony_timezone: Asia/Tokyo\n"
        "users: [{username: ada}, {username: bob}, {username: eve}, {username: kim, group: lab}, {username: lea}]\n"
        "groups_to_create: [{name: lab}]\n",
        host_vars__gpu01="ansible_port: 2222\nansible_ssh_common_args: -o ProxyJump=gate\nansible_user: root\n",
        hardware=("gpu04=dgx_h100",),
    )
    assert asked["mgmt"] == "ubuntu@10.0.0.1"
    assert asked["gpu01"] == "-o ProxyJump=gate -p 2222 root@gpu01"
    assert {host: site.hosts[host].get("hardware") for host in site.groups["slurm_compute"]} == {
        "gpu01": "hgx_h100",
        "gpu02": None,
        "gpu03": "h100x8_2",
        "gpu04": "dgx_h100",
    }
    assert site.all["hardware_profiles_extra"]["h100x8_2"]["cores_per_socket"] == 20
    assert "hgx_h100" in site.said("hardware")
    assert "No route to host" in site.said("host gpu[02,04]")
    assert "--hardware 'gpu02=NAME'" in site.said("hardware")
    assert site.all["hosts_timezone"] == "Asia/Tokyo"
    assert site.all["hosts_time_upstream"] == ["10.0.0.8"]
    assert site.hosts["gpu01"]["ssh_server_config"] == {
        "MaxAuthTries": 4,
        "PasswordAuthentication": "no",
        "AuthorizedKeysFile": ".ssh/keys /etc/ssh/authorized_keys.d/%u",
    }
    # The hosts disagree about bob, none has eve, and lea's primary group is not in the directory.
    assert site.all["users_accounts"] == [{"name": "ada", "uid": 1001}, {"name": "kim", "uid": 1003, "group": "lab"}]
    assert "which UIDs do bob, eve, lea have" in site.said("UIDs")
    assert site.all["users_groups"] == [{"name": "lab", "gid": 2100}]
    assert site.all["preflight_blockers"] == ["user bob: UID differs: 1002 on mgmt, 1009 on gpu03"]
    assert (site.out / "before/mgmt/etc/hosts").read_text() == "127.0.0.1 mgmt\n"


def test_changes_on_hosts_are_listed_if_no_host_was_read(adopt: Any) -> None:  # noqa: ANN401
    site = adopt(hardware=("dgx_h100",), group_vars__all="slurm_install_enroot: true\nslurm_install_lmod: true\n")
    changed = {note.name: note.reason for note in site.draft.notes if note.result == CHANGED}
    assert any("/etc/ssh/sshd_config.d/01-busbar.conf" in name for name in changed)
    assert any("90-busbar.cnf" in name for name in changed)
    assert any("NVIDIA driver" in name and "enroot" in name for name in changed)
    assert ASK in site.results("settings of the hosts")
    assert (site.all["hosts_kernel_managed"], site.all["hosts_timezone"]) == (False, "")
    assert "mariadb_hosts" not in site.all
    assert site.all.get("lmod_enabled") is not False


@pytest.mark.parametrize(
    ("files", "arguments", "words"),
    [
        ({}, (), ("no inventory", "--inventory")),
        ({"config/inventory": INI}, (), ("no inventory", "did you mean", "config")),
        ({"inventory": "[web]\nhost1\n"}, (), ("not a DeepOps Slurm cluster configuration", "slurm-master", "web")),
        ({"inventory": INI, "group_vars/all.yml": "a: 1\nb: [\n"}, (), ("group_vars/all.yml:3",)),
        ({"inventory": INI, "host_vars/gpu01": "- a\n"}, (), ("host_vars/gpu01:1", "name: value")),
        ({"inventory": "[slurm-master\nmgmt\n"}, (), ("inventory", "parse")),
        ({"inventory": INI}, ("--release", "19.01"), ("19.01", "23.08", "26.07")),
        ({"inventory": INI}, ("--hardware", "dgx_h10"), ("dgx_h10", "dgx_h100")),
        ({"inventory": INI}, ("--hardware", "gpu09=dgx_h100"), ("gpu09",)),
        ({"inventory": INI}, ("--inventory", "lost"), ("lost", "does not exist")),
    ],
)
def test_invalid_input_is_refused(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    files: dict[str, str],
    arguments: tuple[str, ...],
    words: tuple[str, ...],
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    _files(folder, files)
    assert main(["adopt", "deepops", str(folder), str(tmp_path / "out"), *arguments]) == 2
    said = capsys.readouterr().err
    assert [word for word in words if word not in said] == []
    assert not (tmp_path / "out").exists()


def test_non_empty_folder_is_refused_before_anything_is_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _files(tmp_path, {"file": "x"})
    assert main(["adopt", "deepops", str(tmp_path / "lost"), str(tmp_path)]) == 2
    assert f"{tmp_path} is not empty" in capsys.readouterr().err


def test_command_prints_the_notes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _files(tmp_path / "config", {"inventory": INI})
    assert main(["adopt", "deepops", str(tmp_path / "config"), str(tmp_path / "out"), "--hardware", "dgx_h100"]) == 0
    said = capsys.readouterr().out
    assert "munge key" in said
    assert "ADOPTED.md" in said


def test_every_variable_of_deepops_is_in_the_table() -> None:
    names = (FIXTURES / "deepops_variables.txt").read_text().split()
    assert [name for name in names if row_of(name, rows("deepops")) is None] == []


def test_options_in_the_table_exist() -> None:
    named = [row.option for toolkit in ("deepops", "appliance") for row in rows(toolkit) if row.option]
    assert [option for option in named if option not in declared_options()] == []
    assert data()["releases"].keys() >= {"22.08", "23.08", "26.07"}
