"""Tests of the reasons for a failed mount, with the remedy."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.storage.mount_faults import (
    bound_state,
    busy_fault,
    content_fault,
    kernel_fault,
    place_state,
    trial_fault,
)

ROOT: dict[str, Any] = {"path": "/", "fstype": "ext4", "source": "/dev/vda", "options": []}
ENTRY = {"type": "nfs", "src": "ctl:/shared", "path": "/shared"}


def mount(path: str, fstype: str = "nfs4", source: str = "ctl:/shared") -> dict[str, Any]:
    return {"path": path, "fstype": fstype, "source": source, "options": []}


@pytest.mark.parametrize(
    ("mounts", "state", "words"),
    [
        ([], "free", ""),
        ([mount("/shared")], "mounted", ""),
        ([mount("/shared", "autofs", "systemd-1")], "waiting", ""),
        ([mount("/shared", "autofs", "systemd-1"), mount("/shared")], "mounted", ""),
        ([mount("/shared", "ext4", "/dev/sdb1")], "taken", "wrong mount (found /dev/sdb1, ext4; expected ctl:/shared)"),
        ([mount("/shared"), mount("/shared", "tmpfs", "tmpfs")], "taken", "found tmpfs, tmpfs; expected ctl:/shared"),
        ([mount("/shared/a", "xfs", "/dev/sdb")], "taken", "would hide other mounts: /shared/a"),
    ],
)
def test_place_state(mounts: list[Any], state: str, words: str) -> None:
    found, fault = place_state(ENTRY, [ROOT, *mounts])  # type: ignore[list-item]  # plain dicts serve as well
    assert found == state
    assert (fault is None) == (not words)
    assert fault is None or (words in fault[0] and fault[1])


@pytest.mark.parametrize(
    ("mounts", "state"),
    [([ROOT], "taken"), ([ROOT, mount("/shared", "ext4", "/dev/vda")], "mounted"), ([ROOT, mount("/sh")], "taken")],
)
def test_bound_state(mounts: list[Any], state: str) -> None:
    assert bound_state("/shared", mounts)[0] == state


def test_home_directories_in_use_are_reported_with_the_remedy() -> None:
    fault = content_fault("/home", ["alice", "admin"])
    assert fault is not None
    assert "home directories in use" in fault[0]
    assert "admin, alice" in fault[0]
    assert "users_home_base: /shared/home" in fault[1]


def test_content_is_listed_up_to_a_limit() -> None:
    assert content_fault("/data", []) is None
    fault = content_fault("/data", [f"f{number}" for number in range(9)])
    assert fault is not None
    assert fault[0].endswith("f0, f1, f2, f3, f4 and 4 more")


def test_processes_using_the_mount_are_named() -> None:
    assert busy_fault([]) is None
    fault = busy_fault([{"pid": 412, "command": "python3"}, {"pid": 9, "command": "bash"}])
    assert fault is not None
    assert fault[0] == "is in use by python3 (pid 412), bash (pid 9)"


@pytest.mark.parametrize(
    ("said", "remedy"),
    [
        ("mount.nfs: access denied by server while mounting ctl:/x", "clients of that export"),
        ("mount.nfs: Operation not permitted for ctl:/x on /x", "clients of that export"),
        ("mount.nfs: mounting ctl:/x failed, reason given by server: No such file or directory", "correct src"),
        ("mount.nfs: Protocol not supported for ctl:/x on /x", "enable that version"),
        ("mount.nfs: requested NFS version or transport protocol is not supported", "enable that version"),
        ("mount.nfs: an incorrect mount option was specified for /x", "correct options"),
        ("mount.nfs: Connection timed out for ctl:/x on /x", "firewall"),
        ("the server did not answer within 20 s", "firewall"),
        ("mount.nfs: something new", "dmesg"),
        ("", "dmesg"),
    ],
)
def test_trial(said: str, remedy: str) -> None:
    problem, way_out = trial_fault("ctl:/x", f"\n{said}\n")
    assert (said or "no reason given") in problem
    assert remedy in way_out


def test_kernel() -> None:
    assert "storage_backend: bind" in kernel_fault("nfs", "6.1.0")[1]
    assert "lustre-client" in kernel_fault("lustre", "6.1.0")[1]
