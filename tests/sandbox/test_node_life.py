"""Tests that a user's job continues on one node while others are added, updated and replaced."""

from __future__ import annotations

import itertools

import pytest
from conftest import QUICK, Cluster, recap
from test_add_nodes import grow
from test_replace_node import NODE, OTHER, replace
from test_slurm_jobs import sacct, submit, wait_for_state

pytestmark = [pytest.mark.proves("slurm", "ssh", "validation"), pytest.mark.grows]

# Much longer than a second, since a shared machine may pause for a while.
LARGEST_GAP_S = 15
NO_REBOOT = ("-e", "update_nodes_reboot=never")


def test_job_continues_while_other_nodes_are_added_updated_and_replaced(sandbox: Cluster) -> None:
    sandbox.wait_idle()
    new = f"gpu{len(sandbox.compute) + 1}"
    output = f"/shared/home/alice/life-{sandbox.name}"
    sandbox.exec("login", f"rm -f {output} {output}.end", user="alice")
    tick = "second=$((second + 1)); echo $second $(date +%s); sleep 1"
    counts = f"second=0; until test -e {output}.end; do {tick}; done; echo end"
    job = submit(sandbox, f"-w {OTHER} --mem=64 -c1 -o {output}", counts)
    wait_for_state(sandbox, job, "RUNNING")
    try:
        grow(sandbox, len(sandbox.compute) + 1)
        update = ("-e", f"update_nodes={new}", "-e", "update_nodes_roles=users,node_exporter", *NO_REBOOT, *QUICK)
        done = sandbox.busbar("provision", "update_nodes", "-i", str(sandbox.inventory), *update)
        assert done.returncode == 0, done.stdout + done.stderr
        assert OTHER not in recap(done.stdout)
        # The same machine; the tests of replace_node cover a new one.
        done = replace(sandbox, "-e", "replace_node_same_machine=true", *QUICK, node=NODE)
        assert done.returncode == 0, done.stdout + done.stderr
        states = dict.fromkeys(sandbox.compute, "idle") | {OTHER: "mix"}
        sandbox.wait_until(lambda: sandbox.node_states() == states, f"not in service: {sandbox.node_states()}")
        wait_for_state(sandbox, job, "RUNNING")
        sandbox.exec("login", f"touch {output}.end", user="alice")
        wait_for_state(sandbox, job, "COMPLETED")
        assert sacct(sandbox, job, "ExitCode,Restarts,NodeList") == ["0:0", "0", OTHER]
        *lines, last = sandbox.exec("login", f"cat {output}", user="alice").stdout.splitlines()
        assert last == "end"
        numbers, seconds = zip(*([int(word) for word in line.split()] for line in lines), strict=True)
        assert [*numbers] == [*range(1, len(lines) + 1)]
        assert len(lines) > 60
        assert max(after - before for before, after in itertools.pairwise(seconds)) < LARGEST_GAP_S
    finally:
        sandbox.exec("login", f"scancel {job}; rm -f {output} {output}.end", user="alice", check=False)
    sandbox.wait_idle()
