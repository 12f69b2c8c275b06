"""Tests of the containers of validation jobs, with a stand-in for Pyxis."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.job_output_parser import step_fault
from validation_job import IMAGE, JOBS, Job

if TYPE_CHECKING:
    from pathlib import Path

EXPORTED = {
    "job": {"NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_ALGO", "NCCL_IB_HCA"}
    | {"NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE", "NCCL_NVLS_ENABLE", "NCCL_MNNVL_ENABLE", "NCCL_PXN_DISABLE"},
    "job_training": {"NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_ALGO", "MASTER_ADDR", "MASTER_PORT", "OMP_NUM_THREADS"}
    | {"RENDEZVOUS_SECRET"},
    "job_gemm": {"NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_ALGO", "CUBLAS_WORKSPACE_CONFIG"}
    | {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"},
    "job_soak": {"NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_ALGO", "CUBLAS_WORKSPACE_CONFIG"}
    | {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"},
    "job_hpl": {"NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_ALGO", "OMP_NUM_THREADS", "BUSBAR_HPL_INPUT"},
    "check_p2p": {"CUDA_DEVICE_ORDER"},
    "check_nvbandwidth": {"CUDA_DEVICE_ORDER"},
}


@pytest.mark.parametrize("name", JOBS)
def test_exported_variables_are_passed_to_pyxis(tmp_path: Path, name: str) -> None:
    job = Job(tmp_path, name)
    job.image(**dict.fromkeys(EXPORTED[name], "of the image"))
    code, output = job.run(BUSBAR_RAIL="mlx5_0" if name == "job" else "")
    assert code == 0, output
    assert step_fault(output, ran=True) == ""
    for options, words in job.steps():
        assert set(options["--container-env"].split(",")) == EXPORTED[name]
        assert not any("RENDEZVOUS_SECRET" in word for word in words)


def test_overridden_variable_is_reported_and_the_test_is_not_valid(tmp_path: Path) -> None:
    job = Job(tmp_path, "job")
    job.script.write_text(job.script.read_text().replace("NCCL_ALGO,", "", 1).replace(",NCCL_ALGO", "", 1))
    job.image(NCCL_ALGO="Tree")
    code, output = job.run()
    assert code == 0
    assert "# busbar variable: gpu2 NCCL_ALGO is Tree, the job set Ring or Tree\n" in output
    fault = "the program did not run as requested: NCCL_ALGO is Tree, the job set Ring or Tree"
    assert step_fault(output, ran=True).startswith(f"gpu1: {fault}")


def test_image_is_unpacked_once_per_node_and_removed(tmp_path: Path) -> None:
    job = Job(tmp_path, "job")
    job.image()
    for node in ("gpu1", "gpu2"):
        (tmp_path / "data" / node).mkdir(parents=True)
        for left in ("pyxis_busbar-3", "pyxis_busbar-4", "pyxis_busbar-5", "pyxis_of-alice", "busbar-6"):
            (tmp_path / "data" / node / left).write_text("{}")
    code, output = job.run()
    assert (code, len(job.steps())) == (0, 4), output
    assert job.unpacked() == ["gpu1", "gpu2"]
    # Job 4 runs. Containers of busbar's other jobs are removed, containers of others are kept.
    for node in ("gpu1", "gpu2"):
        stays = sorted(path.name for path in (tmp_path / "data" / node).iterdir())
        assert stays == ["busbar-6", "pyxis_busbar-4", "pyxis_of-alice"]


def test_training_unpacks_the_image_once(tmp_path: Path) -> None:
    job = Job(tmp_path, "job_training")
    job.image(MASTER_PORT="61045")
    code, output = job.run()
    assert code == 0, output
    assert len(job.steps()) == 3
    assert job.unpacked() == ["gpu1", "gpu2"]
    assert "MASTER_PORT=61045" not in output


@pytest.mark.parametrize("name", JOBS)
def test_error_of_pyxis_is_the_reason(tmp_path: Path, name: str) -> None:
    code, output = Job(tmp_path, name).run()
    assert code == 1
    assert step_fault(output, ran=False) == (
        f"gpu1: container: URL https://nvcr.io/v2/{IMAGE} returned error code: 404 Not Found"
    )


@pytest.mark.parametrize("name", JOBS)
def test_missing_program_is_reported(tmp_path: Path, name: str) -> None:
    lost = "/opt/gone/all_reduce_perf"
    options = dict.fromkeys(
        (
            "__validation_some_program",
            "validation_hpl_program",
            "validation_p2p_binary",
            "validation_nvbandwidth_binary",
        ),
        lost,
    )
    job = Job(tmp_path, name, **options, validation_training_python=lost, validation_gemm_python=lost)
    job.image()
    code, output = job.run()
    assert code != 0
    assert "gpu1: /opt/gone/all_reduce_perf: command not found\n" in output


def test_rail_is_checked_on_cpus_without_an_image(tmp_path: Path) -> None:
    job = Job(tmp_path, "job", validation_backend="mpi", validation_environment={})
    code, output = job.run(BUSBAR_RAIL="eth1")
    assert (code, job.steps()) == (0, [])
    assert output.count("program on") == 8
    # A TaskProlog that sets a variable also overrides the job.
    task = job.folder / "bin" / "srun"
    task.write_text(
        task.read_text().replace("    if image is not None:", "    given['UCX_NET_DEVICES'] = 'x'\n    if 0:")
    )
    told = "# busbar variable: gpu1 UCX_NET_DEVICES is x, the job set eth1\n"
    assert told in job.run(BUSBAR_RAIL="eth1")[1]


def test_without_an_image_there_is_no_container(tmp_path: Path) -> None:
    job = Job(tmp_path, "job", validation_image="")
    code, output = job.run(NCCL_ALGO="other")
    assert (code, job.steps()) == (0, [])
    assert output.count("program on") == 8
    assert "# busbar variable" not in output
