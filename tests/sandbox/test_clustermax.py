"""Tests of the cluster with ClusterMAX: exactly the checks in the table pass, with default and with listed options.

The nodes answer like machines with GPUs; the files that busbar installs are real. The options listed in the table are
enabled.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from clustermax import audit_on
from conftest import TOP
from simulated_machine import simulated_machines
from test_pyxis import apply  # noqa: F401 - a fixture

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from clustermax import Audit
    from conftest import Cluster

pytestmark = pytest.mark.proves("cuda", "hosts", "lmod", "pyxis", "slurm")

DATA: dict[str, Any] = yaml.safe_load((TOP / "tests/fixtures/clustermax.yml").read_text())
TABLE: dict[str, dict[str, Any]] = DATA["checks"]
# The callers: root and a user on the login node, and a user there who has an allocation.
WAYS = {"root": ("root", ""), "user": ("alice", ""), "job": ("alice", "salloc -Q -N2 --gres=gpu:2 --mem=500 -t 10")}
# A sandbox node has no kernel of its own, so the settings are written but not applied.
PROFILING = {"user_profiling": True, "hosts_kernel_managed": True, "hosts_sysctl_apply": False}


def test_plain_sandbox_passes_the_documented_checks(sandbox: Cluster) -> None:
    """Precedes the fixture below, which installs and simulates more."""
    sandbox.wait_idle(120)
    with audit_on(sandbox) as program:
        found = program("root", "")
    assert sorted(key for key, check in found.items() if check.status == "pass") == sorted(DATA["plain"])


@pytest.fixture(scope="module")
def audit(sandbox: Cluster, apply: Callable[..., Any]) -> Iterator[Audit]:  # noqa: F811 - the fixture
    """Return the audit program on a cluster whose nodes look like machines and have the table's options enabled."""

    def play(name: str, *arguments: str, **declared: object) -> None:
        done = sandbox.playbook(name, *arguments, "-e", json.dumps(declared))
        assert done.returncode == 0, done.stdout + done.stderr

    nodes = ":".join(sandbox.compute)
    assert apply().returncode == 0
    play("base.yml", "--tags", "hosts", "--limit", nodes, **PROFILING)
    play("nvidia.yml", "--tags", "cuda", "--limit", "login", cuda_source="nvidia")
    try:
        with simulated_machines(sandbox, sandbox.compute), audit_on(sandbox) as program:
            yield program
    finally:
        sandbox.exec("login", "rm -rf /etc/lmod/modules/cuda /etc/profile.d/busbar-cuda.sh", check=False)
        for node in sandbox.compute:
            sandbox.exec(node, "rm -f /etc/sysctl.d/80-busbar.conf /etc/security/limits.d/80-busbar.conf", check=False)
        sandbox.wait_idle(120)


@pytest.mark.parametrize("way", WAYS)
def test_exactly_the_checks_of_the_table_pass(sandbox: Cluster, audit: Audit, way: str) -> None:
    sandbox.wait_idle(120)
    found = audit(*WAYS[way])
    results = {key: each["result"] for key, each in TABLE.items()}
    expected = {key: each[way] if isinstance(each, dict) else each for key, each in results.items()}
    told = {key: f"{check.status} ({check.observed}; {check.assessment})" for key, check in found.items()}
    wrong = {key: told.get(key, "not there") for key in {*expected, *found} if key not in expected or key not in found}
    wrong |= {key: told[key] for key in {*expected} & {*found} if found[key].status != expected[key]}
    assert not wrong, "\n".join(f"{key}: {expected.get(key, 'not known')}, but {text}" for key, text in wrong.items())
