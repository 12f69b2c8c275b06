"""Tests of exports and mounts: mounted as declared, shared by all machines, closed to root and to outside hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from virtual_machines import CLIENT, SERVER, recap, wait_until

if TYPE_CHECKING:
    from virtual_machines import Machines

pytestmark = pytest.mark.proves("nfs_server", "nfs_client", "storage_mounts")


@pytest.mark.scenario
@pytest.mark.parametrize("path", ["/shared", "/projects"])
def test_mounts_have_the_declared_options(machines: Machines, path: str) -> None:
    options = machines.mount_options(path)
    assert options["type"] == "nfs4"
    assert options["source"] == f"10.77.0.10:{path}"
    assert options["vers"] == "4.2"
    assert options["nconnect"] == "4"
    assert {"hard", "nosuid", "nodev", "rw"} <= set(options)
    assert machines.host(CLIENT).mount_point(path).exists


def test_number_of_connections_matches_nconnect(machines: Machines) -> None:
    peers = machines.output(CLIENT, "ss -Htn state established dst 10.77.0.10:2049").splitlines()
    assert len(peers) == 4, peers


def test_server_enables_only_the_declared_versions(machines: Machines) -> None:
    assert machines.output(SERVER, "cat /proc/fs/nfsd/versions").split() == ["-3", "+4", "-4.0", "-4.1", "+4.2"]
    assert machines.host(SERVER).service("nfs-server").is_enabled


@pytest.mark.scenario
def test_both_machines_see_each_others_files(machines: Machines) -> None:
    machines.ssh(CLIENT, "runuser -u alice -- sh -c 'echo from the client >/projects/greeting'")
    assert machines.output(SERVER, "stat -c '%U:%G' /projects/greeting; cat /projects/greeting").split("\n") == [
        "alice:research",
        "from the client",
    ]
    machines.ssh(SERVER, "runuser -u bob -- sh -c 'echo from the server >/projects/answer'")
    assert machines.output(CLIENT, "stat -c %U /projects/answer; cat /projects/answer") == "bob\nfrom the server"


def test_lock_of_one_machine_holds_on_the_other(machines: Machines) -> None:
    hold = "import fcntl, time; f = open('/projects/greeting', 'r+'); fcntl.lockf(f, fcntl.LOCK_EX); time.sleep(600)"
    locked = "runuser -u alice -- flock {} /projects/greeting true"
    machines.ssh(SERVER, f'systemd-run --quiet --unit=lock-holder python3 -c "{hold}"')
    inode = machines.output(SERVER, "stat -c %i /projects/greeting")
    try:
        wait_until(lambda: f":{inode} " in machines.output(SERVER, "cat /proc/locks"), "the lock was not taken", 60)
        assert machines.ssh(CLIENT, locked.format("-n"), check=False).returncode == 1
    finally:
        machines.ssh(SERVER, "systemctl stop lock-holder")
    machines.ssh(CLIENT, locked.format("-w 30"))


def test_homes_are_created_on_the_server_and_owned_by_their_users(machines: Machines) -> None:
    for machine in (SERVER, CLIENT):
        assert machines.output(machine, "stat -c '%U:%G %F' /shared/home/alice") == "alice:research directory"
    machines.ssh(CLIENT, "runuser -l alice -c 'touch ~/mine'")
    assert machines.output(SERVER, "stat -c %U /shared/home/alice/mine") == "alice"


@pytest.mark.scenario
def test_root_of_a_client_is_mapped_to_nobody(machines: Machines) -> None:
    refused = machines.ssh(CLIENT, "touch /shared/by-root", check=False)
    assert "Permission denied" in refused.stderr
    machines.ssh(CLIENT, "touch /projects/by-root")
    assert machines.output(SERVER, "stat -c %u /projects/by-root") == "65534"
    assert "not permitted" in machines.ssh(CLIENT, "chown alice /projects/by-root", check=False).stderr


def test_host_outside_the_export_is_refused(machines: Machines) -> None:
    """The client connects from its address on a network that does not belong to the cluster; the link is the same."""
    refused = machines.ssh(CLIENT, "mount -t nfs4 -o ro,timeo=50 10.77.1.10:/projects /mnt", check=False)
    assert refused.returncode != 0
    assert "denied by server" in refused.stderr
    inside = "mount -t nfs4 -o ro 10.77.0.10:/projects /mnt && umount /mnt"
    assert machines.ssh(CLIENT, inside, check=False).returncode == 0


def test_second_run_changes_nothing(machines: Machines) -> None:
    done = machines.provision("--diff")
    assert done.returncode == 0, done.stdout + done.stderr
    assert {host: counts["changed"] for host, counts in recap(done.stdout).items()} == {SERVER: 0, CLIENT: 0}


def test_check_mode_on_finished_machines_shows_no_changes(machines: Machines) -> None:
    done = machines.provision("--check", "--diff")
    assert done.returncode == 0, done.stdout + done.stderr
    assert {host: counts["changed"] for host, counts in recap(done.stdout).items()} == {SERVER: 0, CLIENT: 0}


def test_check_mode_shows_changes_and_makes_none(machines: Machines) -> None:
    exports = [{"path": "/shared"}, {"path": "/projects", "options": ["ro"]}, {"path": "/archive"}]
    look = "cat /etc/exports.d/*; exportfs -s; ls -d /archive 2>&1 || true"
    before = machines.output(SERVER, look)
    done = machines.provision("--check", "--diff", "--limit", SERVER, nfs_server_exports=exports)
    assert done.returncode == 0, done.stdout + done.stderr
    assert recap(done.stdout)[SERVER]["changed"] == 2, done.stdout
    assert "+/archive" in done.stdout
    assert machines.output(SERVER, look) == before


EXPORTS = "cat /etc/exports.d/*; exportfs -s | sort"


def test_exports_rejected_by_exportfs_are_never_written(machines: Machines) -> None:
    before = machines.output(SERVER, EXPORTS)
    exports = [{"path": "/shared", "options": ["anonuid=nobody"]}, {"path": "/projects"}]
    for check in (["--check"], []):
        done = machines.provision(*check, "--limit", SERVER, nfs_server_exports=exports)
        assert done.returncode == 2, done.stdout + done.stderr
        assert 'bad anonuid "anonuid=nobody"' in done.stdout.replace("\\", "")
        assert recap(done.stdout)[SERVER]["changed"] == 0, done.stdout
        assert machines.output(SERVER, EXPORTS) == before


def test_unexported_path_is_exported_again(machines: Machines) -> None:
    before = machines.output(SERVER, EXPORTS)
    client = next(line.split()[1].partition("(")[0] for line in before.splitlines() if line.startswith("/projects  "))
    machines.ssh(SERVER, f"exportfs -u {client}:/projects")
    assert machines.output(SERVER, EXPORTS) != before
    for changed in (1, 0):
        done = machines.provision("--limit", SERVER)
        assert done.returncode == 0, done.stdout + done.stderr
        assert recap(done.stdout)[SERVER]["changed"] == changed, done.stdout
    assert machines.output(SERVER, EXPORTS) == before


def test_previous_exports_are_restored_if_the_new_ones_cannot_be_activated(machines: Machines) -> None:
    before = machines.output(SERVER, EXPORTS)
    exports = [{"path": "/shared", "clients": ["10.77.0.0/25"]}, {"path": "/projects"}]
    # exportfs cannot replace the bind-mounted table; the trial uses its own table.
    machines.ssh(SERVER, "mount --bind /var/lib/nfs/etab /var/lib/nfs/etab")
    try:
        done = machines.provision("--limit", SERVER, nfs_server_exports=exports)
    finally:
        machines.ssh(SERVER, "umount -l /var/lib/nfs/etab")
    assert done.returncode == 2, done.stdout + done.stderr
    assert "the previous exports are active again" in " ".join(done.stdout.split())
    assert machines.output(SERVER, EXPORTS) == before


def test_new_options_are_written_without_a_remount(machines: Machines) -> None:
    fstab = machines.output(CLIENT, "echo '#own /own auto noauto 0 0' >>/etc/fstab; cat /etc/fstab")
    mounts = machines.output(CLIENT, "cat /proc/self/mounts")
    options = {"nfs_client_options": ["nosuid", "nodev", "noatime"]}
    for check in (["--check"], []):
        done = machines.provision("--limit", CLIENT, "--tags", "nfs_client", *check, **options)
        assert done.returncode == 0, done.stdout + done.stderr
        assert recap(done.stdout)[CLIENT]["changed"] > 0, done.stdout
        if check:
            assert machines.output(CLIENT, "cat /etc/fstab") == fstab
    assert "new options of /shared, /projects take effect at the next mount" in " ".join(done.stdout.split())
    written = machines.output(CLIENT, "cat /etc/fstab")
    assert written.count("nodev,noatime,") == 2
    assert [line for line in written.splitlines() if "nfs" not in line] == [
        line for line in fstab.splitlines() if "nfs" not in line
    ]
    back = machines.provision("--limit", CLIENT, "--tags", "nfs_client")
    assert back.returncode == 0, back.stdout + back.stderr
    assert machines.output(CLIENT, "cat /etc/fstab") == fstab
    assert machines.output(CLIENT, "cat /proc/self/mounts") == mounts


def test_unmounted_entry_is_mounted_again(machines: Machines) -> None:
    machines.ssh(CLIENT, "umount /projects")
    for check, point in ((["--check"], False), ([], True)):
        done = machines.provision("--limit", CLIENT, "--tags", "nfs_client", *check)
        assert done.returncode == 0, done.stdout + done.stderr
        assert recap(done.stdout)[CLIENT]["changed"] == 1, done.stdout
        assert machines.host(CLIENT).mount_point("/projects").exists is point
