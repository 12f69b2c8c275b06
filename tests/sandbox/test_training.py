"""Tests of the training examples, submitted by a user, and of the stage training: real DDP and FSDP with gloo.

During these tests torch is on the shared file system: unpacked once for all nodes, and installed on none.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from conftest import as_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import Cluster

pytestmark = pytest.mark.proves("examples", "validation")

EXAMPLES = "/shared/examples"
PLACE = "/shared/training-test"
ROOT = f"{PLACE}/torch/usr"
TORCH = {
    "PYTHONPATH": f"{ROOT}/lib/python3/dist-packages",
    "LD_LIBRARY_PATH": f"{ROOT}/lib/x86_64-linux-gnu:{ROOT}/lib",
}
# Only packages that some node lacks are downloaded; they are unpacked where every node sees them.
FETCH = f"""
set -e
mkdir -p {PLACE}/debs/partial
apt-get -qq update
apt-get -qq -y --no-install-recommends --download-only -o Dir::Cache::archives={PLACE}/debs install python3-torch
"""
UNPACK = f"""
set -e
mkdir -p {PLACE}/torch {PLACE}/runs && chmod 1777 {PLACE}/runs
for package in {PLACE}/debs/*.deb; do dpkg-deb -x "$package" {PLACE}/torch; done
rm -r {PLACE}/debs
"""
STAND_IN = Path(__file__).parents[1] / "fixtures" / "deepspeed_stand_in.py"
# One rank on each node, and a model so small that Python overhead dominates a step.
SMALL = "--ntasks-per-node=1 --gpus-per-node=1"
TINY = "--steps 60 --every 10 --hidden 32 --probe 0"
# Timeout for a busy machine; an idle one needs a twentieth.
SLOW = 400.0
STAGE: dict[str, Any] = {
    "validation_stages": ["training"],
    "validation_environment": TORCH,
    "validation_training_steps": 10,
    "__validation_training_hidden": 32,
}


@pytest.fixture(scope="module", autouse=True)
def torch(sandbox: Cluster) -> Iterator[None]:
    """Unpack torch on the shared file system; everything except the examples is removed at the end."""
    sandbox.wait_idle()
    for node in sandbox.compute:
        sandbox.exec(node, FETCH, timeout=300)
    sandbox.exec(sandbox.compute[0], UNPACK, timeout=300)
    try:
        yield
    finally:
        sandbox.exec("ctl", f"rm -rf {PLACE}")


@pytest.fixture(autouse=True)
def idle(sandbox: Cluster) -> Iterator[None]:
    """Remove jobs and faults after each test."""
    yield
    sandbox.exec("ctl", "scancel -u alice")
    sandbox.fault("heal")


def submit(sandbox: Cluster, script: str, options: str = "", arguments: str = "", **variables: str) -> str:
    """Submit an example as alice and return the job ID."""
    exports = "; ".join(f"export {key}={value}" for key, value in {**TORCH, **variables}.items())
    command = f"{exports}; cd {PLACE}/runs && sbatch --parsable {options} {EXAMPLES}/{script}.sbatch {arguments}"
    return sandbox.exec("login", command, user="alice").stdout.strip()


def state(sandbox: Cluster, job: str) -> str:
    """Return the state of a job from Slurm."""
    return sandbox.exec("ctl", f"scontrol -o show job {job}").stdout.split("JobState=")[1].split()[0]


def said(sandbox: Cluster, job: str) -> str:
    """Return the output of a job."""
    return sandbox.exec("ctl", f"cat {PLACE}/runs/*-{job}.out", check=False).stdout


def ended(sandbox: Cluster, job: str, timeout: float = SLOW) -> str:
    """Wait until a job completes successfully; return its output."""
    over = {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL"}
    sandbox.wait_until(lambda: state(sandbox, job) in over, f"job {job} did not end", timeout)
    assert state(sandbox, job) == "COMPLETED", said(sandbox, job)
    return said(sandbox, job)


def result(sandbox: Cluster, name: str, job: str) -> dict[str, Any]:
    """Return the measurements of a training, which its output also contains."""
    text = sandbox.exec("ctl", f"cat {PLACE}/runs/{name}-{job}/result.json").stdout
    assert f"busbar-training {text.strip()}" in said(sandbox, job)
    return dict(as_json(text))


def test_training_survives_a_lost_node_with_the_same_result(sandbox: Cluster) -> None:
    job = submit(sandbox, "ddp", SMALL, f"{TINY} --pace 0.5")
    file = f"{PLACE}/runs/ddp-{job}/checkpoint.pt"
    sandbox.wait_until(
        lambda: not sandbox.exec("ctl", f"test -e {file}", check=False).returncode, "no checkpoint", SLOW
    )
    lost = sandbox.compute[-1]
    sandbox.fault("pull", lost)
    # slurmctld does this itself when the node has been silent for SlurmdTimeout.
    sandbox.exec("ctl", f"scontrol update nodename={lost} state=down reason='pulled for a test'")
    sandbox.wait_until(lambda: state(sandbox, job) == "PENDING", "not requeued")
    sandbox.fault("heal")
    # Fails if the node is already back in service.
    sandbox.exec("ctl", f"scontrol update nodename={lost} state=resume", check=False)
    sandbox.wait_until(lambda: sandbox.node_states()[lost] == "idle", "the node did not come back", SLOW)
    # Slurm delays a requeued job for two minutes.
    sandbox.exec("ctl", f"scontrol update jobid={job} starttime=now")
    ended(sandbox, job)
    broken = result(sandbox, "ddp", job)
    assert (broken["world_size"], broken["nodes"], broken["backend"], broken["restarts"]) == (2, 2, "gloo", 1)
    assert broken["resumed_from_step"] in range(10, 60, 10)
    assert (broken["steps"], broken["steps_recorded"]) == (60, 60)
    assert broken["final_loss"] < broken["first_loss"]
    assert broken["samples_per_second"] > 0
    # FSDP computes the same sums, so an uninterrupted FSDP run verifies both.
    other = submit(sandbox, "fsdp", SMALL, TINY)
    ended(sandbox, other)
    whole = result(sandbox, "fsdp", other)
    assert (whole["strategy"], whole["resumed_from_step"], whole["restarts"]) == ("fsdp", None, 0)
    assert whole["checksum"] == broken["checksum"]
    assert whole["final_loss"] == pytest.approx(broken["final_loss"])


@pytest.mark.parametrize(("script", "tokens"), [("gpt", 64), ("resnet50", None)])
def test_realistic_training_reads_its_samples_with_workers(sandbox: Cluster, script: str, tokens: int | None) -> None:
    job = submit(sandbox, script, SMALL, "--steps 6 --every 100 --probe 2")
    ended(sandbox, job)
    found = result(sandbox, script, job)
    assert (found["model"], found["world_size"], found["nodes"], found["backend"]) == (script, 2, 2, "gloo")
    assert (found["precision"], found["tokens_per_sample"], found["steps"]) == ("fp32", tokens, 6)
    assert found["workers_per_rank"] >= 1
    # Only the job's cores: it requested the cores of the profile, divided by its GPUs.
    assert found["cpus_per_rank"] == 1
    assert found["tflops_per_rank"] > 0
    assert 0 <= found["data_seconds"] < found["step_seconds"]
    assert sandbox.exec("ctl", f"ls {PLACE}/runs/{script}-{job}").stdout.split() == ["checkpoint.pt", "result.json"]
    for node in sandbox.compute:
        assert sandbox.exec(node, "ls -A /tmp | grep train_ddp", check=False).stdout == ""


def test_torchrun_scaling_prints_a_table(sandbox: Cluster) -> None:
    job = submit(sandbox, "scaling", SMALL, "--model gpt --probe 0", RANKS_PER_NODE="1", SAMPLES="32", BATCHES="'2 4'")
    lines = [line.split() for line in ended(sandbox, job).splitlines()]
    for batch in (2, 4):
        start = lines.index(["Batch", "size", str(batch), "per", "GPU:", "gpt", "in", "fp32,", "cpu"])
        alone, both = lines[start + 2 : start + 4]
        assert (alone[:4], len(alone)) == (["Single", "GPU", "1", "1"], 8)
        # Without the probe, the communication time is unknown.
        assert (both[:3], len(both)) == (["Multi-node", "2", "2"], 7)
        assert float(both[3]) > 0


def test_deepspeed_is_started_by_srun(sandbox: Cluster) -> None:
    text = base64.b64encode(STAND_IN.read_bytes()).decode()
    sandbox.exec("ctl", f"mkdir -p {PLACE}/in && echo {text} | base64 -d >{PLACE}/in/deepspeed.py")
    job = submit(sandbox, "deepspeed", SMALL, TINY, PYTHONPATH=f"{PLACE}/in:{TORCH['PYTHONPATH']}")
    ended(sandbox, job)
    found = result(sandbox, "deepspeed", job)
    assert (found["strategy"], found["world_size"], found["steps"]) == ("deepspeed", 2, 60)
    assert found["final_loss"] < found["first_loss"]


# Two ranks of alice wait for each other; bob's process tries to join first, as rank 1.
JOIN = """
mkdir -p {place} && cd {place} && rm -rf meet *.rank && install -d -o alice -m 700 meet
rank() {{ # user, rank, seconds, variables
  runuser -u "$1" -- env {torch} MASTER_ADDR=$(hostname) MASTER_PORT=23456 RANK=$2 WORLD_SIZE=2 LOCAL_RANK=0 \
    "$4" python3 -B {examples}/train_ddp.py {tiny} --timeout "$3" >"$1$2.rank" 2>&1
}}
rank alice 0 240 {own} & first=$!
sleep 2
rank bob 1 15 {forged}; echo "bob: $?"
kill -0 "$first" && echo 'alice waits'
rank alice 1 240 {own}; echo "alice 1: $?"
wait "$first"; echo "alice 0: $?"
cat bob1.rank
runuser -u bob -- ls meet
"""
MEET = "/run/training-test"
FILE, SECRET, OTHER = f"RENDEZVOUS={MEET}/meet/store", f"RENDEZVOUS_SECRET={'a' * 32}", f"RENDEZVOUS_SECRET={'b' * 32}"


@pytest.mark.parametrize(
    ("own", "forged", "words"),
    [
        (SECRET, OTHER, "a rank was lost"),
        (SECRET, "RENDEZVOUS_SECRET=", "a rank was lost"),
        (FILE, FILE, "/meet must be a directory that you own"),
    ],
)
def test_another_user_cannot_join_a_training(sandbox: Cluster, own: str, forged: str, words: str) -> None:
    torch = " ".join(f"{key}={value}" for key, value in TORCH.items())
    script = JOIN.format(torch=torch, examples=EXAMPLES, tiny=TINY, own=own, forged=forged, place=MEET)
    done = sandbox.exec(sandbox.compute[0], script, check=False, timeout=SLOW)
    assert "alice waits" in done.stdout, done.stdout
    assert "bob: 0" not in done.stdout
    assert words in done.stdout
    assert "alice 1: 0\nalice 0: 0\n" in done.stdout, sandbox.exec(sandbox.compute[0], f"cat {MEET}/*.rank").stdout
    assert "'meet': Permission denied" in done.stderr


def test_node_without_torch_is_reported_and_job_is_not_requeued(sandbox: Cluster) -> None:
    lacking, broken = sandbox.compute[-1], "/opt/torch-test"
    words = "raise ImportError('no libtorch here')"
    sandbox.exec(lacking, f'mkdir {broken} && echo "{words}" >{broken}/torch.py')
    try:
        job = submit(sandbox, "ddp", SMALL, TINY, PYTHONPATH=f"{broken}:{TORCH['PYTHONPATH']}")
        over = {"FAILED", "COMPLETED"}
        sandbox.wait_until(
            lambda: state(sandbox, job) in over or ", requeued" in said(sandbox, job), "it did not end", SLOW
        )
        assert state(sandbox, job) == "FAILED", said(sandbox, job)
    finally:
        sandbox.exec(lacking, f"rm -r {broken}")
    output = said(sandbox, job)
    assert f", not requeued: {lacking}: cannot import torch (no libtorch here). Install python3-torch" in output


def validate(sandbox: Cluster, **options: Any) -> dict[str, Any]:  # noqa: ANN401 - any option
    """Run the stage and return its entry of the report."""
    sandbox.wait_idle(SLOW)
    latest = sandbox.state / "reports" / "latest"
    before = latest.resolve()
    done = sandbox.playbook("validate.yml", "-e", json.dumps(STAGE | options), timeout=2 * SLOW)
    assert latest.resolve() != before, done.stdout + done.stderr
    (test,) = as_json((latest / "report.json").read_text(encoding="utf-8"))["tests"]
    assert (done.returncode == 0) == (test["verdict"] == "PASS"), done.stdout
    assert 'id="stage-training"' in (latest / "report.html").read_text(encoding="utf-8")
    return dict(test)


def test_stage_trains_on_one_rank_and_on_all_nodes(sandbox: Cluster) -> None:
    test = validate(sandbox, validation_training_efficiency=1e-9)
    # The cores are shared: besides PASS, only a slowed-down single rank is accepted as a result.
    verdict = "INCONCLUSIVE" if "slowed down the run with a single rank" in test["reason"] else "PASS"
    assert (test["verdict"], test["kind"], test["source"]) == (verdict, "training", "the operator"), test["reason"]
    rows = test["training"]["rows"]
    assert [(row["label"], row["nodes"], row["ranks"]) for row in rows] == [("1 GPU", 1, 1), ("2 nodes", 2, 2)]
    for row in rows:
        assert row["samples_per_second"] > 0
        assert row["step_seconds"] > 0
        assert row["all_reduce_seconds"] >= 0
        assert row["tflops_per_rank"] > 0
        assert row["tokens_per_second"] == pytest.approx(64 * row["samples_per_second"])
    assert (test["training"]["model"], test["training"]["precision"]) == ("gpt", "fp32")
    assert rows[0]["efficiency"] == 1


def test_missing_torch_is_inconclusive_with_a_remedy(sandbox: Cluster) -> None:
    test = validate(sandbox, validation_environment={}, validation_training_efficiency=1e-9)
    assert test["verdict"] == "INCONCLUSIVE"
    assert "1 GPU: cannot import torch (No module named 'torch'). Install python3-torch on the nodes" in test["reason"]
    assert "validation_training_image" in test["reason"]


def test_bad_options_are_refused_before_any_job(sandbox: Cluster) -> None:
    done = sandbox.playbook("validate.yml", "-e", json.dumps(STAGE | {"validation_training_efficiency": 80}))
    assert done.returncode != 0
    assert "validation_training_efficiency: 80" in " ".join(done.stdout.split())
