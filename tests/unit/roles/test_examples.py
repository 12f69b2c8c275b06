"""Tests of the example scripts: shellcheck accepts them, and they run with a stand-in for Slurm that logs calls."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import stat
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from executables import executable
from jinja2 import Environment, FileSystemLoader, StrictUndefined

ROLE = Path(__file__).resolve().parents[3] / "roles" / "examples"
TRAININGS = ("ddp", "ddp_torchrun", "fsdp", "deepspeed", "gpt", "resnet50")
OTHERS = ("hello_gpu", "mpi", "all_reduce", "jupyter", "scaling")
RUNTIMES = ("charliecloud", "apptainer")
OPTIONS: dict[str, Any] = {
    "ansible_managed": "Ansible managed",
    "examples_path": "/shared/examples",
    "examples_nodes": 2,
    "__examples_gpus_per_node": 8,
    "__examples_cpus_per_rank": 14,
    "examples_image": "",
    "examples_setup": [],
    "examples_python": "python3",
    "__examples_all_reduce": "all_reduce_perf",
    "examples_partition": "",
    "examples_time": "01:00:00",
    "examples_login": "login",
}
# Each stand-in logs its call; srun runs the shell code in BEHAVIOUR as a rank.
PROGRAM = """\
#!/bin/bash
printf '%s %s\\n' "${0##*/}" "$*" >>"$NOTES"
case "${0##*/} $1" in
"srun "*) exec bash -c "$BEHAVIOUR" ;;
"scontrol show") echo gpu1; echo gpu2 ;;
esac
"""


def rendered(name: str, **options: Any) -> str:  # noqa: ANN401 - any option
    """Return a script as the role writes it."""
    loader = FileSystemLoader(ROLE / "templates")
    environment = Environment(  # noqa: S701 - shell, not HTML
        loader=loader, trim_blocks=True, undefined=StrictUndefined, keep_trailing_newline=True
    )
    environment.filters["quote"] = shlex.quote
    environment.filters["comment"] = lambda text, **_more: f"# {text}"
    given = OPTIONS | options
    if name in TRAININGS:
        known = yaml.safe_load((ROLE / "vars" / "main.yml").read_text(encoding="utf-8"))
        return environment.get_template("train.sbatch.j2").render(**given, __examples_train=known[f"__examples_{name}"])
    if name in RUNTIMES:
        known = yaml.safe_load((ROLE / "vars" / "main.yml").read_text(encoding="utf-8"))
        script = environment.get_template("runtime.sbatch.j2")
        return script.render(**given, __examples_runtime=known[f"__examples_{name}"])
    return environment.get_template(f"{name}.sbatch.j2").render(**given)


def sbatch_options(text: str) -> dict[str, str]:
    return dict(re.findall(r"^#SBATCH --([a-z-]+)=?(.*)$", text, re.MULTILINE))


class Job:
    """A script that runs in a folder of its own."""

    def __init__(self, folder: Path, script: str) -> None:
        """Create stand-ins for the programs that the script calls."""
        self.folder, self.notes, self.script = folder, folder / "notes", folder / "script"
        self.script.write_text(script, encoding="utf-8")
        (folder / "bin").mkdir()
        for name in ("srun", "scontrol", "jupyter"):
            executable(folder / "bin" / name, PROGRAM)
        self.environment = {
            "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
            "HOME": str(folder),
            "NOTES": str(self.notes),
            "SLURM_JOB_ID": "30007",
            "SLURM_JOB_NAME": "ddp",
            "SLURM_JOB_NODELIST": "gpu[1-2]",
            "SLURM_NNODES": "2",
            "SLURM_NTASKS": "2",
            "SLURM_SUBMIT_DIR": str(folder),
            "SLURMD_NODENAME": "gpu1",
        }

    def start(self, behaviour: str, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        """Start the script; srun runs `behaviour`."""
        return subprocess.Popen(
            ["bash", str(self.script), *arguments],
            env={**self.environment, "BEHAVIOUR": behaviour, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=self.folder,
        )

    def run(self, behaviour: str, *arguments: str, **environment: str) -> tuple[int, str, str]:
        """Run the script; return its exit code, its output and its calls."""
        child = self.start(behaviour, *arguments, **environment)
        output = child.communicate(timeout=60)[0]
        return child.returncode, output, self.noted()

    def noted(self) -> str:
        """Return the calls so far."""
        return self.notes.read_text(encoding="utf-8") if self.notes.exists() else ""


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path, rendered("ddp"))


@pytest.mark.parametrize("name", [*TRAININGS, *OTHERS, *RUNTIMES])
@pytest.mark.parametrize(
    "more", [{}, {"__examples_gpus_per_node": 0, "examples_partition": "gpu", "examples_image": "a"}]
)
def test_shellcheck_accepts_the_scripts(name: str, more: dict[str, Any], tmp_path: Path) -> None:
    if shutil.which("shellcheck") is None:
        pytest.skip("no shellcheck here")
    (tmp_path / name).write_text(rendered(name, **more), encoding="utf-8")
    done = subprocess.run(["shellcheck", tmp_path / name], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_one_rank_per_gpu_and_one_per_node_without_gpus() -> None:
    options = sbatch_options(rendered("ddp"))
    assert (options["ntasks-per-node"], options["gpus-per-node"], options["nodes"]) == ("8", "8", "2")
    assert "partition" not in options
    assert {"requeue", "signal", "open-mode"} <= options.keys()
    options = sbatch_options(rendered("ddp", __examples_gpus_per_node=0, examples_partition="cpu"))
    assert (options["ntasks-per-node"], options["partition"]) == ("1", "cpu")
    assert "gpus-per-node" not in options
    assert sbatch_options(rendered("ddp_torchrun"))["ntasks-per-node"] == "1"
    assert sbatch_options(rendered("hello_gpu"))["gpus-per-node"] == "1"


def test_ranks_rendezvous_in_a_private_file(job: Job) -> None:
    look = 'stat -c "%a %u" "${RENDEZVOUS%/*}"; echo "$MASTER_ADDR $MASTER_PORT $OMP_NUM_THREADS $RENDEZVOUS_SECRET"'
    code, output, notes = job.run(look, "--steps", "7")
    mode, line = output.splitlines()
    assert (code, mode) == (0, f"700 {os.getuid()}")
    address, port, threads, secret = line.split()
    assert (address, threads, len(secret)) == ("gpu1", "1", 48)
    assert 15000 <= int(port) < 30000
    called = next(line for line in notes.splitlines() if line.startswith("srun"))
    folder = f"{job.folder}/ddp-30007"
    told = f"--strategy ddp --model mlp --checkpoint {folder} --result {folder}/result.json --steps 7"
    assert called.endswith(told)
    assert "--container-image" not in called
    assert secret not in notes
    # The files are removed, and the next run has a new secret.
    assert list((job.folder / "ddp-30007").iterdir()) == []
    assert secret not in job.run(look)[1]


def test_without_file_locks_ranks_rendezvous_at_a_port_with_a_secret(job: Job) -> None:
    executable(job.folder / "bin" / "flock", "#!/bin/sh\nexit 69\n")
    code, output, _notes = job.run('env | grep -o "^RENDEZVOUS[A-Z_]*"')
    assert (code, output) == (0, "RENDEZVOUS_SECRET\n")


@pytest.mark.parametrize("name", [*TRAININGS, *OTHERS])
def test_image_is_passed_to_pyxis(name: str, tmp_path: Path) -> None:
    job = Job(tmp_path, rendered(name))
    job.run("true", IMAGE="nvcr.io#nvidia/pytorch:25.10-py3")
    assert "--container-image=nvcr.io#nvidia/pytorch:25.10-py3 --container-mounts=" in job.noted()
    (tmp_path / "x").mkdir()
    job = Job(tmp_path / "x", rendered(name, examples_image="site"))
    job.run("true")
    assert "--container-image=site" in job.noted()
    job.notes.unlink()
    job.run("true", IMAGE="")
    assert "--container-image" not in job.noted()


# Variables that a script exports to its ranks, and variables that users set for them.
MEETING = {"MASTER_ADDR", "MASTER_PORT", "OMP_NUM_THREADS", "RENDEZVOUS", "RENDEZVOUS_SECRET"}
EXPORTED: dict[str, set[str]] = {
    **dict.fromkeys(TRAININGS, MEETING),
    **dict.fromkeys(("ddp_torchrun", "scaling"), MEETING | {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE"}),
    "all_reduce": {"NCCL_DEBUG"},
    "jupyter": {"JUPYTER_TOKEN"},
    "hello_gpu": set(),
    "mpi": set(),
}


@pytest.mark.parametrize("name", EXPORTED)
def test_variables_of_the_job_override_those_of_the_image(name: str, tmp_path: Path) -> None:
    """In Pyxis 0.24 the image's value wins, except for variables listed in --container-env (README)."""
    exported = {
        word
        for line in re.findall(r"^ *(?:if .*then )?export (.*?)(?:; fi)?$", rendered(name), re.MULTILINE)
        for word in re.findall(r"\b([A-Z_]+)(?:=\S*)?(?=\s|$)", line)
    }
    assert exported == EXPORTED[name]
    job = Job(tmp_path, rendered(name))
    code, output, notes = job.run("true", IMAGE="a", NCCL_IB_HCA="mlx5_0", NCCL_ALGO="Ring", UNRELATED="1")
    assert code == 0, output
    given = re.search(r"--container-env=(\S+)", notes)
    assert given is not None
    assert set(given[1].split(",")) == {*EXPORTED[name], "CUDA_VISIBLE_DEVICES", "NCCL_IB_HCA", "NCCL_ALGO"}
    job.notes.unlink()
    job.run("true", IMAGE="a")
    assert "--container-env=CUDA_VISIBLE_DEVICES" in job.noted()


@pytest.mark.parametrize(
    ("behaviour", "code", "requeued"),
    [("exit 75", 75, True), ("exit 137", 137, True), ("exit 1", 1, False), ("exit 2", 2, False), ("true", 0, False)],
)
def test_only_transient_failures_are_requeued(job: Job, behaviour: str, code: int, requeued: bool) -> None:  # noqa: FBT001
    ended, _output, notes = job.run(behaviour)
    assert ended == code
    assert ("scontrol requeue 30007" in notes) is requeued


def test_number_of_requeues_is_limited(job: Job) -> None:
    _code, output, notes = job.run("exit 75", SLURM_RESTART_COUNT="10")
    assert "scontrol requeue" not in notes
    assert "exited with status 75 after 10 restarts: giving up" in output


@pytest.mark.parametrize("name", ["ddp_torchrun", "scaling"])
def test_agents_of_torchrun_rendezvous_in_a_file_without_a_port(name: str, tmp_path: Path) -> None:
    """Without libuv, torch has no store at a port: elastic/rendezvous uses libuv whatever USE_LIBUV says (2.6)."""
    job = Job(tmp_path, rendered(name))
    _code, output, notes = job.run('echo "$TORCH_DISABLE_SHARE_RDZV_TCP_STORE ${RENDEZVOUS%/*}"')
    flag, folder = output.splitlines()[0].split()
    words = notes.split()
    assert flag == "1"
    assert {"--rdzv_backend=c10d", "--rdzv_conf=store_type=file", "--rdzv_id=30007"} <= set(words)
    (place,) = {word.partition("=")[2].rpartition("/")[0] for word in words if word.startswith("--rdzv_endpoint=")}
    assert place == folder
    assert "--master_port" not in notes
    job.notes.unlink()
    executable(tmp_path / "bin" / "flock", "#!/bin/sh\nexit 69\n")
    notes = job.run("true")[2]
    assert "--master_port=" in notes
    assert "--rdzv_" not in notes


def test_torchrun_is_requeued_only_with_a_checkpoint(tmp_path: Path) -> None:
    job = Job(tmp_path, rendered("ddp_torchrun"))
    assert "scontrol requeue" not in job.run("exit 1")[2]
    (tmp_path / "ddp-30007" / "checkpoint.pt").touch()
    assert "scontrol requeue 30007" in job.run("exit 1")[2]


def test_permanent_failure_of_a_rank_is_not_requeued_although_srun_killed_the_others(job: Job) -> None:
    code, output, notes = job.run('echo "gpu2: no torch" >"$SLURM_SUBMIT_DIR/ddp-30007/no-restart"; exit 143')
    assert code == 143
    assert "ddp: exited with status 143, not requeued: gpu2: no torch\n" in output
    assert "scontrol requeue" not in notes
    # A reason of an earlier run is ignored.
    assert "scontrol requeue 30007" in job.run("exit 143")[2]


def test_cancelled_job_is_not_requeued(job: Job) -> None:
    child = job.start("trap 'exit 75' TERM; touch ready; while :; do sleep 0.1; done")
    deadline = time.monotonic() + 30
    while not (job.folder / "ready").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    child.send_signal(signal.SIGTERM)
    found = subprocess.run(["pgrep", "-P", str(child.pid)], check=True, capture_output=True, text=True)
    for number in found.stdout.split():
        os.kill(int(number), signal.SIGTERM)
    child.communicate(timeout=60)
    assert child.returncode == 75
    assert "scontrol requeue" not in job.noted()


def test_jupyter_prints_the_tunnel_command_and_not_the_token(tmp_path: Path) -> None:
    job = Job(tmp_path, rendered("jupyter"))
    file = '"$HOME"/.jupyter-*.token'
    behaviour = f'stat -c "mode %a" {file}; [ "$(cat {file})" = "$JUPYTER_TOKEN" ] && echo same; cp {file} "$HOME/seen"'
    code, output, notes = job.run(behaviour)
    user = subprocess.run(["id", "-un"], check=True, capture_output=True, text=True).stdout.strip()
    assert code == 0, output
    assert f"ssh -N -L 15007:localhost:15007 -J {user}@login {user}@gpu1\n" in output
    assert "mode 600\nsame\n" in output
    token = (tmp_path / "seen").read_text(encoding="utf-8").strip()
    assert len(token) == 48
    assert token not in output + notes
    assert "--ip=127.0.0.1 --port=15007 --port-retries=0" in notes
    assert list(tmp_path.glob(".jupyter-*")) == []


def test_missing_jupyter_is_reported_with_the_remedy(tmp_path: Path) -> None:
    job = Job(tmp_path, rendered("jupyter"))
    (tmp_path / "bin" / "jupyter").unlink()
    code, output, notes = job.run("true", PATH=f"{tmp_path / 'bin'}:/usr/bin:/bin")
    assert (code, notes) == (1, "")
    assert "jupyter: not found on gpu1: load a module, activate an environment that has it, or set IMAGE" in output


def test_ranks_have_the_requested_cpus(job: Job, tmp_path: Path) -> None:
    """Since Slurm 22.05 a step has one CPU per task unless srun has --cpus-per-task (srun(1))."""
    assert sbatch_options(rendered("ddp"))["cpus-per-task"] == "14"
    assert sbatch_options(rendered("ddp_torchrun"))["cpus-per-task"] == str(8 * 14)
    assert "cpus-per-task" not in sbatch_options(rendered("fsdp", __examples_cpus_per_rank=0))
    _code, threads, notes = job.run('echo "$OMP_NUM_THREADS"', SLURM_CPUS_PER_TASK="14")
    assert "--cpus-per-task=14 " in notes
    assert threads == "14\n"
    assert "--cpus-per-task" not in job.run("true")[2].splitlines()[-1]
    (tmp_path / "x").mkdir()
    torchrun = Job(tmp_path / "x", rendered("ddp_torchrun"))
    assert torchrun.run('echo "$OMP_NUM_THREADS"', SLURM_CPUS_PER_TASK="112")[1] == "14\n"


# Output of nccl-tests; without MPI, each task is rank 0 of its own world.
TABLE = """echo '# nThread 1 nGpus 1 minBytes 8388608 maxBytes 8388608 step: 2(factor) warmup iters: 1 iters: 20'
echo '# Using devices'
for rank in {ranks}; do echo "#  Rank  $rank Group  0 Pid   6899 on gpu1 device  0 [0000:04:00] NVIDIA H100"; done
echo '  8388608  2097152  float  sum  -1  52.1  161.01  140.88      0    51.8  161.94  141.70      0'
"""


def test_all_reduce_without_mpi_fails(tmp_path: Path) -> None:
    job = Job(tmp_path, rendered("all_reduce"))
    code, output, _notes = job.run(TABLE.format(ranks="0 1"), SLURM_NTASKS="2")
    assert code == 0, output
    assert output.count("161.01") == 1
    code, output, _notes = job.run(2 * TABLE.format(ranks="0"), SLURM_NTASKS="2")
    assert code == 1
    assert "all_reduce: 2 tables of 2 ranks (expected one of 2): the ranks are not connected" in output
    assert "all_reduce_perf was built without MPI" in output
    assert job.run(TABLE.format(ranks="0"), SLURM_NTASKS="2")[0] == 1
    # The exit code of a failed program, or of one without such a table, is kept.
    assert job.run("exit 7", SLURM_NTASKS="2")[0] == 7
    assert job.run("echo sum", SLURM_NTASKS="2")[0] == 0


# Stands for torchrun with this many ranks: rank 0 writes the measurement, which is faster with more ranks.
MEASURED = """
import json, os, pathlib, re, subprocess, sys
words = pathlib.Path(os.environ["NOTES"]).read_text().splitlines()[-1].split()
if words[-2].endswith("train_table.py"):
    sys.exit(subprocess.run([sys.executable, os.environ["TABLE"], words[-1]]).returncode)
batch, nodes, each = map(int, re.findall(r"[0-9]+", words[-1].rpartition("/")[2]))
ranks = nodes * each
print("torchrun", nodes, each, words[words.index("--steps") + 1], "RENDEZVOUS" in os.environ)
if batch == 13:
    sys.exit(1)
found = {"batch_per_rank": batch, "world_size": ranks, "nodes": nodes, "model": "resnet50", "precision": "bf16",
         "device": "NVIDIA H100", "train_seconds": 800 / ranks, "samples_per_second": 100 * ranks * 0.9 ** (ranks > 8),
         "step_seconds": 0.1, "all_reduce_seconds": 0.01}
pathlib.Path(words[-1]).write_text(json.dumps(found))
"""


def test_scaling_prints_a_table_of_one_gpu_one_node_and_several_nodes(tmp_path: Path) -> None:
    job = Job(tmp_path, rendered("scaling"))
    (tmp_path / "rank.py").write_text(MEASURED, encoding="utf-8")
    table = {"TABLE": str(ROLE / "files" / "train_table.py"), "SLURM_NNODES": "3", "SLURM_CPUS_PER_TASK": "112"}
    code, output, notes = job.run('python3 "$HOME/rank.py"', "--model", "resnet152", BATCHES="64 128", **table)
    assert code == 0, output
    runs = [line for line in output.splitlines() if line.startswith("torchrun")]
    # Each run has 51200 samples, so more ranks take fewer steps.
    scales = [(1, 1, 800), (1, 8, 100), (2, 8, 50), (3, 8, 33)]
    assert runs[:4] == [f"torchrun {nodes} {each} {steps} True" for nodes, each, steps in scales]
    assert len(runs) == 8
    assert output[output.index("Batch size 64") :].splitlines()[:6] == [
        "Batch size 64 per GPU: resnet50 in bf16, NVIDIA H100",
        "Setup       Nodes  GPUs  Training time, s  Samples/s  Speed-up  Efficiency, %  Communication, %",
        "Single GPU      1     1            800.00        100      1.00          100.0",
        "Multi-GPU       1     8            100.00        800      8.00          100.0              10.0",
        "Multi-node      2    16             50.00       1440     14.40           90.0              10.0",
        "Multi-node      3    24             33.33       2160     21.60           90.0              10.0",
    ]
    assert "srun --mpi=none --kill-on-bad-exit=1 --nodes=1 --ntasks=1 --cpus-per-task=112 bash -c" in notes
    assert "--model resnet50 --batch 64 --steps 800 --model resnet152 --result" in notes
    assert list((tmp_path / "ddp-30007").glob(".rendezvous*")) == []


def test_failed_training_adds_no_row_and_fails_the_job(tmp_path: Path) -> None:
    job = Job(tmp_path, rendered("scaling", __examples_gpus_per_node=1))
    (tmp_path / "rank.py").write_text(MEASURED, encoding="utf-8")
    table = {"TABLE": str(ROLE / "files" / "train_table.py"), "SLURM_NNODES": "2"}
    code, output, _notes = job.run('python3 "$HOME/rank.py"', BATCHES="13 64", **table)
    assert code == 1
    assert "Batch size 13" not in output
    assert "Multi-node      2     2" in output
    code, output, _notes = job.run('python3 "$HOME/rank.py"', BATCHES="13", RESULTS=str(tmp_path / "none"), **table)
    assert code == 2
    assert f"train_table: {tmp_path}/none contains no results (run-*.json), because no training finished" in output


@pytest.mark.parametrize(
    ("name", "called"),
    [
        ("charliecloud", "ch-job /images/it.sqfs -- python3 x.py"),
        ("apptainer", "apptainer exec /images/it.sif python3 x.py"),
    ],
)
def test_command_runs_in_each_runtime(name: str, called: str, tmp_path: Path) -> None:
    job = Job(tmp_path, rendered(name))
    program = called.split(maxsplit=1)[0]
    image = next(word for word in called.split() if word.startswith("/images"))
    code, output, notes = job.run("true", "python3", "x.py", IMAGE=image, PATH=f"{tmp_path / 'bin'}:/usr/bin:/bin")
    assert (code, notes) == (2, "")
    assert f"{name}: {program} is not installed on gpu1: load a module, or request {name}_enabled" in output
    executable(tmp_path / "bin" / program, "#!/bin/sh\n")
    look = 'echo "$MASTER_ADDR ${#RENDEZVOUS_SECRET} $OMP_NUM_THREADS"'
    code, output, notes = job.run(look, "python3", "x.py", IMAGE=image, SLURM_CPUS_PER_TASK="14")
    assert (code, output) == (0, "gpu1 48 14\n")
    assert notes.splitlines()[-1] == f"srun --mpi=none --kill-on-bad-exit=1 --cpus-per-task=14 {called}"
    code, output, notes = job.run("true", IMAGE="")
    assert code == 2
    assert f"{name}: no image: sbatch --export=ALL,IMAGE=" in output


def test_scripts_are_executable() -> None:
    for name in ("train_ddp.py", "train_table.py", "mpi_sum.py"):
        assert (ROLE / "files" / name).stat().st_mode & stat.S_IXUSR
