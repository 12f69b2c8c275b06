"""Tests of `busbar doctor`: no findings on a healthy cluster, and a finding for every fault."""

from __future__ import annotations

import contextlib
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from conftest import as_json

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from conftest import Cluster

pytestmark = pytest.mark.proves("preflight")

# Python with a clock that is seven minutes slow, because a container has no clock of its own.
LATE = """
mkdir -p /opt/busbar-test-late
cat > /opt/busbar-test-late/sitecustomize.py <<'END'
import time
true_time = time.time
time.time = lambda: true_time() - 420
END
printf '#!/bin/sh\\nPYTHONPATH=/opt/busbar-test-late exec /usr/bin/python3 "$@"\\n' > /opt/busbar-test-late/python3
chmod +x /opt/busbar-test-late/python3
"""
MORE = """
all:
  hosts:
    gone: {ansible_connection: ssh, ansible_host: 127.0.0.1, ansible_port: 9}
    gpu2: {ansible_python_interpreter: /opt/busbar-test-late/python3}
"""


def doctor(sandbox: Cluster, *more: str) -> tuple[int, list[dict[str, Any]]]:
    """Return the exit code and the findings."""
    done = sandbox.busbar("doctor", "-i", str(sandbox.inventory), *more, "--format", "json", timeout=300)
    assert done.returncode in {0, 1}, done.stdout + done.stderr
    return done.returncode, as_json(done.stdout)["findings"]


def about_the_cluster(findings: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the findings except those caused by other tests: validation verdicts, alerts and interrupted runs."""
    return [each for each in findings if each["key"] not in {"validation", "alerts", "interrupted run"}]


def files(folder: Path) -> dict[str, tuple[int, int, int]]:
    """Return the state of every file in a folder."""
    found = {}
    for path in folder.rglob("*"):
        state = path.lstat()
        found[str(path)] = (state.st_mtime_ns, state.st_size, state.st_mode)
    return found


@pytest.fixture
def broken(sandbox: Cluster, tmp_path: Path) -> Iterator[list[str]]:
    """Inject many faults at once; return options that add an unreachable host and a slow clock."""
    more = tmp_path / "more.yml"
    more.write_text(MORE)
    secrets = sandbox.state / "secrets"
    mode = secrets.stat().st_mode
    with contextlib.ExitStack() as healing:
        healing.callback(sandbox.wait_idle, 240)
        healing.callback(
            sandbox.exec, "ctl", "for i in 1 2; do scontrol update nodename=gpu$i state=resume; done", check=False
        )
        for node, unit in (("gpu1", "slurmd"), ("ctl", "slurmdbd")):
            healing.callback(sandbox.exec, node, f"systemctl start {unit}")
            sandbox.exec(node, f"systemctl stop {unit}")
        healing.callback(sandbox.exec, "gpu2", "rm -rf /opt/busbar-test-late")
        sandbox.exec("gpu2", LATE)
        sandbox.exec("ctl", "scontrol update nodename=gpu2 state=drain reason='a fan is loud'")
        healing.callback(secrets.chmod, mode)
        secrets.chmod(0o755)
        yield ["-i", str(more)]


def test_healthy_cluster_has_no_findings_and_stays_unchanged(sandbox: Cluster) -> None:
    sandbox.wait_idle()
    site = files(sandbox.state)
    find = "find /etc /var/lib/slurm /usr/local /opt -xdev -type f -printf '%p %T@ %s %m\\n' | sort | sha256sum"
    before = {node: sandbox.exec(node, find).stdout for node in ("ctl", "gpu1", "login")}
    _, findings = doctor(sandbox)
    assert about_the_cluster(findings) == []
    assert files(sandbox.state) == site
    assert {node: sandbox.exec(node, find).stdout for node in before} == before


def test_several_faults_are_all_reported_with_commands(sandbox: Cluster, broken: list[str]) -> None:
    code, findings = doctor(sandbox, *broken)
    said = [f"{','.join(each['hosts'])}: {each['key']}: {each['problem']} -> {each['remedy']}" for each in findings]
    assert code == 1
    for parts in (
        ("gpu1: services: slurmd does not run (inactive)", "systemctl restart slurmd"),
        ("ctl: services: slurmdbd does not run (inactive)", "systemctl restart slurmdbd"),
        ("ctl: slurmdbd: slurmdbd does not answer", "systemctl restart slurmdbd"),
        ("gpu2: slurm: node is drained: a fan is loud", "scontrol update NodeName=gpu2 State=RESUME"),
        ("gpu2: clock: clock is 7 minutes behind the clock of this host", "chrony"),
        ("gone: ansible_host: cannot be reached", "power the host on"),
        (f"provisioning host: {sandbox.state / 'secrets'}: is accessible to other users (mode 0755)", "chmod 700"),
    ):
        assert any(all(part in line for part in parts) for line in said), (parts, said)
    shown = sandbox.busbar("doctor", "-i", str(sandbox.inventory), "--offline")
    assert shown.returncode == 1
    assert "ERROR provisioning host: " in shown.stdout
    assert f"    → chmod 700 {sandbox.state / 'secrets'}\n" in shown.stdout
    assert "slurmd" not in shown.stdout


def test_unreadable_inventory_is_a_finding_and_missing_inventory_is_a_usage_error(
    sandbox: Cluster, tmp_path: Path
) -> None:
    (tmp_path / "hosts.yml").write_text("all: {hosts: {gpu1: }\n")
    done = sandbox.busbar("doctor", "-i", str(tmp_path / "hosts.yml"))
    assert done.returncode == 1
    assert "ERROR inventory: " in done.stdout
    assert "hosts.yml" in done.stdout
    gone = subprocess.run(
        ["busbar", "doctor", "-i", str(tmp_path / "gone.yml")], check=False, capture_output=True, text=True
    )
    assert gone.returncode == 2
    assert "no inventory" in gone.stderr
