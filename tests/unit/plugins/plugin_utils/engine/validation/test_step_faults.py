"""Tests of messages about containers and variables of job steps, from Slurm 24.11, Pyxis 0.24 and Enroot 4.1."""

from __future__ import annotations

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.nccl.parse_output import parse_text
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.job_output_parser import (
    changed_variable,
    container_fault,
    step_fault,
)
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.nccl_judge import (
    INCONCLUSIVE,
    Expected,
    judge,
)
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.nvbandwidth_parser import (
    read_nvbandwidth,
)
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.p2p_parser import read_p2p

# Recorded srun output for a missing image.
NO_IMAGE = """\
slurmstepd-gpu1: error: pyxis: child 8359 failed with error code: 1
slurmstepd-gpu1: error: pyxis: failed to create container filesystem for image: /shared/nothere.sqsh
slurmstepd-gpu1: error: pyxis: printing enroot log file:
slurmstepd-gpu1: error: pyxis:     [ERROR] No such file or directory: /shared/nothere.sqsh
slurmstepd-gpu1: error: pyxis: couldn't start container
slurmstepd-gpu1: error: spank: required plugin spank_pyxis.so: task_init() failed with rc=-1
slurmstepd-gpu1: error: Failed to invoke spank plugin stack
srun: error: gpu1: tasks 0-1: Exited with exit code 1
"""
# Recorded output for an account with the login shell nologin, on two nodes at once.
NO_SHELL = """\
slurmstepd-gpu2: error: pyxis: container was not started successfully by another task
slurmstepd-gpu1: error: pyxis: container start failed with error code: 1
slurmstepd-gpu1: error: pyxis: printing enroot log file:
slurmstepd-gpu1: error: pyxis:     [INFO] Using the cache
slurmstepd-gpu1: error: pyxis:     This account is currently not available.
slurmstepd-gpu1: error: pyxis: couldn't start container
"""
MOUNT = "slurmstepd-gpu2: error: pyxis: --container-mounts: source path does not exist: /data\n"
VARIABLE = "# busbar variable: gpu2 NCCL_IB_HCA is mlx5_9, the job set =mlx5_0\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (NO_IMAGE, "gpu1: container: No such file or directory: /shared/nothere.sqsh"),
        (NO_IMAGE.replace("slurmstepd-gpu1", "0: slurmstepd-gpu1"), "gpu1: container: No such file or directory"),
        (NO_IMAGE.replace("slurmstepd-gpu1", "slurmstepd"), "container: No such file or directory"),
        (
            "slurmstepd-gpu1: error: pyxis: child 8359 failed with error code: 1\n" + MOUNT,
            "gpu2: container: --container-mounts: source path does not exist: /data",
        ),
        (MOUNT, "gpu2: container: --container-mounts: source path does not exist: /data"),
        (NO_SHELL, "gpu1: container: This account is currently not available."),
        (NO_SHELL.splitlines()[0], "gpu2: container: container was not started successfully by another task"),
        ("\n".join(NO_SHELL.splitlines()[:2]), "gpu2: container: container was not started successfully"),
        ("slurmstepd-n.a-1: error: pyxis: printing enroot log file:\n", ""),
        ("slurmstepd-gpu1: error: pyxis:\x1b[31m [ERROR] no\n", "gpu1: container: "),
        ("pyxis: imported docker image: ubuntu\nslurmstepd-gpu1: error: *** STEP 3.0 ON gpu1 CANCELLED ***\n", ""),
        ("my program says: slurmstepd-gpu1: error: pyxis: lies\n", ""),
        ("", ""),
    ],
)
def test_reason_for_a_failed_container_is_extracted(text: str, words: str) -> None:
    found = container_fault(text)
    assert found.startswith(words)
    assert bool(found) is bool(words)
    assert found.isprintable()


def test_a_variable_with_another_value_is_reported_with_both() -> None:
    assert changed_variable(VARIABLE) == (
        "gpu2: the program did not run as requested: NCCL_IB_HCA is mlx5_9, the job set =mlx5_0: remove it from the "
        "image, hook or task prolog that sets it"
    )
    assert changed_variable("# busbar variable: gpu2\nmy # busbar variable: gpu1 A is b, the job set c\n") == ""


def test_container_fault_is_ignored_if_the_program_ran_but_a_changed_variable_is_not() -> None:
    assert step_fault(MOUNT, ran=True) == ""
    assert "does not exist: /data" in step_fault(MOUNT, ran=False)
    assert "NCCL_IB_HCA" in step_fault(MOUNT + VARIABLE, ran=True)
    assert step_fault(None, ran=False) == ""


@pytest.mark.parametrize("name", ["slurmstepd", "slurmstepd-gpu1"])
def test_every_parser_recognises_slurmstepd(name: str) -> None:
    """Slurm 24.11 logs steps as slurmstepd-NODE, earlier releases as slurmstepd."""
    end = f"{name}: error: *** STEP 1.0 ON gpu1 CANCELLED DUE TO TIME LIMIT ***\n"
    assert parse_text(end)["runs"][0]["outcome"] == "error-only"
    container = f"{name}: error: pyxis: couldn't start container\n"
    judged = judge(parse_text(container)["runs"], None, Expected(nodes=1, ranks=2, floor=1.0))
    assert judged["verdict"] == INCONCLUSIVE
    assert "couldn't start container" in judged["reason"]
    for read in (read_p2p, read_nvbandwidth):
        assert read(end)["errors"] == [end.strip()]
