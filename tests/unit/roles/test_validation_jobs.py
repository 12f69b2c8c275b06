"""Tests of the validation jobs as the nodes get them, run on this machine."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.hardware.machine_parts import parts_of
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.job_output_parser import (
    environment_of,
    port_findings,
)
from executables import executable
from validation_job import IMAGE, JOBS, OPTIONS, Job


@pytest.mark.parametrize("image", ["", IMAGE])
@pytest.mark.parametrize("name", JOBS)
def test_shellcheck_accepts_the_scripts(tmp_path: Path, name: str, image: str) -> None:
    if shutil.which("shellcheck") is None:
        pytest.skip("no shellcheck here")
    images = dict.fromkeys([key for key in OPTIONS if key.endswith("_image")], image)
    done = subprocess.run(
        ["shellcheck", "-S", "warning", "-e", "SC2034", Job(tmp_path, name, **images).script],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout


def test_linpack_uses_the_squarest_grid_and_the_largest_size(tmp_path: Path) -> None:
    job = Job(tmp_path, "job_hpl", validation_hpl_image="", validation_hpl_arguments=[])
    executable(tmp_path / "bin" / "xhpl", '#!/bin/sh\n[ "$SLURM_PROCID" != 0 ] || cp HPL.dat hpccoutf.txt\n')
    given = {"BUSBAR_RANKS_PER_NODE": "6", "BUSBAR_HPL_N_EACH": "1000", "BUSBAR_HPL_NB": "80"}
    code, output = job.run(**given, BUSBAR_HPL_N="0", TMPDIR=str(tmp_path))
    assert code == 0, output
    # 1000 times the square root of two nodes, rounded to whole blocks.
    for line in ("1360 Ns", "80 NBs", "3 Ps", "4 Qs", "16.0 threshold"):
        assert line in output.splitlines()
    assert "500 Ns" in job.run(**given, BUSBAR_HPL_N="500", TMPDIR=str(tmp_path))[1].splitlines()
    assert not list(tmp_path.glob("busbar-hpl.*"))


@pytest.mark.parametrize("rails", [["mlx5_0", "mlx5_1"], "mlx5_0,mlx5_1"])
def test_pairs_write_over_each_rail_in_turn(tmp_path: Path, rails: list[str] | str) -> None:
    job = Job(tmp_path, "job_rdma_pairs", validation_rdma_pairs_rails=rails, __validation_rdma_pairs_seconds="3")
    # The stand-in for srun runs one node after the other, so no server answers the writers.
    program = '#!/bin/sh\ncase "$*" in *gpu?) echo "Unable to reach ${4}" ;; esac\n'
    executable(tmp_path / "bin" / "ib_write_bw", program)
    srun = tmp_path / "bin" / "srun"
    given = '"SLURM_PROCID": str(rank)'
    srun.write_text(srun.read_text().replace(given, given + ', "SLURM_NODEID": str(int(node[-1]) - 1)'))
    code, output = job.run()
    assert code == 0, output
    ways = [line.split(":")[0].split()[1:] for line in output.splitlines() if line.startswith("busbar-rdma ")]
    assert ways == [[rail, *ends] for rail in ("mlx5_0", "mlx5_1") for ends in (("gpu1", "gpu2"), ("gpu2", "gpu1"))]
    if shutil.which("shellcheck"):
        done = subprocess.run(["shellcheck", "-S", "warning", "-e", "SC2034", job.script], check=False)
        assert done.returncode == 0


def test_nic_only_test_disables_all_other_transports(tmp_path: Path) -> None:
    job = Job(tmp_path, "job")
    job.image()
    seen = [line for line in job.run(BUSBAR_NIC_ALONE="1")[1].splitlines() if line.startswith("program on")]
    assert len(seen) == 2 * 4
    off = {"NCCL_P2P_DISABLE=1", "NCCL_SHM_DISABLE=1", "NCCL_NVLS_ENABLE=0", "NCCL_MNNVL_ENABLE=0"}
    off |= {"NCCL_PXN_DISABLE=1", "NCCL_ALGO=Ring"}
    assert all(off <= set(line.split()) for line in seen), seen


def test_program_gets_the_rail_of_the_job(tmp_path: Path) -> None:
    job = Job(tmp_path, "job")
    job.image(NCCL_IB_HCA="mlx5_9", NCCL_DEBUG="WARN", PATH_OF_IMAGE="x")
    seen = [line for line in job.run(BUSBAR_RAIL="mlx5_0")[1].splitlines() if line.startswith("program on")]
    assert len(seen) == 2 * 4
    assert all(
        "NCCL_ALGO=Ring or Tree NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET NCCL_IB_HCA==mlx5_0" in line for line in seen
    )


def test_job_reports_port_counters_before_and_after(tmp_path: Path) -> None:
    port = tmp_path / "sys" / "class" / "infiniband" / "mlx5_0" / "ports" / "1" / "counters"
    port.mkdir(parents=True)
    for name, value in {"symbol_error": 7, "link_downed": 0, "port_rcv_data": 99}.items():
        (port / name).write_text(f"{value}\n")
    job = Job(tmp_path, "job")
    job.image()
    # The cable fails while the program runs.
    program = f"#!/bin/sh\necho 1007 > {port}/symbol_error\n"
    (tmp_path / "bin" / "all_reduce_perf").write_text(program, encoding="utf-8")
    code, output = job.run(BUSBAR_SYS=str(tmp_path / "sys"))
    assert code == 0, output
    assert "# busbar counter: before gpu2 mlx5_0/1 symbol_error 7\n" in output
    assert "port_rcv_data" not in output
    risen = "cable, transceiver or switch port at mlx5_0/1 of {}: symbol_error +1000 during the test"
    assert port_findings(output, slow=False) == [risen.format("gpu1"), risen.format("gpu2")]


@pytest.mark.parametrize(
    ("asked", "steps"),
    [
        ({}, 2),
        ({"BUSBAR_REPEATS": "4", "BUSBAR_SECONDS": "100"}, 4),
        # After half of its time, a job runs no repeats.
        ({"BUSBAR_REPEATS": "4", "BUSBAR_SECONDS": "0"}, 1),
    ],
)
def test_search_sets_its_own_number_of_repeats(tmp_path: Path, asked: dict[str, str], steps: int) -> None:
    job = Job(tmp_path, "job")
    job.image()
    code, output = job.run(**asked)
    assert code == 0, output
    assert len(job.steps()) == 2 * steps
    assert output.count("# busbar exit: alltoall ") == steps


@pytest.mark.parametrize(
    ("passed", "limit", "repeats"),
    [
        ("100", 600, 3),
        # The first run took more than half of the nine minutes.
        ("271", 600, 1),
        # Two repeats fit, a third does not.
        ("45", 100, 1),
        ("20", 100, 3),
    ],
)
def test_repeats_that_would_exceed_the_time_limit_are_skipped(
    tmp_path: Path, passed: str, limit: int, repeats: int
) -> None:
    job = Job(tmp_path, "job", validation_image="", validation_repeats=3, validation_test_time_limit=limit)
    code, output = job.run(SECONDS=passed, BUSBAR_COLLECTIVES="all_reduce")
    assert code == 0, output
    assert output.count("# busbar exit: all_reduce ") == repeats
    assert ("# busbar repeats: 1, no time for more" in output) == (repeats < 3)


@pytest.mark.parametrize(
    ("cpus", "each"), [("224(x2)", "28"), ("224(x3),64(x2)", "8"), ("100", "12"), ("2(x2)", "1"), ("", "1")]
)
def test_each_rank_gets_its_share_of_the_smallest_nodes_cpus(tmp_path: Path, cpus: str, each: str) -> None:
    """SLURM_JOB_CPUS_PER_NODE is a list of CPUS(xNODES); with two threads per core a task gets whole cores."""
    job = Job(tmp_path, "job_training")
    job.image()
    job.run(SLURM_JOB_CPUS_PER_NODE=cpus, BUSBAR_RANKS_PER_NODE="8")
    steps = [(options, words) for options, words in job.steps() if "train_ddp.py" in " ".join(words)]
    assert {options["--cpus-per-task"] for options, _words in steps} == {each}
    assert [(options["--nodes"], options["--ntasks"]) for options, _words in steps] == [
        ("1", "1"),
        ("1", "8"),
        ("2", "16"),
    ]
    assert all("--cpu-bind" not in options for options, _words in steps)
    assert {words[words.index("--model") + 1] for _options, words in steps} == {"gpt"}


def test_job_reports_cuda_and_interfaces_with_a_link(tmp_path: Path) -> None:
    job = Job(tmp_path, "job")
    banner = "| NVIDIA-SMI 535.129.03             Driver Version: 535.129.03   CUDA Version: 12.2     |"
    (tmp_path / "bin" / "nvidia-smi").write_text(f"#!/bin/sh\n[ $# -gt 0 ] || echo '{banner}'\n")
    for nic, speed in (("eth0", "25000"), ("eth1", "-1"), ("lo", "")):
        place = tmp_path / "sys" / "class" / "net" / nic
        (place / ("device" if speed else "statistics")).mkdir(parents=True)
        (place / "speed").write_text(f"{speed}\n")
    _code, output = job.run(BUSBAR_SYS=str(tmp_path / "sys"))
    told = environment_of(output)
    assert (told["CUDA of the driver"], told["Network interfaces"]) == ("12.2", "eth0 25000 Mb/s")


@pytest.mark.parametrize("name", [*JOBS, "job_storage", "check_dcgm_diag"])
def test_every_job_reports_serial_numbers_of_its_gpus(tmp_path: Path, name: str) -> None:
    job = Job(tmp_path, name)
    (tmp_path / "bin" / "nvidia-smi").write_text(
        """#!/bin/sh
[ "$1" != --query-gpu=uuid,serial,name ] || echo "GPU-1, 165, NVIDIA H100
GPU-2, [N/A], NVIDIA, Inc. L4"
"""
    )
    executable(tmp_path / "bin" / "dcgmi", "#!/bin/sh\n")
    _code, output = job.run(SLURMD_NODENAME="gpu1")
    assert [part for part in parts_of(output)["gpu1"] if part["kind"] == "gpu"] == [
        {"kind": "gpu", "id": "GPU-1", "serial": "165", "name": "NVIDIA H100"},
        {"kind": "gpu", "id": "GPU-2", "serial": "", "name": "NVIDIA, Inc. L4"},
    ]


def test_soak_alternates_gemm_and_all_reduce_from_two_images(tmp_path: Path) -> None:
    job = Job(tmp_path, "job_soak", validation_gemm_image="/images/torch.sqsh")
    job.image()
    (tmp_path / "images" / "_images_torch.sqsh").write_text("{}")
    program = tmp_path / "bin" / "python3"
    # The watch ends with its input.
    program.write_text('#!/bin/sh\ncase "$*" in *soak_watch*) cat; echo "busbar-soak $SLURMD_NODENAME" ;; esac\n')
    code, output = job.run(TMPDIR=str(tmp_path))
    assert code == 0, output
    named = {options["--container-name"] for options, _words in job.steps()}
    assert named == {"busbar-30007:no_exec", "busbar-collective-30007:no_exec"}
    kinds = [line.split()[3] for line in output.splitlines() if re.match(r"# busbar soak: (gemm|all_reduce) ", line)]
    assert kinds[:2] == ["gemm", "all_reduce"]
    last = [line for line in output.splitlines() if line][-3:]
    assert last[:2] == ["busbar-soak gpu1", "busbar-soak gpu2"]
    assert last[2].startswith(f"# busbar soak: done {len(kinds) // 2} ")
    assert not list(tmp_path.glob("busbar-soak.*"))
    assert not list((tmp_path / "data").glob("*/pyxis_busbar*"))


def test_soak_ends_with_the_first_failed_program(tmp_path: Path) -> None:
    job = Job(tmp_path, "job_soak", validation_gemm_image="", validation_image="")
    (tmp_path / "bin" / "all_reduce_perf").write_text("#!/bin/sh\nexit 3\n")
    code, output = job.run(BUSBAR_SOAK_SECONDS="60", TMPDIR=str(tmp_path))
    assert code == 1
    (end,) = [line for line in output.splitlines() if line.startswith("# busbar soak: end all_reduce")]
    assert end.endswith(" 3")


# As with Open MPI: one rank per slot, and each rank has the Slurm variables of its node's daemon.
MPIRUN = """#!/bin/bash
while [ "$1" != sh ]; do [ "$1" != -n ] || number=$2; shift; done
for rank in $(seq 0 $((number - 1))); do
  OMPI_COMM_WORLD_RANK=$rank OMPI_COMM_WORLD_LOCAL_RANK=$((rank % 2)) SLURM_PROCID=0 SLURM_LOCALID=0 "$@" || exit
done
"""


@pytest.mark.parametrize("name", ["job", "job_soak", "job_hpl"])
def test_without_pmix_programs_of_mpi_are_started_by_mpirun(tmp_path: Path, name: str) -> None:
    """Without PMIx, srun starts N programs of one rank each with Open MPI 5: open-mpi/ompi#13523."""
    images = dict.fromkeys(("validation_image", "validation_gemm_image", "validation_hpl_image"), "")
    job = Job(tmp_path, name, validation_backend="mpi", validation_repeats=1, **images)
    executable(tmp_path / "bin/mpirun", MPIRUN)
    for program in ("busbar_collectives", "xhpl"):
        (tmp_path / "bin" / program).write_text('#!/bin/sh\necho "rank $SLURM_PROCID, $SLURM_LOCALID on its node"\n')
    asked = {"BUSBAR_COLLECTIVES": "all_reduce", "TMPDIR": str(tmp_path), "BUSBAR_HPL_N": "100", "BUSBAR_HPL_NB": "8"}
    code, output = job.run(STAND_IN_MPI="none pmi2", **asked)
    assert code == 0, output
    ranks = [line for line in output.splitlines() if line.startswith("rank ")]
    assert ranks[:4] == [f"rank {rank}, {rank % 2} on its node" for rank in range(4)]
    assert environment_of(output)["MPI without PMIx by"] == "mpirun"
    code, output = job.run(**asked)
    assert code == 0, output
    assert "without PMIx" not in output


def test_without_pmix_an_image_is_started_with_pmi2(tmp_path: Path) -> None:
    job = Job(tmp_path, "job", validation_repeats=1)
    job.image()
    code, output = job.run(STAND_IN_MPI="none pmi2", BUSBAR_COLLECTIVES="all_reduce")
    assert code == 0, output
    assert [options["--mpi"] for options, _words in job.steps()] == ["pmi2"]


# Answers like NCCL's RAS: src/ras/client_support.cc, rasClientEventLoop (NVIDIA/nccl, commit 5067397c).
RAS = r"""
import socketserver, sys
class Client(socketserver.StreamRequestHandler):
    def handle(self):
        for line in self.rfile:
            words = line.decode().rstrip("\r\n")
            if words.lower() == "set format json":
                self.wfile.write(b"OK\n")
            elif words.lower() == "status":
                self.wfile.write(b'{\n  "communicators": []\n}\n')
                open(sys.argv[1], "w").close()
                return
            else:
                self.wfile.write(f"ERROR: Unknown command {words}\n".encode())
with socketserver.TCPServer(("127.0.0.1", 0), Client) as server:
    print(server.server_address[1], flush=True)
    server.serve_forever()
"""


# Stands for NCCL's Inspector, which writes a file per process (inspector.cc, inspectorGlobalInit).
RECORDING = """#!/bin/bash
env | grep -E '^NCCL_(PROFILER|INSPECTOR)_' | sort | paste -sd ' '
for line in $(seq 30); do
  echo "{\\"line\\": $line}" >>"$NCCL_INSPECTOR_DUMP_DIR/$SLURMD_NODENAME-pid$SLURM_PROCID.log"
done
printf '{"cut' >>"$NCCL_INSPECTOR_DUMP_DIR/$SLURMD_NODENAME-pid$SLURM_PROCID.log"
"""


def test_last_records_of_the_inspector_are_collected_from_each_node(tmp_path: Path) -> None:
    job = Job(tmp_path, "job", validation_repeats=1, validation_inspector="/opt/insp ector.so")
    job.image()
    (tmp_path / "bin" / "all_reduce_perf").write_text(RECORDING)
    kept = Path("/tmp/busbar-inspector-30007")  # noqa: S108 - folder of the job
    shutil.rmtree(kept, ignore_errors=True)
    code, output = job.run(BUSBAR_COLLECTIVES="all_reduce")
    assert (code, kept.exists()) == (0, False)
    assert f"NCCL_INSPECTOR_DUMP_DIR={kept}" in output
    assert "NCCL_INSPECTOR_ENABLE=1 NCCL_PROFILER_PLUGIN=/opt/insp ector.so" in output
    told = [line for line in output.splitlines() if line.startswith("# busbar inspector: ")]
    # Both nodes share the folder here, which contains the files of four ranks; the last 20 lines of each are shown.
    assert told.count('# busbar inspector: gpu1 {"cut') == 4
    assert told.count('# busbar inspector: gpu2 {"line": 12}') == 4
    assert '# busbar inspector: gpu2 {"line": 11}' not in told
    assert [line for line in told if line.endswith("files")] == [
        "# busbar inspector: gpu1 - 4 files",
        "# busbar inspector: gpu2 - 4 files",
    ]
    assert [options.get("--container-mounts") for options, _words in job.steps()] == [f"{kept}:{kept}"]


@pytest.mark.parametrize("name", ["job", "job_soak"])
def test_nccl_ras_is_queried_before_a_hanging_job_is_cancelled(tmp_path: Path, name: str) -> None:
    job = Job(
        tmp_path,
        name,
        validation_image="",
        validation_gemm_image="",
        validation_repeats=1,
        validation_test_time_limit=2,
        validation_soak_minutes=0.01,
    )
    # The first rank hangs until RAS was queried; the others exit at once.
    asked = tmp_path / "asked"
    hang = f"for _ in $(seq 100); do [ ! -e {asked} ] || exit 1; sleep 0.1; done"
    (tmp_path / "bin" / "all_reduce_perf").write_text(f"#!/bin/sh\n[ $SLURM_PROCID -gt 0 ] || {{ {hang}; }}\nexit 1\n")
    with subprocess.Popen([sys.executable, "-c", RAS, asked], stdout=subprocess.PIPE, text=True) as ras:
        try:
            assert ras.stdout is not None
            environment = {"TMPDIR": str(tmp_path), "BUSBAR_COLLECTIVES": "all_reduce"}
            address = f"127.0.0.1:{ras.stdout.readline().strip()}"
            _code, output = job.run(**environment, NCCL_RAS_ADDR=address)
        finally:
            ras.kill()
    assert '# busbar ras: OK\n# busbar ras: {\n# busbar ras:   "communicators": []\n# busbar ras: }\n' in output


def test_unreachable_ras_is_ignored_without_a_wait(tmp_path: Path) -> None:
    job = Job(tmp_path, "job", validation_image="", validation_repeats=1)
    code, output = job.run(NCCL_RAS_ADDR="127.0.0.1:1", BUSBAR_COLLECTIVES="all_reduce")
    assert (code, "# busbar ras" in output) == (0, False)
