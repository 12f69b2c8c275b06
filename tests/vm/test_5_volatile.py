"""Tests of a disk that may be wiped, and of the disks that the boot service recreates or leaves alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from virtual_machines import CLIENT, recap, wait_until

if TYPE_CHECKING:
    from virtual_machines import Machines

pytestmark = pytest.mark.proves("scratch")

DEVICE = "/dev/disk/by-id/virtio-data0"
OTHER = {
    "scratch_minimum_mb": 500,
    "scratch_devices": [DEVICE],
    "scratch_path": "/other",
    "scratch_name": "other",
    "scratch_volatile": True,
}
ALLOWED = {"scratch_wipe_devices": {CLIENT: [DEVICE]}}


def test_disk_in_use_is_refused_although_wiping_is_allowed(machines: Machines) -> None:
    machines.ssh(CLIENT, f"mkdir -p /somewhere && mount -o ro,noload {DEVICE} /somewhere")
    try:
        before = machines.disk_digest(CLIENT, "data0")
        text = machines.refusal(CLIENT, **OTHER, **ALLOWED)
        assert "is mounted at /somewhere" in text
        assert "a disk in use is never wiped" in text
        assert machines.disk_digest(CLIENT, "data0") == before
    finally:
        machines.ssh(CLIENT, "umount /somewhere && rmdir /somewhere")


def test_disk_is_wiped_only_once(machines: Machines) -> None:
    done = machines.provision("--limit", CLIENT, "--tags", "scratch", **OTHER, **ALLOWED)
    assert done.returncode == 0, done.stdout
    assert machines.mount_options("/other")["type"] == "xfs"
    machines.ssh(CLIENT, "echo kept >/other/file && sync")
    again = machines.provision("--limit", CLIENT, "--tags", "scratch", **OTHER, **ALLOWED)
    assert recap(again.stdout)[CLIENT]["changed"] == 0, again.stdout
    assert machines.output(CLIENT, "cat /other/file") == "kept"


def test_disk_with_data_is_left_alone_at_boot(machines: Machines) -> None:
    """Starts the service manually, as a boot would do."""
    machines.ssh(
        CLIENT,
        f"umount /other 2>/dev/null; wipefs --quiet --all {DEVICE} && mkfs.ext4 -q {DEVICE} && udevadm settle",
    )
    before = machines.disk_digest(CLIENT, "data0")
    started = machines.ssh(CLIENT, "systemctl restart busbar-scratch", check=False)
    assert started.returncode != 0
    told = machines.output(CLIENT, "journalctl -u busbar-scratch -n 20 -o cat --no-pager")
    assert f"scratch is not recreated: {DEVICE} contains" in told
    assert machines.disk_digest(CLIENT, "data0") == before


def test_blank_disk_is_formatted_as_scratch_at_boot(machines: Machines) -> None:
    kept = machines.output(CLIENT, "cat /scratch/data | sha256sum")
    # Clouds return a blank disk to an instance that was stopped.
    machines.ssh(CLIENT, f"systemctl reset-failed busbar-scratch; blkdiscard --zeroout --force {DEVICE} && sync")
    machines.reboot(CLIENT)
    machines.wait_for_boot(CLIENT)
    wait_until(lambda: "/other " in machines.output(CLIENT, "cat /proc/mounts"), "scratch is not mounted", 120)
    assert machines.mount_options("/other")["type"] == "xfs"
    assert machines.output(CLIENT, "ls -A /other; stat -c %a /other") == "1777"
    told = machines.output(CLIENT, "journalctl -b -u busbar-scratch -o cat --no-pager")
    assert "FAILURE" not in told, told
    machines.ssh(CLIENT, "runuser -u alice -- touch /other/mine")
    # The other scratch, whose disks contain data, is unchanged.
    assert machines.output(CLIENT, "cat /scratch/data | sha256sum") == kept
