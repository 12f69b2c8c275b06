"""Tests of many faults at once: preflight or doctor reports each, a plain run heals all, the next changes nothing."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from busbar.sandbox.recording import gpu_recording
from conftest import as_json, recap
from fault_results import note
from faulted import Fault, Work, are_said, break_all, is_said, prove_rest, prove_told, provision, see_sound

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from conftest import Cluster

pytestmark = pytest.mark.proves("preflight", "slurm", "hosts", "ssh", "users")

RECORDING = "/etc/simulated-gpus.xml"
LATE = "/opt/busbar-test-hour"
# Python with a clock that is an hour slow, because a container has no clock of its own.
HOUR_LATE = f"""mkdir -p {LATE}
cat >{LATE}/sitecustomize.py <<'END'
import time
true_time = time.time
time.time = lambda: true_time() - 3600
END
printf '#!/bin/sh\\nPYTHONPATH={LATE} exec /usr/bin/python3 "$@"\\n' >{LATE}/python3
chmod +x {LATE}/python3"""
MORE = f"all: {{hosts: {{gpu2: {{ansible_python_interpreter: {LATE}/python3}}}}}}\n"
SSHD = "systemctl is-active ssh && ! ps -C sshd -o stat= | grep -q T"
# Reported before any host is changed. Only the admin can fix them.
REFUSED = [
    Fault(
        "a clock that is an hour off",
        says="gpu2: clock: clock is 60 minutes behind the clock of this host…remedy: correct the clock of the host",
        heals="set the clock",
        node="gpu2",
        breaks=HOUR_LATE,
        mends=f"rm -r {LATE}",
    ),
    Fault(
        "a full /tmp",
        says="gpu2: disk /tmp: …MiB free, 512 needed…remedy: free space below /tmp",
        heals="make room",
        node="gpu2",
        breaks="mount -t tmpfs -o size=8m,mode=1777 tmpfs /tmp; head -c 10M /dev/zero >/tmp/full; true",
        mends="umount -l /tmp",
    ),
    Fault(
        "fewer GPUs than declared",
        says="gpu2: …2 declared, 1 found…remedy:",
        heals="reseat or replace the GPU, or correct the hardware of the host",
        node="gpu2",
        breaks=f"mv {RECORDING} {RECORDING}.sound; cat >{RECORDING} <<'END'\n{gpu_recording('gpu2', 1)}\nEND",
        mends=f"mv {RECORDING}.sound {RECORDING}",
    ),
    Fault(
        "an SSH server that hangs",
        says="gpu1: ansible_host: cannot be reached: …timed out…remedy: power the host on and check",
        heals="restart sshd from the console, or power-cycle the node",
        node="gpu1",
        breaks="pkill -STOP -x sshd; pkill -u admin; true",
        mends="pkill -CONT -x sshd",
        sound=SSHD,
    ),
    Fault(
        "a host without Python",
        says="login: python: has no usable Python: …remedy: install python3 on the host",
        heals="install python3",
        node="login",
        breaks="mv /usr/bin/python3 /usr/bin/python3.gone",
        mends="mv /usr/bin/python3.gone /usr/bin/python3",
        sound="python3 -c ''",
    ),
]
REFUSED_TOO = [
    Fault(
        "an SSH server that is down",
        says="gpu1: ansible_host: cannot be reached: …Connection refused…remedy: power the host on and check",
        heals="start sshd from the console",
        node="gpu1",
        breaks="systemctl stop ssh.socket ssh; pkill -u admin; true",
        mends="systemctl start ssh",
        sound=SSHD,
    ),
    Fault(
        "an unknown operating system",
        says="login: operating system: Frob 1 is not supported…remedy: install one of: ",
        heals="install a system that is supported",
        node="login",
        breaks="mv /etc/os-release /root/os-release"
        "; printf 'ID=frob\\nVERSION_ID=1\\nPRETTY_NAME=\"Frob 1\"\\n' >/etc/os-release",
        mends="mv /root/os-release /etc/os-release",
        sound="grep -q ID=debian /etc/os-release",
    ),
    Fault(
        "an admin without a shell",
        says="gpu2: ansible_user: has no shell: This account…remedy: give ansible_user a shell",
        heals="`usermod -s /bin/bash`",
        node="gpu2",
        breaks="usermod -s /usr/sbin/nologin admin",
        mends="usermod -s /bin/bash admin",
    ),
]
FOLDER = "/usr/local/lib/busbar"


def down(unit: str) -> dict[str, Any]:
    """Return the commands that stop a service and check that it runs."""
    return {"breaks": f"systemctl stop {unit}", "sound": f"systemctl is-active {unit}"}


def lost(path: str) -> dict[str, Any]:
    """Return the commands that delete a file and check that it has content."""
    return {"breaks": f"rm {path}", "sound": f"test -s {path}"}


def spoilt(path: str, unit: str) -> dict[str, Any]:
    """Return the commands that damage a file and check that its service runs without the damage."""
    return {
        "breaks": f"echo '[{{ astray' >>{path}",
        "sound": f"! grep -q astray {path} && systemctl is-active {unit}",
    }


# Reported by `busbar doctor`.
DOWN = [
    Fault(
        "slurmd is down",
        says="gpu2: services: slurmd does not run (inactive)…systemctl restart slurmd",
        heals="nothing",
        node="gpu2",
        **down("slurmd"),
    ),
    Fault(
        "slurmctld is down",
        says="ctl: services: slurmctld does not run (inactive)…systemctl restart slurmctld",
        heals="nothing",
        node="ctl",
        **down("slurmctld"),
    ),
    Fault(
        "slurmdbd is down",
        says="ctl: services: slurmdbd does not run (inactive)…systemctl restart slurmdbd",
        heals="nothing",
        node="ctl",
        **down("slurmdbd"),
    ),
    Fault(
        "the database is down",
        says="ctl: services: mariadb does not run (inactive)…systemctl restart mariadb",
        heals="nothing",
        node="ctl",
        **down("mariadb"),
    ),
    Fault(
        "munge is down on a login node",
        says="login: services: munge does not run (inactive)…systemctl restart munge",
        heals="nothing",
        node="login",
        **down("munge"),
    ),
    Fault(
        "sackd is down",
        says="login: services: sackd does not run (inactive)…systemctl restart sackd",
        heals="nothing",
        node="login",
        **down("sackd"),
    ),
    Fault(
        "chrony is down",
        says="gpu2: services: chrony does not run (inactive)…systemctl restart chrony",
        heals="nothing",
        node="gpu2",
        **down("chrony"),
    ),
    Fault(
        "a host certificate that is damaged",
        says="login: certificates: /etc/ssh/ssh_host_ed25519_key-cert.pub cannot be read…--tags ssh",
        heals="nothing",
        node="login",
        breaks="echo damaged >/etc/ssh/ssh_host_ed25519_key-cert.pub",
        sound="ssh-keygen -L -f /etc/ssh/ssh_host_ed25519_key-cert.pub",
    ),
]
# Reported by the plain run itself with --diff: task, host and file.
STRAYED = [
    Fault(
        "another munge key on a node",
        says="munge : configure | Write the key …changed=1",
        heals="nothing",
        node="gpu2",
        breaks="cp -p /etc/munge/munge.key /root/sound.key; head -c 40 /dev/urandom | base64 -w0 >/etc/munge/munge.key"
        "; systemctl restart munge",
        sound="test ! -e /root/sound.key || cmp /root/sound.key /etc/munge/munge.key",
    ),
    Fault(
        "a table of hosts without the cluster",
        says="hosts : names | Write /etc/hosts…changed=…login: …/etc/hosts",
        heals="nothing",
        node="login",
        breaks="echo '127.0.0.1 localhost' >/etc/hosts",
        sound="getent hosts gpu1",
    ),
    Fault(
        "a package that was removed by hand",
        says="hosts : install | Install packages …changed=1",
        heals="nothing",
        node="gpu2",
        breaks="dpkg --purge --force-depends tzdata",
        sound="dpkg -s tzdata",
    ),
    Fault(
        "settings of sshd that are gone",
        says="ssh : configure | Write certificate and server settings …changed=…gpu2: …01-busbar.conf",
        heals="nothing",
        node="gpu2",
        **lost("/etc/ssh/sshd_config.d/01-busbar.conf"),
    ),
    Fault(
        "a login node that knows no key of the cluster",
        says="ssh : trust | Write the trusted hosts …changed=…login…/etc/ssh/",
        heals="nothing",
        node="login",
        **lost("/etc/ssh/ssh_known_hosts"),
    ),
    Fault(
        "a user who was deleted on a node",
        says="users : accounts | Create and update users …changed=1",
        heals="nothing",
        node="gpu2",
        breaks="userdel bob",
        sound="id bob",
    ),
    Fault(
        "a controller without its gres.conf",
        says="slurm : configuration | Write the configuration of the controller …changed=1…ctl: …/etc/slurm/gres.conf",
        heals="nothing",
        node="ctl",
        **lost("/etc/slurm/gres.conf"),
    ),
    Fault(
        "a slurmdbd.conf that is spoilt",
        says="slurm : database | Write the configuration of slurmdbd …changed=1",
        heals="nothing",
        node="ctl",
        **spoilt("/etc/slurm/slurmdbd.conf", "slurmdbd"),
    ),
    Fault(
        "a slurmd that does not know its controller",
        says="slurm : compute | Write the address of the controllers for slurmd …changed=1…gpu2: …/etc/default/slurmd",
        heals="nothing",
        node="gpu2",
        **lost("/etc/default/slurmd"),
    ),
    Fault(
        "a job script of slurmd that is gone",
        says="slurm : prolog_epilog | Write the prologs and epilogs of jobs …changed=1…gpu2: …job_prolog",
        heals="nothing",
        node="gpu2",
        **lost(f"{FOLDER}/job_prolog"),
    ),
    Fault(
        "a health check that is gone",
        says="node_health : install | Install the health check …changed=1…gpu2: …node_health",
        heals="nothing",
        node="gpu2",
        **lost(f"{FOLDER}/node_health"),
    ),
]
# Limits the run to the parts of the site with faults.
PLAIN = ("site", "-t", "users,hosts,ssh,munge,mariadb,slurm,node_health")


@pytest.fixture(scope="module")
def work(sandbox: Cluster) -> Iterator[Work]:
    """Return the jobs, accounts and secrets that must survive."""
    there = Work(sandbox)
    yield there
    there.end()


@pytest.fixture(scope="module")
def late(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an inventory that makes Ansible use the Python with the slow clock on gpu2."""
    path: Path = tmp_path_factory.mktemp("late") / "more.yml"
    path.write_text(MORE)
    return path


def test_faults_that_need_the_admin_are_all_reported_before_any_change(
    sandbox: Cluster, work: Work, late: Path
) -> None:
    took = prove_told(sandbox, work, REFUSED, "preflight", "-i", str(late))
    took |= prove_told(sandbox, work, REFUSED_TOO, "preflight")
    began = time.monotonic()
    prove_rest(sandbox, "preflight")
    healed_s = time.monotonic() - began
    for name, told_s in took.items():
        note("runs", name, {"told_s": round(told_s), "healed_s": round(healed_s)})


def test_stopped_services_and_changed_files_are_reported_and_healed_by_one_run(sandbox: Cluster, work: Work) -> None:
    break_all(sandbox, [*STRAYED, *DOWN])
    began = time.monotonic()
    asked = sandbox.busbar("doctor", "-i", str(sandbox.inventory), "--format", "json")
    told_s = time.monotonic() - began
    assert asked.returncode == 1, asked.stdout + asked.stderr
    said = [
        f"{','.join(each['hosts'])}: {each['key']}: {each['problem']} {each['remedy']}"
        for each in as_json(asked.stdout)["findings"]
    ]
    silent = [fault.says for fault in DOWN if not any(is_said(fault.says, line) for line in said)]
    assert not silent, (silent, said)
    began = time.monotonic()
    healed = provision(sandbox, *PLAIN, "--diff")
    healed_s = time.monotonic() - began
    output = healed.stdout + healed.stderr
    assert healed.returncode == 0, output
    are_said(STRAYED, output)
    assert min(recap(healed.stdout)[host]["changed"] for host in ("ctl", "login", "gpu2")) > 0
    see_sound(sandbox, [*STRAYED, *DOWN])
    sandbox.exec("gpu2", "rm /root/sound.key")
    sandbox.wait_until(lambda: sandbox.node_states()["gpu2"] == "idle", "gpu2 is not in service again", 120)
    work.is_whole()
    for fault in DOWN:
        note("runs", fault.name, {"told_s": round(told_s), "healed_s": round(healed_s)})
    for fault in STRAYED:
        note("runs", fault.name, {"healed_s": round(healed_s)})


def test_run_after_all_faults_changes_nothing(sandbox: Cluster, work: Work) -> None:
    prove_rest(sandbox, *PLAIN)
    work.is_whole()
