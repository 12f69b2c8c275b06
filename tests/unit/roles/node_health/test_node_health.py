"""Tests of the health check as slurmd runs it: its queries to Slurm, its output, and that slurmd always starts."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.health.node_checks import device_paths
from ansible_collections.busbar.cluster.roles.node_health.checks import CHECK_NAMES
from ansible_collections.busbar.cluster.roles.node_health.files.node_health import node_lock
from executables import executable
from gpu_samples import gpu_xml, log_xml
from role_programs import install_program

TOP = Path(__file__).resolve().parents[4]
DCGMI = TOP / "tests/fixtures/dcgm/dcgmi"
DECLARED: dict[str, Any] = {
    "node": "gpu1",
    "gpus": 1,
    "devices": "",
    "paths": ["/"],
    "mounts": [],
    "free_mb": 0,
    "services": [],
    "timeout_s": 10,
    "resume": False,
    "limits": {
        "pcie_replays_per_minute": 8,
        "nvlink_crc_per_second": 100,
        "link_flaps": 3,
        "link_flaps_hours": 3,
        "infiniband_errors": 100,
        "clock_offset_s": 1,
    },
    "severities": {"stray_processes": "OFF", "clock": "OFF"},
    "drain": ["ISOLATE", "RESET"],
    "drain_percent": 10,
    "interval_s": 300,
    "dcgm": {"level": "links", "host": "127.0.0.1:5555"},
}


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """Return the installed program with stand-ins for nvidia-smi and scontrol first in PATH."""
    path = install_program("node_health/files/node_health.py", tmp_path / "lib/node_health")
    own = {"folder": str(tmp_path / "state"), "metrics": str(tmp_path)}
    (tmp_path / "lib" / "node_health.json").write_text(json.dumps(DECLARED | own))
    put(tmp_path / "bin" / "journalctl", f"#!/bin/sh\ncat {tmp_path}/kernel 2>/dev/null || :\n")
    (tmp_path / "query").write_text(log_xml(gpu_xml(0)))
    put(tmp_path / "bin" / "nvidia-smi", f"#!/bin/sh\ncat {tmp_path}/query\n")
    put(tmp_path / "bin" / "scontrol", f'#!/bin/sh\necho "$*" >> {tmp_path}/asked\necho "State=IDLE+DRAIN Reason=x"\n')
    return path


def put(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    executable(path, text)


def declare(program: Path, **changes: object) -> None:
    path = program.with_suffix(".json")
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def run(program: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the program as slurmd does: isolated, with only the system's modules."""
    command = [sys.executable, "-ISB", str(program), *arguments]
    environment = {"PATH": f"{program.parents[1] / 'bin'}{os.pathsep}/usr/bin:/bin"}
    return subprocess.run(command, check=False, capture_output=True, text=True, env=environment, timeout=60)


def test_healthy_node_is_not_changed(program: Path) -> None:
    done = run(program)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert not (program.parents[1] / "asked").exists()


def test_look_reports_and_changes_nothing(program: Path) -> None:
    (program.parents[1] / "query").write_text(log_xml(gpu_xml(0), gpu_xml(1)))
    done = run(program, "--look")
    assert (done.returncode, done.stdout) == (1, "GPUs: 1 declared, 2 found\n")
    assert not (program.parents[1] / "asked").exists()


def test_missing_device_file_is_one_finding(program: Path) -> None:
    declare(program, devices="/dev/no-such-gpu[0-1]")
    done = run(program, "--look")
    assert (done.returncode, done.stdout) == (1, "missing: /dev/no-such-gpu0, /dev/no-such-gpu1\n")
    assert run(program, "--prolog").stdout == done.stdout


def test_unhealthy_node_queries_slurm_and_exits_with_0(program: Path) -> None:
    (program.parents[1] / "query").write_text(log_xml(gpu_xml(0, memory="GPU is lost")))
    done = run(program)
    assert (done.returncode, done.stderr) == (0, "")
    assert "is lost" in done.stdout
    assert (program.parents[1] / "asked").read_text() == "show node gpu1\n"
    written = (program.parents[1] / "busbar_node_health.prom").read_text()
    assert 'busbar_node_health_findings{check="gpu",severity="RESET"} 1\n' in written
    assert "busbar_node_health_drain_withheld 0\n" in written
    assert "busbar_node_health_interval_seconds 300\n" in written
    listed = (TOP / "tests/fixtures/known_metrics.txt").read_text(encoding="utf-8")
    known = set(re.findall(r"^busbar_node_health_\w+", listed, re.MULTILINE))
    assert set(re.findall(r"^# TYPE (\w+) gauge$", written, re.MULTILINE)) == known


def test_an_xid_remains_until_an_admin_resumes_the_node(program: Path) -> None:
    (program.parents[1] / "kernel").write_text("NVRM: Xid (PCI:0000:23:00): 79, GPU has fallen off the bus.\n")
    out, held = (
        f"NodeName=gpu1 State={state} {why}" for state, why in (("IDLE", ""), ("IDLE+DRAIN", "Reason=busbar health: x"))
    )
    for shown, still in ((out, True), (held, True), (out, True), (held, False)):
        put(
            program.parents[1] / "bin" / "scontrol",
            f'#!/bin/sh\necho "$*" >> {program.parents[1]}/asked\necho "{shown}"\n',
        )
        done = run(program)
        assert (done.returncode, "Xid 79" in done.stdout) == (0, still), done
        (program.parents[1] / "kernel").write_text("")
    updates = [line for line in (program.parents[1] / "asked").read_text().splitlines() if line.startswith("update")]
    assert len(updates) == 1
    assert updates[0].startswith("update NodeName=gpu1 State=DRAIN Reason=busbar health: GPU 0000:23:00: Xid 79")


def test_concurrent_runs_keep_the_findings_of_each_other(program: Path) -> None:
    """The first run waits for Slurm when the second starts, which no longer sees the line of the log."""
    folder = program.parents[1]
    log = folder / "kernel"
    log.write_text("NVRM: Xid (PCI:0000:23:00): 79, GPU has fallen off the bus.\n")
    asked = f"until [ -e {folder}/go ]; do touch {folder}/waits; sleep 0.05; done"
    put(folder / "bin" / "scontrol", f'#!/bin/sh\n{asked}\necho "NodeName=gpu1 State=IDLE"\n')
    command = [sys.executable, "-ISB", str(program)]
    environment = {"PATH": f"{folder / 'bin'}{os.pathsep}/usr/bin:/bin"}
    first = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 30
    while not (folder / "waits").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    log.write_text("")
    second = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    # The second run now waits for the lock or is about to; the first still waits for Slurm.
    with pytest.raises(subprocess.TimeoutExpired):
        second.wait(1.5)
    (folder / "go").touch()
    assert first.communicate(timeout=60)[1] == ""
    assert "Xid 79" in second.communicate(timeout=60)[0]


def test_run_that_exceeds_the_wait_for_the_lock_reports_it(tmp_path: Path) -> None:
    with node_lock(tmp_path) as first, node_lock(tmp_path, 0.2) as second:
        assert (first, second) == (True, False)
    with node_lock(tmp_path / "file" / "absent") as free:
        assert free
    (tmp_path / "plain").touch()
    with node_lock(tmp_path / "plain") as free:
        assert free, "a disk that takes no file keeps nobody from a drain"


def test_findings_outside_the_drain_severities_drain_no_node(program: Path) -> None:
    (program.parents[1] / "kernel").write_text("NVRM: Xid (PCI:0000:23:00): 31, MMU Fault\n")
    done = run(program, "--look")
    assert (done.returncode, done.stdout) == (0, "GPU 0000:23:00: Xid 31 (MMU Fault) (MONITOR)\n")
    declare(program, severities=DECLARED["severities"] | {"xid": "RESET"})
    assert run(program, "--look").returncode == 1
    declare(program, drain=["ISOLATE"])
    assert run(program, "--look").returncode == 0


def test_findings_are_listed_as_json(program: Path) -> None:
    (program.parents[1] / "query").write_text(log_xml(gpu_xml(0), gpu_xml(1)))
    done = run(program, "--look", "--json")
    assert done.returncode == 1
    (found,) = json.loads(done.stdout)["findings"]
    assert (found["check"], found["severity"], found["problem"]) == ("gpu_count", "RESET", "GPUs: 1 declared, 2 found")
    assert found["remedy"]


def test_prolog_runs_only_fast_checks_and_no_query_of_slurm(program: Path) -> None:
    put(program.parents[1] / "bin" / "nvidia-smi", "#!/bin/sh\nsleep 600\n")
    assert run(program, "--prolog").returncode == 0
    declare(program, mounts=[str(program.parent / "nothing")])
    done = run(program, "--prolog")
    assert (done.returncode, "is not mounted" in done.stdout) == (1, True)
    assert not (program.parents[1] / "asked").exists()


def test_names_of_checks_match_the_keys_of_severities() -> None:
    texts = [path.read_text(encoding="utf-8") for path in (TOP / "plugins/module_utils/health").glob("*.py")]
    named = {
        name
        for text in texts
        for name in re.findall(r'(?:Finding\(\s*|check: str = |for check, find_faults in \(\()"(\w+)"', text)
    }
    assert named | {"gpu_clocks", "mounts"} == set(CHECK_NAMES)


def test_ranges_of_device_files_are_expanded() -> None:
    assert device_paths("/dev/nvidia[0-1,4]") == ["/dev/nvidia0", "/dev/nvidia1", "/dev/nvidia4"]
    assert device_paths("/dev/nvidia0") == ["/dev/nvidia0"]
    assert device_paths("/dev/nvidia0,/dev/nvidia3") == ["/dev/nvidia0", "/dev/nvidia3"]
    assert device_paths("") == []


def test_hanging_nvidia_smi_is_abandoned_after_the_timeout(program: Path) -> None:
    put(program.parents[1] / "bin" / "nvidia-smi", "#!/bin/sh\nsleep 600\n")
    declare(program, timeout_s=1)
    done = run(program, "--look")
    assert "nvidia-smi: fails: nvidia-smi did not answer in 1 s" in done.stdout


@pytest.mark.parametrize("settings", ["", "{}"])
def test_unknown_health_does_not_stop_slurmd_from_starting(program: Path, settings: str) -> None:
    program.with_suffix(".json").write_text(settings)
    assert run(program, "--look").returncode == 1
    done = run(program)
    assert done.returncode == 0
    assert "the health of this node is unknown" in done.stderr


def test_unreachable_slurm_is_reported(program: Path) -> None:
    put(program.parents[1] / "bin" / "scontrol", "#!/bin/sh\necho Unable to contact slurm controller\nexit 1\n")
    (program.parents[1] / "query").write_text(log_xml())
    done = run(program)
    assert done.returncode == 0
    assert "Unable to contact slurm controller" in done.stderr


@pytest.fixture
def dcgm(program: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Add a running DCGM without watches to nvidia-smi; return its state."""
    state = program.parents[1] / "dcgm"
    state.mkdir()
    (state / "running").touch()
    put(program.parents[1] / "bin" / "dcgmi", DCGMI.read_text(encoding="utf-8"))
    monkeypatch.setenv("SIMULATED_DCGM", str(state))
    return state


def look(program: Path, state: Path) -> tuple[int, str, str]:
    """Run the program with --look on a node with DCGM; return exit code, output and errors."""
    environment = {"PATH": f"{program.parents[1] / 'bin'}{os.pathsep}/usr/bin:/bin", "SIMULATED_DCGM": str(state)}
    command = [sys.executable, "-ISB", str(program), "--look"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=environment, timeout=60)
    return done.returncode, done.stdout, done.stderr


def test_dcgm_watches_are_set_first_and_then_reported(program: Path, dcgm: Path) -> None:
    assert look(program, dcgm) == (0, "", "")
    assert (dcgm / "watches").read_text() == "a"
    assert look(program, dcgm) == (0, "", "")
    faults = {"0": {"PCIe system": ["Warning", "12 replays."], "Thermal system": ["Warning", "Hot."]}}
    (dcgm / "faults.json").write_text(json.dumps(faults))
    assert look(program, dcgm) == (1, "DCGM: GPU 0 PCIe system warning: 12 replays.\n", "")


def test_unreachable_dcgm_is_no_finding(program: Path, dcgm: Path) -> None:
    (dcgm / "running").unlink()
    status, said, aside = look(program, dcgm)
    assert (status, said) == (0, "")
    assert "unable to establish a connection to the specified host: 127.0.0.1:5555" in aside
    put(program.parents[1] / "bin" / "dcgmi", "#!/bin/sh\necho '{\"odd\": 1}'\n")
    status, said, aside = look(program, dcgm)
    assert (status, said) == (0, "")
    assert "cannot parse the output of DCGM" in aside


def test_dcgm_is_not_queried_if_disabled(program: Path, dcgm: Path) -> None:
    for changes in ({"dcgm": {"level": "never", "host": "127.0.0.1:5555"}}, {"dcgm": None}):
        declare(program, **changes)
        assert look(program, dcgm) == (0, "", "")
    assert not (dcgm / "watches").exists()


def nhc(program: Path, *arguments: str) -> tuple[int, str]:
    """Run the command nhc, which runs the installed program; return exit code and output."""
    text = (TOP / "roles/node_health/files/nhc").read_text(encoding="utf-8")
    place = program.parent / "nhc"
    put(
        place, text.replace("/usr/local/lib/busbar", str(program.parent)).replace("/usr/sbin/nhc", str(place) + ".lbnl")
    )
    program.write_bytes(program.read_bytes().replace(b"#!/usr/bin/python3 -IB", f"#!{sys.executable} -IB".encode()))
    environment = {"PATH": f"{program.parents[1] / 'bin'}{os.pathsep}/usr/bin:/bin"}
    done = subprocess.run(
        ["sh", str(place), *arguments], check=False, capture_output=True, text=True, env=environment, timeout=60
    )
    return done.returncode, done.stdout + done.stderr


def test_nhc_prints_findings_of_the_health_check(program: Path) -> None:
    assert nhc(program) == (0, "")
    (program.parents[1] / "query").write_text(log_xml(gpu_xml(0), gpu_xml(1)))
    assert nhc(program, "-t", "60", "-a") == (1, "GPUs: 1 declared, 2 found\n")
    assert nhc(program, "-q") == (1, "")
    assert not (program.parents[1] / "asked").exists()


def test_nhc_of_lbnl_takes_precedence_and_its_options_are_refused_without_it(program: Path) -> None:
    assert nhc(program, "-e", "check_fs_mount_rw") == (
        2,
        "nhc: -e is not supported by busbar's health check; its settings are node_health_* in the inventory\n",
    )
    put(program.parent / "nhc.lbnl", "#!/bin/sh\necho lbnl $*\n")
    assert nhc(program, "-e", "x") == (0, "lbnl -e x\n")
