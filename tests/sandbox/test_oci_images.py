"""A site of machines that start from an OCI image, and images from which none can start."""

from __future__ import annotations

import io
import subprocess
import tarfile
from typing import TYPE_CHECKING

import pytest
from conftest import FIRST_RUN_TIMEOUT_S, Cluster, recap, succeeded

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.proves()

# What the official images of Debian and Ubuntu add to a minimal system: no daemon starts, apt keeps nothing, and Ubuntu
# has a user with the first UID.
OFFICIAL = """\
printf '#!/bin/sh\\nexit 101\\n' >"$1/usr/sbin/policy-rc.d"
chmod 0755 "$1/usr/sbin/policy-rc.d"
echo 'DPkg::Post-Invoke { "rm -f /var/cache/apt/archives/*.deb || true"; };' >"$1/etc/apt/apt.conf.d/docker-clean"
chroot "$1" useradd --create-home --shell /bin/bash ubuntu
"""


def podman(*arguments: str, stdin: bytes | None = None) -> str:
    return subprocess.run(["podman", *arguments], check=True, capture_output=True, input=stdin).stdout.decode()


def imported(name: str, files: dict[str, str], *options: str) -> str:
    """Import an image of a few files."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for path, text in files.items():
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode = len(text), 0o755
            archive.addfile(entry, io.BytesIO(text.encode()))
    podman("import", "--quiet", *options, "-", name, stdin=packed.getvalue())
    return name


@pytest.fixture(scope="module")
def bare(sandbox_name: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An image as Debian publishes it: neither systemd nor sshd, sudo or Python."""
    archive = tmp_path_factory.mktemp("bare") / "root.tar"
    words = ["mmdebstrap", "--variant=minbase", f"--customize-hook={OFFICIAL}", "trixie", str(archive)]
    subprocess.run(words, check=True, capture_output=True)
    name = f"localhost/busbar-test-{sandbox_name}:bare"
    podman("import", "--quiet", str(archive), name)
    archive.unlink()
    yield name
    podman("rmi", "--force", name)


@pytest.fixture(scope="module")
def site(sandbox_name: str, bare: str) -> Iterator[Cluster]:
    """A sandbox with one compute node of that image, provisioned."""
    cluster = Cluster(f"{sandbox_name}-oci")
    made = cluster.busbar("sandbox", "up", "--name", cluster.name, "--image", bare, "--compute", "1")
    assert made.returncode == 0, made.stderr
    try:
        succeeded(cluster.busbar("provision", "--name", cluster.name, timeout=FIRST_RUN_TIMEOUT_S))
        yield cluster
    finally:
        cluster.busbar("sandbox", "down", "--name", cluster.name)


def test_a_user_gets_the_gpu_that_was_asked_for(site: Cluster, bare: str) -> None:
    done = site.exec("login", "srun --gpus-per-node=1 nvidia-smi -L", user="alice")
    assert done.stdout == "GPU 0: Simulated GPU (UUID: GPU-simulated-gpu1-0)\n"
    shown = site.busbar("sandbox", "status", "--name", site.name)
    assert (shown.returncode, bare in shown.stdout) == (0, True)


def test_a_second_run_changes_nothing(site: Cluster) -> None:
    done = site.playbook("site.yml", timeout=FIRST_RUN_TIMEOUT_S)
    succeeded(done)
    assert {counts["changed"] for counts in recap(done.stdout).values()} == {0}


def test_nodes_have_keys_of_their_own_and_the_image_is_built_once(site: Cluster, bare: str) -> None:
    keys = {site.exec(node, "cat /etc/ssh/ssh_host_ed25519_key.pub /etc/machine-id").stdout for node in ("ctl", "gpu1")}
    assert len(keys) == 2
    again = site.busbar("sandbox", "up", "--name", site.name, "--image", bare)
    assert (again.returncode, "built" in again.stdout) == (0, False), again.stdout + again.stderr
    other = site.busbar("sandbox", "up", "--name", site.name, "--distribution", "debian13")
    assert (other.returncode, "has --distribution unset (requested debian13)" in other.stderr) == (2, True)


def test_what_cannot_be_a_machine_is_refused_in_one_line(sandbox_name: str, bare: str, tmp_path: Path) -> None:
    cluster, prefix = Cluster(f"{sandbox_name}-no"), f"localhost/busbar-test-{sandbox_name}"
    foreign = imported(f"{prefix}:foreign", {"usr/bin/apt-get": ""}, "--arch=s390x")
    alpine = imported(f"{prefix}:alpine", {"sbin/apk": ""})
    (tmp_path / "Containerfile").write_text(
        f"FROM {bare}\nRUN echo deb http://127.0.0.1:9/debian trixie main >/etc/apt/sources.list\n"
    )
    alone = f"{prefix}:alone"
    podman("build", "--quiet", "--isolation=chroot", "--pull=never", "--tag", alone, str(tmp_path))
    told = {
        "127.0.0.1:9/none:1": ("the image cannot be pulled (", "connection refused", "--distribution debian13"),
        foreign: ("is an image of another architecture (found s390x, expected ",),
        alpine: ("has no package manager that busbar supports (expected apt-get or dnf)",),
        alone: ("cannot be built (E: Failed to fetch http://127.0.0.1:9/debian", "Remedy: make the package archive"),
    }
    try:
        for reference, parts in told.items():
            refused = cluster.busbar("sandbox", "up", "--name", cluster.name, "--image", reference)
            assert (refused.returncode, len(refused.stderr.splitlines())) == (2, 1), refused.stderr
            assert refused.stderr.startswith(f"busbar: {reference}: "), refused.stderr
            assert all(part in refused.stderr for part in parts), refused.stderr
        assert cluster.busbar("sandbox", "down", "--name", cluster.name).stdout.endswith("nothing to remove\n")
    finally:
        podman("rmi", "--force", foreign, alpine, alone)
