"""Tests of Apptainer from a package with known content: settings, upgrade, and errors if it is unavailable."""

from __future__ import annotations

import hashlib
import json
import subprocess
from typing import TYPE_CHECKING

import pytest
from conftest import recap
from package_repository import Package, build

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from conftest import Cluster

pytestmark = pytest.mark.proves("apptainer")

PLACE = "/shared/test-apptainer"
CONFIG = "/etc/apptainer/apptainer.conf"


class Packages:
    """Packages of the test in a directory that all nodes can read."""

    def __init__(self, sandbox: Cluster, folder: Path) -> None:
        """Store the build folder."""
        self.sandbox = sandbox
        self.folder = folder

    def make(self, version: str) -> dict[str, str]:
        """Create a package in the shared directory and return its declaration."""
        files = {
            "/usr/bin/apptainer": f"#!/bin/sh\necho apptainer version {version}\n",
            CONFIG: f"of the package {version}\n",
        }
        package = Package("apptainer", version, files=files, scripts={"conffiles": f"{CONFIG}\n"})
        path = build(package, self.folder)
        self.sandbox.exec("gpu1", f"mkdir -p {PLACE}")
        name = self.sandbox.container("gpu1")
        copied = ["podman", "cp", str(path), f"{name}:{PLACE}/{path.name}"]
        subprocess.run(copied, check=True, capture_output=True)
        sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
        return {"name": "apptainer", "version": version, "file": path.name, "sha256": sha256}

    def play(self, files: list[dict[str, str]], *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the play on one node with these packages."""
        options = {
            "apptainer_enabled": True,
            "apptainer_files": files,
            "apptainer_url": PLACE,
            "apptainer_nvidia": True,
            "apptainer_config": {"sessiondir max size": 256, "allow container extfs": False},
            "apptainer_cache_path": "/srv/apptainer",
        }
        given = ("--tags", "apptainer", "--limit", "gpu1", "-e", json.dumps(options), *arguments)
        return self.sandbox.playbook("containers.yml", *given)


@pytest.fixture(scope="module")
def packages(sandbox: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Packages]:
    """Return the packages; all are removed at the end."""
    yield Packages(sandbox, tmp_path_factory.mktemp("packages"))
    sandbox.exec("gpu1", f"dpkg --purge apptainer; rm -rf {PLACE} /srv/apptainer {CONFIG} /etc/apptainer")
    sandbox.exec("gpu1", "rm -f /etc/profile.d/busbar-apptainer.sh")


@pytest.fixture(scope="module")
def first(packages: Packages) -> dict[str, str]:
    """Install the first package and return its declaration."""
    declared = packages.make("1.4.5")
    done = packages.play([declared])
    assert done.returncode == 0, done.stdout
    return declared


@pytest.mark.scenario
@pytest.mark.usefixtures("first")
def test_users_have_apptainer_with_the_settings_of_the_site(sandbox: Cluster) -> None:
    assert sandbox.exec("gpu1", "apptainer --version", user="alice").stdout == "apptainer version 1.4.5\n"
    lines = sandbox.exec("gpu1", f"cat {CONFIG}", user="alice").stdout.splitlines()
    for line in (
        "allow setuid = no",
        "always use nv = yes",
        "bind path = /etc/hosts",
        "bind path = /shared",
        "sessiondir max size = 256",
        "allow container extfs = no",
    ):
        assert line in lines


@pytest.mark.usefixtures("first")
def test_every_user_has_a_private_cache(sandbox: Cluster) -> None:
    show = "echo ${APPTAINER_CACHEDIR:-none}"
    assert sandbox.exec("gpu1", show, user="alice").stdout == "/srv/apptainer/alice\n"
    assert sandbox.exec("gpu1", "stat -c '%U %a' /srv/apptainer/alice").stdout == "alice 700\n"
    sandbox.exec("gpu1", "mkdir -m 777 /srv/apptainer/bob && chown alice /srv/apptainer/bob")
    assert sandbox.exec("gpu1", show, user="bob").stdout == "none\n"


def test_second_run_changes_nothing(packages: Packages, first: dict[str, str]) -> None:
    done = packages.play([first], "--check", "--diff")
    assert recap(done.stdout)["gpu1"]["changed"] == 0


def test_another_version_replaces_it_and_keeps_the_settings(
    sandbox: Cluster, packages: Packages, first: dict[str, str]
) -> None:
    done = packages.play([packages.make("1.5.0")])
    assert done.returncode == 0, done.stdout
    assert recap(done.stdout)["gpu1"]["changed"] == 1
    assert sandbox.exec("gpu1", "apptainer --version").stdout != f"apptainer version {first['version']}\n"
    assert "always use nv = yes" in sandbox.exec("gpu1", f"cat {CONFIG}").stdout


def test_package_with_wrong_checksum_is_not_installed(sandbox: Cluster, packages: Packages) -> None:
    done = packages.play([packages.make("9.9") | {"sha256": "0" * 64}])
    assert done.returncode == 2
    assert f"expected {'0' * 64})" in " ".join(done.stdout.split())
    assert "9.9" not in sandbox.exec("gpu1", "dpkg-query -W apptainer", check=False).stdout


def test_distribution_without_apptainer_is_reported_with_a_remedy(packages: Packages) -> None:
    done = packages.play([])
    assert done.returncode == 2
    words = " ".join(done.stdout.split())
    assert "gpu1: apptainer_source: Debian 13 has no Apptainer. Declare the upstream package in" in words
    assert recap(done.stdout)["gpu1"]["changed"] == 0
