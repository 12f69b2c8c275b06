"""Tests of a client with a manually mounted /home, the file system of an adopted cluster: the mount stays."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from virtual_machines import CLIENT, SERVER, TOP, recap

if TYPE_CHECKING:
    from collections.abc import Iterator

    from virtual_machines import Machines

pytestmark = pytest.mark.proves("nfs_server", "nfs_client")

FILER, MOUNTER = "10.77.0.10", "10.77.0.11"
# The variables that `busbar adopt cluster` writes for such a cluster.
ADOPTED: dict[str, Any] = {
    "users_home_base": "/home",
    "users_create_home": False,
    "nfs_server_options": [],
    "nfs_server_exports": [
        {"path": "/shared"},
        {"path": "/projects", "mode": "1777"},
        {"path": "/home", "clients": [MOUNTER], "mount": False, "options": ["rw", "sync", "no_subtree_check"]},
    ],
    "nfs_client_mounts": [{"src": f"{FILER}:/home", "path": "/home", "options": ["vers=4.2", "hard"]}],
    "nfs_client_nconnect": 0,
    "nfs_client_rsize": 0,
    "nfs_client_wsize": 0,
    "nfs_client_options": [],
}
# Only one client of the second line is declared, so the line stays.
BY_HAND = (
    f"/home \\\\\n    {MOUNTER}(rw,sync,no_subtree_check) # homes\n"
    f"/srv {MOUNTER}(ro,no_subtree_check) 10.77.0.99(ro,no_subtree_check)\n"
)
# A remount changes the ID of a mount.
MOUNT = "findmnt --noheadings --output ID,SOURCE,FSTYPE /home"


@pytest.fixture(scope="module")
def mounted(machines: Machines) -> Iterator[Machines]:
    """Mount /home of the server on the client with manual entries, and run a user's process in it."""
    own = "install -d -o alice -m 700 /home/alice"
    machines.ssh(SERVER, "cp /etc/exports /root/exports.own")
    machines.ssh(SERVER, f"{own}; printf '{BY_HAND}' >>/etc/exports; cp /etc/exports /root/; exportfs -ra")
    line = f"{FILER}:/home /home nfs vers=4.2,hard,_netdev 0 0"
    machines.ssh(CLIENT, f"echo '{line}' >>/etc/fstab; systemctl daemon-reload; mount /home")
    machines.ssh(CLIENT, "systemd-run --quiet --unit=at-home --uid=alice --working-directory=/home/alice sleep 6000")
    yield machines
    machines.ssh(CLIENT, "systemctl stop at-home; umount -l /home; sed -i '/ .home nfs/d' /etc/fstab", check=False)
    own_files = "/home/alice /etc/exports.d/own.exports"
    machines.ssh(SERVER, f"cp /root/exports.own /etc/exports; rm -r {own_files}; exportfs -ra", check=False)
    back = machines.provision()
    assert back.returncode == 0, back.stdout + back.stderr


def test_mounted_home_stays_unchanged(mounted: Machines) -> None:
    before = mounted.output(CLIENT, MOUNT)
    assert before.split()[1:] == [f"{FILER}:/home", "nfs4"]
    done = mounted.provision(**ADOPTED)
    assert done.returncode == 0, done.stdout + done.stderr
    assert mounted.output(CLIENT, MOUNT) == before
    assert mounted.output(CLIENT, "systemctl is-active at-home") == "active"
    lines = mounted.output(CLIENT, "grep -c ' /home nfs' /etc/fstab")
    assert lines == "1"
    mounted.ssh(CLIENT, "runuser -u alice -- touch /home/alice/mine")
    assert mounted.output(SERVER, "stat -c %U /home/alice/mine") == "alice"
    # The export was moved, and the other line stays.
    assert mounted.output(SERVER, "sed -n '/^.home/p' /etc/exports") == ""
    assert "/srv 10.77.0.11(ro,no_subtree_check) 10.77.0.99(ro,no_subtree_check)" in mounted.output(
        SERVER, "cat /etc/exports"
    )
    assert mounted.output(SERVER, "exportfs -s | grep -c ^/home") == "1"


def test_second_run_changes_nothing(mounted: Machines) -> None:
    done = mounted.provision(**ADOPTED)
    assert done.returncode == 0, done.stdout + done.stderr
    assert {host: counts["changed"] for host, counts in recap(done.stdout).items()} == {SERVER: 0, CLIENT: 0}


def test_documented_rollback_keeps_the_mount(mounted: Machines) -> None:
    before = mounted.output(CLIENT, MOUNT)
    # before/ of the site contains /etc/exports. The other exports of this server become files of its admin.
    mounted.ssh(SERVER, "sed '/^.home/,$d' /etc/exports.d/busbar.exports >/etc/exports.d/own.exports")
    mounted.ssh(SERVER, "cp /root/exports /etc/exports")
    documented = (TOP / "docs/adopt.md").read_text(encoding="utf-8")
    commands = re.findall(r"^\$ ansible nfs_server -b -a '(.*)'$", documented, re.MULTILINE)
    assert commands[-1] == "systemctl restart nfs-server"
    for command in commands:
        mounted.ssh(SERVER, command)
    # A restarted server only lets clients reclaim their locks for 90 s before it opens files for others.
    mounted.ssh(CLIENT, "runuser -u alice -- touch /home/alice/again", timeout=300)
    assert mounted.output(CLIENT, MOUNT) == before
    assert mounted.output(CLIENT, "systemctl is-active at-home") == "active"
    assert "/home" in mounted.output(SERVER, "exportfs")
