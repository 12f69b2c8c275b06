"""Tests of the faults of a provisioned host, from the output of its commands."""

from __future__ import annotations

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.health.host_diagnosis import (
    certificate_end,
    certificate_problems,
    disk_problems,
    drain_problems,
    firing_problems,
    network_mounts,
    ping_problems,
    reservation_problems,
    service_problems,
)
from ansible_collections.busbar.cluster.plugins.module_utils.health.system_checks import Disk
from ansible_collections.busbar.cluster.plugins.module_utils.slurm.scontrol_nodes import read_text_nodes

NOW = 1_800_000_000.0  # 2027-01-15 08:00:00 UTC
DAY = 86400
UNIT = "Id={}.service\nLoadState=loaded\nActiveState={}\nUnitFileState={}\n"


def test_enabled_services_that_do_not_run_are_named() -> None:
    text = "\n".join(
        [
            UNIT.format("munge", "active", "enabled"),
            UNIT.format("slurmd", "failed", "enabled"),
            UNIT.format("sackd", "inactive", "disabled"),
            "Id=slurmctld.service\nLoadState=not-found\nActiveState=inactive\nUnitFileState=\n",
        ]
    )
    (found,) = service_problems("gpu1", text)
    assert (found["hosts"], found["problem"]) == (["gpu1"], "slurmd does not run (failed)")
    assert "systemctl restart slurmd" in found["remedy"]
    (unknown,) = service_problems("gpu1", "Failed to connect to bus: No such file or directory")
    assert "Failed to connect to bus" in unknown["problem"]


def test_mounts_of_network_file_systems() -> None:
    fstab = """
# comment
10.0.0.10:/home /home nfs4 vers=4.2 0 0
10.0.0.10:/data /my\\040data nfs rw 0 0
10.0.0.10:/lazy /lazy nfs x-systemd.automount 0 0
10.0.0.10:/later /later nfs noauto 0 0
/dev/vda1 / ext4 defaults 0 1
"""
    mountinfo = (
        "25 1 8:1 / / rw - ext4 /dev/vda1 rw\n"
        "40 25 0:40 / /home rw,relatime shared:9 - nfs4 10.0.0.10:/home rw\n"
        "41 25 0:41 / /more rw - lustre mgs@tcp:/more rw\n"
    )
    assert network_mounts(fstab, mountinfo) == {"/home": True, "/my data": False, "/more": True}
    (gone,) = disk_problems("gpu1", Disk("/home", mounted=False))
    assert gone["problem"] == "/home is not mounted"


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ("        Valid: from 2027-01-01T00:00:00 to 2027-01-15T08:00:00\n", NOW),
        ("        Valid: from 2027-01-01T00:00:00 to forever\n", float("inf")),
        ("        Valid: forever\n", float("inf")),
        ("notAfter=Jan 15 08:00:00 2027 GMT\n", NOW),
        ("notAfter=Jan  5 08:00:00 2027 GMT\n", NOW - 10 * DAY),
        ("", None),
        ("notAfter=soon\n", None),
    ],
)
def test_certificate_end_is_parsed(text: str, end: float | None) -> None:
    assert certificate_end(text) == end


@pytest.mark.parametrize(
    ("left", "problem"),
    [(-1, "has expired"), (29, "expires in 29 days"), (31, ""), (None, "cannot be read: No such file")],
)
def test_certificate_expiry_is_reported(left: int | None, problem: str) -> None:
    path = "/etc/ssh/ssh_host_ed25519_key-cert.pub"
    text = "notAfter=Jan 15 08:00:00 2027 GMT" if left is not None else "No such file"
    found = certificate_problems("ctl", path, text, NOW - (left or 0) * DAY, 30)
    assert [each["problem"] for each in found] == ([f"{path} {problem}"] if problem else [])
    assert all("--tags ssh" in each["remedy"] for each in found)


def test_unresponsive_controllers_are_reported() -> None:
    assert ping_problems("ctl", "Slurmctld(primary) at ctl is UP\n") == []
    (found,) = ping_problems("ctl", "Slurmctld(primary) at ctl is UP\nSlurmctld(backup) at ctl2 is DOWN\n")
    assert (found["hosts"], found["problem"]) == (["ctl2"], "the backup slurmctld does not answer (DOWN)")
    (silent,) = ping_problems("ctl", "scontrol did not answer in 15 s")
    assert "slurmctld does not answer: scontrol did not answer" in silent["problem"]


def test_unusable_nodes_are_reported_with_their_reasons() -> None:
    text = (
        "NodeName=gpu1 State=IDLE Partitions=main\n"
        "NodeName=gpu2 State=DOWN* Partitions=main Reason=Not responding [slurm@2027-01-15T07:00:00]\n"
        "NodeName=gpu3 State=IDLE+DRAIN Partitions=main Reason=busbar health: GPU 1 is lost [root@2027-01-15T07:00]\n"
        "NodeName=gpu4 State=MIXED+DRAIN Partitions=main\n"
    )
    found = {each["hosts"][0]: each for each in drain_problems(read_text_nodes(text))}
    assert {name: each["problem"] for name, each in found.items()} == {
        "gpu2": "node is down: Not responding",
        "gpu3": "node is drained: busbar health: GPU 1 is lost",
        "gpu4": "node is draining, without a reason",
    }
    assert found["gpu3"]["remedy"].startswith("busbar health gpu3 ")
    assert all(f"NodeName={name} State=RESUME" in each["remedy"] for name, each in found.items())


def test_leftover_validation_reservation_is_reported() -> None:
    assert reservation_problems("No reservations in the system\n") == []
    assert reservation_problems("ReservationName=maintenance StartTime=2027\n") == []
    (found,) = reservation_problems("ReservationName=busbar-validation StartTime=2027-01-15T07:00:00\n")
    assert "scontrol delete ReservationName=busbar-validation" in found["remedy"]


def test_firing_alerts_are_reported() -> None:
    def alert(name: str, state: str, severity: str, **more: str) -> dict[str, object]:
        notes = {"summary": "slurmd is gone", "runbook": "first\nthen this\n"}
        return {"labels": {"alertname": name, "severity": severity, **more}, "annotations": notes, "state": state}

    (found,) = firing_problems(
        "mon",
        [
            alert("Watchdog", "firing", "none"),
            alert("Told", "firing", "info"),
            alert("Soon", "pending", "warning"),
            alert("SlurmNodeDown", "firing", "warning", node="gpu1"),
            {"state": "firing"},
        ],
    )
    assert found["hosts"] == ["gpu1"]
    assert found["problem"] == "SlurmNodeDown is firing: slurmd is gone"
    assert found["remedy"] == "first; then this"
