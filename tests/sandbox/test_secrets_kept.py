"""Tests that existing secrets of the hosts are not regenerated when a provisioning host lacks them."""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING

import pytest
from conftest import recap

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator
    from pathlib import Path

    from conftest import Cluster

pytestmark = pytest.mark.proves("preflight", "slurm")

KEY = "/etc/munge/munge.key"
AWAY = "/root/munge.key.away"
ASKED = "Find the hosts that have the missing secrets"


def provision(sandbox: Cluster, site: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return sandbox.busbar("provision", *arguments, "-i", str(site / "inventory"))


def keys(sandbox: Cluster) -> set[str]:
    """Return the set of munge keys of all nodes."""
    return {sandbox.exec(node, f"sha256sum < {KEY}").stdout for node in ["ctl", "login", *sandbox.compute]}


def refusal(done: subprocess.CompletedProcess[str]) -> str:
    """Check that a run was refused without changes and return the text of its error."""
    assert done.returncode == 2, done.stdout + done.stderr
    assert all(counts["changed"] == 0 for counts in recap(done.stdout).values())
    assert done.stdout.count("FAILED ") == 1
    return done.stdout[done.stdout.index("FAILED ") : done.stdout.index("Slowest tasks:")]


@pytest.fixture
def other(sandbox: Cluster, tmp_path: Path) -> Path:
    """Return a second provisioning host: the same inventory, and no secrets."""
    shutil.copytree(sandbox.inventory, tmp_path / "inventory", symlinks=True)
    return tmp_path


@pytest.fixture
def lacking(sandbox: Cluster, other: Path) -> Path:
    """Return a provisioning host that has every secret except the munge key."""
    shutil.copytree(sandbox.state / "secrets", other / "secrets")
    (other / "secrets" / "munge.key").unlink()
    return other


@pytest.mark.core
@pytest.mark.fault(
    "a secret is missing on the provisioning host",
    says="munge.key: the hosts have a munge key, but it is missing in …",
    heals="restore the file that the message names",
)
def test_second_provisioning_host_cannot_isolate_a_node(sandbox: Cluster, lacking: Path) -> None:
    before = keys(sandbox)
    text = refusal(provision(sandbox, lacking, "slurm", "--limit", "gpu1", "-t", "munge"))
    folder = lacking / "secrets"
    assert f"ctl,gpu1: munge.key: the hosts have a munge key, but it is missing in {folder}" in text
    assert f"remedy: restore {folder}/munge.key " in text
    assert "-e preflight_rotate_secrets=munge.key" in text
    assert not (folder / "munge.key").exists()
    assert keys(sandbox) == before
    assert len(before) == 1


@pytest.mark.parametrize("playbook", ["site", "base"])
def test_empty_secrets_folder_is_refused_before_any_change(sandbox: Cluster, other: Path, playbook: str) -> None:
    before = keys(sandbox)
    text = refusal(provision(sandbox, other, playbook))
    for name in ("munge.key", "slurm_database.password", "ssh_ca"):
        assert re.search(rf": {name}: the hosts have an? .*, but it is missing in {other}/secrets", text), text
    assert not (other / "secrets").exists()
    assert keys(sandbox) == before


@pytest.fixture
def new_node(sandbox: Cluster) -> Iterator[str]:
    """Return a node without a munge key, like a new one; its key is restored at the end."""
    sandbox.exec("gpu2", f"mv {KEY} {AWAY}")
    yield "gpu2"
    sandbox.exec("gpu2", f"mv {AWAY} {KEY} && systemctl restart munge")


def test_new_node_does_not_get_a_different_key(sandbox: Cluster, lacking: Path, new_node: str) -> None:
    text = refusal(provision(sandbox, lacking, "slurm", "--limit", new_node, "-t", "munge"))
    assert "ctl: munge.key: the hosts have a munge key" in text
    assert sandbox.exec(new_node, f"test -e {KEY}", check=False).returncode != 0


def test_missing_or_wrong_key_is_repaired_from_the_secret(sandbox: Cluster, new_node: str) -> None:
    sandbox.exec("gpu1", f"head -c 40 /dev/urandom | base64 -w0 > {KEY}")
    assert len({sandbox.exec(node, f"cat {KEY}", check=False).stdout for node in ("ctl", "gpu1", new_node)}) == 3
    done = provision(sandbox, sandbox.state, "slurm", "--limit", f"gpu1,{new_node}", "-t", "munge")
    assert done.returncode == 0, done.stdout
    assert len(keys(sandbox)) == 1
    assert ASKED not in done.stdout, "the hosts are asked only when a secret is missing"


def test_impossible_rotation_request_is_reported(sandbox: Cluster, lacking: Path) -> None:
    text = refusal(provision(sandbox, sandbox.state, "preflight", "-e", "preflight_rotate_secrets=munge.key,munge"))
    assert f"{sandbox.state}/secrets/munge.key exists, so it would not be replaced" in text
    assert "'munge' is not a secret of the cluster" in text
    rotate = ("-e", "preflight_rotate_secrets=munge.key")
    text = refusal(provision(sandbox, lacking, "slurm", "--limit", "gpu1", "-t", "munge", *rotate))
    assert "would keep the old munge.key" in text


def test_munge_key_is_rotated_on_request(sandbox: Cluster) -> None:
    before, path = keys(sandbox), sandbox.state / "secrets" / "munge.key"
    path.rename(path.with_name("munge.key.old"))
    done = provision(sandbox, sandbox.state, "slurm", "-e", "preflight_rotate_secrets=munge.key")
    assert done.returncode == 0, done.stdout
    assert ASKED in done.stdout
    path.with_name("munge.key.old").unlink()
    assert len(keys(sandbox)) == 1
    assert keys(sandbox) != before
    sandbox.wait_idle()
    assert sandbox.exec("login", "srun -N2 --chdir=/ hostname", user="alice").stdout.count("gpu") == 2
