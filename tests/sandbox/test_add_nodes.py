"""A node that is added to a running cluster: joined, validated, and nobody else disturbed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from conftest import recap

if TYPE_CHECKING:
    from conftest import Cluster

# What a restart of the service would change; a reconfiguration does not.
STARTED = "systemctl show -p InvocationID --value slurmd"


def test_a_new_node_joins_and_nobody_is_disturbed(sandbox: Cluster) -> None:
    old = sandbox.compute
    new = f"gpu{len(old) + 1}"
    sandbox.wait_idle()
    started = {node: sandbox.exec(node, STARTED).stdout for node in old}
    job = sandbox.exec("login", f"sbatch --parsable -w {old[0]} -n1 --mem=64 --wrap 'sleep 900'", user="alice").stdout
    try:
        sandbox.wait_until(lambda: _state(sandbox, job) == "RUNNING", "the job does not start")
        _add(sandbox, new)
        assert _state(sandbox, job) == "RUNNING"
        assert {node: sandbox.exec(node, STARTED).stdout for node in old} == started
    finally:
        sandbox.exec("ctl", f"scancel {job}")
    sandbox.wait_idle()
    assert new in sandbox.node_states()
    for node in ("login", old[0]):
        assert sandbox.exec(node, f"ssh -o BatchMode=yes {new} hostname", user="alice").stdout.strip() == new
    assert sandbox.exec("login", f"srun -w {new} --gpus-per-node=1 hostname", user="alice").stdout.strip() == new


def test_there_is_nothing_to_add_any_more(sandbox: Cluster) -> None:
    done = sandbox.busbar("provision", "add_nodes", "-i", str(sandbox.inventory))
    assert done.returncode == 0, done.stdout + done.stderr
    assert all(counts["changed"] == 0 for counts in recap(done.stdout).values())
    assert "PLAY Provide the base of the new nodes (" not in done.stdout


def test_a_stranger_is_refused(sandbox: Cluster) -> None:
    done = sandbox.busbar("provision", "add_nodes", "-i", str(sandbox.inventory), "-e", "new_nodes=gpu99")
    assert done.returncode == 1
    assert "gpu99: no compute node of the inventory" in done.stdout
    assert all(counts["changed"] == 0 for counts in recap(done.stdout).values())


def _add(sandbox: Cluster, new: str) -> None:
    """Add one node to the sandbox and join it to the cluster."""
    done = sandbox.busbar("sandbox", "up", "--name", sandbox.name, "--compute", new.removeprefix("gpu"))
    assert done.returncode == 0, done.stdout + done.stderr
    done = sandbox.busbar("provision", "add_nodes", "-i", str(sandbox.inventory))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Verdict: PASS" in done.stdout


def _state(sandbox: Cluster, job: str) -> str:
    """The state of a job as squeue tells it."""
    return sandbox.exec("ctl", f"squeue -h -j {job.strip()} -o %T", check=False).stdout.strip()
