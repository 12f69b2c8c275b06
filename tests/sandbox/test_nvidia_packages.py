"""Tests of CUDA, DCGM and the container toolkit from a signed repository of tiny packages with the real names."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Protocol

import pytest
from conftest import recap
from package_repository import KEY_FILE, Package, Repository, served

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from subprocess import CompletedProcess

    from conftest import Cluster

pytestmark = pytest.mark.proves("cuda", "dcgm", "nvidia_container_toolkit", "nvidia_repository")

PLAY = """
- hosts: gpu1
  become: true
  gather_facts: true
  roles: [busbar.cluster.cuda, busbar.cluster.dcgm, busbar.cluster.nvidia_container_toolkit]
"""
NODE = "gpu1"
DCGM = "datacenter-gpu-manager"
HOST_ENGINE = """#!/usr/bin/python3
import socket, sys, time
word = dict(zip(sys.argv[1:], sys.argv[2:]))
listener = socket.create_server((word.get("--bind-interface", "0.0.0.0"), int(word.get("--port", 5555))))
while True:
    listener.accept()[0].close()
"""
DCGM_UNIT = "[Service]\nExecStart=/usr/bin/nv-hostengine\n[Install]\nWantedBy=multi-user.target\n"
NCCL = ("libnccl2", "libnccl-dev")
CONTAINER = ("libnvidia-container1", "libnvidia-container-tools")
# Must be unchanged after a refusal, and at the end.
STATE = """dpkg-query -W -f '${Package} ${Version} ${Status}\\n'; ls -l /usr/local/cuda /etc/alternatives/cuda 2>&1
find /etc/{apt,profile.d,lmod,systemd/system} /var/lib/apt/lists -not -path '*/partial*' -not -name auxfiles | sort"""


class Play(Protocol):
    """Runs the three roles; the caller checks the exit code."""

    def __call__(self, *arguments: str, **changes: object) -> CompletedProcess[str]:
        """Run with additional arguments and changed options."""


def toolkit(release: str, patch: str, *depends: str) -> Package:
    """Return a toolkit that registers an alternative for /usr/local/cuda, as NVIDIA's do."""
    folder = f"/usr/local/cuda-{release}"
    offer = f"update-alternatives --install /usr/local/cuda cuda {folder} {release.replace('.', '')}"
    return Package(
        f"cuda-toolkit-{release.replace('.', '-')}",
        f"{patch}-1",
        depends=depends,
        files={f"{folder}/bin/nvcc": f"#!/bin/sh\necho V{patch}\n"},
        scripts={
            "postinst": f"#!/bin/sh\n{offer}\n",
            "prerm": f'#!/bin/sh\n[ "$1" = upgrade ] || update-alternatives --remove cuda {folder}\n',
        },
    )


def dcgm(version: str) -> list[Package]:
    """Return DCGM 4, which conflicts with DCGM 3."""
    clash = {"Conflicts": DCGM}
    files = {"/usr/bin/nv-hostengine": HOST_ENGINE, "/usr/lib/systemd/system/nvidia-dcgm.service": DCGM_UNIT}
    names = [f"{DCGM}-4-{part}" for part in ("proprietary", "cuda13", "proprietary-cuda13")]
    return [Package(f"{DCGM}-4-core", version, files=files, fields=clash), *(Package(name, version) for name in names)]


def packages() -> list[Package]:
    found = [toolkit("12.8", "12.8.0"), toolkit("12.8", "12.8.1"), toolkit("13.0", "13.0.2")]
    found += [Package(name, version) for name in NCCL for version in ("2.26.2-1+cuda12.8", "2.27.7-1+cuda13.0")]
    found += [Package(name, version) for name in CONTAINER for version in ("1.17.8-1", "1.18.0-1")]
    found += [Package(DCGM, "1:3.3.9", files={"/usr/bin/dcgmi": "3"}), *dcgm("1:4.4.1-1"), *dcgm("1:4.5.2-1")]
    # A toolkit with a dependency on a driver.
    return [*found, toolkit("12.9", "12.9.1", "nvidia-driver-575"), Package("nvidia-driver-575", "575.57.08-1")]


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    found = Repository(tmp_path_factory.mktemp("repository")).add(*packages())
    # Served from a second address, since the container toolkit has its own repository.
    (found.folder / "container").symlink_to(".")
    return found.publish()


def state(sandbox: Cluster) -> str:
    return sandbox.exec(NODE, STATE).stdout


@pytest.fixture(scope="module")
def play(sandbox: Cluster, repository: Repository, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Play]:
    """Return the play of the three roles on one node with the repository; the node is restored at the end."""
    book: Path = tmp_path_factory.mktemp("play") / "play.yml"
    book.write_text(PLAY)
    before = state(sandbox)
    with served(sandbox, repository) as url:
        declared = {
            "nvidia_repository_urls": {"cuda": url, "libnvidia-container": f"{url}container/"},
            "nvidia_repository_key_urls": dict.fromkeys(("cuda", "libnvidia-container"), url + KEY_FILE),
            "nvidia_repository_fingerprints": dict.fromkeys(("cuda", "libnvidia-container"), repository.fingerprint),
            "cuda_source": "nvidia",
            "cuda_versions": ["12.8.0", "13.0"],
            "cuda_default_version": "12.8",
            "__cuda_driver_version": "580.95.05",
            "dcgm_source": "nvidia",
            "dcgm_version": "4.4.1-1",
            "dcgm_driver_version": "580.95.05",
            "nvidia_container_toolkit_source": "nvidia",
            "nvidia_container_toolkit_version": "1.17.8-1",
        }

        def run(*arguments: str, **changes: object) -> CompletedProcess[str]:
            return sandbox.playbook(str(book), "--diff", "-e", json.dumps(declared | changes), *arguments)

        yield run
        restore(sandbox)
    assert state(sandbox) == before


def restore(sandbox: Cluster) -> None:
    """Remove everything that the roles installed."""
    names = "'cuda-toolkit-*' 'libnccl*' 'libnvidia-container*' 'datacenter-gpu-manager*' 'nvidia-driver-*'"
    sandbox.exec(NODE, "systemctl disable -q --now nvidia-dcgm", check=False)
    sandbox.exec(
        NODE,
        f"apt-mark -qq unhold $(apt-mark showhold); dpkg --purge $(dpkg-query -f '${{Package}} ' -W {names})",
        check=False,
    )
    sandbox.exec(NODE, "rm -rf /etc/systemd/system/nvidia-dcgm.service.d /etc/lmod/modules/cuda /usr/local/cuda*")
    # The package lmod also contains that folder, empty.
    tidy = "dpkg -S /etc/lmod/modules || rmdir --ignore-fail-on-non-empty -p /etc/lmod/modules"
    sandbox.exec(NODE, tidy, check=False)
    sandbox.exec(NODE, "rm -f /etc/profile.d/busbar-cuda.sh /etc/apt/*/busbar-* /var/lib/apt/lists/*:8099_*")
    sandbox.exec(NODE, "systemctl daemon-reload")


def changed(done: CompletedProcess[str]) -> int:
    """Check that a run succeeded and return the number of changed tasks."""
    assert done.returncode == 0, done.stdout
    return recap(done.stdout)[NODE]["changed"]


def output(sandbox: Cluster, command: str) -> str:
    return sandbox.exec(NODE, command).stdout.strip()


def version(sandbox: Cluster, name: str) -> str:
    return output(sandbox, f"dpkg-query -W -f '${{Version}}' {name}")


def test_key_with_wrong_fingerprint_is_refused(sandbox: Cluster, repository: Repository, play: Play) -> None:
    before = state(sandbox)
    done = play(nvidia_repository_fingerprints={"cuda": "A" * 40})
    assert done.returncode != 0
    assert f"{NODE}: nvidia_repository_fingerprints.cuda: the key at " in done.stdout
    assert f"(found {repository.fingerprint}, expected {'A' * 40}). Nothing was changed" in done.stdout
    assert "remedy: ask the vendor" in done.stdout
    assert state(sandbox) == before


@pytest.mark.fault(
    "a repository that is signed by another key",
    says="that the declared key signs it",
    heals="ask the vendor; nothing was installed",
)
def test_repository_with_wrong_signature_is_refused(
    sandbox: Cluster,
    repository: Repository,
    play: Play,
    tmp_path: Path,
) -> None:
    before = state(sandbox)
    repository.resign(Repository(tmp_path))
    try:
        done = play()
    finally:
        repository.resign(repository)
    assert done.returncode != 0
    assert f"{NODE}: nvidia_repository_urls.cuda: repository http://" in done.stdout
    assert "that the declared key signs it" in done.stdout
    assert state(sandbox) == before


def test_outdated_driver_is_reported_before_any_change(sandbox: Cluster, play: Play) -> None:
    before = state(sandbox)
    done = play(__cuda_driver_version="570.133.20")
    assert done.returncode != 0
    assert f"{NODE}: cuda_versions: CUDA 13.0 needs driver 580.65.06 or newer (found 570" in done.stdout
    assert state(sandbox) == before


def test_check_mode_shows_changes_and_makes_none(sandbox: Cluster, play: Play) -> None:
    before = state(sandbox)
    done = play("--check")
    assert changed(done) > 0
    assert "+cuda-toolkit-12-8 12.8.0 held" in done.stdout
    assert "+Pin: version 1:4.4.1-1" in done.stdout
    assert state(sandbox) == before


@pytest.mark.scenario
def test_all_packages_are_installed_in_their_declared_version(sandbox: Cluster, play: Play) -> None:
    install_dcgm_3(sandbox)
    done = play()
    assert changed(done) > 0
    assert f"{DCGM} of DCGM 3 was replaced by DCGM 4" in " ".join(done.stdout.split())
    assert changed(play()) == 0
    assert changed(play("--check")) == 0
    assert {version(sandbox, name) for name in NCCL} == {"2.26.2-1+cuda12.8"}
    assert {version(sandbox, name) for name in CONTAINER} == {"1.17.8-1"}
    held = {"cuda-toolkit-12-8", *CONTAINER, *(package.name for package in dcgm("0"))}
    assert set(output(sandbox, "apt-mark showhold").split()) == held


def install_dcgm_3(sandbox: Cluster) -> None:
    """Install DCGM 3, as on a node of some years ago."""
    archive = f"/tmp/{DCGM}.deb"  # noqa: S108 - on the node
    build = f"mkdir -p /tmp/old/DEBIAN && printf 'Package: {DCGM}\\nVersion: 1:3.3.9\\nArchitecture: all\\n"
    build += f"Maintainer: t\\nDescription: t\\n' >/tmp/old/DEBIAN/control && dpkg-deb -b /tmp/old {archive}"
    sandbox.exec(NODE, f"{build} && dpkg -i {archive} && rm -r /tmp/old {archive}")


def test_toolkits_are_installed_side_by_side(sandbox: Cluster) -> None:
    assert output(sandbox, "/usr/local/cuda-12.8/bin/nvcc; /usr/local/cuda-13.0/bin/nvcc") == "V12.8.0\nV13.0.2"
    assert output(sandbox, "bash -lc 'nvcc; echo $CUDA_HOME'") == "V12.8.0\n/usr/local/cuda"
    assert output(sandbox, "cat /etc/lmod/modules/cuda/.version").endswith('set ModulesVersion "12.8"')
    assert "prepend-path PATH /usr/local/cuda-13.0/bin" in output(sandbox, "cat /etc/lmod/modules/cuda/13.0")


@pytest.mark.scenario
def test_dcgm_listens_only_on_loopback(sandbox: Cluster) -> None:
    assert sandbox.host(NODE).service("nvidia-dcgm").is_running
    assert sandbox.host(NODE).service("nvidia-dcgm").is_enabled
    # 15B3 is port 5555; 0A is a listening socket; the address is in reverse byte order.
    found = output(sandbox, "cat /proc/net/tcp /proc/net/tcp6 | awk '$4 == \"0A\" && $2 ~ /:15B3$/ { print $2 }'")
    assert found == "0100007F:15B3"


def test_upgrade_changes_pinned_packages_and_their_dependencies(sandbox: Cluster, play: Play) -> None:
    assert sandbox.exec(NODE, "apt-get -s dist-upgrade").stdout.count("Inst cuda-toolkit") == 0
    newer = {"cuda_versions": ["12.8.1", "13.0"], "cuda_default_version": "13.0", "dcgm_version": "4.5.2-1"}
    assert changed(play(**newer)) > 0
    assert output(sandbox, "/usr/local/cuda-12.8/bin/nvcc; /usr/local/cuda/bin/nvcc") == "V12.8.1\nV13.0.2"
    assert {version(sandbox, name) for name in NCCL} == {"2.27.7-1+cuda13.0"}
    assert version(sandbox, f"{DCGM}-4-core") == "1:4.5.2-1"
    assert changed(play("--check", **newer)) == 0


def test_driver_is_never_changed(sandbox: Cluster, play: Play) -> None:
    before = output(sandbox, "dpkg-query -W")
    done = play("--tags", "cuda", cuda_versions=["12.9"], cuda_default_version="12.9", cuda_nccl=False)
    assert done.returncode != 0
    assert "the transaction would also change nvidia-driver-575. Nothing was changed" in done.stdout
    assert output(sandbox, "dpkg-query -W") == before
