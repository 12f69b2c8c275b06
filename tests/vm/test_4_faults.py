"""Tests of an unavailable server: programs wait and finish, a run does not hang, and reboots restore everything."""

from __future__ import annotations

import itertools
import time
from typing import TYPE_CHECKING

import pytest
from virtual_machines import CLIENT, SERVER, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from virtual_machines import Machines

pytestmark = pytest.mark.proves("nfs_server", "nfs_client", "storage_mounts")

MINUTE_S = 60
# Each block is on the server's disk before the next one is sent; the pauses extend it beyond the start of the reboot.
WRITER = """\
import hashlib, os, time
digest = hashlib.sha256()
with open("/projects/long", "wb", buffering=0) as file:
    for number in range(160):
        block = os.urandom(1 << 18)
        digest.update(block)
        file.write(block)
        os.fsync(file.fileno())
        print(number, time.time(), flush=True)
        time.sleep(0.1)
print("sha256", digest.hexdigest(), flush=True)
"""


@pytest.fixture
def _gone(machines: Machines) -> Iterator[None]:
    """Disconnect the server's cable during the test."""
    machines.set_cable(SERVER, plugged=False)
    yield
    machines.set_cable(SERVER, plugged=True)
    machines.ssh(CLIENT, "ls /projects", timeout=180)


def test_long_write_survives_a_reboot_of_the_server(machines: Machines) -> None:
    log = "/root/long.log"
    unit = f"systemd-run --quiet --unit=long --uid=alice -p StandardOutput=truncate:{log} python3 /opt/writer"
    machines.ssh(CLIENT, f"cat >/opt/writer <<'EOF'\n{WRITER}EOF\n{unit}")
    wait_until(lambda: len(machines.output(CLIENT, f"cat {log}").splitlines()) > 10, "the write did not begin", 60)
    machines.reboot(SERVER)
    assert "sha256" not in machines.output(CLIENT, f"cat {log}"), "the write ended before the server went down"
    machines.wait_for_boot(SERVER)
    wait_until(lambda: "sha256" in machines.output(CLIENT, f"cat {log}"), "the write did not finish", 240)
    *lines, last = machines.output(CLIENT, f"cat {log}").splitlines()
    times = [float(line.split()[1]) for line in lines]
    assert max(after - before for before, after in itertools.pairwise(times)) > 5, "it never had to wait"
    assert machines.output(SERVER, "sha256sum </projects/long").split()[0] == last.split()[1]
    assert machines.output(SERVER, "stat -c %s /projects/long") == str(160 << 18)


@pytest.mark.rate
@pytest.mark.usefixtures("_gone")
@pytest.mark.fault(
    "an NFS server that is gone and hangs its clients",
    says="/shared…remedy: ",
    heals="the next run, when the server is back; named within a minute",
)
def test_run_fails_with_a_clear_error_if_the_server_is_gone(machines: Machines) -> None:
    began = time.monotonic()
    text = machines.refusal(CLIENT)
    took = time.monotonic() - began
    for part in ("/shared", CLIENT, "remedy: ", "server"):
        assert part in text
    assert took < MINUTE_S, text


@pytest.mark.rate
@pytest.mark.usefixtures("_gone")
@pytest.mark.fault(
    "a new mount from an NFS server that is gone",
    says="/again…10.77.0.10…2049…remedy: ",
    heals="the next run; nothing is left in fstab",
)
def test_new_mount_from_a_missing_server_fails_and_leaves_fstab_unchanged(machines: Machines) -> None:
    fstab = machines.output(CLIENT, "cat /etc/fstab")
    began = time.monotonic()
    mounts = [{"src": "10.77.0.10:/projects", "path": "/again"}]
    text = machines.refusal(CLIENT, nfs_client_mounts=mounts)
    took = time.monotonic() - began
    for part in ("/again", CLIENT, "10.77.0.10", "2049", "remedy: "):
        assert part in text
    assert took < MINUTE_S, text
    assert machines.output(CLIENT, "cat /etc/fstab") == fstab


def test_reboot_of_the_client_restores_all_mounts(machines: Machines) -> None:
    machines.ssh(CLIENT, "head -c 1M /dev/urandom >/scratch/kept && sync")
    before = machines.output(CLIENT, "sha256sum /scratch/kept")
    machines.reboot(CLIENT)
    machines.wait_for_boot(CLIENT)
    assert machines.mount_options("/shared")["vers"] == "4.2"
    assert machines.mount_options("/projects")["nconnect"] == "4"
    assert machines.mount_options("/scratch")["type"] == "xfs"
    assert machines.output(CLIENT, "sha256sum /scratch/kept") == before
