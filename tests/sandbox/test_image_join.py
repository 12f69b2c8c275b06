"""Tests of a node that booted the image of its cluster: admitted after a validation, configured by signed bundles."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from typing import TYPE_CHECKING, Any

import pytest
from booted_image import Booted
from busbar.image import bundle
from conftest import QUICK, recap

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from conftest import Cluster

pytestmark = [pytest.mark.proves("node_pull", "pxe_server", "slurm"), pytest.mark.grows]

ALSO = "only-in-the-bad-bundle"
LATER = "munge slurmd prometheus-node-exporter"
SLURMD = "systemctl show -p InvocationID --value slurmd"
FILES = "cat /etc/hosts; readlink /etc/localtime || true"


@pytest.fixture(scope="module")
def booted(sandbox: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Booted]:
    """Return a node that has booted but is not a member yet; everything is restored at the end."""
    made = Booted(sandbox, tmp_path_factory.mktemp("booted"))
    try:
        made.build()
        made.unpack()
        made.boot()
        yield made
    finally:
        made.remove()


@pytest.fixture
def good(booted: Booted) -> Iterator[dict[str, Any]]:
    """Return the active bundle; finally a newer one is published, since a node rejects one older than a failed one."""
    found = booted.pull()
    assert found["result"] == "applied", found
    yield found
    booted.busbar("image", "bundle", str(booted.folder))
    booted.offer(booted.folder)
    assert booted.pull()["result"] == "applied"


def test_node_joins_through_the_gate(booted: Booted) -> None:
    sandbox, node = booted.sandbox, booted.node
    # A package installation would have started them, without key, controller or TLS.
    waiting = sandbox.exec(node, f"systemctl is-enabled {LATER}", check=False).stdout.split()
    assert set(waiting) == {"disabled"}
    booted.bootstrap()
    known = time.monotonic()
    said = booted.join(*QUICK)
    joined = time.monotonic()
    sandbox.wait_idle()
    assert "Verdict: PASS" in said
    # No time limit on a shared machine: the figures are for the documentation.
    figures = {"trusted_s": known - booted.up, "joined_s": joined - booted.up, "load": os.getloadavg()[0]}
    (sandbox.state / "booted.json").write_text(json.dumps(figures), encoding="utf-8")
    # The run checks the contents of the image and installs nothing.
    assert sandbox.exec(node, "cat /var/log/apt/history*.log", check=False).stdout == ""
    assert booted.status()["result"] == "applied"
    assert sandbox.exec("login", f"srun -w {node} --gpus-per-node=1 hostname", user="alice").stdout.strip() == node
    again = booted.join()
    assert "New nodes: none" in again
    assert all(counts["changed"] == 0 for counts in recap(again).values())


def test_failing_bundle_is_rolled_back(booted: Booted, good: dict[str, Any], tmp_path: Path) -> None:
    sandbox, node = booted.sandbox, booted.node
    before, slurmd = sandbox.exec(node, FILES).stdout, sandbox.exec(node, SLURMD).stdout
    # The role writes the names before it sets the time zone, which does not exist.
    options = {"hosts_extra": [{"address": "192.0.2.77", "names": [ALSO]}], "hosts_timezone": "No/Where"}
    broken = tmp_path / "broken.yml"
    broken.write_text(json.dumps({"all": {"hosts": {node: options}}}), encoding="utf-8")
    work = f"-w {node} -n1 --mem=64 -o /dev/null --wrap 'sleep 900'"
    job = sandbox.exec("login", f"sbatch --parsable {work}", user="alice").stdout.strip()
    try:
        sandbox.wait_until(lambda: _state(sandbox, job) == "RUNNING", "the job does not start")
        booted.busbar("image", "bundle", str(tmp_path), also=broken)
        booted.offer(tmp_path)
        outcome = booted.pull()
        assert _state(sandbox, job) == "RUNNING"
    finally:
        sandbox.exec("ctl", f"scancel {job}")
    assert (outcome["result"], outcome["serial"]) == ("failed", good["serial"]), outcome
    assert f"serial {bundle.published_serial(tmp_path)}: " in outcome["reason"]
    assert "hosts : configure | Set the time zone" in outcome["reason"], outcome
    # Both runs wrote the file: the failed one, and the rollback.
    log = sandbox.exec(node, "cat /run/busbar/node_pull.log").stdout
    assert len(re.findall(r"Write /etc/hosts\] \*+\nchanged: ", log)) == 2, log
    assert sandbox.exec(node, FILES).stdout == before
    assert ALSO not in before
    assert sandbox.exec(node, SLURMD).stdout == slurmd
    sandbox.wait_idle()


def test_bundle_without_valid_signature_is_refused(booted: Booted, good: dict[str, Any], tmp_path: Path) -> None:
    before = booted.sandbox.exec(booted.node, FILES).stdout
    for name, (given, says) in forged(booted, good["serial"], tmp_path).items():
        folder = tmp_path / name
        bundle.publish(**given, folder=folder)
        if name == "unsigned":
            signed = folder / bundle.SIGNED
            signed.write_text(signed.read_text().partition(bundle.MARK)[0])
        booted.offer(folder)
        outcome = booted.pull()
        assert (outcome["result"], outcome["serial"]) == ("refused", good["serial"]), (name, outcome)
        assert says in outcome["reason"], (name, outcome)
        assert booted.sandbox.exec(booted.node, FILES).stdout == before
    booted.sandbox.wait_idle()


def test_node_returns_through_the_gate_after_a_reboot(booted: Booted) -> None:
    """Without a partition for its identity, the node loses everything, including its host key."""
    sandbox, node, former = booted.sandbox, booted.node, booted.fingerprint()
    booted.switch_off()
    sandbox.wait_until(lambda: sandbox.node_states()[node] == "down*", "Slurm does not miss it", 300)
    booted.boot()
    assert sandbox.exec(node, f"systemctl is-enabled {LATER}", check=False).stdout.split() == ["disabled"] * 3
    shown = booted.fingerprint()
    assert shown != former
    said = booted.take_back("-e", f"replace_node_fingerprint={shown}", *QUICK)
    assert "Verdict: PASS" in said
    sandbox.wait_idle()
    assert sandbox.exec(node, "cat /var/log/apt/history*.log", check=False).stdout == ""
    assert sandbox.exec("login", f"srun -w {node} --gpus-per-node=1 hostname", user="alice").stdout.strip() == node


def forged(booted: Booted, serial: int, folder: Path) -> dict[str, tuple[dict[str, Any], str]]:
    """Return invalid bundles and the reason why each is refused."""
    other = folder / "other_key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", other], check=True)
    archive = next(booted.folder.glob("bundle-*.tar.gz")).read_bytes()
    key = booted.sandbox.state / "secrets" / bundle.KEY
    own = {"content": archive, "cluster": booted.sandbox.name, "key": key, "serial": serial + 1000}
    return {
        "unsigned": (own, "is not signed"),
        "foreign-key": (own | {"key": other}, "is not signed by cluster"),
        "other-cluster": (own | {"cluster": "other"}, "belongs to cluster other"),
        "older": (own | {"serial": serial - 1}, "is older"),
    }


def _state(sandbox: Cluster, job: str) -> str:
    """Return the state of a job."""
    return sandbox.exec("ctl", f"squeue -h -j {job} -o %T", check=False).stdout.strip()
