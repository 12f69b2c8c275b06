"""Tests of Miniforge on the shared file system: verified installer, all users, versions side by side."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

import pytest
from conftest import recap

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator
    from pathlib import Path

    from conftest import Cluster

pytestmark = pytest.mark.proves("miniforge")

PLACE = "/shared/test-miniforge"
# Has the interface of the real installer: batch mode, a prefix that must not exist, conda in it.
INSTALLER = """#!/bin/bash
while getopts bp: option; do case $option in b) batch=yes ;; p) prefix=$OPTARG ;; *) exit 2 ;; esac; done
[ "$batch" = yes ] || { echo "would ask questions" >&2; exit 3; }
[ ! -e "$prefix" ] || { echo "ERROR: File or directory already exists: $prefix" >&2; exit 1; }
mkdir -p "$prefix/condabin" "$prefix/etc/profile.d"
printf '#!/bin/sh\\necho conda VERSION\\n' >"$prefix/condabin/conda"
chmod 755 "$prefix/condabin/conda"
WHAT
cat >"$prefix/etc/profile.d/conda.sh" <<END
conda() { if [ "\\$1" = activate ]; then export CONDA_DEFAULT_ENV="\\$2"; else $prefix/condabin/conda "\\$@"; fi; }
END
"""


class Installers:
    """Installers of the test on the provisioning host."""

    def __init__(self, sandbox: Cluster, folder: Path) -> None:
        """Store their folder."""
        self.sandbox = sandbox
        self.folder = folder

    def make(self, version: str, what: str = "") -> dict[str, str]:
        """Create an installer and return the options that install it."""
        path = self.folder / f"{version}.sh"
        path.write_text(INSTALLER.replace("VERSION", version).replace("WHAT", what), encoding="utf-8")
        return {"miniforge_version": version, "miniforge_file": str(path), "sum": self.sum(path)}

    @staticmethod
    def sum(path: Path) -> str:
        """Return the SHA-256 of a file."""
        return hashlib.sha256(path.read_bytes()).hexdigest()

    def play(self, options: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the play with these options."""
        checksums = dict.fromkeys(("x86_64", "aarch64"), options["sum"])
        given: dict[str, object] = {
            "miniforge_enabled": True,
            "miniforge_path": f"{PLACE}/base",
            "__miniforge_modules_path": f"{PLACE}/modules",
            "miniforge_channel_alias": "https://mirror.example.com/conda",
            "miniforge_checksums": checksums,
        }
        given |= {key: value for key, value in options.items() if key != "sum"}
        return self.sandbox.playbook("containers.yml", "--tags", "miniforge", "-e", json.dumps(given), *arguments)


@pytest.fixture(scope="module")
def installers(sandbox: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installers]:
    """Return the installers; the target folder is emptied at the end."""
    yield Installers(sandbox, tmp_path_factory.mktemp("installers"))
    sandbox.exec("ctl", f"rm -rf {PLACE}")


@pytest.fixture(scope="module")
def first(installers: Installers) -> dict[str, str]:
    """Install a version and return its options."""
    options = installers.make("1.0-0")
    done = installers.play(options)
    assert done.returncode == 0, done.stdout
    return options


def load(sandbox: Cluster, script: str, *, job: bool = False) -> str:
    """Run a script of alice after `module load miniforge` and return the output."""
    inner = f"module use {PLACE}/modules; module load miniforge; {script}"
    command = f"srun --quiet -w gpu1 --mem=100 bash -lc '{inner}'" if job else inner
    return sandbox.exec("login", command, user="alice").stdout


@pytest.mark.scenario
def test_users_have_conda_and_activate_their_environments_in_jobs(sandbox: Cluster, first: dict[str, str]) -> None:
    assert load(sandbox, "conda --version") == f"conda {first['miniforge_version']}\n"
    assert load(sandbox, "conda activate mine; echo $CONDA_DEFAULT_ENV", job=True) == "mine\n"
    assert load(sandbox, "module unload miniforge; type conda 2>&1 | tail -n 1").strip().endswith("not found")


def test_base_belongs_to_root_and_environments_to_users(sandbox: Cluster, first: dict[str, str]) -> None:
    prefix = f"{PLACE}/base/{first['miniforge_version']}"
    assert sandbox.exec("gpu1", f"find {PLACE} ! -user root -o -perm /022 ! -type l").stdout == ""
    denied = sandbox.exec("login", f"touch {prefix}/x", user="alice", check=False)
    assert "Permission denied" in denied.stderr
    config = sandbox.exec("login", f"cat {prefix}/.condarc", user="alice").stdout
    for line in ("auto_activate_base: false", "- ~/.conda/envs", "channel_alias: https://mirror.example.com/conda"):
        assert line in config


def test_second_run_changes_nothing(installers: Installers, first: dict[str, str]) -> None:
    done = installers.play(first, "--diff")
    assert recap(done.stdout)["ctl"]["changed"] == 0


def test_another_version_is_installed_next_to_the_first(
    sandbox: Cluster, installers: Installers, first: dict[str, str]
) -> None:
    done = installers.play(installers.make("2.0-0"))
    assert done.returncode == 0, done.stdout
    assert load(sandbox, "conda --version") == "conda 2.0-0\n"
    older = f"module load miniforge/{first['miniforge_version']} 2>/dev/null; conda --version"
    assert load(sandbox, older) == f"conda {first['miniforge_version']}\n"


@pytest.mark.parametrize("by", ["file", "url"])
def test_installer_with_wrong_checksum_is_not_run(sandbox: Cluster, installers: Installers, by: str) -> None:
    options = installers.make("3.0-0") | {"sum": "0" * 64}
    if by == "url":
        name = "Miniforge3-3.0-0-Linux-$(uname -m).sh"
        sandbox.exec("ctl", f"mkdir -p {PLACE}/mirror && echo 'touch {PLACE}/ran' >{PLACE}/mirror/{name}")
        options |= {"miniforge_file": "", "miniforge_url": f"file://{PLACE}/mirror"}
    done = installers.play(options)
    assert done.returncode == 2
    words = " ".join(done.stdout.split())
    assert ("SHA-256 mismatch" if by == "file" else "checksum") in words
    assert "0" * 64 in words
    assert sandbox.exec("ctl", f"ls -d {PLACE}/base/3* {PLACE}/ran", check=False).stdout == ""


def test_failed_installer_leaves_no_files(sandbox: Cluster, installers: Installers) -> None:
    done = installers.play(installers.make("4.0-0", "echo no space left >&2; exit 1"))
    assert done.returncode == 2
    words = " ".join(done.stdout.split())
    assert "cannot install Miniforge 4.0-0 into" in words
    assert "no space left" in words
    assert sandbox.exec("ctl", f"ls -Ad {PLACE}/base/*4.0* {PLACE}/base/.*4.0*", check=False).stdout == ""


def test_existing_foreign_directory_is_left_alone(sandbox: Cluster, installers: Installers) -> None:
    sandbox.exec("ctl", f"mkdir -p {PLACE}/base/5.0-0 && touch {PLACE}/base/5.0-0/precious")
    done = installers.play(installers.make("5.0-0"))
    assert done.returncode == 2
    assert "5.0-0 exists and was not created by this role" in " ".join(done.stdout.split())
    assert sandbox.exec("ctl", f"ls {PLACE}/base/5.0-0").stdout == "precious\n"


def test_version_without_a_checksum_is_refused(installers: Installers) -> None:
    done = installers.play(installers.make("6.0-0") | {"sum": ""})
    assert done.returncode == 2
    assert "miniforge_checksums: the SHA-256 checksum of 6.0-0 for" in " ".join(done.stdout.split())
