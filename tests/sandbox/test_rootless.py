"""Tests of a rootless container runtime in jobs: an image of the sandbox's own files, with only the job's GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from conftest import recap

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator

    from conftest import Cluster

pytestmark = pytest.mark.proves("charliecloud")

IMAGES = "/shared/test-images"
ON = ("--tags", "charliecloud", "-e", "charliecloud_enabled=true", "-e", f"charliecloud_images_path={IMAGES}")
CACHE = "/var/tmp/ch-job.alice"  # noqa: S108 - the directory of the role for unpacked images
# Programs of a node with their shared libraries, in the layout of its root, and a file that only the image has.
MAKE_IMAGE = f"""
set -e
mkdir -p {IMAGES}/small/usr/bin {IMAGES}/small/usr/lib {IMAGES}/small/usr/lib64 {IMAGES}/small/etc
cd {IMAGES}/small
ln -s usr/bin bin; ln -s usr/lib lib; ln -s usr/lib64 lib64
for program in bash cat env id ls stat true uname; do
    cp /usr/bin/$program usr/bin/
    for library in $(ldd /usr/bin/$program | grep -o '/[^ ]*'); do
        case $library in /usr/*) place=$library ;; *) place=/usr$library ;; esac
        mkdir -p .$(dirname $place) && cp -Ln $library .$place
    done
done
ln -s bash usr/bin/sh
echo image >etc/only-here
tar -cf ../packed.tar .
mkdir -p dev etc mnt proc root run shared sys tmp && touch etc/group etc/hosts etc/passwd etc/resolv.conf
head -c 50000000 /dev/urandom >../big && mkdir ../b && mv ../big ../b/ && mkdir ../b/bin && tar -C ../b -cf ../big.tar .
echo text >../empty.txt && tar -C .. -cf ../empty.tar empty.txt && rm -r ../b
"""
OPEN_GPUS = "for gpu in 0 1; do (: </dev/nvidia$gpu) 2>&1; done"


@pytest.fixture(scope="module", autouse=True)
def runtime(sandbox: Cluster) -> Iterator[None]:
    """Install the runtime on all nodes, and images; removed at the end, except the packages."""
    sandbox.wait_idle()
    done = sandbox.playbook("containers.yml", *ON)
    assert done.returncode == 0, done.stdout
    sandbox.exec("gpu1", MAKE_IMAGE)
    yield
    sandbox.exec("gpu1", f"rm -rf {IMAGES}")
    for node in ("login", *sandbox.compute):
        sandbox.exec(node, f"rm -rf {CACHE} /usr/local/bin/ch-job /etc/ch-job.conf")
    sandbox.wait_idle()


def srun(sandbox: Cluster, arguments: str, *, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run a job as alice."""
    return sandbox.exec("login", f"srun --quiet --mem=100 {arguments}", user="alice", check=check)


def test_second_run_changes_nothing(sandbox: Cluster) -> None:
    done = sandbox.playbook("containers.yml", *ON, "--check", "--diff")
    assert {counts["changed"] for counts in recap(done.stdout).values()} == {0}


@pytest.mark.core
@pytest.mark.parametrize("image", ["small", "packed.tar"])
def test_image_runs_on_two_nodes_with_the_gpus_of_the_job(sandbox: Cluster, image: str) -> None:
    command = f"cat /etc/only-here; echo node $(uname -n) user $(id -u); {OPEN_GPUS}; true"
    told = srun(sandbox, f"-l -N2 --gpus-per-node=1 ch-job {image} -- bash -c '{command}'").stdout
    uid = sandbox.exec("login", "id -u alice").stdout.strip()
    for task, node in enumerate(("gpu1", "gpu2")):
        lines = sorted(line.partition(": ")[2] for line in told.splitlines() if line.startswith(f"{task}: "))
        assert "image" in lines, told
        assert any(line.startswith(f"node {node}") and line.endswith(f"user {uid}") for line in lines), told
        opened = [line for line in lines if "/dev/nvidia" in line]
        assert sum("No such device or address" in line for line in opened) == 1, told
        refused = ("Operation not permitted", "No such file or directory")
        assert sum(line.endswith(refused) for line in opened) == 1, told


def test_archive_is_unpacked_once_for_all_tasks_of_a_node(sandbox: Cluster) -> None:
    sandbox.exec("gpu1", f"rm -rf {CACHE}")
    told = srun(sandbox, "-w gpu1 -n2 --mem=100 ch-job packed.tar -- cat /etc/only-here").stdout
    assert told == "image\nimage\n"
    assert len(sandbox.exec("gpu1", f"ls -d {CACHE}/*/").stdout.split()) == 1
    assert sandbox.exec("gpu1", f"stat -c '%U %a' {CACHE}").stdout == "alice 700\n"


def test_shared_file_system_is_mounted_in_the_container(sandbox: Cluster) -> None:
    told = srun(sandbox, f"-w gpu1 ch-job {IMAGES}/packed.tar -- ls {IMAGES}").stdout
    assert "packed.tar" in told.split()


def test_exit_code_of_the_command_is_that_of_the_job(sandbox: Cluster) -> None:
    assert srun(sandbox, "-w gpu1 ch-job small -- bash -c 'exit 7'", check=False).returncode == 7


@pytest.mark.parametrize(
    ("image", "said"),
    [
        ("absent", f"ch-job: gpu1: image absent not found, also not in {IMAGES}"),
        ("/shared/absent.sqfs", "ch-job: gpu1: image /shared/absent.sqfs not found"),
        ("empty.txt", f"{IMAGES}/empty.txt is neither a directory nor"),
        ("empty.tar", f"{IMAGES}/empty.tar is not a root file system"),
    ],
)
def test_unusable_image_is_reported_in_the_output_of_the_job(sandbox: Cluster, image: str, said: str) -> None:
    done = srun(sandbox, f"-w gpu1 ch-job {image} -- true", check=False)
    assert done.returncode == 125
    assert said in done.stderr


def test_full_cache_is_reported_with_a_remedy_and_leaves_no_files(sandbox: Cluster) -> None:
    sandbox.exec("gpu1", "mkdir /srv/full && mount -t tmpfs -o size=8m,mode=1777 none /srv/full")
    try:
        done = srun(sandbox, "-w gpu1 env CH_JOB_CACHE=/srv/full ch-job big.tar -- true", check=False)
        assert done.returncode == 125
        assert "into /srv/full/ch-job.alice: the disk is full (0 MB free)" in done.stderr
        assert "set CH_JOB_CACHE to a directory with more room" in done.stderr
        assert sandbox.exec("gpu1", "ls /srv/full/ch-job.alice | grep -v lock", check=False).stdout == ""
    finally:
        sandbox.exec("gpu1", "umount /srv/full && rmdir /srv/full")


def test_cache_of_another_user_is_not_used(sandbox: Cluster) -> None:
    sandbox.exec("gpu1", "mkdir -p /srv/theirs/ch-job.alice && chmod 1777 /srv/theirs /srv/theirs/ch-job.alice")
    try:
        done = srun(sandbox, "-w gpu1 env CH_JOB_CACHE=/srv/theirs ch-job packed.tar -- true", check=False)
        assert done.returncode == 125
        assert "/srv/theirs/ch-job.alice is not a directory of alice" in done.stderr
    finally:
        sandbox.exec("gpu1", "rm -r /srv/theirs")


def test_unused_cache_entry_is_removed_by_the_next_job(sandbox: Cluster) -> None:
    srun(sandbox, "-w gpu1 ch-job packed.tar -- true")
    old = f"{CACHE}/0123456789abcdef"
    sandbox.exec("gpu1", f"mkdir {old} && touch -d '9 days ago' {old}.lock && chown -R alice {old} {old}.lock")
    srun(sandbox, "-w gpu1 ch-job packed.tar -- true")
    assert sandbox.exec("gpu1", f"test -e {old}", check=False).returncode == 1
    assert len(sandbox.exec("gpu1", f"ls -d {CACHE}/*/").stdout.split()) == 1


def test_job_on_a_node_without_user_namespaces_is_reported(sandbox: Cluster) -> None:
    """The kernel refuses namespaces in a chroot, with the same error as if they were disabled for all users."""
    elsewhere = "mount --rbind / /mnt && exec /usr/sbin/chroot /mnt ch-job small -- true"
    job = srun(sandbox, f"-w gpu1 unshare --map-root-user --mount bash -c '{elsewhere}'", check=False)
    assert job.returncode == 125
    assert "ch-job: gpu1: users cannot create namespaces, which containers need" in job.stderr
    assert "contact the administrator" in job.stderr


def test_node_without_user_namespaces_is_refused(sandbox: Cluster) -> None:
    """The nodes share their sysctl settings with the host, so failing test programs simulate the missing namespaces."""
    programs = ("/usr/bin/unshare", "/usr/bin/ch-checkns")
    for program in programs:
        script = "#!/bin/sh\\necho no namespaces here >&2\\nexit 1\\n"
        sandbox.exec("gpu1", f"mv {program} {program}.real; printf '{script}' >{program}; chmod 755 {program}")
    try:
        done = sandbox.playbook("containers.yml", *ON, "--limit", "gpu1")
    finally:
        for program in programs:
            sandbox.exec("gpu1", f"mv {program}.real {program}")
    assert done.returncode == 2
    words = " ".join(done.stdout.split())
    assert "gpu1: charliecloud_enabled: unprivileged users cannot create user namespaces: no namespaces here" in words
    assert recap(done.stdout)["gpu1"]["changed"] == 0
