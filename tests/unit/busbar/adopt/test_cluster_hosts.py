"""The draft keeps the settings of the hosts, and ADOPTED.md lists the changes of the takeover."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import yaml
from adopted_sites import FIXTURES
from busbar.adopt.cluster import draft_cluster
from busbar.adopt.cluster_source import HostReading, read_recording
from busbar.adopt.draft import ASK, CHANGED, Draft
from busbar.cli import main

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

LAB = FIXTURES / "slurm" / "lab-three-nodes"
# Excerpt of `sshd -T` of Debian 13.
SSHD = """\
port 22
passwordauthentication yes
permitrootlogin without-password
x11forwarding yes
hostbasedauthentication no
authorizedkeysfile .ssh/authorized_keys .ssh/authorized_keys2
authorizedkeyscommand none
hostcertificate none
"""
# Output of `sacctmgr -P show qos` (Slurm 24.11), whose dump has no QOS.
QOS = """\
Name|Descr|Priority|Flags|Preempt|PreemptMode|GraceTime|UsageFactor|GrpJobs|MaxTRESPU
normal|Normal QOS default|0|||cluster|00:00:00|1.000000||
urgent|for deadlines|50|DenyOnLimit|normal|requeue|00:00:00|1.000000||gres/gpu=4
"""


def _lab(files: dict[str, str] | None = None, commands: dict[str, str] | None = None) -> tuple[Draft, dict[str, Any]]:
    """Return the draft of the recorded lab with additional files and outputs on all its hosts."""
    hosts = read_recording(LAB, "alpha")
    for reading in hosts.values():
        reading.files |= files or {}
        reading.commands |= commands or {}
    draft = draft_cluster(hosts, "alpha")
    return draft, draft.variables


def _notes(draft: Draft, result: str) -> dict[str, str]:
    return {note.name: note.reason for note in draft.notes if note.result == result}


def test_sshd_keeps_its_settings_and_paths_of_keys() -> None:
    _, options = _lab(commands={"sshd-T": SSHD})
    config = options["ssh_server_config"]
    assert config["PasswordAuthentication"] == "yes"
    assert config["X11Forwarding"] == "yes"
    assert config["AuthorizedKeysFile"].split()[:2] == [".ssh/authorized_keys", ".ssh/authorized_keys2"]
    assert "AuthorizedKeysCommand" not in config
    assert options["ssh_hostbased"] is False


def test_hostbased_trust_and_authorized_keys_command_are_kept() -> None:
    text = SSHD.replace("hostbasedauthentication no", "hostbasedauthentication yes")
    text = text.replace("authorizedkeyscommand none", "authorizedkeyscommand /usr/bin/sss_ssh_authorizedkeys")
    known = {"/etc/ssh/ssh_known_hosts": "# ours\n@cert-authority *.lab ssh-ed25519 AAAA\n"}
    draft, options = _lab(known, {"sshd-T": text})
    assert options["ssh_server_config"]["AuthorizedKeysCommand"] == "/usr/bin/sss_ssh_authorizedkeys"
    assert options["ssh_hostbased"] is True
    assert options["ssh_known_hosts_extra"] == ["@cert-authority *.lab ssh-ed25519 AAAA"]
    assert "HostbasedAuthentication" in _notes(draft, ASK)


def test_unread_sshd_configuration_is_a_question() -> None:
    draft, options = _lab()
    assert "sshd of alpha" in _notes(draft, ASK)
    assert "ssh_server_config" not in options


def test_time_zone_and_package_sources_are_kept() -> None:
    files = {"/etc/chrony/chrony.conf": "# server old\npool ntp.site.example iburst\nserver 10.0.0.1 prefer\n"}
    draft, options = _lab(files, {"timezone": "/usr/share/zoneinfo/Europe/Oslo\n"})
    assert options["hosts_timezone"] == ""
    assert options["hosts_time_upstream"] == ["ntp.site.example", "10.0.0.1"]
    assert options["hosts_time_servers"] == []
    assert any("/etc/chrony/chrony.conf" in name for name in _notes(draft, CHANGED))
    assert draft.files["before/alpha/etc/chrony/chrony.conf"] == files["/etc/chrony/chrony.conf"]


def test_options_of_slurmd_are_a_question_and_files_are_copied() -> None:
    draft, _ = _lab({"/etc/default/slurmd": "SLURMD_OPTIONS='-M'\n"})
    assert "-M" in _notes(draft, ASK)["SLURMD_OPTIONS on beta"]
    assert draft.files["before/alpha/etc/slurm/slurm.conf"].startswith(
        (LAB / "alpha/etc/slurm/slurm.conf").read_text()[:50]
    )
    assert not any("slurmdbd" in path for path in draft.files if path.startswith("before/"))


def test_question_about_hardware_lists_the_gpus_of_a_host() -> None:
    # nvidia-smi --query-gpu=name,memory.total,driver_version,mig.mode.current --format=csv,noheader
    line = "NVIDIA A100-SXM4-80GB, 81920 MiB, 550.90.07, Disabled\n"
    draft, _ = _lab(commands={"nvidia-smi": 4 * line})
    assert any("4 x NVIDIA A100-SXM4-80GB" in note.reason for note in draft.notes if note.name == "hardware")


def test_software_for_gpus_and_rdma_is_kept() -> None:
    options = draft_cluster(read_recording(LAB, "alpha"), "alpha", hardware=["beta=hgx_h100"]).variables
    assert {options[name] for name in ("nvidia_driver_source", "rdma_source", "gpudirect_mode")} == {"none"}


def test_nfs_server_and_clients_keep_their_versions() -> None:
    hosts = read_recording(LAB, "alpha")
    server = next(host for host, reading in hosts.items() if reading.files.get("/etc/exports"))
    hosts[server].files["/etc/exports"] = "/home beta(sync)\n"
    hosts[server].commands |= {"nfsd-versions": "+3 +4 -4.0 +4.1 +4.2\n", "nfsd-threads": "8\n"}
    hosts["beta"].files["/etc/fstab"] = f"{server}:/home /home nfs defaults,_netdev 0 0\n"
    hosts["beta"].commands["mounts"] = f"/home {server}:/home nfs4 rw,relatime,vers=4.1,rsize=1048576\n"
    draft = draft_cluster(hosts, "alpha")
    assert draft.hosts[server]["nfs_server_versions"] == ["3", "4.1", "4.2"]
    assert draft.hosts[server]["nfs_server_threads"] == 8
    assert draft.hosts[server]["nfs_server_options"] == []
    assert draft.hosts["beta"]["nfs_client_mounts"] == [
        {"src": f"{server}:/home", "path": "/home", "options": ["vers=4.1"]}
    ]
    assert draft.variables["nfs_client_rsize"] == 0


def test_qos_is_read_if_the_dump_has_none() -> None:
    dump = "Cluster - 'lab':Fairshare=1:QOS='normal'\nParent - 'root'\nAccount - 'physics':Fairshare=3\n"
    dump += "Parent - 'physics'\nUser - 'mara':DefaultAccount='physics':Fairshare=1:MaxSubmitJobs=20\n"
    _, options = _lab(commands={"sacctmgr-dump": dump, "sacctmgr-qos": QOS})
    urgent = next(qos for qos in options["slurm_qos"] if qos["name"] == "urgent")
    assert urgent["priority"] == 50
    assert urgent["flags"] == ["DenyOnLimit"]
    assert urgent["limits"] == {"MaxTRESPU": "gres/gpu=4"}
    mara = next(user for user in options["users_accounts"] if user["name"] == "mara")
    assert mara["slurm"]["limits"] == {"MaxSubmitJobs": "20"}


def test_hosts_are_read_at_addresses_of_the_controllers_hosts_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: dict[str, str] = {}
    recording = read_recording(LAB, "alpha")

    def read(places: dict[str, str], _: str) -> dict[str, HostReading]:
        asked.update(places)
        return {name: recording.get(name, recording["alpha"]) for name in places}

    alpha = recording["alpha"]
    alpha.files[alpha.conf_path()] = re.sub(r"(?i)NodeAddr=\S+", "", alpha.files[alpha.conf_path()])
    alpha.files["/etc/hosts"] = "10.1.0.1 alpha\n10.1.0.2 beta.lab beta\n10.1.0.3 gamma\n"
    monkeypatch.setattr("busbar.adopt.cluster_source.read_hosts", read)
    out = tmp_path / "site"
    recording["10.1.0.9"] = HostReading(commands={"hostname": "login1.lab\n"})
    given = ["--controller", "root@10.1.0.1", "--login", "10.1.0.9", "--ssh-common-args=-p 2222"]
    assert main(["adopt", "cluster", str(out), *given]) == 0
    assert asked == {
        "10.1.0.1": "root@10.1.0.1",
        "beta": "root@10.1.0.2",
        "gamma": "root@10.1.0.3",
        "10.1.0.9": "root@10.1.0.9",
    }
    inventory = yaml.safe_load((out / "inventory/hosts.yml").read_text())["all"]
    assert inventory["hosts"]["alpha"]["ansible_host"] == "10.1.0.1"
    assert inventory["hosts"]["login1"]["ansible_host"] == "10.1.0.9"
    assert list(inventory["children"]["slurm_login"]["hosts"]) == ["login1"]
    options = yaml.safe_load((out / "inventory/group_vars/all/cluster.yml").read_text())
    assert (options["ansible_user"], options["ansible_ssh_common_args"]) == ("root", "-p 2222")
