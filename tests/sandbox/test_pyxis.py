"""Pyxis from an archive of known content: built on the controller, loaded by real jobs, and removed.

What is built is a stand-in that takes the arguments of the real plugin and starts no container.
"""

from __future__ import annotations

import hashlib
import json
import tarfile
from typing import TYPE_CHECKING, Any

import pytest
from conftest import TOP, recap
from test_spank import LINE, PACKAGES, STATE

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator

    from conftest import Cluster

    Apply = Callable[..., subprocess.CompletedProcess[str]]

pytestmark = pytest.mark.proves("pyxis", "slurm_spank")

OURS = LINE.replace("greeting", "pyxis")
DIRECTORY = "/etc/tmpfiles.d/busbar-pyxis.conf"


@pytest.fixture(scope="module")
def apply(sandbox: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Apply]:
    """Run the roles with options; the sandbox has neither plugin nor compiler at the end."""
    archive = tmp_path_factory.mktemp("pyxis") / "pyxis.tar.gz"
    with tarfile.open(archive, "w:gz") as stream:
        stream.add(TOP / "tests" / "fixtures" / "pyxis_plugin", arcname="pyxis-0.24.0")
    declared: dict[str, Any] = {"pyxis_enabled": True, "pyxis_source": str(archive)}
    declared["pyxis_sha256"] = hashlib.sha256(archive.read_bytes()).hexdigest()

    def run(*arguments: str, **change: object) -> subprocess.CompletedProcess[str]:
        return sandbox.playbook("containers.yml", "-t", "slurm_spank", "-e", json.dumps(declared | change), *arguments)

    sandbox.wait_idle()
    before = set(sandbox.exec("ctl", PACKAGES).stdout.split())
    yield run
    gone = run(pyxis_enabled=False)
    assert gone.returncode == 0, gone.stdout
    added = set(sandbox.exec("ctl", PACKAGES).stdout.split()) - before
    if added:
        sandbox.exec("ctl", f"dpkg --purge --force-depends {' '.join(sorted(added))}", timeout=300)
    for node in ("ctl", "login", *sandbox.compute):
        assert sandbox.exec(node, f"ls {OURS}", check=False).stdout == ""
        sandbox.exec(node, f"rm -rf {STATE} /usr/local/lib/busbar/spank {DIRECTORY} /var/lib/pyxis", check=False)
    sandbox.wait_idle()


@pytest.mark.core
def test_jobs_on_all_nodes_have_its_options(sandbox: Cluster, apply: Apply) -> None:
    done = apply("--diff")
    assert done.returncode == 0, done.stdout
    for node in sandbox.compute:
        assert sandbox.exec(node, "stat -c '%U %a' /var/lib/pyxis").stdout == "root 755\n"
        assert "runtime_path=/var/lib/pyxis execute_entrypoint=0" in sandbox.exec(node, f"cat {OURS}").stdout
    job = "srun --quiet -N2 --mem=100 --container-image=ubuntu:24.04 printenv STAND_IN_IMAGE"
    assert sandbox.exec("login", job, user="alice").stdout.split() == ["ubuntu:24.04"] * 2
    assert {counts["changed"] for counts in recap(apply().stdout).values()} == {0}


def test_an_archive_without_a_checksum_is_refused(sandbox: Cluster, apply: Apply) -> None:
    done = apply("--limit", sandbox.compute[0], pyxis_sha256="")
    assert done.returncode != 0
    assert "pyxis_sha256 is not set" in " ".join(done.stdout.split())
    assert recap(done.stdout)[sandbox.compute[0]]["changed"] == 0
