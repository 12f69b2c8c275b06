"""Tests of faults in the kernel log: Xids in every format, SXids, memory errors, file systems."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.hardware.xid import APPLICATION, NVLINK5, Xid
from ansible_collections.busbar.cluster.plugins.module_utils.health.check_state import State, with_answers
from ansible_collections.busbar.cluster.plugins.module_utils.health.finding import (
    ISOLATE,
    MONITOR,
    OFF,
    RESET,
    Answer,
    Finding,
)
from ansible_collections.busbar.cluster.plugins.module_utils.health.kernel_log import (
    kernel_findings,
    xid_severity,
)


def active(lines: list[str]) -> list[Finding]:
    """Return the findings that need an action."""
    return [each for each in kernel_findings(lines) if each.severity != OFF]


@pytest.mark.parametrize(
    ("line", "check", "severity", "problem"),
    [
        (
            "NVRM: Xid (PCI:0000:23:00): 79, pid=1122, GPU has fallen off the bus.",
            *("xid", RESET, "GPU 0000:23:00: Xid 79 (pid=1122, GPU has fallen off the bus.)"),
        ),
        ("NVRM: Xid (0000:03:00): 48, DBE", "xid", RESET, "GPU 0000:03:00: Xid 48 (DBE)"),
        ("NVRM: Xid (PCI:0000:03:00): 54", "xid", ISOLATE, "GPU 0000:03:00: Xid 54"),
        (
            "NVRM: Xid (PCI:0000:cb:00): 13, Graphics SM Warp Exception",
            "xid",
            MONITOR,
            "GPU 0000:cb:00: Xid 13 (Graphics SM",
        ),
        (
            "NVRM: Xid (PCI:0000:10:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot)",
            *("xid", RESET, "GPU 0000:10:00: the driver requests the action Node Reboot (Xid 154)"),
        ),
        (
            "nvidia-nvswitch0: SXid (PCI:0000:85:00.0): 20034, Fatal, Link 30 LTSSM Fault Up",
            *("xid", RESET, "NVSwitch 0000:85:00.0: fatal SXid 20034 (Link 30 LTSSM Fault Up)"),
        ),
        (
            "EDAC MC0: 1 UE memory read error on CPU_SrcID#0_Ha#0_Chan#1_DIMM#0",
            *("memory_errors", ISOLATE, "uncorrectable memory error: MC0: 1 UE memory read error on"),
        ),
        (
            "EXT4-fs (sda1): Remounting filesystem read-only",
            "kernel",
            RESET,
            "the kernel shut down the file system of sda1",
        ),
        ("XFS (md0): I/O Error Detected. Shutting down filesystem", "kernel", RESET, "the file system of md0"),
        ("NVRM: Xid (PCI:0000:10:00): 43, pid=7, name=python, Ch 00000008", "", "", ""),
        ("NVRM: Xid (PCI:0000:10:00): 154, GPU recovery action changed from 0x1 (GPU Reset) to 0x0 (None)", "", "", ""),
        (
            "nvidia-nvswitch0: SXid (PCI:0000:85:00.0): 12028, Non-fatal, Link 32 egress non-posted PRIV error",
            "",
            "",
            "",
        ),
        ("EDAC MC0: 1 CE memory read error on CPU_SrcID#0", "", "", ""),
        ("eth0: link up", "", "", ""),
    ],
)
def test_kernel_line_gives_a_finding(line: str, check: str, severity: str, problem: str) -> None:
    found = active([line, line])
    assert [(each.check, each.severity) for each in found] == ([(check, severity)] if check else [])
    assert all(problem in each.problem and each.remedy for each in found)


def xid_line(number: int, message: str = "", *, instance: str = "") -> str:
    return f"[  123.456789] NVRM: Xid (PCI:0000:3b:00{instance}): {number}, {message}"


def test_unknown_xid_is_only_reported() -> None:
    found = [active([xid_line(number)]) for number in (9999, 31, 95, 43)]
    assert [[each.severity for each in one] for one in found] == [[MONITOR], [MONITOR], [RESET], []]


@pytest.mark.parametrize("instance", ["", " GPU-I:05", " GPU-I:05 GPU-CI:00"])
@pytest.mark.parametrize(
    ("number", "message", "severity"),
    [
        (95, "pid=4242, name=python3, Uncontained: LTC TAG (0x2,0x0). RST: Yes, D-RST: No", RESET),
        (94, "pid=4242, name=python3, Contained: SM (0x1). RST: No, D-RST: No", MONITOR),
        (94, "pid=4242, name=python3, Contained: SM (0x1). RST: No, D-RST: Yes", RESET),
        (119, "pid=4242, name=python3, Timeout after 6s of waiting for RPC response from GPU0 GSP!", RESET),
        (149, "NETIR_LINK_EVT Fatal   XC0 i0 Link 05 (0x000001c6 0x00000000)", RESET),
        (145, "RLW_RXPIPE  Nonfatal   XC0 i0 Link 13 (0x0409a0c2 0x00000008)", MONITOR),
        (31, "pid=7, name=python3, Ch 00000008, intr 00000000. MMU Fault", MONITOR),
    ],
)
def test_message_overrides_the_xid_number_and_the_instance_is_named(
    instance: str, number: int, message: str, severity: str
) -> None:
    (found,) = active([xid_line(number, message, instance=instance)])
    assert found.severity == severity
    assert found.problem.startswith(f"GPU 0000:3b:00{instance}: Xid {number} (")


@pytest.mark.parametrize(
    ("message", "severity"),
    [
        ("pid=7, name=a, Nonfatal, Timeout after 6s of waiting for RPC response from GPU0 GSP!", RESET),
        ("pid=7, name=a, Contained: x, Uncontained: LTC TAG (0x2,0x0). RST: Yes, D-RST: No", RESET),
        ("pid=7, name=Fatal, Ch 00000008", MONITOR),
    ],
)
def test_process_name_does_not_change_the_severity(message: str, severity: str) -> None:
    number = 119 if "GSP" in message else 95 if "RST" in message else 13
    assert [each.severity for each in active([xid_line(number, message)])] == [severity]


@pytest.mark.parametrize("number", [92, 94, 121, 122, 144, 149, 150, 162, 176])
def test_hardware_error_is_not_blamed_on_the_program(number: int) -> None:
    (found,) = active([xid_line(number)])
    assert found.severity == MONITOR
    assert "a bug in the program" not in found.remedy
    assert "a bug in the program" in active([xid_line(13)])[0].remedy


def test_fatal_error_is_found_after_a_nonfatal_one_of_the_same_number() -> None:
    lines = [xid_line(149, "NETIR_LINK_EVT Nonfatal XC0 i0"), xid_line(149, "NETIR_LINK_EVT Fatal XC0 i0")]
    assert {each.severity for each in active(lines)} == {MONITOR, RESET}


@pytest.mark.parametrize(
    "line", ["NVRM: Xid 79 at GPU 3, fallen", "NVRM: Xid (GPU-I:05): 95, x", "nvidia-nvswitch0: SXid in a new form"]
)
def test_unparsable_xid_line_is_a_finding(line: str) -> None:
    (found,) = active([f"Mar 13 22:26:02 gpu1 kernel: {line}"])
    assert (found.check, found.severity) == ("xid", MONITOR)
    assert line in found.problem
    assert active(["nvidia-nvswitch0: SXid (PCI:0000:85:00.0): 12028, Severity 0 Engine instance 46"]) == []


def recovery(*actions: str) -> list[str]:
    words = "GPU recovery action changed from 0x0 (None) to 0x1"
    return [xid_line(154, f"{words} ({action})") for action in actions]


def test_last_recovery_action_is_used() -> None:
    (found,) = active(recovery("GPU Reset Required", "Node Reboot Required"))
    assert (found.severity, "Node Reboot Required" in found.problem) == (RESET, True)
    assert active(recovery("GPU Reset Required", "None")) == []
    (found,) = active([xid_line(154, "a new text")])
    assert found.severity == MONITOR


def test_last_recovery_action_is_used_across_checks() -> None:
    state = State("boot")
    for actions, standing in (
        (["GPU Reset Required"], ["GPU Reset Required"]),
        (["Node Reboot Required"], ["Node Reboot Required"]),
        ([], ["Node Reboot Required"]),
        (["None"], []),
    ):
        state = with_answers(state, {"kernel": Answer(events=kernel_findings(recovery(*actions)))}, 1.0, 60.0)
        assert [action in each.problem for action, each in zip(standing, state.events, strict=True)] == [
            True for _ in standing
        ]


def test_alerts_and_health_check_agree_on_xids() -> None:
    text = (Path(__file__).parents[5] / "roles/prometheus/files/rules/alerts_gpu.yml").read_text()
    classes = dict(re.findall(r'"class", "(\w+)", "xid", "([^"]+)"', text))
    for number in range(1, 200):
        kind = next((name for name, numbers in classes.items() if re.fullmatch(numbers, str(number))), "")
        severity = xid_severity(Xid("", "", number, "", None))
        if kind in {"fatal", "reset"}:
            assert severity in {RESET, ISOLATE} or number in NVLINK5, number
        else:
            assert severity in {None, MONITOR} or number == 151, (number, kind)
        assert kind != "application" or number in APPLICATION or severity is None, number
        assert kind == "application" or number not in APPLICATION or number == 45, number
