"""Tests of scratch on the client's own disks: RAID 0 with XFS, writable by all users."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from virtual_machines import CLIENT, recap

if TYPE_CHECKING:
    from virtual_machines import Machines

pytestmark = pytest.mark.proves("scratch")


def test_scratch_is_xfs_on_raid_0_of_the_declared_disks(machines: Machines) -> None:
    options = machines.mount_options("/scratch")
    assert options["type"] == "xfs"
    assert {"noatime", "sunit", "swidth"} <= set(options)
    array = machines.output(CLIENT, "grep -A1 ^md /proc/mdstat")
    assert "active raid0" in array
    assert {"vdb[", "vdc["} <= {member[:4] for member in array.split() if "[" in member}
    assert "vdd" not in array


def test_all_users_may_write_but_not_delete_files_of_others(machines: Machines) -> None:
    machines.ssh(CLIENT, "runuser -u alice -- sh -c 'head -c 20M /dev/urandom >/scratch/data'")
    assert machines.output(CLIENT, "stat -c '%s %a' /scratch/data /scratch").splitlines()[0].startswith("20971520")
    removed = machines.ssh(CLIENT, "runuser -u bob -- rm -f /scratch/data", check=False)
    assert "not permitted" in removed.stderr


def test_existing_data_is_kept_by_the_next_run(machines: Machines) -> None:
    before = machines.output(CLIENT, "sha256sum /scratch/data")
    done = machines.provision("--limit", CLIENT, "--tags", "scratch")
    assert done.returncode == 0, done.stdout
    assert "changed=0" in done.stdout
    assert machines.output(CLIENT, "sha256sum /scratch/data") == before


def test_striped_lvm_volume_is_created_once(machines: Machines) -> None:
    spare = {
        "scratch_devices": ["/dev/disk/by-id/virtio-spare0", "/dev/disk/by-id/virtio-spare1"],
        "scratch_raid": "lvm",
        "scratch_minimum_mb": 500,
        "scratch_path": "/striped",
        "scratch_name": "striped",
    }
    done = machines.provision("--limit", CLIENT, "--tags", "scratch", **spare)
    assert done.returncode == 0, done.stdout + done.stderr
    assert machines.mount_options("/striped")["type"] == "xfs"
    parts = machines.output(CLIENT, "lvs --noheadings -o devices striped")
    assert parts.count("/dev/vd") == 2, parts
    machines.ssh(CLIENT, "runuser -u alice -- sh -c 'echo kept >/striped/file' && sync")
    again = machines.provision("--limit", CLIENT, "--tags", "scratch", **spare)
    assert recap(again.stdout)[CLIENT]["changed"] == 0, again.stdout
    assert machines.output(CLIENT, "cat /striped/file") == "kept"
