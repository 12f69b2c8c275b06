"""Tests of invalid input and of wrong host states: one clear error with place and remedy, and no change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from virtual_machines import CLIENT, SERVER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from virtual_machines import Machines

pytestmark = pytest.mark.proves("nfs_server", "nfs_client", "storage_mounts")

STATE = {
    SERVER: "cat /etc/exports.d/* /etc/nfs.conf.d/* 2>/dev/null; exportfs -s; ls -a / /srv",
    CLIENT: "cat /etc/fstab; cut -d' ' -f1-3 /proc/mounts; ls -a / /home; cat /proc/mdstat; lsblk -f -n -o NAME,FSTYPE",
}
SCRATCH0 = "/dev/disk/by-id/virtio-scratch0"


@pytest.fixture(scope="module", autouse=True)
def _nothing_is_changed(machines: Machines) -> Iterator[None]:
    """Check that the tests of this file change neither machine."""
    before = {machine: machines.output(machine, look) for machine, look in STATE.items()}
    yield
    for machine, look in STATE.items():
        assert machines.output(machine, look) == before[machine]


@pytest.mark.parametrize(
    ("exports", "said"),
    [
        ([{"path": "/projects"}, {"path": "/projects/deep"}], ["/projects/deep", "/projects"]),
        ([{"path": "/"}], ["nfs_server_exports"]),
        ([{"path": "/projects", "clients": ["10.77.0.300/24"]}], ["10.77.0.300/24"]),
    ],
    ids=["overlapping exports", "export of the root", "client network that is no network"],
)
def test_invalid_exports_are_refused(machines: Machines, exports: list[dict[str, Any]], said: list[str]) -> None:
    text = machines.refusal(SERVER, nfs_server_exports=exports)
    for part in [*said, SERVER, "remedy: "]:
        assert part in text


def test_mount_of_a_path_that_is_not_exported_is_refused(machines: Machines) -> None:
    mounts = [{"src": "10.77.0.10:/nowhere", "path": "/nowhere"}]
    text = machines.refusal(CLIENT, nfs_client_mounts=mounts)
    for part in ("/nowhere", CLIENT, "nfs_client_mounts", "remedy: "):
        assert part in text


@pytest.mark.fault(
    "a mount point that a process uses",
    says="/busy…sleep…remedy: ",
    heals="end the process, run again",
)
def test_mount_point_in_use_is_refused_with_the_process(machines: Machines) -> None:
    start = "mkdir /busy && systemd-run --quiet --unit=holder --working-directory=/busy sleep 600"
    pid = machines.output(CLIENT, f"{start}; systemctl show -P MainPID holder")
    try:
        text = machines.refusal(CLIENT, nfs_client_mounts=[{"src": "10.77.0.10:/projects", "path": "/busy"}])
    finally:
        machines.ssh(CLIENT, "systemctl stop holder; rmdir /busy")
    for part in ("/busy", pid, "sleep", "remedy: "):
        assert part in text


def test_mount_over_a_home_in_use_is_refused(machines: Machines) -> None:
    text = machines.refusal(CLIENT, nfs_client_mounts=[{"src": "10.77.0.10:/projects", "path": "/home"}])
    for part in ("/home", "admin", "remedy: "):
        assert part in text


@pytest.mark.parametrize(
    ("devices", "said"),
    [
        ([SCRATCH0, SCRATCH0], "virtio-scratch0"),
        ([SCRATCH0, "/dev/vdb"], "virtio-scratch0"),
        ([SCRATCH0, "/dev/disk/by-id/virtio-nothing"], "virtio-nothing"),
    ],
    ids=["device given twice", "device given by two names", "device that is not there"],
)
def test_unusable_devices_are_refused(machines: Machines, devices: list[str], said: str) -> None:
    text = machines.refusal(CLIENT, scratch_devices=devices)
    for part in (said, "scratch_devices", CLIENT, "remedy: "):
        assert part in text


@pytest.mark.fault(
    "a disk for scratch that holds data",
    says="thesis…scratch_wipe_devices…remedy: ",
    heals="name the disk in the option if it may be wiped",
)
def test_disk_with_data_is_refused_and_unchanged(machines: Machines) -> None:
    before = machines.disk_digest(CLIENT, "data0")
    device = "/dev/disk/by-id/virtio-data0"
    other = {"scratch_devices": [device], "scratch_path": "/other", "scratch_name": "other"}
    text = machines.refusal(CLIENT, **other)
    for part in (device, "ext4", "thesis", "scratch_wipe_devices", "remedy: "):
        assert part in text
    wrong_host = machines.refusal(CLIENT, **other, scratch_wipe_devices={SERVER: [device]})
    assert "thesis" in wrong_host
    assert machines.disk_digest(CLIENT, "data0") == before
