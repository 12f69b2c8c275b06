"""Tests of the adoption of a hand-built cluster: jobs continue, and only the changes listed in ADOPTED.md are made."""

from __future__ import annotations

import re
import shlex
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from busbar.sandbox.state import load
from conftest import FIRST_RUN_TIMEOUT_S, QUICK, TOP, Cluster, plain_environment, recap
from hand_built import CONTROLLER, USERS, build

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.proves("slurm", "ssh", "hosts", "users")

# Steps of docs/adopt.md, section "Takeover".
STEPS = (
    ("base",),
    ("storage",),
    ("slurm", "--limit", "slurm_controller,slurm_database"),
    ("slurm", "--limit", "slurm_controller,slurm_database,gpu1"),
    ("slurm",),
)
SET_ASIDE = "ansible slurm_database -b -a 'cp -p /etc/slurm/slurmdbd.conf /root/slurmdbd.conf.before'"
# Answers to the questions of ADOPTED.md, and settings for containers.
ANSWERS = {
    "slurm_database_password": "handmade",
    "validation_backend": "mpi",
    "storage_backend": "bind",
    "hosts_sysctl_apply": False,
}
# Must be the same after the takeover, by name. sshare is without usage, which grows while the job runs.
KEPT = {
    "running": "squeue -h -t R -o '%i %u %j %S'; scontrol show job $(squeue -h -t R -o %i) | grep Restarts",
    "queue": "squeue -h -t PD --sort=-p,i -o '%i %u %j %P %q'",
    "history": "sacct -aXnP -o jobid,user,account,state,start,exitcode",
    "shares": "sshare -anP -o Account,User,RawShares,NormShares | grep -v busbar-validation",
    "limits": "sacctmgr -nP show assoc where user=ada,bert,cleo format=Account,User,Share,QOS,MaxSubmit,GrpTRES; "
    "sacctmgr -nP show qos",
    "identities": "getent passwd ada bert cleo slurm munge; id ada; stat -c '%u %g %n' /home/*",
    "keys": "sha256sum /etc/munge/munge.key /etc/ssh/ssh_host_*_key /home/*/.ssh/authorized_keys",
    "daemons that need no restart": "systemctl show -P ActiveEnterTimestamp munge mariadb",
}


# The subset that a cluster without slurmdbd has.
WITHOUT_DATABASE = ("running", "queue", "identities", "keys")


@dataclass
class Adopted:
    """The cluster, the folder of its site, and its state before the takeover."""

    cluster: Cluster
    site: Path
    names: tuple[str, ...] = tuple(KEPT)
    before: dict[str, str] = field(default_factory=dict)

    def kept(self) -> dict[str, str]:
        """Return the current state of the controller."""
        return {name: self.cluster.exec(CONTROLLER, KEPT[name], check=False).stdout for name in self.names}

    def busbar(self, *arguments: str, timeout: float = FIRST_RUN_TIMEOUT_S) -> subprocess.CompletedProcess[str]:
        """Run the command line in the folder of the site."""
        return subprocess.run(
            ["busbar", *arguments],
            check=False,
            capture_output=True,
            text=True,
            timeout=timeout,
            cwd=self.site,
            env=plain_environment(),
        )

    def ansible(self, command: str) -> None:
        """Run a command of docs/adopt.md with the ansible.cfg in the folder of the site."""
        environment = {key: value for key, value in plain_environment().items() if key != "ANSIBLE_CONFIG"}
        words = shlex.split(command)
        done = subprocess.run(words, check=False, capture_output=True, text=True, cwd=self.site, env=environment)
        assert done.returncode == 0, command + done.stdout + done.stderr

    def wait_for_slurm(self) -> None:
        """Wait until slurmctld, slurmdbd and each slurmd answer (an asterisk marks a node that does not respond)."""
        asked = "scontrol ping | grep -q UP && sacctmgr -n list cluster && ! sinfo -h -o %T | grep -qF '*'"
        self.cluster.wait_until(
            lambda: self.cluster.exec(CONTROLLER, asked, check=False).returncode == 0, "Slurm did not answer", 120
        )

    def compare(self, when: str) -> None:
        """Check that jobs and configuration are unchanged."""
        assert self.kept() == self.before, when
        done = self.busbar("adopt", "verify", str(self.site))
        assert (done.returncode, done.stdout) == (0, "identical\n"), when + done.stdout + done.stderr


def answer(site: Path) -> None:
    """Answer the questions of ADOPTED.md: passwords, node types, and the network, which the draft assumes."""
    folder = site / "inventory/group_vars/all"
    options: dict[str, Any] = {}
    for path in folder.glob("*.yml"):
        options |= yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    profiles = options["hardware_profiles_extra"]
    # A virtual link has no line rate; this one exceeds what two cores can copy.
    network = {"nics": [{"count": 1, "gbps": 100, "rdma": False}]}
    completed = {"hardware_profiles_extra": {name: profile | network for name, profile in profiles.items()}}
    (folder / "zz_answers.yml").write_text(yaml.safe_dump(ANSWERS | completed), encoding="utf-8")


def access(cluster: Cluster) -> str:
    """Return the ssh arguments that reach the nodes of a sandbox."""
    folder = cluster.state / "ssh"
    return f"-i {folder / 'id_ed25519'} -o IdentitiesOnly=yes -o UserKnownHostsFile={folder / 'known_hosts'}"


def adopt(cluster: Cluster, site: Path) -> subprocess.CompletedProcess[str]:
    """Run `busbar adopt cluster` over SSH with the address of the controller."""
    controller = f"admin@{load(cluster.name).address(CONTROLLER)}"
    options = ["--controller", controller, "--ssh-common-args", access(cluster)]
    return cluster.busbar("adopt", "cluster", str(site), *options)


@contextmanager
def hand_built(name: str, site: Path, *, compute: int, database: bool) -> Iterator[Adopted]:
    """Return a hand-built cluster with one running and ten waiting jobs, and its draft."""
    cluster = Cluster(name)
    made = cluster.busbar("sandbox", "up", "--name", cluster.name, "--compute", str(compute))
    assert made.returncode == 0, made.stderr
    try:
        build(cluster.name, database=database)
        one = Adopted(cluster, site, tuple(KEPT) if database else WITHOUT_DATABASE)
        one.before = one.kept()
        assert len(one.before["queue"].splitlines()) == 10
        done = adopt(cluster, one.site)
        assert done.returncode == 0, done.stdout + done.stderr
        answer(one.site)
        yield one
    finally:
        gone = cluster.busbar("sandbox", "down", "--name", cluster.name)
    assert gone.returncode == 0, gone.stderr


@pytest.fixture(scope="module")
def adopted(sandbox_name: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Adopted]:
    """Return a cluster with accounting and two compute nodes."""
    site = tmp_path_factory.mktemp("adopt") / "site"
    with hand_built(f"{sandbox_name}-hand", site, compute=2, database=True) as one:
        yield one


def test_draft_contains_all_hosts_users_and_limits(adopted: Adopted) -> None:
    hosts = yaml.safe_load((adopted.site / "inventory/hosts.yml").read_text(encoding="utf-8"))["all"]
    addresses = {name: load(adopted.cluster.name).address(name) for name in (CONTROLLER, "gpu1", "gpu2")}
    assert {name: variables["ansible_host"] for name, variables in hosts["hosts"].items()} == addresses
    assert "not read (" not in (adopted.site / "ADOPTED.md").read_text(encoding="utf-8")
    users = yaml.safe_load((adopted.site / "inventory/group_vars/all/users.yml").read_text(encoding="utf-8"))
    declared = {user["name"]: user for user in users["users_accounts"]}
    assert {name: declared[name]["uid"] for name in USERS} == {"ada": 1101, "bert": 1102, "cleo": 1103}
    assert declared["cleo"]["slurm"]["limits"] == {"MaxSubmitJobs": "20"}
    slurm = yaml.safe_load((adopted.site / "inventory/group_vars/all/slurm.yml").read_text(encoding="utf-8"))
    assert "urgent" in {qos["name"] for qos in slurm["slurm_qos"]}
    adopted.compare("before")


def test_adopt_deepops_reads_hardware_and_settings_from_hosts(adopted: Adopted, tmp_path: Path) -> None:
    sandbox = load(adopted.cluster.name)
    hosts = [f"{name} ansible_host={sandbox.address(name)}" for name in (CONTROLLER, "gpu1", "gpu2")]
    hosts.append("away ansible_host=127.0.0.1 ansible_port=1")
    groups = ["[slurm-master]", CONTROLLER, "[slurm-node]", "gpu1", "gpu2", "away"]
    groups += ["[slurm-cluster:children]", "slurm-master", "slurm-node"]
    options = {"ansible_user": "admin", "ansible_ssh_common_args": access(adopted.cluster)}
    (tmp_path / "inventory").write_text("\n".join(["[all]", *hosts, *groups, ""]), encoding="utf-8")
    (tmp_path / "group_vars").mkdir()
    (tmp_path / "group_vars/all.yml").write_text(yaml.safe_dump(options), encoding="utf-8")
    site = tmp_path / "site"
    done = adopted.cluster.busbar("adopt", "deepops", str(tmp_path), str(site))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "host away: not read: ssh failed" in done.stdout
    assert "--hardware 'away=NAME'" in done.stdout
    found = yaml.safe_load((site / "inventory/hosts.yml").read_text(encoding="utf-8"))["all"]["hosts"]
    options = yaml.safe_load((site / "inventory/group_vars/all/cluster.yml").read_text(encoding="utf-8"))
    profile = options["hardware_profiles_extra"][found["gpu1"]["hardware"]]
    cores = profile["sockets"] * profile["cores_per_socket"] * profile["threads_per_core"]
    assert str(cores) == adopted.cluster.exec("gpu1", "nproc").stdout.strip()
    assert found["gpu2"]["ssh_server_config"]["UsePAM"] == "yes"
    assert (site / "before/gpu2/etc/default/slurmd").is_file()


def test_check_mode_changes_only_files_listed_in_adopted_md(adopted: Adopted) -> None:
    done = adopted.busbar("provision", "--check", "--diff")
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr
    listed = (adopted.site / "ADOPTED.md").read_text(encoding="utf-8").partition("## Changes")[2].partition("\n## ")[0]
    paths = set(re.findall(r"^ *--- before: (/\S+)", done.stdout, re.MULTILINE))
    assert "/etc/slurm/slurm.conf" in paths
    places = set(re.findall(r"/[\w./-]+", listed))
    assert [path for path in paths if not any(f"{path}/".startswith(f"{place}/") for place in places)] == []
    packages = re.findall(r"^ *\+(\S+) the newest", done.stdout, re.MULTILINE)
    assert [name for name in packages if name not in listed] == []
    commands = re.findall(r"^ *\+(sacctmgr .*)", done.stdout, re.MULTILINE)
    assert [line for line in commands if "user busbar-validation" not in line] == []
    adopted.compare("after check mode")


def test_takeover_in_documented_order_keeps_jobs(adopted: Adopted) -> None:
    documented = (TOP / "docs/adopt.md").read_text(encoding="utf-8")
    adopted.ansible(SET_ASIDE)
    for step in STEPS:
        assert f"busbar provision {step[0]}" in documented
        done = adopted.busbar("provision", *step)
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr
        adopted.compare(f"after {' '.join(step)}")


def test_documented_rollback_of_each_step_keeps_jobs(adopted: Adopted) -> None:
    text = (TOP / "docs/adopt.md").read_text(encoding="utf-8").partition("#### Way back")[2]
    before, *commands = re.findall(r"^\$ (ansible .*)", text, re.MULTILINE)
    assert before == SET_ASIDE
    for command in commands:
        # A container has no NFS server: tests/vm/test_9_home.py restarts one.
        if "nfs-server" in command:
            continue
        adopted.ansible(command)
        if "restart" in command:
            adopted.wait_for_slurm()
            adopted.compare(command)
    for host in (CONTROLLER, "gpu1", "gpu2"):
        for path in (adopted.site / "before" / host).rglob("*"):
            place = path.relative_to(adopted.site / "before" / host)
            if path.is_file() and "chrony" not in str(place):
                assert adopted.cluster.exec(host, f"cat /{place}").stdout == path.read_text(encoding="utf-8"), place
    assert "enable_configless" not in adopted.cluster.exec(CONTROLLER, "scontrol show config").stdout


def test_whole_site_runs_and_second_run_changes_nothing(adopted: Adopted) -> None:
    for first in (True, False):
        done = adopted.busbar("provision", *QUICK)
        assert done.returncode in {0, 4}, done.stdout[-4000:] + done.stderr
        assert first or {counts["changed"] for counts in recap(done.stdout).values()} == {0}
        adopted.compare("after the whole site")


@pytest.mark.parametrize("host", [CONTROLLER, "gpu2"])
def test_users_log_in_with_their_existing_keys(adopted: Adopted, host: str) -> None:
    address = load(adopted.cluster.name).address(host)
    for user in USERS:
        words = ["ssh", "-o", "BatchMode=yes", *access(adopted.cluster).split(), f"{user}@{address}", "id -un; pwd"]
        done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=60)
        assert done.stdout.split() == [user, f"/home/{user}"], done.stderr


def test_waiting_job_runs_and_validation_passes(adopted: Adopted) -> None:
    cluster = adopted.cluster
    cluster.exec(CONTROLLER, "scancel --name=runs")
    cluster.wait_until(lambda: not cluster.exec(CONTROLLER, "squeue -h").stdout, "the waiting jobs did not run", 180)
    ended = cluster.exec(CONTROLLER, "sacct -aXnP -o state,jobname").stdout.split()
    assert sum(line.startswith("COMPLETED") for line in ended) == 12
    done = adopted.busbar("validate", *QUICK)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr
    assert "Verdict: PASS" in done.stdout


def test_different_uids_stop_the_takeover(adopted: Adopted, tmp_path: Path) -> None:
    adopted.cluster.exec("gpu1", "useradd -M -u 1101 -o dora")
    adopted.cluster.exec("gpu2", "usermod -u 1999 bert && groupmod -g 1998 lab")
    assert adopt(adopted.cluster, tmp_path / "site").returncode == 0
    answer(tmp_path / "site")
    refused = Adopted(adopted.cluster, tmp_path / "site").busbar("provision")
    said = " ".join(refused.stdout.split())
    assert refused.returncode == 2, said
    for words in (
        *("bert: UID differs: 1102 on ctl, gpu1, 1999 on gpu2", "lab: GID differs: 2100 on ctl, gpu1, 1998 on gpu2"),
        "UID 1101 belongs to several users: ada on ctl, gpu1, gpu2, dora on gpu1",
    ):
        assert words in said
    assert adopted.cluster.exec("gpu2", "id -u bert").stdout == "1999\n"


def test_cluster_without_slurmdbd_is_adopted(sandbox_name: str, tmp_path: Path) -> None:
    with hand_built(f"{sandbox_name}-plain", tmp_path / "site", compute=1, database=False) as one:
        assert "slurm_database" not in (one.site / "inventory/hosts.yml").read_text(encoding="utf-8")
        done = one.busbar("provision", "slurm")
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr
        one.compare("after slurm")
