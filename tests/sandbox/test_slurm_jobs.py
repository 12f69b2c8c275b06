"""Tests that jobs get exactly the resources that they request."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import Cluster

pytestmark = [pytest.mark.proves("slurm"), pytest.mark.core]

# Opens every device of a simulated GPU and prints the error: ENXIO: no driver behind it; EPERM: access denied.
OPEN_ALL = (
    "import glob, errno\n"
    "for path in sorted(glob.glob('/dev/nvidia[0-9]')):\n"
    "    try:\n"
    "        open(path)\n"
    "    except OSError as exc:\n"
    "        print(path, errno.errorcode[exc.errno])\n"
)
GRANTED, REFUSED = "ENXIO", "EPERM"


def srun(sandbox: Cluster, options: str, script: str, user: str = "alice") -> str:
    """Return the output of a Python script under srun."""
    command = f"srun --quiet {options} python3 - <<'EOF'\n{script}EOF"
    return sandbox.exec("login", command, user=user).stdout


def sacct(sandbox: Cluster, job: str, fields: str) -> list[str]:
    """Return fields of a job from accounting."""
    shown = sandbox.exec("login", f"sacct -X -nP -j {job} -o {fields}", user="alice").stdout.strip()
    return shown.split("|")


def submit(sandbox: Cluster, options: str, command: str, user: str = "alice") -> str:
    """Submit a job from the login node and return its ID."""
    return sandbox.exec("login", f"cd /tmp && sbatch --parsable {options} --wrap '{command}'", user=user).stdout.strip()


def job_state(sandbox: Cluster, job: str) -> str:
    """Return the state of a job from squeue, or '' if it is not in the queue."""
    return sandbox.exec("ctl", f"squeue -h -j {job} -o %T", check=False).stdout.strip()


def wait_for_state(sandbox: Cluster, job: str, wanted: str, timeout: float = 60) -> None:
    """Wait until a job has this state in accounting."""
    sandbox.wait_until(
        lambda: sacct(sandbox, job, "State")[0].split(" ")[0] == wanted,
        f"job {job} is not {wanted}: {sacct(sandbox, job, 'State')}",
        timeout,
    )


def test_sinfo_shows_the_declared_nodes(sandbox: Cluster) -> None:
    shown = sandbox.exec("login", "sinfo -hN -o '%N %P %G'", user="alice").stdout.splitlines()
    assert {line.split()[0] for line in shown} == set(sandbox.compute)
    assert {line.split(maxsplit=1)[1] for line in shown} == {"batch* gpu:sim:2"}


def test_nodes_have_the_declared_size(sandbox: Cluster) -> None:
    for node in sandbox.compute:
        shown = sandbox.exec("ctl", f"scontrol show node {node}").stdout
        assert re.search(r"RealMemory=2048\b", shown)
        assert f"CPUTot={min(4, int(sandbox.exec(node, 'nproc').stdout))}" in shown


@pytest.mark.core
def test_output_of_a_job_is_written_where_it_was_submitted(sandbox: Cluster) -> None:
    node = sandbox.compute[-1]
    submitted = f"sbatch --parsable --wait --mem=100 -w {node} --wrap 'hostname; touch made-by-the-job'"
    job = sandbox.exec("login", submitted, user="alice").stdout.strip()
    try:
        assert sandbox.exec("login", f"cat slurm-{job}.out", user="alice").stdout == f"{node}\n"
        assert sandbox.exec("login", "stat -c '%U %G' made-by-the-job", user="alice").stdout == "alice research\n"
        assert sandbox.exec("login", f"ls ~alice/slurm-{job}.out", user="bob", check=False).returncode != 0
    finally:
        sandbox.exec("login", f"rm -f slurm-{job}.out made-by-the-job", user="alice")


def test_login_node_has_no_own_slurm_configuration(sandbox: Cluster) -> None:
    if sandbox.exec("login", "command -v sackd", check=False).returncode != 0:
        pytest.skip("this release of Slurm has no sackd")
    assert sandbox.exec("login", "ls /etc/slurm/slurm.conf", check=False).returncode != 0
    assert sandbox.exec("gpu1", "ls /etc/slurm/slurm.conf", check=False).returncode != 0
    assert "ClusterName=" in sandbox.exec("login", "cat /run/slurm/conf/slurm.conf").stdout


def test_only_the_allocated_gpu_can_be_opened(sandbox: Cluster) -> None:
    results = srun(sandbox, "--gpus-per-node=1", OPEN_ALL).split()
    assert sorted(results[1::2]) == [GRANTED, REFUSED]


def test_both_gpus_can_be_opened_if_both_are_requested(sandbox: Cluster) -> None:
    assert srun(sandbox, "--gpus-per-node=sim:2", OPEN_ALL).split()[1::2] == [GRANTED, GRANTED]


def test_no_gpu_without_a_request(sandbox: Cluster) -> None:
    assert srun(sandbox, "", OPEN_ALL).split()[1::2] == [REFUSED, REFUSED]


def test_two_jobs_on_one_node_have_different_gpus(sandbox: Cluster) -> None:
    sandbox.wait_idle()
    step = "srun --quiet -w gpu1 --mem=200 --gpus-per-node=1 bash -c 'echo $SLURM_STEP_GPUS; sleep 5'"
    held = sandbox.exec("login", f"{step} & {step} & wait", user="alice").stdout.split()
    assert sorted(held) == ["0", "1"]


def test_request_for_too_many_gpus_is_refused(sandbox: Cluster) -> None:
    done = sandbox.exec("login", "srun --gpus-per-node=3 true", user="alice", check=False)
    assert done.returncode != 0
    assert "Requested node configuration is not available" in done.stderr


def test_job_sees_only_its_cores(sandbox: Cluster) -> None:
    script = "import os\nprint(len(os.sched_getaffinity(0)))\n"
    assert srun(sandbox, "--cpus-per-task=1", script).strip() == "1"


def test_only_the_job_over_its_memory_is_killed(sandbox: Cluster) -> None:
    neighbour = submit(sandbox, "-w gpu1 --mem=100 -o /dev/null", "sleep 200")
    try:
        wait_for_state(sandbox, neighbour, "RUNNING")
        greedy = submit(sandbox, "-w gpu1 --mem=200 -o /dev/null", 'python3 -c "str(1) * (800 << 20)"')
        wait_for_state(sandbox, greedy, "OUT_OF_MEMORY")
        assert sacct(sandbox, neighbour, "State") == ["RUNNING"]
    finally:
        sandbox.exec("login", f"scancel {neighbour}", user="alice")
    wait_for_state(sandbox, neighbour, "CANCELLED")


def test_job_without_memory_request_gets_its_share(sandbox: Cluster) -> None:
    job = submit(sandbox, "-o /dev/null", "true")
    shown = sandbox.exec("ctl", f"scontrol show job {job}").stdout
    cpus = int(re.search(r"CPUTot=(\d+)", sandbox.exec("ctl", "scontrol show node gpu1").stdout)[1])  # type: ignore[index]
    assert f"mem={2048 // cpus}M" in shown or f"mem={2048 // cpus // 1024}G" in shown
    wait_for_state(sandbox, job, "COMPLETED")


def test_job_of_alice_from_login_is_accounted(sandbox: Cluster) -> None:
    job = submit(sandbox, "-J accounted -N 1 --gpus-per-node=1 --mem=100 -o /tmp/accounted.%j", "hostname; id -un")
    wait_for_state(sandbox, job, "COMPLETED")
    user, account, name, node, state, code, tres = sacct(
        sandbox, job, "User,Account,JobName,NodeList,State,ExitCode,AllocTRES"
    )
    assert (user, account, name, state, code) == ("alice", "research", "accounted", "COMPLETED", "0:0")
    assert "gres/gpu:sim=1" in tres.split(",")
    assert sandbox.exec(node, f"cat /tmp/accounted.{job}").stdout.split() == [node, "alice"]
    sandbox.exec(node, f"rm /tmp/accounted.{job}")


def test_failed_job_is_accounted_as_failed(sandbox: Cluster) -> None:
    job = submit(sandbox, "-o /dev/null", "exit 7")
    wait_for_state(sandbox, job, "FAILED")
    assert sacct(sandbox, job, "ExitCode") == ["7:0"]


def test_step_runs_on_all_nodes_at_once(sandbox: Cluster) -> None:
    nodes = len(sandbox.compute)
    shown = sandbox.exec("login", f"srun --quiet -N {nodes} --mem=100 hostname", user="alice").stdout.split()
    assert sorted(shown) == sorted(sandbox.compute)


def test_pmix_is_the_default(sandbox: Cluster) -> None:
    assert srun(sandbox, "", "import os\nprint('PMIX_RANK' in os.environ)\n").strip() == "True"


def test_unknown_account_is_refused(sandbox: Cluster) -> None:
    done = sandbox.exec("login", "srun -A nobodys true", user="alice", check=False)
    assert "Invalid account" in done.stderr
