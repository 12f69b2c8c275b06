"""Tests of GPU metrics with job labels: a replayed NVIDIA package, the real role, Prometheus and Slurm."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Any, Protocol

import pytest
from busbar.sandbox.state import load
from conftest import recap
from package_repository import KEY_FILE, Repository, served
from prometheus_api import Prometheus
from replayed_dcgm import JOBS, PORT, STATE, package
from test_slurm_jobs import submit

if TYPE_CHECKING:
    from collections.abc import Iterator
    from subprocess import CompletedProcess

    from conftest import Cluster

pytestmark = [pytest.mark.proves("dcgm"), pytest.mark.needs("dcgm.exporter")]

NODE = "gpu1"
UNIT = "nvidia-dcgm-exporter"
NAME = "datacenter-gpu-manager-exporter"
# The programs called by slurmd have been on the nodes since the first run.
SLURM = ("slurm.yml", "--tags", "slurm_controller", "--limit", "ctl")
PLAY = """
- hosts: all
  become: true
  gather_facts: true
  tasks:
    - ansible.builtin.import_role: {name: busbar.cluster.dcgm, tasks_from: exporter}
- hosts: monitoring
  become: true
  gather_facts: true
  roles: [busbar.cluster.prometheus]
"""
# Must be unchanged after a refusal, and at the end.
LOOK = f"""dpkg-query -W -f '${{Package}} ${{Version}} ${{Status}}\\n' 'datacenter*'; systemctl is-active {UNIT}
find /etc/apt /etc/dcgm-exporter /etc/systemd/system -type f | sort | xargs md5sum"""
# Slurm's metrics come from a collector with its own tests; here they are given.
JOB_INFO = "/var/lib/prometheus/node-exporter/busbar_test_gpu_metrics.prom"


class Play(Protocol):
    """Runs the roles of the exporter and of Prometheus; the caller checks the exit code."""

    def __call__(self, *arguments: str, **changes: object) -> CompletedProcess[str]:
        """Run with additional arguments and changed options."""


def state(sandbox: Cluster) -> str:
    return sandbox.exec(NODE, LOOK, check=False).stdout


@pytest.fixture(scope="module")
def play(sandbox: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Play]:
    """Return the play of both roles with a signed repository; the node is restored at the end."""
    book = tmp_path_factory.mktemp("play") / "play.yml"
    book.write_text(PLAY)
    repository = Repository(tmp_path_factory.mktemp("repository")).add(package("4.8.2-1"), package("4.8.3-1")).publish()
    before = state(sandbox)
    with served(sandbox, repository, port=8098) as url:
        declared = {
            "nvidia_repository_urls": {"cuda": url},
            "nvidia_repository_key_urls": {"cuda": url + KEY_FILE},
            "nvidia_repository_fingerprints": {"cuda": repository.fingerprint},
            "dcgm_exporter_source": "nvidia",
            "dcgm_exporter_version": "4.8.2-1",
            # The sandbox has no DCGM, so the exporter uses an embedded engine.
            "dcgm_exporter_host_engine": "",
            "dcgm_exporter_profiling": "always",
        }

        def run(*arguments: str, **changes: object) -> CompletedProcess[str]:
            return sandbox.playbook(str(book), "--diff", "-e", json.dumps(declared | changes), *arguments)

        yield run
    restore(sandbox)
    assert state(sandbox) == before


def restore(sandbox: Cluster) -> None:
    """Remove everything from the node, and the target from Prometheus."""
    purge = f"systemctl disable -q --now {UNIT}; apt-mark -qq unhold {NAME}; dpkg --purge {NAME}"
    sandbox.exec(NODE, purge, check=False)
    sandbox.exec(NODE, f"rm -rf /etc/systemd/system/{UNIT}.service.d /etc/dcgm-exporter {STATE} {JOBS}")
    sandbox.exec(NODE, "rm -f /etc/apt/*/busbar-* /var/lib/apt/lists/*:8098_* /var/dcgm-exporter.log")
    sandbox.exec(NODE, "systemctl daemon-reload")
    sandbox.exec("ctl", f"rm -f {JOB_INFO}")
    done = sandbox.playbook("monitoring.yml", "--tags", "prometheus", "--limit", "ctl")
    assert done.returncode == 0, done.stdout


def changed(done: CompletedProcess[str]) -> int:
    """Check that a run succeeded and return the number of changed tasks on the node."""
    assert done.returncode == 0, done.stdout
    return recap(done.stdout)[NODE]["changed"]


def ask(sandbox: Cluster, query: str) -> list[dict[str, Any]]:
    """Return labels and `value` of each series of a Prometheus query."""
    return [{**labels, "value": value} for labels, value in Prometheus(sandbox.name).query(query)]


def utilisation(sandbox: Cluster) -> dict[str, tuple[str | None, ...]]:
    """Return job, user and partition of each GPU of the node from Prometheus."""
    found = ask(sandbox, f'gpu:utilization:ratio{{node="{NODE}"}}')
    return {item["gpu"]: (item.get("job"), item.get("user"), item.get("partition")) for item in found}


def test_invalid_options_are_refused_before_any_change(sandbox: Cluster, play: Play) -> None:
    before = state(sandbox)
    wrong = {
        "dcgm_exporter_counters_extra": [{"name": "DCGM_FI_DEV_GPU_UTILL"}],
        "dcgm_exporter_host_engine": "127.0.0.1:5555",
        "dcgm_source": "none",
    }
    done = play("--limit", NODE, **wrong)
    assert done.returncode != 0
    said = " ".join(done.stdout.split())
    assert f"{NODE}: dcgm_exporter_source: dcgm_source is none, so no host engine answers on 127.0.0.1" in said
    assert f"{NODE}: dcgm_exporter_counters_extra[DCGM_FI_DEV_GPU_UTILL]: is not a field of DCGM" in said
    assert "write DCGM_FI_DEV_GPU_UTIL" in said
    assert state(sandbox) == before


def test_port_in_use_is_refused_with_the_process_name(sandbox: Cluster, play: Play) -> None:
    before = state(sandbox)
    serve = f"python3 -m http.server --bind {load(sandbox.name).address(NODE)} {PORT}"
    sandbox.exec(NODE, f"systemd-run --quiet --collect --unit=busbar-test-port {serve}")
    try:
        done = play("--limit", NODE)
    finally:
        sandbox.exec(NODE, "systemctl stop busbar-test-port")
    assert done.returncode != 0
    said = " ".join(done.stdout.split())
    assert f"{NODE}: dcgm_exporter_port:" in said
    assert "python3" in said
    assert state(sandbox) == before


@pytest.mark.scenario
def test_role_installs_exporter_and_second_run_changes_nothing(sandbox: Cluster, play: Play) -> None:
    before = state(sandbox)
    assert changed(play("--check", "--limit", NODE)) > 0
    assert state(sandbox) == before
    assert changed(play()) > 0
    assert changed(play("--limit", NODE)) == 0
    assert sandbox.host(NODE).service(UNIT).is_enabled
    assert sandbox.exec(NODE, "apt-mark showhold").stdout.split() == [NAME]
    listening = sandbox.exec(NODE, f"ss -Hltn sport = :{PORT}").stdout.split()
    assert listening[3] == f"{load(sandbox.name).address(NODE)}:{PORT}"
    # Hosts without GPUs skip one task.
    assert sandbox.exec("login", f"systemctl cat {UNIT}", check=False).returncode != 0


@pytest.fixture
def mapped(sandbox: Cluster, play: Play) -> Iterator[None]:  # noqa: ARG001 - must run first
    """Enable the mapping of jobs to GPUs in Slurm; slurm.conf is restored at the end."""
    sandbox.wait_idle()
    done = sandbox.playbook(*SLURM, "-e", "slurm_gpu_jobs=true")
    assert done.returncode == 0, done.stdout
    yield
    sandbox.wait_idle()
    done = sandbox.playbook(*SLURM)
    assert done.returncode == 0, done.stdout
    assert "Prolog=" not in sandbox.exec("ctl", "cat /etc/slurm/slurm.conf").stdout


def test_metrics_follow_the_jobs(sandbox: Cluster, mapped: None) -> None:  # noqa: ARG001 - a fixture
    idle: dict[str, tuple[str | None, ...]] = {"0": (None, None, None), "1": (None, None, None)}
    sandbox.wait_until(lambda: utilisation(sandbox) == idle, f"no idle GPUs: {utilisation(sandbox)}")
    first, second = (submit(sandbox, f"-w {NODE} -G1 --mem=100 -o /dev/null", "sleep 300") for _ in range(2))
    tell(sandbox, {first: "alice", second: "alice"})
    both = {"0": (first, "alice", "batch"), "1": (second, "alice", "batch")}
    sandbox.wait_until(lambda: utilisation(sandbox) == both, f"not {both}")
    assert {item["value"] for item in ask(sandbox, f'gpu:utilization:ratio{{node="{NODE}"}}')} == {0.97}
    sandbox.exec("ctl", f"scancel {first}")
    one = {"0": (None, None, None), "1": both["1"]}
    sandbox.wait_until(lambda: utilisation(sandbox) == one, f"not {one}")
    sandbox.exec("ctl", f"scancel {second}")
    sandbox.wait_until(lambda: utilisation(sandbox) == idle, "a job is left over")
    assert sandbox.exec(NODE, f"ls {JOBS}/jobs").stdout == ""


def tell(sandbox: Cluster, users: dict[str, str]) -> None:
    """Write the job metrics that Slurm's collector would provide, if it does not run."""
    folder = JOB_INFO.rpartition("/")[0]
    if sandbox.exec("ctl", f"test -e {folder}/busbar_slurm.prom", check=False).returncode == 0:
        return
    lines = [
        f'busbar_slurm_job_info{{job="{job}",user="{user}",account="research",partition="batch",name="sh"}} 1\n'
        for job, user in users.items()
    ]
    sandbox.exec("ctl", f"printf %s {shlex.quote(''.join(lines))} >{JOB_INFO}.new && mv {JOB_INFO}.new {JOB_INFO}")


def test_upgrade_restarts_the_exporter(sandbox: Cluster, play: Play) -> None:
    before = sandbox.exec(NODE, f"systemctl show -P MainPID {UNIT}").stdout
    assert changed(play("--limit", NODE, dcgm_exporter_version="4.8.3-1")) > 0
    assert sandbox.exec(NODE, f"systemctl show -P MainPID {UNIT}").stdout != before
    assert sandbox.exec(NODE, f"dpkg-query -W -f '${{Version}}' {NAME}").stdout == "4.8.3-1"
