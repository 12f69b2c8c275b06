"""Tests of a site whose machines start from an OCI image, and of unusable images."""

from __future__ import annotations

import io
import json
import re
import subprocess
import tarfile
from typing import TYPE_CHECKING, Any

import pytest
from conftest import FIRST_RUN_TIMEOUT_S, TOP, Cluster, plain_environment, recap, succeeded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.proves()

# Additions of the official Debian and Ubuntu images to a minimal system: no daemon starts, apt keeps no files, and
# Ubuntu has a user with the first UID.
OFFICIAL = """\
printf '#!/bin/sh\\nexit 101\\n' >"$1/usr/sbin/policy-rc.d"
chmod 0755 "$1/usr/sbin/policy-rc.d"
echo 'DPkg::Post-Invoke { "rm -f /var/cache/apt/archives/*.deb || true"; };' >"$1/etc/apt/apt.conf.d/docker-clean"
chroot "$1" useradd --create-home --shell /bin/bash ubuntu
"""


# A Debian with the layout of EL: a dnf that only records its arguments, and sshd.service. Nothing comes from EL.
LIKE_EL = """\
FROM {bare}
RUN apt-get update && apt-get install -y --no-install-recommends dbus openssh-server python3 sudo systemd-sysv \\
    && systemctl disable ssh && sed '/^Alias/d' /usr/lib/systemd/system/ssh.service >/etc/systemd/system/sshd.service \\
    && printf '#!/bin/sh\\necho "$@" >>/root/dnf\\n' >/usr/bin/dnf && chmod 0755 /usr/bin/dnf \\
    && rm -r /usr/bin/apt-get /etc/dpkg/dpkg.cfg.d
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
    """Return an image as published by Debian: without systemd, sshd, sudo and Python."""
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
    """Return a provisioned sandbox with one compute node of that image."""
    cluster = Cluster(f"{sandbox_name}-oci")
    made = cluster.busbar("sandbox", "up", "--name", cluster.name, "--image", bare, "--compute", "1")
    assert made.returncode == 0, made.stderr
    try:
        succeeded(cluster.busbar("provision", "--name", cluster.name, timeout=FIRST_RUN_TIMEOUT_S))
        yield cluster
    finally:
        cluster.busbar("sandbox", "down", "--name", cluster.name)


def test_user_gets_the_requested_gpu(site: Cluster, bare: str) -> None:
    done = site.exec("login", "srun --gpus-per-node=1 nvidia-smi -L", user="alice")
    assert done.stdout == "GPU 0: Simulated GPU (UUID: GPU-simulated-gpu1-0)\n"
    shown = site.busbar("sandbox", "status", "--name", site.name)
    assert (shown.returncode, bare in shown.stdout) == (0, True)


def test_second_run_changes_nothing(site: Cluster) -> None:
    done = site.playbook("site.yml", timeout=FIRST_RUN_TIMEOUT_S)
    succeeded(done)
    assert {counts["changed"] for counts in recap(done.stdout).values()} == {0}


def test_nodes_have_their_own_keys_and_image_is_built_once(site: Cluster, bare: str) -> None:
    keys = {site.exec(node, "cat /etc/ssh/ssh_host_ed25519_key.pub /etc/machine-id").stdout for node in ("ctl", "gpu1")}
    assert len(keys) == 2
    again = site.busbar("sandbox", "up", "--name", site.name, "--image", bare)
    assert (again.returncode, "built" in again.stdout) == (0, False), again.stdout + again.stderr
    other = site.busbar("sandbox", "up", "--name", site.name, "--distribution", "debian13")
    assert (other.returncode, "has --distribution unset (requested debian13)" in other.stderr) == (2, True)


@pytest.fixture
def claims(site: Cluster) -> Iterator[Callable[[str, str, str], None]]:
    """Return a function that changes the os-release of gpu1, which remains a Debian, to another system."""
    site.exec("gpu1", "cp /usr/lib/os-release /root/os-release")

    def claim(distribution: str, name: str, version: str) -> None:
        text = f'ID={distribution}\nNAME="{name}"\nVERSION_ID="{version}"\nPRETTY_NAME="{name} {version}"\n'
        site.exec("gpu1", f"printf '%s' '{text}' >/usr/lib/os-release")
        # Ansible recognizes EL by this file.
        if distribution == "rocky":
            site.exec("gpu1", f"echo '{name} release {version} (Red Quartz)' >/etc/redhat-release")

    yield claim
    site.exec("gpu1", "cp /root/os-release /usr/lib/os-release; rm -f /etc/{dgx,redhat}-release /usr/bin/nvidia-smi")


def run_role(site: Cluster, folder: Path, role: str, tasks_from: str, shown: str = "''", **given: object) -> str:
    """Run tasks of a role on gpu1 and show an expression."""
    tasks: list[dict[str, Any]] = [
        {"ansible.builtin.include_role": {"name": f"busbar.cluster.{role}", "tasks_from": tasks_from, "public": True}},
        {"ansible.builtin.debug": {"msg": f"shown={{{{ {shown} }}}}"}},
    ]
    play = folder / "play.json"
    play.write_text(json.dumps([{"hosts": "gpu1", "gather_facts": False, "become": True, "tasks": tasks}]))
    command = ["ansible-playbook", "-i", str(site.inventory), str(play), "-e", json.dumps(given)]
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, timeout=300, cwd=TOP, env=plain_environment()
    )
    succeeded(done)
    return done.stdout


@pytest.mark.parametrize(
    ("system", "packages"),
    [
        (("ubuntu", "Ubuntu", "24.04"), "slurmd, slurm-client"),
        (("ubuntu", "Ubuntu", "26.04"), "slurmd, slurm-client, libpmix2t64"),
        (("rocky", "Rocky Linux", "10.1"), "slurm-slurmd, slurm"),
    ],
)
def test_package_names_follow_the_os_release_of_the_node(
    site: Cluster, claims: Callable[..., None], tmp_path: Path, system: tuple[str, str, str], packages: str
) -> None:
    claims(*system)
    said = run_role(site, tmp_path, "slurm", "set_vars", "__slurm_packages.compute | join(', ')")
    assert re.search(rf"shown={re.escape(packages)}[\"']?$", said, re.MULTILINE), said


def test_unknown_release_is_refused(site: Cluster, claims: Callable[..., None]) -> None:
    claims("ubuntu", "Ubuntu", "25.10")
    refused = site.playbook("preflight.yml", "--limit", "gpu1")
    said = " ".join(refused.stdout.split())
    assert refused.returncode == 2
    assert "gpu1: operating system: Ubuntu 25.10 is not supported" in said
    assert "ubuntu 22.04/24.04/26.04, rhel 9/10, rocky 9/10" in said


def test_dgx_os_keeps_its_driver(site: Cluster, claims: Callable[..., None], tmp_path: Path) -> None:
    claims("ubuntu", "Ubuntu", "24.04")
    site.exec("gpu1", "echo 'DGX_NAME=\"DGX Server\"' >/etc/dgx-release; touch /usr/bin/nvidia-smi")
    before = site.exec("gpu1", "dpkg-query -W; ls -R /etc/apt").stdout
    given = {"nvidia_driver_source": "nvidia", "nvidia_driver_version": "580.95.05"}
    gpu = {"model": "NVIDIA H100 80GB HBM3", "count": 8, "nvswitch": True}
    said = run_role(site, tmp_path, "nvidia_driver", "main", __nvidia_driver_hardware={"gpu": gpu}, **given)
    assert recap(said)["gpu1"]["changed"] == 0
    assert site.exec("gpu1", "dpkg-query -W; ls -R /etc/apt").stdout == before


def test_image_with_dnf_becomes_a_machine(sandbox_name: str, bare: str, tmp_path: Path) -> None:
    (tmp_path / "Containerfile").write_text(LIKE_EL.format(bare=bare))
    image, cluster = f"localhost/busbar-test-{sandbox_name}:el", Cluster(f"{sandbox_name}-el")
    podman("build", "--quiet", "--isolation=chroot", "--pull=never", "--tag", image, str(tmp_path))
    try:
        made = cluster.busbar("sandbox", "up", "--name", cluster.name, "--image", image, "--compute", "1")
        assert made.returncode == 0, made.stderr
        done = cluster.busbar("sandbox", "ssh", "--name", cluster.name, "gpu1", "--", "sudo cat /root/dnf")
        installed, enabled, *_ = done.stdout.splitlines()
        assert {"epel-release", "openssh-server", "python3", "sudo", "systemd"} <= set(installed.split())
        assert enabled == "config-manager --set-enabled crb"
    finally:
        cluster.busbar("sandbox", "down", "--name", cluster.name)
        podman("rmi", "--force", image)


def test_unusable_image_is_refused_in_one_line(sandbox_name: str, bare: str, tmp_path: Path) -> None:
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
