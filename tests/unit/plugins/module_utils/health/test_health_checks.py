"""Tests of each health check with a faulty and a healthy node."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.hardware.gpu_facts_merge import join_sources
from ansible_collections.busbar.cluster.plugins.module_utils.health.finding import (
    ISOLATE,
    MONITOR,
    RESET,
    Answer,
    Finding,
    Node,
    with_severities,
)
from ansible_collections.busbar.cluster.plugins.module_utils.health.gpu_check import gpu_answer, nvlink_answer
from ansible_collections.busbar.cluster.plugins.module_utils.health.network_check import network_answer
from ansible_collections.busbar.cluster.plugins.module_utils.health.node_checks import checks_of
from ansible_collections.busbar.cluster.plugins.module_utils.health.system_checks import (
    Disk,
    Process,
    clock_answer,
    disk_findings,
    meminfo,
    memory_findings,
    service_answer,
    stray_findings,
)
from gpu_samples import gpu_xml, log_xml

RECORDINGS = Path(__file__).parents[6] / "shared" / "gpu"
LIMITS = {"pcie_replays_per_minute": 8, "nvlink_crc_per_second": 100, "link_flaps": 3, "link_flaps_hours": 3}
LIMITS |= {"infiniband_errors": 100}
LABEL_0, LABEL_1 = (f"0000:1{index}:00.0, serial 165000000000{index}" for index in (0, 1))
UNCORRECTABLE = "<dram_uncorrectable>3</dram_uncorrectable>"
THERMAL = "<clocks_event_reason_hw_thermal_slowdown>Active</clocks_event_reason_hw_thermal_slowdown>"
BRAKE = "<clocks_event_reason_hw_power_brake_slowdown>Active</clocks_event_reason_hw_power_brake_slowdown>"
PENDING, FAILED = (
    f"<remapped_row_pending>{pending}</remapped_row_pending><remapped_row_failure>{failed}</remapped_row_failure>"
    for pending, failed in (("Yes", "No"), ("No", "Yes"))
)


def node(samples: dict[str, list[list[float]]] | None = None, **declared: object) -> Node:
    return Node({"gpus": 2, "limits": LIMITS} | declared, Path("/"), 1000.0, samples or {})


def facts(*gpus: str, state: str = "ok", errors: tuple[str, ...] = (), text: str = "", **smi: str) -> dict[str, Any]:
    """Return the facts of a node whose nvidia-smi prints these GPUs."""
    printed = {"query": text or log_xml(*gpus)} if gpus or text else {}
    found = join_sources({"state": state, **printed, **smi}, {}, [])
    return {**found, "errors": [*errors, *found["errors"]]}


def told(answer: Answer) -> list[tuple[str, str, str]]:
    return [(each.check, each.severity, each.problem) for each in [*answer.findings, *answer.events]]


@pytest.mark.parametrize(
    ("gpu", "check", "severity", "problem"),
    [
        (gpu_xml(1), "", "", ""),
        (gpu_xml(1, name="Unknown Error"), "", "", ""),
        (
            gpu_xml(1, memory="GPU is lost"),
            "gpu",
            RESET,
            f"GPU 1 ({LABEL_1}) is lost: the driver cannot reach it",
        ),
        (
            gpu_xml(1, volatile=UNCORRECTABLE),
            *("gpu", RESET, f"GPU 1 ({LABEL_1}) 3 uncorrectable ECC errors since the driver was loaded"),
        ),
        (gpu_xml(1, remapped=PENDING), "gpu", RESET, f"GPU 1 ({LABEL_1}) a memory row is pending remapping"),
        (gpu_xml(1, remapped=FAILED), "gpu", ISOLATE, f"GPU 1 ({LABEL_1}) remapping of a memory row failed"),
        (gpu_xml(1, state="GPU requires reset"), "gpu", RESET, f"GPU 1 ({LABEL_1}) requires a reset"),
        (
            gpu_xml(1, reasons=THERMAL),
            *("gpu_clocks", MONITOR, f"GPU 1 ({LABEL_1}) clocks are limited by temperature"),
        ),
        (
            gpu_xml(1, reasons=BRAKE),
            *("gpu_clocks", MONITOR, f"GPU 1 ({LABEL_1}) clocks are limited by the power brake of the server"),
        ),
        (gpu_xml(1, fabric="<state>In Progress</state>"), "gpu", RESET, "has not joined the NVLink fabric"),
    ],
)
def test_gpus(gpu: str, check: str, severity: str, problem: str) -> None:
    found = told(gpu_answer(node(), facts(gpu_xml(0), gpu)))
    assert [each[:2] for each in found] == ([(check, severity)] if check else [])
    assert all(problem in each[2] for each in found)


def test_fault_of_several_gpus_is_reported_once_with_the_command() -> None:
    sick = (gpu_xml(index, state="GPU requires reset") for index in (0, 1))
    (found,) = gpu_answer(node(), facts(*sick)).findings
    assert found.problem == "GPU 0,1 (of 2) requires a reset"
    assert "nvidia-smi --gpu-reset -i 0,1" in found.remedy


@pytest.mark.parametrize(
    ("facts_", "problems"),
    [
        (facts(gpu_xml(0)), ["GPUs: 2 declared, 1 found: 0 at 0000:10:00.0"]),
        (
            facts(state="hung", errors=("nvidia-smi did not answer in 10 s",)),
            ["nvidia-smi: fails: nvidia-smi did not answer in 10 s", "GPUs: 2 declared, 0 found"],
        ),
        (facts(state="absent"), ["GPUs: 2 declared, 0 found", "nvidia-smi: no longer installed"]),
        (
            facts(state="failed", query="Unable to determine the device handle for GPU 0000:3B:00.0: Unknown Error"),
            [
                "nvidia-smi: fails: Unable to determine the device handle for GPU 0000:3B:00.0: Unknown Error",
                "GPUs: 2 declared, 0 found",
            ],
        ),
    ],
    ids=["missing", "hung", "absent", "failed"],
)
def test_missing_gpus_are_reported(facts_: dict[str, Any], problems: list[str]) -> None:
    assert told(gpu_answer(node(), facts_)) == [("gpu_count", RESET, each) for each in problems]


def test_old_nvidia_smi_is_unknown() -> None:
    assert gpu_answer(node(), facts(state="unusable")).unknown == "nvidia-smi does not support the options -q -x"


def test_pcie_links_are_compared_with_the_profile() -> None:
    slow = [gpu_xml(0, width=("16x", "8x")), gpu_xml(1)]
    assert told(gpu_answer(node(gpu={"pcie_width": 16}), facts(*slow))) == [
        ("gpu_links", RESET, f"GPU 0 ({LABEL_0}) uses 8 PCIe lanes (expected 16)")
    ]
    old = [gpu_xml(0, gen=(3, 3)), gpu_xml(1)]
    assert told(gpu_answer(node(gpu={"pcie_gen": 5}), facts(*old))) == [
        ("gpu_links", RESET, f"GPU 0 ({LABEL_0}) PCIe generation is too low (maximum 3, expected 5)")
    ]
    assert told(gpu_answer(node(gpu={"pcie_width": 16, "pcie_gen": 5}), facts(gpu_xml(0), gpu_xml(1)))) == []


def test_pcie_replays_are_rated_per_minute() -> None:
    replaying = gpu_xml(0).replace("<pci>", "<pci><replay_counter>50</replay_counter>")
    sick = facts(replaying, gpu_xml(1))
    uuid = sick["gpus"][0]["uuid"]
    first = gpu_answer(node(), sick)
    assert (told(first), first.samples) == ([], {f"pcie_replays {uuid}": 50.0})
    slow, fast = ({f"pcie_replays {uuid}": [[880.0, value]]} for value in (34.0, 33.0))
    assert told(gpu_answer(node(slow), sick)) == []
    problem = f"GPU 0 ({LABEL_0}) 8 PCIe replays a minute (limit 8)"
    assert told(gpu_answer(node(fast), sick)) == [("pcie_replays", RESET, problem)]


LINKS = """GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-x)
\t Link 0: Replay Errors: 5
\t Link 0: Recovery Errors: 0
\t Link 0: CRC Errors: {first}
\t Link 1: CRC Errors: 7
GPU 1: NVIDIA A100-SXM4-80GB (UUID: GPU-y)
\t Link 0:
\t   CRC FLIT Error: 1
\t   CRC Data Error: 2
"""


def test_nvlink_crc_errors_are_rated_per_second() -> None:
    samples = {"nvlink_crc 0": [[990.0, 7.0]], "nvlink_crc 1": [[990.0, 3.0]]}
    good = nvlink_answer(node(samples), "", LINKS.format(first=1000))
    assert (told(good), good.samples) == ([], {"nvlink_crc 0": 1007.0, "nvlink_crc 1": 3.0})
    bad = told(nvlink_answer(node(samples), "", LINKS.format(first=1100)))
    assert bad == [("nvlink_crc", RESET, "GPU 0: 110 CRC errors per second on its NVLinks (limit 100)")]
    corrected = "GPU 0: NVIDIA B200 (UUID: GPU-x)\n\t Link 0: Link recovery events: 0\n\t Link 0: FEC Errors - 0: 99\n"
    assert nvlink_answer(node(), "", corrected) == Answer([], {}, [])
    assert nvlink_answer(node(), "", corrected.replace("FEC", "New")).unknown
    assert (
        told(nvlink_answer(node(samples), "", "Unable to retrieve NVLink information as all links are inActive")) == []
    )


def test_nvlinks_are_compared_with_the_profile() -> None:
    up = "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-x)\n" + "".join(
        f"\t Link {link}: 26.562 GB/s\n" for link in range(18)
    )
    profile = {"nvlink_gbs": 450}
    assert told(nvlink_answer(node(gpu=profile), up, "")) == []
    down = up.replace("Link 17: 26.562 GB/s", "Link 17: <inactive>")
    found = told(nvlink_answer(node(gpu=profile), down, ""))
    assert found == [("gpu_links", RESET, "GPU 0 17 of 18 NVLinks are up (down: 17)")]
    none = "GPU 6: NVIDIA A100 (UUID: GPU-y)\nNVML: Unable to retrieve NVLink information as all links are inactive\n"
    assert "no link is up" in told(nvlink_answer(node(gpu=profile), none, ""))[0][2]
    assert nvlink_answer(node(gpu=profile), "", "") == Answer([], {}, [])


NICS = [{"count": 2, "gbps": 400, "rdma": True}]


def port(number: int, *, active: bool = True, rate: float = 400.0) -> dict[str, Any]:
    state = "ACTIVE" if active else "DOWN"
    return {"device": f"mlx5_{number}", "port": "1", "active": active, "state": state, "rate_gbps": rate}


def network(*ports: dict[str, Any]) -> dict[str, Any]:
    return {"rdma_ports": list(ports), "network_interfaces": [], "pci_nics": ["a", "b"]}


def test_network_cards() -> None:
    assert told(network_answer(node(nics=NICS), network(port(0), port(1)), {})) == []
    down = told(network_answer(node(nics=NICS), network(port(0), port(1, active=False)), {}))
    assert down == [
        (
            "nics",
            RESET,
            "NICs: too few RDMA ports are active at 400 Gb/s (found 1, expected 2); the others: mlx5_1/1 DOWN 400 Gb/s",
        )
    ]
    slow = told(network_answer(node(nics=NICS), network(port(0), port(1, rate=200.0)), {}))
    assert "mlx5_1/1 ACTIVE 200 Gb/s" in slow[0][2]


def test_flapping_links_are_reported() -> None:
    samples = {"link_down mlx5_0/1": [[10.0, 4.0], [500.0, 6.0]]}
    good = network_answer(node(samples), network(), {"mlx5_0/1": 6, "eth0": 50})
    assert (told(good), good.samples) == ([], {"link_down mlx5_0/1": 6.0, "link_down eth0": 50.0})
    bad = told(network_answer(node(samples), network(), {"mlx5_0/1": 7}))
    assert bad == [("link_flaps", RESET, "link mlx5_0/1 went down 3 times in 3 h")]


@pytest.mark.parametrize(
    ("samples", "count", "grown"),
    [
        ([], 5_000_000, 0),  # accumulated in weeks before the first check
        ([[900.0, 200.0]], 200, 0),
        ([[900.0, 200.0]], 300, 0),
        ([[900.0, 200.0]], 301, 101),
        ([[900.0, 9000.0], [950.0, 0.0]], 60, 0),  # reset by perfquery -R
        ([[-9000.0, 0.0], [-2700.0, 5000.0]], 5050, 0),  # from more than an hour ago
    ],
)
def test_infiniband_errors_are_rated_per_hour(samples: list[list[float]], count: int, grown: int) -> None:
    answer = network_answer(node({"port_errors mlx5_0/1": samples}), network(), {}, {"mlx5_0/1": count})
    problem = f"port mlx5_0/1 had {grown} errors in an hour (limit 100)"
    assert told(answer) == ([("infiniband_errors", MONITOR, problem)] if grown else [])
    assert answer.samples == {"port_errors mlx5_0/1": count}


def counted(root: Path, link_layer: str, **counters: int) -> None:
    """Write the counters of a port in the format of the kernel's Documentation/ABI/stable/sysfs-class-infiniband."""
    folder = root / "sys/class/infiniband/mlx5_0/ports/1"
    (folder / "counters").mkdir(parents=True, exist_ok=True)
    (folder / "link_layer").write_text(f"{link_layer}\n")
    for name, count in counters.items():
        (folder / "counters" / name).write_text(f"{count}\n")


def test_port_errors_sum_symbol_and_receive_errors(tmp_path: Path) -> None:
    here = node(paths=[], timeout_s=1)._replace(root=tmp_path)
    counted(tmp_path, "Ethernet", symbol_error=1, port_rcv_errors=0)
    assert checks_of(here)["network"].ask().samples == {}
    counted(tmp_path, "InfiniBand", symbol_error=12, port_rcv_errors=30, link_downed=1)
    first = checks_of(here)["network"].ask()
    assert (told(first), first.samples) == ([], {"link_down mlx5_0/1": 1.0, "port_errors mlx5_0/1": 42.0})
    counted(tmp_path, "InfiniBand", symbol_error=12, port_rcv_errors=131)
    later = here._replace(samples={name: [[990.0, value]] for name, value in first.samples.items()})
    (finding,) = checks_of(later)["network"].ask().findings
    assert (finding.check, finding.severity) == ("infiniband_errors", MONITOR)
    assert finding.problem == "port mlx5_0/1 had 101 errors in an hour (limit 100)"


@pytest.mark.parametrize(
    ("disk", "problem"),
    [
        (Disk("/", free_mb=5000, free_files=9), None),
        (Disk("/tmp", free_mb=100), None),  # noqa: S108
        (Disk("/", read_only=True, free_mb=5000), "/ is read-only"),
        (Disk("/", free_mb=99.4), "/ is full: 99 MiB free (minimum 100 MiB)"),
        (Disk("/", free_mb=5000, free_files=0), "/ is full: no free inodes"),
        (Disk("/", error="Input/output error"), "/ does not answer: Input/output error"),
        (Disk("/shared", mounted=False), "/shared is not mounted"),
    ],
)
def test_disks(disk: Disk, problem: str | None) -> None:
    assert [each.problem for each in disk_findings(disk, 100)] == ([problem] if problem else [])


def test_memory_and_swap() -> None:
    figures = meminfo("MemTotal: 2097152 kB\nMemFree: 1 kB\nSwapTotal: 10240 kB\nSwapFree: 10240 kB\n")
    assert [*memory_findings(figures, 2048)] == []
    (lost,) = memory_findings(figures, 4096)
    assert (lost.check, lost.severity, lost.problem) == (
        "memory",
        ISOLATE,
        "wrong memory size (found 2048 MiB, expected 4096 MiB)",
    )
    (full,) = memory_findings(figures | {"SwapFree": 0.5}, 2048)
    assert (full.check, full.severity) == ("swap", MONITOR)


TRACKING = "Stratum         : 3\nSystem time     : {offset} seconds slow of NTP time\nLeap status     : {leap}\n"


def test_clock_offset_is_checked() -> None:
    assert clock_answer(TRACKING.format(offset="0.000013", leap="Normal"), 1) == Answer()
    assert told(clock_answer(TRACKING.format(offset="3600.5", leap="Normal"), 1)) == [
        ("clock", RESET, "the clock is 3.6e+03 s slow (limit 1 s)")
    ]
    assert told(clock_answer(TRACKING.format(offset="0.0", leap="Not synchronised"), 1))[0][:2] == ("clock", MONITOR)
    assert "506 Cannot talk to daemon" in clock_answer("506 Cannot talk to daemon", 1).unknown


def service(name: str, state: str, enabled: str = "enabled", load: str = "loaded") -> str:
    return f"Id={name}.service\nLoadState={load}\nActiveState={state}\nUnitFileState={enabled}\n"


def test_services() -> None:
    good = [
        service("munge", "active"),
        service("slurmd", "activating"),
        service("chronyd", "inactive", "", "not-found"),
        service("nvidia-dcgm", "inactive", "disabled"),
    ]
    assert told(service_answer("\n".join(good))) == []
    bad = service_answer("\n".join([*good, service("nvidia-persistenced", "failed")]))
    assert told(bad) == [("services", RESET, "nvidia-persistenced does not run (failed)")]
    assert service_answer("System has not been booted with systemd").unknown


@pytest.mark.parametrize(
    ("state", "severity"),
    [
        # Output of systemd 252 and 257 for a service with Restart=on-failure that fails each time.
        ("ActiveState=activating\nSubState=auto-restart\nNRestarts=41\nResult=exit-code", RESET),
        ("ActiveState=activating\nSubState=auto-restart-queued\nNRestarts=7\nResult=exit-code", RESET),
        ("ActiveState=activating\nSubState=start\nNRestarts=41\nResult=success", RESET),
        ("ActiveState=active\nSubState=running\nNRestarts=41\nActiveEnterTimestampMonotonic=995000000", RESET),
        ("ActiveState=activating\nSubState=auto-restart\nNRestarts=0\nResult=signal", MONITOR),
        ("ActiveState=activating\nSubState=auto-restart\nResult=exit-code", RESET),
        # Running for a long time, started for the first time, stopped manually.
        ("ActiveState=active\nSubState=running\nNRestarts=41\nActiveEnterTimestampMonotonic=5000000", ""),
        ("ActiveState=active\nSubState=running\nNRestarts=1\nActiveEnterTimestampMonotonic=995000000", ""),
        ("ActiveState=activating\nSubState=start\nNRestarts=0\nResult=success", ""),
        ("ActiveState=deactivating\nSubState=stop-sigterm\nNRestarts=41\nResult=success", ""),
    ],
)
@pytest.mark.parametrize("enabled", ["enabled", "static"])
def test_restart_loop_is_found(state: str, severity: str, enabled: str) -> None:
    text = f"Id=slurmd.service\nLoadState=loaded\nUnitFileState={enabled}\n{state}\n"
    found = service_answer(text, uptime_s=1000.0).findings
    assert [each.severity for each in found] == ([severity] if severity else [])
    assert all("slurmd does not stay up" in each.problem and "journalctl -u slurmd" in each.remedy for each in found)


def test_stray_processes_are_only_reported() -> None:
    assert [*stray_findings([])] == []
    (found,) = stray_findings([Process(number, "alice", "python") for number in range(6)])
    assert found.severity == MONITOR
    assert found.problem.endswith("3 (python of alice) and 2 more")


# Cgroup v2 paths contain the job ID up to Slurm 25.11, and the SLUID since 26.05.
JOB_PATHS = (
    "/system.slice/slurmstepd.scope/job_82/step_batch/user/task_special",
    "/system.slice/slurmstepd.scope/sCVDM8AJ3Q3S00/step_batch/user/task_special",
    "/system.slice/gpu1_slurmstepd.scope/sCVDM8AJ3Q3S00/step_0/user/task_0",
)


@pytest.mark.parametrize("path", [*JOB_PATHS, "/user.slice/user-2002.slice/session-3.scope"])
def test_process_of_a_running_job_is_not_stray(tmp_path: Path, path: str) -> None:
    process = tmp_path / "proc/490"
    process.mkdir(parents=True)
    (tmp_path / "proc/uptime").write_text("9000.00 9000.00\n")
    (process / "stat").write_text(f"490 (python) S {'0 ' * 18}1 0\n")
    (process / "comm").write_text("python\n")
    (process / "cgroup").write_text(f"0::{path}\n")
    if os.geteuid() == 0:
        os.chown(process, 2002, 2002)
    here = Node({"gpus": 0, "timeout_s": 10, "paths": [], "limits": LIMITS}, tmp_path, 1000.0, {})
    found = [each.problem for each in checks_of(here)["stray_processes"].ask().findings]
    assert len(found) == (0 if path in JOB_PATHS else 1), found
    assert all("490 (python of " in problem for problem in found)


def test_site_can_override_severities() -> None:
    findings = [Finding("swap", MONITOR, "a"), Finding("clock", RESET, "b"), Finding("gpu", RESET, "c")]
    found = with_severities(findings, {"swap": ISOLATE, "clock": "OFF"})
    assert [(each.check, each.severity) for each in found] == [("swap", ISOLATE), ("gpu", RESET)]


@pytest.mark.skipif(not RECORDINGS.is_dir(), reason="no recordings beside the checkout")
@pytest.mark.parametrize(
    ("recording", "checks"),
    [
        ("019-nvidia-qx-a100-healthy.xml", set()),
        ("016-nvidia-hw-qx-h100.xml", set()),
        ("013-nvidia-hw-qx-b200.xml", set()),
        ("022-nvidia-qx-gb200-healthy.xml", set()),
        ("020-nvidia-qx-gb200-ecc-injected.xml", {"gpu"}),
        ("021-nvidia-qx-gb200-fabric-degraded.xml", {"gpu"}),
        ("023-nvidia-qx-gb200-lost.xml", {"gpu"}),
    ],
)
def test_recordings_give_the_expected_findings(recording: str, checks: set[str]) -> None:
    seen = facts(text=(RECORDINGS / "smi-xml" / recording).read_text(errors="replace"))
    found = gpu_answer(node(gpus=seen["gpu_count"]), seen)
    assert {each.check for each in found.findings} == checks


@pytest.mark.parametrize(
    ("conf", "place", "severity"),
    [
        ("SlurmctldPort=6817\nslurmdspooldir = {}/%n\n", "run/slurm/conf", RESET),
        ("SlurmdSpoolDir={}/%n\n", "etc/slurm", RESET),
        ("SlurmdLogFile={}/%n/slurmd.log\n", "run/slurm/conf", MONITOR),
        ("#SlurmdSpoolDir={}/%n\n", "etc/slurm", ""),
        ("SlurmdSpoolDir={}/gone\n", "run/slurm/conf", ""),
    ],
)
def test_slurmd_spool_and_log_are_checked_on_separate_file_systems(
    tmp_path: Path, conf: str, place: str, severity: str
) -> None:
    own = tmp_path / "own/gpu1"
    own.mkdir(parents=True)
    (tmp_path / place).mkdir(parents=True)
    (tmp_path / place / "slurm.conf").write_text(conf.format(own.parent))
    declared = {"node": "gpu1", "gpus": 0, "free_mb": 1 << 40, "timeout_s": 1}

    def findings(paths: list[str]) -> list[Finding]:
        here = Node({"limits": LIMITS, "paths": paths} | declared, tmp_path, 1000.0, {})
        return list(checks_of(here)["slurmd_disks"].ask().findings)

    found = findings(["/proc"])
    assert [each.severity for each in found] == ([severity] if severity else [])
    assert all(each.problem.startswith(f"{own} is full: ") for each in found)
    # A disk that is already checked is not reported twice.
    assert findings([str(tmp_path)]) == []
