"""Tests of single-node faults during a user's job: reported with host and cause, healed by the next run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from faulted import Fault, Work, prove, prove_rest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import Cluster

pytestmark = pytest.mark.proves("preflight", "hosts")

KEYS = "/home/admin/.ssh/authorized_keys"
RULES = "/etc/sudoers.d/admin"
LOOK = ("preflight", "--limit", "gpu2")
# The tags of one role that installs packages; all roles do it in the same way.
NAMES = ("base", "-t", "hosts", "--limit", "gpu2")
# Simulates a /var of a few megabytes; running daemons keep their open files.
SMALL_VAR = (
    "mkdir /run/small && mount -t tmpfs -o size=8m tmpfs /run/small && mkdir /run/small/up /run/small/work"
    " && mount -t overlay overlay -o lowerdir=/var,upperdir=/run/small/up,workdir=/run/small/work /var"
)
# The mount itself cannot change under running daemons, so only SSH sessions see it as read-only.
READ_ONLY = "[Service]\\nReadOnlyPaths=/\\nReadWritePaths=/run /tmp /dev /proc /sys\\n"
DROP_IN = "/etc/systemd/system/ssh.service.d/fault.conf"
AGAIN = "systemctl daemon-reload; systemctl restart ssh; pkill -u admin; true"
# Likewise for the folder of Slurm's logs; the daemons reopen their files.
LOGS = "/var/log/slurm"
REOPEN = "systemctl kill -s USR2 --kill-whom=main slurmctld slurmdbd"
SMALL_LOGS = f"{SMALL_VAR.replace('/var', LOGS)}; {REOPEN}"
FAULTS = [
    Fault(
        "an SSH key that is revoked",
        says="gpu2: ansible_host: cannot be reached: …Permission denied…remedy: install your key",
        heals="`busbar ssh bootstrap`",
        node="gpu2",
        breaks=f"mv {KEYS} {KEYS}.gone",
        mends=f"mv {KEYS}.gone {KEYS}",
        run=LOOK,
        again=NAMES,
    ),
    Fault(
        "sudo that is refused",
        says="gpu2: become: sudo fails: …remedy: enter the correct sudo password with -K",
        heals="give the account its sudo rule",
        node="gpu2",
        breaks=f"mv {RULES} /root/admin.rule",
        mends=f"mv /root/admin.rule {RULES}",
        run=LOOK,
    ),
    Fault(
        "a disk that went read-only on a node that answers",
        says="gpu2: disk /: is mounted read-only…remedy: find the cause (dmesg",
        heals="repair the disk, remount it read-write",
        node="gpu2",
        breaks=f"mkdir -p {DROP_IN.rpartition('/')[0]}; printf '{READ_ONLY}' >{DROP_IN}; {AGAIN}",
        mends=f"rm {DROP_IN}; {AGAIN}",
        run=LOOK,
    ),
    Fault(
        "a full /var",
        says="gpu2: disk /var: 0 MiB free, 2048 MiB required…remedy: free space below /var",
        heals="make room",
        node="gpu2",
        breaks=f"{SMALL_VAR}; head -c 100M /dev/zero >/var/full 2>/dev/null; true",
        mends="umount -l /var && umount -l /run/small && rmdir /run/small",
        run=LOOK,
    ),
    Fault(
        "a full disk of Slurm's logs on the controller",
        says="ctl: disk /var/log/slurm: 0 MiB free, 100 MiB required…remedy: free space below /var/log/slurm",
        heals="make room; the daemons go on without their logs",
        node="ctl",
        breaks=f"{SMALL_LOGS}; head -c 100M /dev/zero >{LOGS}/full 2>/dev/null; {REOPEN}",
        mends=f"umount -l {LOGS} && umount -l /run/small && rmdir /run/small && {REOPEN}",
        run=("preflight", "--limit", "ctl"),
        again=("slurm", "--limit", "ctl", "-t", "slurm_controller"),
    ),
]


@pytest.fixture(scope="module")
def work(sandbox: Cluster) -> Iterator[Work]:
    """Return the jobs, accounts and secrets that must survive."""
    there = Work(sandbox)
    yield there
    there.end()


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_fault_is_reported_and_healed_without_loss(sandbox: Cluster, work: Work, fault: Fault) -> None:
    prove(sandbox, work, fault)


def test_run_after_all_faults_changes_nothing(sandbox: Cluster, work: Work) -> None:
    prove_rest(sandbox, *NAMES)
    work.is_whole()
