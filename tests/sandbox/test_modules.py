"""Tests of modules on the shared file system: listed for users, loaded in jobs with dependencies, or rejected."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from conftest import recap

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import Cluster

pytestmark = pytest.mark.proves("lmod")

TREE = "/shared/test-modules"
SRUN = "srun --quiet -w gpu1 --mem=100"
MODULES: list[dict[str, object]] = [
    {
        "name": "cuda",
        "version": "12.4",
        "default": True,
        "family": "gpu",
        "prepend_path": {"PATH": ["/opt/cuda/first", "/opt/cuda/second"]},
        "setenv": {"CUDA_HOME": "/opt/cuda-12.4", "ODD": 'a "b" $c \\ d'},
        "help": "The CUDA toolkit.\nAsk ]] if lost.",
    },
    {"name": "cuda", "version": "12.8", "family": "gpu", "setenv": {"CUDA_HOME": "/opt/cuda-12.8"}},
    {"name": "nccl", "version": "2.23", "depends_on": ["cuda/12.4"], "setenv": {"NCCL_HOME": "/opt/nccl"}},
    {"name": "matlab", "version": "9", "requires_path": ["/opt/only-elsewhere"]},
]


def modules(sandbox: Cluster, declared: list[dict[str, object]], *arguments: str, **own: object) -> str:
    """Run the play with these modules and return the output."""
    options = {
        **own,
        "lmod_modules_path": TREE,
        "lmod_modules": declared,
        "lmod_openmpi": True,
        "lmod_openmpi_packages": ["openmpi-bin"],
        "lmod_cache": True,
    }
    done = sandbox.playbook("containers.yml", "--tags", "lmod", "-e", json.dumps(options), *arguments)
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture(scope="module", autouse=True)
def first_modules(sandbox: Cluster) -> Iterator[str]:
    """Install the modules in a tree of the test; the site's own settings are restored at the end."""
    sandbox.wait_idle()
    yield modules(sandbox, MODULES)
    done = sandbox.playbook("containers.yml", "--tags", "lmod")
    assert done.returncode == 0, done.stdout
    timer = sandbox.exec("ctl", "systemctl list-timers --all busbar-lmod-cache.timer; ls /etc/systemd/system").stdout
    assert "busbar-lmod-cache" not in timer
    sandbox.exec("ctl", f"rm -rf {TREE} {TREE}.cache")
    assert recap(done.stdout)["gpu1"]["changed"] == 1


def test_second_run_changes_nothing(sandbox: Cluster) -> None:
    assert {counts["changed"] for counts in recap(modules(sandbox, MODULES, "--check", "--diff")).values()} == {0}


def test_tree_is_written_only_by_the_server(first_modules: str) -> None:
    shown = first_modules.split("PLAY [Install containers and modules]")[1]
    assert "cuda/12.4.lua" not in shown


@pytest.mark.scenario
def test_users_see_modules_and_defaults(sandbox: Cluster) -> None:
    listed = sandbox.exec("login", "module -t avail 2>&1; module -t -d avail 2>&1", user="alice").stdout.split()
    everything, defaults = " ".join(listed).split(f"{TREE}:")[1:]
    assert {"cuda/12.4", "cuda/12.8", "nccl/2.23", "matlab/9"} <= set(everything.split())
    assert any(name.startswith("openmpi/") for name in everything.split())
    assert "cuda/12.4" in defaults.split()
    assert "Ask ]] if lost." in sandbox.exec("login", "module help cuda 2>&1", user="alice").stdout


def test_shell_of_an_ssh_command_has_modules(sandbox: Cluster) -> None:
    """Bash reads /etc/bash.bashrc there, and no profile; this variable makes bash detect ssh."""
    shell = "env -i PATH=/usr/bin:/bin HOME=/tmp SSH_CLIENT='10.0.0.1 1 22' bash -c"
    told = sandbox.exec("login", f"runuser -u alice -- {shell} 'module -t avail 2>&1; echo done'").stdout
    assert "cuda/12.4" in told
    assert told.endswith("done\n")
    assert sandbox.exec("login", f"runuser -u alice -- {shell} 'echo nothing'").stdout == "nothing\n"


@pytest.mark.scenario
def test_job_loads_a_module_and_its_dependencies(sandbox: Cluster) -> None:
    script = "module load nccl && echo $CUDA_HOME $NCCL_HOME && echo $PATH && echo $ODD"
    told = sandbox.exec("login", f"{SRUN} bash -lc '{script}'", user="alice").stdout.splitlines()
    assert told[0] == "/opt/cuda-12.4 /opt/nccl"
    assert told[1].startswith("/opt/cuda/first:/opt/cuda/second:")
    assert told[2] == 'a "b" $c \\ d'


@pytest.mark.parametrize("export", ["ALL", "NONE"])
def test_batch_script_loads_and_unloads_modules(sandbox: Cluster, export: str) -> None:
    script = "module load nccl openmpi; module -t list; echo mpi $MPI_HOME; module unload nccl; echo left:$CUDA_HOME"
    sandbox.exec("login", f"cat >/tmp/modules.sh <<'END'\n#!/bin/bash\n{script}\nEND")
    try:
        sandbox.exec(
            "login",
            f"cd /tmp && sbatch --wait -w gpu1 --mem=100 --export={export} -o /tmp/modules.out /tmp/modules.sh",
            user="alice",
        )
        told = sandbox.exec("gpu1", "cat /tmp/modules.out").stdout
    finally:
        sandbox.exec("gpu1", "rm -f /tmp/modules.out")
        sandbox.exec("login", "rm /tmp/modules.sh")
    assert "cuda/12.4\nnccl/2.23\n" in told
    assert "mpi /usr/lib/x86_64-linux-gnu/openmpi" in told
    assert told.endswith("left:\n")  # the dependency is unloaded with the last module that needs it


def test_missing_software_is_an_error_in_the_output_of_the_job(sandbox: Cluster) -> None:
    done = sandbox.exec("login", f"{SRUN} bash -lc 'module load matlab'", user="alice", check=False)
    assert done.returncode == 1
    assert "/opt/only-elsewhere is not on gpu1" in " ".join(done.stderr.split())


def test_cache_contains_the_modules(sandbox: Cluster) -> None:
    assert "nccl/2.23" in sandbox.exec("ctl", f"cat {TREE}.cache/spiderT.lua").stdout
    assert sandbox.exec("login", "echo $LMOD_RC", user="alice").stdout == "/etc/lmod/busbar.lua\n"
    assert sandbox.exec("ctl", "systemctl is-active busbar-lmod-cache.timer").stdout == "active\n"


def test_author_of_a_module_file_does_not_become_root(sandbox: Cluster) -> None:
    """The timer evaluates module files of users who install software into an additional tree."""
    tree = f"{TREE}.spack"
    program = f'capture("id -un >{TREE}.cache/who; touch /etc/busbar-test-owned /root/busbar-test-owned")'
    sandbox.exec("ctl", f"mkdir -p {tree}/evil && echo '{program}' >{tree}/evil/1.lua && chown -R alice {tree}")
    try:
        modules(sandbox, MODULES, "--limit", "ctl", lmod_extra_paths=[tree])
        sandbox.exec("ctl", "systemctl start busbar-lmod-cache.service")
        assert "evil/1" in sandbox.exec("ctl", f"cat {TREE}.cache/spiderT.lua").stdout
        assert sandbox.exec("ctl", f"cat {TREE}.cache/who").stdout == "busbar-lmod\n"
        assert sandbox.exec("ctl", "ls /etc/busbar-test-owned /root/busbar-test-owned", check=False).stdout == ""
    finally:
        sandbox.exec("ctl", f"rm -rf {tree} {TREE}.cache/who /etc/busbar-test-owned /root/busbar-test-owned")
        modules(sandbox, MODULES, "--limit", "ctl")


def test_absent_module_is_removed_and_foreign_ones_are_kept(sandbox: Cluster) -> None:
    sandbox.exec("ctl", f"mkdir {TREE}/spack && echo '-- by hand' >{TREE}/spack/1.lua")
    gone: list[dict[str, object]] = [{"name": "matlab", "version": "9", "state": "absent"}]
    modules(sandbox, [*MODULES[:3], *gone], "--limit", "ctl")
    listed = sandbox.exec("login", "module -t avail 2>&1", user="alice").stdout.split()
    assert "matlab/9" not in listed
    assert "spack/1" in listed


def test_invalid_module_is_refused_before_anything_is_written(sandbox: Cluster) -> None:
    options = json.dumps({"lmod_modules_path": TREE, "lmod_modules": [{"name": "../../etc/x", "version": "1"}]})
    done = sandbox.playbook("containers.yml", "--tags", "lmod", "--limit", "ctl", "-e", options)
    assert done.returncode == 2
    assert "ctl: lmod_modules[0]: '../../etc/x' is not a valid module name" in " ".join(done.stdout.split())
    assert recap(done.stdout)["ctl"]["changed"] == 0
