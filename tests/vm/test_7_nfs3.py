"""Tests of old clients and automounts: NFS 3 next to NFS 4.2, with systemd's automount."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from virtual_machines import CLIENT, SERVER, recap

if TYPE_CHECKING:
    from virtual_machines import Machines

pytestmark = pytest.mark.proves("nfs_server", "nfs_client")

FILER = "10.77.0.10"
# A client's lock is a byte-range lock on the server, which flock(1) does not see there.
TAKE = 'import fcntl; fcntl.lockf(open("/projects/lock", "r+"), fcntl.LOCK_EX | fcntl.LOCK_NB)'
BOTH = {
    "nfs_server_versions": ["3", "4.2"],
    "nfs_client_mounts": [
        {"src": f"{FILER}:/shared", "path": "/shared"},
        {"src": f"{FILER}:/projects", "path": "/projects"},
        {"src": f"{FILER}:/projects", "path": "/old", "options": ["vers=3"], "automount": True},
    ],
}


def test_version_3_is_mounted_on_first_access(machines: Machines) -> None:
    done = machines.provision(**BOTH)
    assert done.returncode == 0, done.stdout + done.stderr
    assert {"+3", "+4.2"} <= set(machines.output(SERVER, "cat /proc/fs/nfsd/versions").split())
    kinds = "findmnt -n -o FSTYPE /old || true"
    assert machines.output(CLIENT, kinds) == "autofs"
    machines.ssh(SERVER, "runuser -u bob -- sh -c 'echo of old >/projects/old'")
    assert machines.output(CLIENT, "runuser -u alice -- cat /old/old") == "of old"
    assert machines.output(CLIENT, kinds).split() == ["autofs", "nfs"]
    assert ",vers=3," in machines.output(CLIENT, "grep ' /old nfs ' /proc/mounts")


def test_locks_of_version_3_hold_between_two_mounts(machines: Machines) -> None:
    machines.ssh(CLIENT, "runuser -u alice -- touch /old/lock")
    hold = "systemd-run --quiet --unit=old-lock --uid=alice flock /old/lock -c 'echo held; sleep 600'"
    machines.ssh(CLIENT, f"{hold} && until journalctl -u old-lock -o cat | grep -q held; do sleep 0.5; done")
    try:
        taken = machines.ssh(SERVER, f"runuser -u alice -- python3 -c '{TAKE}'", check=False)
        assert "BlockingIOError" in taken.stderr, taken.stdout + taken.stderr
    finally:
        machines.ssh(CLIENT, "systemctl stop old-lock")


def test_second_run_changes_nothing(machines: Machines) -> None:
    done = machines.provision(**BOTH)
    assert done.returncode == 0, done.stdout + done.stderr
    assert {host: counts["changed"] for host, counts in recap(done.stdout).items()} == {SERVER: 0, CLIENT: 0}
