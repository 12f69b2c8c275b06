"""Tests of the examples, submitted by a user."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from conftest import recap

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import Cluster

# The examples run the collectives program and mpi4py.
pytestmark = [pytest.mark.proves("examples"), pytest.mark.needs("validation.install"), pytest.mark.scenario]

EXAMPLES = "/shared/examples"
RUNS = "/shared/examples-test"


@pytest.fixture
def runs(sandbox: Cluster) -> Iterator[str]:
    """Create a folder on the shared file system where alice submits jobs; removed at the end."""
    sandbox.wait_idle()
    sandbox.exec("ctl", f"mkdir {RUNS} && chown alice {RUNS}")
    yield RUNS
    sandbox.exec("ctl", "scancel -u alice")
    sandbox.wait_idle()
    sandbox.exec("ctl", f"rm -rf {RUNS}")


def test_examples_are_written_only_once(sandbox: Cluster) -> None:
    done = sandbox.playbook("containers.yml", "-t", "examples")
    assert recap(done.stdout)["ctl"]["changed"] == 0, done.stdout
    done = sandbox.playbook("containers.yml", "-t", "examples", "--check", "--diff", "-e", "examples_nodes=3")
    assert recap(done.stdout)["ctl"]["changed"] == 1
    assert "+#SBATCH --nodes=3" in done.stdout
    for node in ("login", *sandbox.compute):
        assert "ddp.sbatch" in sandbox.exec(node, f"ls {EXAMPLES}", user="alice").stdout


def test_hello_and_mpi_examples_run(sandbox: Cluster, runs: str) -> None:
    def output(script: str) -> str:
        submit = f"cd {runs} && sbatch --wait --parsable {EXAMPLES}/{script}.sbatch"
        job = sandbox.exec("login", submit, user="alice", check=False, timeout=180).stdout.strip()
        return sandbox.exec("login", f"cat {runs}/*-{job}.out").stdout

    text = output("hello_gpu")
    for node in sandbox.compute:
        assert f"(UUID: GPU-simulated-{node}-" in text
    lines = [line for line in output("mpi").splitlines() if line.startswith("rank ")]
    assert sorted(lines) == [f"rank {rank} of 2 on gpu{rank + 1}: sum 1, correct" for rank in (0, 1)]


def test_all_reduce_of_unconnected_ranks_is_not_a_result(sandbox: Cluster, runs: str) -> None:
    """The validation's own CPU all-reduce prints nccl-tests' table, and its ranks are unconnected without PMIx."""

    def all_reduce(program: str) -> tuple[int, str]:
        command = f'export PROGRAM="{program} all_reduce"; cd {runs} && sbatch --wait --parsable --ntasks-per-node=1'
        command += f" --gpus-per-node=1 {EXAMPLES}/all_reduce.sbatch -b 4K -e 64K -f 4 -n 2 -s 1"
        done = sandbox.exec("login", command, user="alice", check=False, timeout=300)
        return done.returncode, sandbox.exec("login", f"cat {runs}/all-reduce-{done.stdout.strip()}.out").stdout

    code, text = all_reduce("/usr/local/bin/busbar_collectives")
    assert code == 0, text
    assert (text.count("# nThread 1"), text.count("#  Rank ")) == (1, 2)
    code, text = all_reduce("env -i PATH=/usr/bin HOME=/tmp /usr/local/bin/busbar_collectives")
    assert code == 1, text
    assert "all_reduce: 2 tables of 2 ranks (expected one of 2): the ranks are not connected" in text
