"""Tests of the Charliecloud and Apptainer examples in Slurm jobs, with the real runtimes and a small image."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import Cluster

pytestmark = pytest.mark.proves("examples", "charliecloud", "apptainer")

EXAMPLES = "/shared/examples"
PLACE = "/shared/runtime-test"
# Programs of a node with their shared libraries, in the layout of its root, and a name that only the image has.
MAKE_IMAGE = f"""
set -e
mkdir -p {PLACE}/image/usr/bin {PLACE}/image/etc && cd {PLACE}/image
mkdir -p usr/lib usr/lib64 dev mnt proc root run shared sys tmp home var/tmp
ln -s usr/bin bin; ln -s usr/lib lib; ln -s usr/lib64 lib64
for program in bash cat id uname; do
    cp /usr/bin/$program usr/bin/
    for library in $(ldd /usr/bin/$program | grep -o '/[^ ]*'); do
        case $library in /usr/*) place=$library ;; *) place=/usr$library ;; esac
        mkdir -p .$(dirname $place) && cp -Ln $library .$place
    done
done
ln -s bash usr/bin/sh
touch etc/group etc/hosts etc/passwd etc/resolv.conf etc/localtime
echo 'PRETTY_NAME="Image of a test"' >etc/os-release
tar -cf ../image.tar --exclude=./dev --exclude=./proc .
mkdir ../runs && chmod 1777 ../runs
"""
# Debian releases lack Apptainer, the development branch has it: taken from the node's package source.
FETCH = f"""
set -e
mkdir -p {PLACE}/sid/lists/partial && cd {PLACE}/sid
uri=$(apt-get indextargets --format '$(REPO_URI)' | grep -v security | head -n 1)
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $uri sid main" >list
own="-o Dir::Etc::sourcelist=$PWD/list -o Dir::Etc::sourceparts=- -o Dir::State::lists=$PWD/lists"
# A mirror may stand still for longer than that branch's index says to be valid.
own="$own -o APT::Sandbox::User=root -o Acquire::Check-Valid-Until=false"
apt-get $own -qq update
apt-get $own -qq download apptainer
mv apptainer_*.deb ..
rm -r {PLACE}/sid
"""


def install(sandbox: Cluster, options: dict[str, object]) -> None:
    """Install a runtime on the compute nodes by its role."""
    done = sandbox.playbook(
        "containers.yml", "--tags", "charliecloud,apptainer", "--limit", "slurm_compute", "-e", json.dumps(options)
    )
    assert done.returncode == 0, done.stdout


@pytest.fixture(scope="module", autouse=True)
def image(sandbox: Cluster) -> Iterator[None]:
    """Create an image on the shared file system, and a folder for the output of jobs."""
    sandbox.wait_idle()
    sandbox.exec("gpu1", MAKE_IMAGE)
    yield
    sandbox.exec("ctl", "scancel -u alice")
    sandbox.wait_idle()
    sandbox.exec("gpu1", f"rm -rf {PLACE}")


@pytest.fixture(scope="module")
def charliecloud(sandbox: Cluster) -> Iterator[str]:
    """Install the distribution's Charliecloud and return the name of the example."""
    install(sandbox, {"charliecloud_enabled": True, "charliecloud_images_path": PLACE})
    yield "charliecloud"
    for node in sandbox.compute:
        sandbox.exec(node, "rm -rf /var/tmp/ch-job.alice /usr/local/bin/ch-job /etc/ch-job.conf")


@pytest.fixture(scope="module")
def apptainer(sandbox: Cluster) -> Iterator[str]:
    """Install Apptainer from a package file and return the name of the example."""
    fetched = sandbox.exec("gpu1", FETCH, check=False, timeout=300)
    if fetched.returncode:
        pytest.skip(f"no Apptainer to be had here: {fetched.stderr}")
    path = sandbox.exec("gpu1", f"ls {PLACE}/apptainer_*.deb").stdout.strip()
    about = sandbox.exec("gpu1", f"dpkg-deb -f {path} Version && sha256sum {path}").stdout.split()
    assert len(about[1]) == 2 * hashlib.sha256().digest_size
    declared = {"name": "apptainer", "version": about[0], "file": path.rpartition("/")[2], "sha256": about[1]}
    install(sandbox, {"apptainer_enabled": True, "apptainer_files": [declared], "apptainer_url": PLACE})
    yield "apptainer"
    for node in sandbox.compute:
        sandbox.exec(node, "dpkg --purge apptainer; rm -rf /etc/apptainer")


@pytest.fixture(params=["charliecloud", "apptainer"])
def runtime(request: pytest.FixtureRequest) -> str:
    """Install a runtime and return the name of its example."""
    return str(request.getfixturevalue(request.param))


def submitted(sandbox: Cluster, script: str, image: str, arguments: str = "", nodes: int = 2) -> tuple[str, str]:
    """Submit an example as alice, wait for it, and return its state and output."""
    options = f"--wait --parsable --nodes={nodes} --ntasks-per-node=1 --gpus-per-node=1"
    command = f"export IMAGE={image}; cd {PLACE}/runs && sbatch {options} {EXAMPLES}/{script}.sbatch {arguments}"
    job = sandbox.exec("login", command, user="alice", check=False, timeout=400).stdout.strip()
    found = sandbox.exec("ctl", f"scontrol -o show job {job}").stdout
    exit_code = found.split("ExitCode=")[1].split()[0]
    return exit_code, sandbox.exec("ctl", f"cat {PLACE}/runs/{script}-{job}.out").stdout


def test_each_rank_runs_in_the_image_with_the_gpu_of_its_job(sandbox: Cluster, runtime: str) -> None:
    code, told = submitted(sandbox, runtime, f"{PLACE}/image")
    assert code == "0:0", told
    lines = sorted(line for line in told.splitlines() if line.startswith("rank "))
    assert lines == [
        f"rank {rank} of 2 on {node}: Image of a test, GPUs 0" for rank, node in enumerate(sandbox.compute[:2])
    ]


def test_command_runs_as_its_user_and_its_failure_fails_the_job(sandbox: Cluster, runtime: str) -> None:
    command = "bash -c 'echo $(id -u) $MASTER_ADDR ${#RENDEZVOUS_SECRET}; exit 7'"
    code, told = submitted(sandbox, runtime, f"{PLACE}/image", command, nodes=1)
    uid = sandbox.exec("login", "id -u alice").stdout.strip()
    assert code == "7:0", told
    assert f"{uid} {sandbox.compute[0]} 48" in told.splitlines()


def test_missing_image_is_reported(sandbox: Cluster, runtime: str) -> None:
    code, told = submitted(sandbox, runtime, f"{PLACE}/gone", nodes=1)
    assert code != "0:0"
    assert f"{PLACE}/gone" in told


def test_charliecloud_accepts_an_archive_as_image(sandbox: Cluster, charliecloud: str) -> None:
    code, told = submitted(sandbox, charliecloud, f"{PLACE}/image.tar")
    assert code == "0:0", told
    assert told.count(": Image of a test, GPUs 0") == 2


def test_node_without_the_runtime_is_reported(sandbox: Cluster, runtime: str) -> None:
    program = {"charliecloud": "/usr/local/bin/ch-job", "apptainer": "/usr/bin/apptainer"}[runtime]
    sandbox.exec(sandbox.compute[0], f"mv {program} {program}.away")
    try:
        code, told = submitted(sandbox, runtime, f"{PLACE}/image", nodes=1)
    finally:
        sandbox.exec(sandbox.compute[0], f"mv {program}.away {program}")
    assert code == "2:0", told
    name = program.rpartition("/")[2]
    assert f"{name} is not installed on {sandbox.compute[0]}: load a module, or request {runtime}_enabled" in told
