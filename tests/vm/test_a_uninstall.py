"""Tests of the uninstallation of a client and of a file server that exported something before busbar."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from virtual_machines import CLIENT, PROGRAM, SERVER, TOP, Machines, recap
from vm_pair.state import load

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.proves("nfs_server", "nfs_client")

OWN = """
mkdir -p /srv/own /etc/nfs.conf.d && echo of-before >/srv/own/file
echo '/srv/own 10.77.0.0/24(ro,no_subtree_check)' >>/etc/exports
systemctl enable --now nfs-server
"""
# The exports and the NFS versions of a server.
SERVED = "exportfs -s; cat /proc/fs/nfsd/versions"


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[Machines, str]]:
    """Return new machines, one of which was a file server before busbar, and its previous exports."""
    name = f"{os.environ.get('BUSBAR_TEST_VMS', 'test-vm')}-before"
    made = subprocess.run([PROGRAM, "up", "--name", name], check=False, capture_output=True, text=True)
    assert made.returncode == 0, made.stdout + made.stderr
    machines = Machines(load(name))
    machines.ssh(SERVER, OWN)
    before = machines.output(SERVER, SERVED)
    done = machines.play(Path(__file__).with_name("site.yml"))
    assert done.returncode == 0, done.stdout + done.stderr
    yield machines, before
    subprocess.run([PROGRAM, "down", "--name", name], check=True, capture_output=True)


def uninstalled(machines: Machines, nodes: str, **options: object) -> subprocess.CompletedProcess[str]:
    return machines.play(TOP / "playbooks" / "uninstall.yml", uninstall_nodes=nodes, **options)


def test_mounting_client_is_reported_before_any_change(served: tuple[Machines, str]) -> None:
    machines, _before = served
    machines.ssh(SERVER, "runuser -u alice -- sh -c 'echo mine >/projects/mine'")
    assert machines.output(CLIENT, "cat /projects/mine") == "mine"
    for nodes, options, told in (
        (SERVER, {"uninstall_leaves_data": True}, f"{SERVER}: uninstall_nodes: serves {CLIENT}, which still belong"),
        (f"{SERVER},{CLIENT}", {}, "data in /projects, an NFS mount of 10.77.0.11"),
    ):
        done = uninstalled(machines, nodes, **options)
        assert done.returncode == 2, done.stdout + done.stderr
        assert told in " ".join(done.stdout.split()), done.stdout
        assert {counts["changed"] for counts in recap(done.stdout).values()} == {0}
    assert machines.output(CLIENT, "cat /projects/mine") == "mine"


def test_only_the_previous_exports_are_served_again(served: tuple[Machines, str]) -> None:
    machines, before = served
    for changed in (True, False):
        done = uninstalled(machines, f"{SERVER},{CLIENT}", uninstall_leaves_data=True)
        assert done.returncode == 0, done.stdout + done.stderr
        assert any(counts["changed"] for counts in recap(done.stdout).values()) is changed, done.stdout
    assert machines.output(SERVER, SERVED) == before
    assert machines.output(SERVER, "cat /projects/mine") == "mine", "data of users"
    assert machines.output(CLIENT, "findmnt -rno TARGET -t nfs,nfs4 || true; grep -c nfs /etc/fstab || true") == "0"
    # Mounted on the server itself, because the client has no NFS packages any more; with a version that busbar did not
    # enable.
    mount = "mount -t nfs -o vers=4.1,timeo=50,retry=0 10.77.0.10:{path} /mnt"
    assert machines.output(SERVER, f"{mount.format(path='/srv/own')} && cat /mnt/file && umount /mnt") == "of-before"
    refused = machines.ssh(SERVER, mount.format(path="/projects"), check=False)
    assert refused.returncode == 32, refused.stdout + refused.stderr
