"""Tests of the real Enroot and Pyxis, built from upstream's sources: used by a user, and by a validation."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from conftest import QUICK, recap, succeeded
from real_packages import container_options, real_package
from wheel_user import install_wheel

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import Cluster

FOLDER = "/shared/busbar-real"
IMAGE = f"{FOLDER}/node.sqsh"
# Directories on which Enroot mounts something: an image without them starts but cannot be saved.
POINTS = ("proc", "sys", "dev", "tmp", "run", "root", "home")
OUT = ("share/doc", "share/man", "share/locale", "lib/modules", "include")
SECRETS = ("shadow", "gshadow", "slurm", "ssh", "munge", "busbar", "enroot")
VARIABLE = ("lib", "cache", "spool", "log")
# Unpacking an image counts as memory of the job.
STEP = f"srun --quiet --mem=2G --container-image={IMAGE}"
RANKS = """\
from mpi4py import MPI
world = MPI.COMM_WORLD
print(world.size, world.allreduce(world.rank))
"""
# Takes the arguments of nccl-tests and measures with the program of the backend mpi, since the sandbox has no GPU. It
# replaces gigabytes by megabytes, because the ranks hold the messages in the memory of this machine.
MEASURES = """\
#!/bin/sh
words=
while [ $# -gt 1 ]; do
    size=$2
    case "$size" in *G) size=${size%G}M ;; esac
    case "$1" in -[befn]) words="$words $1 $size" ;; esac
    shift 2
done
# shellcheck disable=SC2086 # a word each
exec /usr/local/bin/busbar_collectives "$(basename "$0" _perf)" $words -s 0.2
"""


@pytest.fixture(scope="session")
def options() -> dict[str, Any]:
    """Return the options, with the archives if not from upstream; precedes the sandbox, so that a skip is cheap."""
    return {"enroot_enabled": True, "pyxis_enabled": True, **container_options()}


@pytest.fixture(scope="session")
def site(options: dict[str, Any], sandbox: Cluster) -> Cluster:
    """Return the sandbox with Enroot and Pyxis, and an image with the contents of the nodes."""
    succeeded(sandbox.playbook("containers.yml", "-e", json.dumps(options), timeout=1800))
    outs = [f"usr/{name}" for name in OUT] + [f"etc/{name}" for name in SECRETS] + [f"var/{name}" for name in VARIABLE]
    points = " ".join(f"-p '{name} d 755 0 0'" for name in POINTS)
    tests = "".join(f"install -m 755 /dev/stdin opt/nccl_tests/build/{name}_perf <<'E'\n{MEASURES}E\n" for name in ALL)
    pack = f"mksquashfs usr bin lib lib64 sbin etc var opt {IMAGE} {points} -no-progress -no-xattrs -comp zstd"
    made = f"cd /; mkdir -p {FOLDER} opt/nccl_tests/build; rm -f {IMAGE}\n{tests}"
    sandbox.exec("gpu1", f"{made}{pack} -Xcompression-level 1 -e {' '.join(outs)}", timeout=300)
    sandbox.wait_idle()
    return sandbox


ALL = ("all_reduce", "alltoall")


def srun(site: Cluster, words: str, *, check: bool = True, user: str = "alice") -> subprocess.CompletedProcess[str]:
    return site.exec("login", f"cd; {words}", user=user, check=check, timeout=300)


def test_second_run_changes_nothing(site: Cluster, options: dict[str, Any]) -> None:
    done = site.playbook("containers.yml", "-e", json.dumps(options))
    succeeded(done)
    assert {counts["changed"] for counts in recap(done.stdout).values()} == {0}
    assert srun(site, "enroot version").stdout == "4.1.2\n"
    for node in ("login", *site.compute):
        capable = site.exec(node, "getcap /usr/bin/enroot-mksquashovlfs /usr/bin/enroot-aufs2ovlfs").stdout
        assert (capable.count("cap_sys_admin"), capable.count("cap_mknod")) == (2, 1)
    # Only the build host has a compiler.
    assert site.exec("gpu1", "ls /var/lib/busbar/enroot", check=False).returncode


@pytest.mark.parametrize("mpi", ["", "--mpi=pmix"])
def test_ranks_of_two_nodes_communicate_in_containers(site: Cluster, mpi: str) -> None:
    program = shlex.quote(RANKS)
    done = srun(site, f"{STEP} {mpi} -N2 --ntasks-per-node=2 --overcommit python3 -c {program}")
    assert done.stdout.splitlines() == ["4 6"] * 4


def test_job_sees_only_its_mounts_and_its_gpus(site: Cluster) -> None:
    srun(site, "mkdir -p data && echo given >data/x")
    step = f"{STEP} --gres=gpu:1 --container-mounts=$HOME/data:/data:ro"
    done = srun(site, f"{step} sh -c 'cat /data/x; nvidia-smi -L | wc -l; touch /data/y'", check=False)
    assert done.stdout.split() == ["given", "1"]
    assert "Read-only file system" in done.stderr


def test_changed_container_is_saved_and_runs_on_another_node(site: Cluster) -> None:
    saved = "--container-writable --container-save=$HOME/saved.sqsh"
    srun(site, f"rm -f saved.sqsh; {STEP} -w gpu1 {saved} sh -c 'echo changed >/root/mark'")
    step = "srun --quiet --mem=2G -w gpu2 --container-image=$HOME/saved.sqsh"
    assert srun(site, f"{step} cat /root/mark; rm saved.sqsh").stdout == "changed\n"


def test_users_do_not_share_containers_of_the_same_name(site: Cluster) -> None:
    for user in ("alice", "bob"):
        named = f"-w gpu1 --container-name=same --container-writable sh -c 'echo {user} >/root/mark'"
        srun(site, f"{STEP} {named}", user=user)
    for user in ("alice", "bob"):
        kept = srun(site, "srun --quiet --mem=2G -w gpu1 --container-name=same cat /root/mark", user=user)
        assert kept.stdout == f"{user}\n"
        srun(site, "srun --quiet -w gpu1 enroot remove -f pyxis_same", user=user)


def test_missing_image_is_reported(site: Cluster) -> None:
    done = srun(site, f"srun --quiet --mem=2G --container-image={FOLDER}/none.sqsh true", check=False)
    assert done.returncode
    assert f"No such file or directory: {FOLDER}/none.sqsh" in done.stderr


def validate(site: Cluster, **change: object) -> dict[str, Any]:
    """Validate in a container and return the report."""
    # Unlike QUICK, the backend nccl expects larger messages, and GPUs with steady speed.
    processors = {"validation_min_bytes": "1M", "validation_spread_limit": 100}
    given = {"validation_backend": "nccl", "validation_image": IMAGE, **processors, **change}
    done = site.busbar("provision", "validate", "-i", str(site.inventory), "-e", json.dumps(given), *QUICK)
    found = re.search(r"report: (\S+/reports/\w+)", done.stdout)
    assert found, done.stdout + done.stderr
    report: dict[str, Any] = json.loads(Path(found[1], "report.json").read_text(encoding="utf-8"))
    return report


def test_validation_passes_in_a_container(site: Cluster) -> None:
    report = validate(site, validation_binary="/opt/nccl_tests/build/all_reduce_perf")
    assert report["verdict"] == "PASS", report
    assert site.exec("gpu1", "ls /var/lib/enroot/data/user-470", check=False).stdout == ""


def test_validation_reports_a_missing_image(site: Cluster) -> None:
    wrong = f"{FOLDER}/none.sqsh"
    report = validate(site, validation_binary="/opt/nccl_tests/build/all_reduce_perf", validation_image=wrong)
    assert report["verdict"] == "INCONCLUSIVE"
    assert f"No such file or directory: {wrong}" in report["reason"]


def test_ordinary_user_proves_nodes_with_an_image(site: Cluster, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The speed of CPUs varies, so any verdict is accepted."""
    alice = install_wheel(site, tmp_path_factory)
    site.wait_idle()
    done = alice.run(f"busbar prove --nodes 2 --floor 0.0001 --image {IMAGE}")
    (test,) = [test for test in alice.report()["tests"] if test["name"] == "cluster"]
    assert test["measured_busbw"], done.stdout + done.stderr
    alice.wait_for_none()
    wrong = alice.run(f"busbar prove --nodes 2 --floor 1 --image {FOLDER}/none.sqsh")
    assert wrong.returncode == 2, wrong.stdout + wrong.stderr
    assert f"--image: {FOLDER}/none.sqsh cannot be used on gpu" in wrong.stderr
    assert "No such file or directory" in wrong.stderr
    alice.wait_for_none()


@pytest.fixture(scope="module")
def nccl_tests(site: Cluster) -> Iterator[str]:
    """Return an image with the real nccl-tests and NCCL in a folder: bin/ with the programs, lib/ with libnccl.so.2."""
    archive = real_package("nccl-tests-*.tar.gz")
    target = f"{site.container('gpu1')}:/root/nccl-tests.tar.gz"
    subprocess.run(["podman", "cp", str(archive), target], check=True, capture_output=True)
    image = f"{FOLDER}/nccl.sqsh"
    unpack = "cd /root; rm -rf nccl tree; mkdir nccl; tar xf nccl-tests.tar.gz -C nccl --strip-components=1"
    add = f"unsquashfs -no-progress -d /root/tree {IMAGE}; mv /root/nccl /root/tree/opt/nccl-tests; rm -f {image}"
    pack = f"mksquashfs /root/tree {image} -no-progress -no-xattrs -comp zstd -Xcompression-level 1; rm -rf /root/tree"
    site.exec("gpu1", f"{unpack}; {add}; {pack}", timeout=600)
    yield image
    site.exec("gpu1", f"rm -rf {image} /root/nccl-tests.tar.gz")


def test_real_nccl_tests_without_gpus_are_inconclusive_with_the_reason(site: Cluster, nccl_tests: str) -> None:
    program = {"validation_binary": "/opt/nccl-tests/bin/all_reduce_perf", "validation_image": nccl_tests}
    report = validate(site, **program, validation_environment={"LD_LIBRARY_PATH": "/opt/nccl-tests/lib"})
    assert report["verdict"] == "INCONCLUSIVE"
    assert "CUDA driver version is insufficient for CUDA runtime version" in report["reason"]
