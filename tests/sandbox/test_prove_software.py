"""Tests that `busbar prove` finds nccl-tests in a module of the real Lmod and in an image of the real Apptainer.

The programs of nccl-tests are simulated: the sandbox has no GPU. tests/real has an image for Pyxis.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import pytest
from report_samples import nccl_text
from test_container_examples import FETCH, MAKE_IMAGE, PLACE
from wheel_user import User, install_wheel

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import Cluster

pytestmark = pytest.mark.proves("validation", "lmod", "apptainer")

REFUSED = 2
# The first rank prints the output for eight GPUs on each node.
PROGRAM = '#!/bin/sh\n[ "$SLURM_PROCID" != 0 ] || cat {}\n'
PROVE = "busbar prove --nodes 2 --floor 1"


@pytest.fixture(scope="module")
def alice(sandbox: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[User]:
    user = install_wheel(sandbox, tmp_path_factory)
    sandbox.wait_idle(120)
    yield user
    sandbox.exec("login", "scancel -u alice", check=False)


def programs(sandbox: Cluster, folder: str, table: str) -> None:
    """Write the simulated nccl-tests into a folder on the shared file system."""
    text = shlex.quote(PROGRAM.format(table))
    for name in ("all_reduce_perf", "alltoall_perf"):
        sandbox.exec("gpu1", f"mkdir -p {folder}; printf %s {text} >{folder}/{name}; chmod 755 {folder}/{name}")


@pytest.fixture
def module(sandbox: Cluster) -> Iterator[str]:
    """Create a module with nccl-tests and return its name."""
    folder, tree = "/shared/prove-module", "/shared/modules/nccl-tests"
    programs(sandbox, folder, f"{folder}/table")
    table = shlex.quote(nccl_text(["gpu1", "gpu2"], 1, 4.0))
    line = f'prepend_path("PATH", "{folder}")'
    sandbox.exec("gpu1", f"printf %s {table} >{folder}/table; mkdir -p {tree}; echo '{line}' >{tree}/2.17.lua")
    yield "nccl-tests/2.17"
    sandbox.exec("gpu1", f"rm -rf {folder} {tree}")


@pytest.fixture(scope="module")
def image(sandbox: Cluster) -> Iterator[str]:
    """Return a directory that Apptainer runs, with nccl-tests in one of the usual folders."""
    sandbox.exec("gpu1", MAKE_IMAGE)
    fetched = sandbox.exec("gpu1", FETCH, check=False, timeout=300)
    if fetched.returncode:
        sandbox.exec("gpu1", f"rm -rf {PLACE}")
        pytest.skip(f"no Apptainer to be had here: {fetched.stderr}")
    for node in sandbox.compute:
        sandbox.exec(node, f"dpkg -i --force-depends {PLACE}/apptainer_*.deb", timeout=120)
    programs(sandbox, f"{PLACE}/image/opt/nccl-tests/build", "/etc/table")
    table = shlex.quote(nccl_text(["gpu1", "gpu2"], 1, 4.0))
    sandbox.exec("gpu1", f"printf %s {table} >{PLACE}/image/etc/table")
    yield f"{PLACE}/image"
    for node in sandbox.compute:
        sandbox.exec(node, "dpkg --purge apptainer; rm -rf /etc/apptainer")
    sandbox.exec("gpu1", f"rm -rf {PLACE}")


def test_nccl_tests_of_a_module_is_found_and_loaded(alice: User, module: str) -> None:
    done = alice.run(PROVE)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"nccl-tests: module {module}" in done.stdout
    assert [test["measured_busbw"] for test in alice.report()["tests"]] == [4.0]
    alice.wait_for_none()


def test_nccl_tests_of_an_image_runs_in_apptainer(alice: User, image: str) -> None:
    done = alice.run(f"{PROVE} --image {image}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert [test["measured_busbw"] for test in alice.report()["tests"]] == [4.0]
    alice.wait_for_none()


def test_unusable_image_is_reported_with_the_reason(alice: User, image: str) -> None:
    alice.sandbox.exec("gpu1", f"mv {image}/opt/nccl-tests {image}/opt/other")
    for given, reason in {
        f"{PLACE}/none.sif": "no such file or directory",
        "docker://registry.invalid/nccl-tests": "registry.invalid",
        image: "has no all_reduce_perf in PATH, /usr/local/bin",
    }.items():
        done = alice.run(f"{PROVE} --image {given}")
        assert done.returncode == REFUSED, done.stdout + done.stderr
        assert f"--image: {given} " in done.stderr
        assert reason in done.stderr
        alice.wait_for_none()
