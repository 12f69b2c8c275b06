"""Tests of finding jobs that a change of slurm.conf or accounting would kill or leave pending forever."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.slurm.job_resources import HeldJob, read_held_jobs
from ansible_collections.busbar.cluster.plugins.module_utils.slurm.jobs_at_risk import (
    Accounting,
    accounting_losses,
    configuration_losses,
    loss_report,
    removed_names,
)
from ansible_collections.busbar.cluster.plugins.module_utils.slurm.slurm_conf import (
    count_gres,
    read_cluster,
    read_minutes,
)

NODES = "NodeName=gpu[1-3] CPUs=8 Sockets=2 CoresPerSocket=4 ThreadsPerCore=1 RealMemory=1000 Gres=gpu:h100:4"
CPU = "NodeName=cpu1 CPUs=4 RealMemory=500"
BATCH = "PartitionName=batch Nodes=ALL Default=yes MaxTime=INFINITE State=UP"
BIG = "PartitionName=big Nodes=gpu[1-2] MaxTime=2-00:00:00"
HIDDEN = "PartitionName=secret Nodes=gpu3 Hidden=YES"
OLD = f"ClusterName=x\n{NODES}\n{CPU}\n{BATCH}\n{BIG}\n{HIDDEN}"

RUNS = "RUNNING|alice|research|normal|batch|gpu2||1|UNLIMITED|gres/gpu:1|cpu=4,mem=400M,node=1,gres/gpu=1"
WAITS = "PENDING|bob|research|normal|batch|||1|1:00:00|N/A|cpu=1,mem=100M,node=1"


def jobs(*lines: str) -> list[HeldJob]:
    """Return the jobs of squeue lines with | as the separator."""
    return read_held_jobs("".join(f"{line}|\n".replace("|", "\x1f") for line in lines))


def changed(**lines: str) -> str:
    """Return the configuration with some lines replaced."""
    text = OLD
    for name, line in lines.items():
        text = text.replace({"nodes": NODES, "cpu": CPU, "batch": BATCH, "big": BIG, "hidden": HIDDEN}[name], line)
    return text


NO_GPU2 = changed(nodes=NODES.replace("gpu[1-3]", "gpu[1,3]"), big=BIG.replace("gpu[1-2]", "gpu1"))


@pytest.mark.parametrize(
    ("job", "new", "reason"),
    [
        (f"7|{RUNS}", NO_GPU2, "node gpu2 is missing from the new slurm.conf, so Slurm would kill the job"),
        (f"7|{RUNS.replace('gpu2', 'gpu[1-2]')}", NO_GPU2, "node gpu2 is missing from the new slurm.conf"),
        (f"7|{RUNS.replace('RUNNING', 'SUSPENDED')}", NO_GPU2, "node gpu2 is missing from the new slurm.conf"),
        # A job that waits for a specific node is also killed.
        (f"8|{WAITS.replace('batch||', 'batch||gpu2')}", NO_GPU2, "node gpu2 is missing from the new slurm.conf"),
        (f"8_[1-50%4]|{WAITS.replace('|1|1:00', '|2|1:00').replace('batch', 'big')}", NO_GPU2, "has 1 usable nodes"),
        (f"9|{RUNS.replace('batch', 'big')}", changed(big=""), "partition big is missing from the new slurm.conf"),
        (
            f"9|{WAITS.replace('batch', 'secret')}",
            changed(hidden=""),
            "partition secret is missing from the new slurm.conf",
        ),
        # Slurm kills a job with several partitions if one of them is removed.
        (
            f"9|{WAITS.replace('batch', 'batch,big')}",
            changed(big=""),
            "partition big is missing from the new slurm.conf",
        ),
        (
            f"9|{WAITS.replace('batch', 'big').replace('1:00:00', '1-12:00:00')}",
            changed(big=BIG.replace("2-00", "1-00")),
            "MaxTime of partition big is 1440 minutes",
        ),
        (
            f"9|{WAITS.replace('batch', 'big').replace('|1|1:00', '|2|1:00')}",
            changed(big=f"{BIG} MaxNodes=1"),
            "MaxNodes of partition big is 1",
        ),
        (f"9|{WAITS}", changed(batch=f"{BATCH} MinNodes=2"), "MinNodes of partition batch is 2"),
        (f"9|{WAITS}", changed(batch=f"{BATCH} AllowAccounts=vision"), "does not allow the account research"),
        (f"9|{WAITS}", changed(batch=f"{BATCH} DenyQos=Normal"), "does not allow the qos normal"),
        (
            f"9|{WAITS.replace('N/A', 'gres/gpu:h100:4')}",
            changed(nodes=NODES.replace("h100:4", "h100:2")),
            "too few nodes of partition batch have 4 of gpu",
        ),
        (f"9|{WAITS.replace('mem=100M', 'mem=1000M')}", changed(nodes=NODES.replace("=1000", "=900")), "little mem"),
        (f"7|{RUNS}", changed(nodes=NODES.replace("h100:4", "h100:2")), "gres of gpu2 change from gpu=4,gpu:h100=4"),
        (f"7|{RUNS}", changed(nodes=NODES.replace("h100:4", "h100:8")), "gres of gpu2 change"),
        (f"7|{RUNS}", changed(nodes=NODES.replace("=1000", "=300")), "lowered to 300 MiB, but its jobs use 400"),
        (
            f"7|{RUNS}",
            changed(nodes=NODES.replace("Sockets=2 CoresPerSocket=4", "Sockets=1 CoresPerSocket=8")),
            "cores",
        ),
        (f"7|{RUNS}", changed(nodes=NODES.replace("CPUs=8", "CPUs=2")), "CPUs of gpu2 are lowered to 2"),
    ],
)
def test_job_that_would_be_lost_is_found(job: str, new: str, reason: str) -> None:
    losses = configuration_losses(jobs(job), read_cluster(OLD), read_cluster(new))
    assert [loss.job.label for loss in losses] == [job.split("|", 1)[0]]
    assert reason in losses[0].reason


@pytest.mark.parametrize(
    ("job", "new"),
    [
        (f"7|{RUNS}", OLD),
        (f"7|{RUNS}", f"{OLD}\nNodeName=gpu4 CPUs=8 RealMemory=1000 Gres=gpu:h100:4"),
        (f"7|{RUNS.replace('gpu2', 'gpu1')}", NO_GPU2),
        (f"8|{WAITS}", NO_GPU2),
        (f"8|{WAITS}", changed(big="")),
        # A node that only leaves a partition keeps its jobs.
        (f"7|{RUNS.replace('batch', 'big')}", changed(big=BIG.replace("gpu[1-2]", "gpu1"))),
        # A shorter MaxTime does not affect running jobs.
        (f"7|{RUNS.replace('batch', 'big')}", changed(big=BIG.replace("2-00", "0-01"))),
        (f"9|{WAITS.replace('1:00:00', 'NOT_SET').replace('batch', 'big')}", changed(big=BIG.replace("2-00", "0-01"))),
        (f"7|{RUNS}", changed(nodes=NODES.replace("=1000", "=400"))),
        # A job without GPUs is not affected by another GPU count.
        (
            f"7|{RUNS.replace('gres/gpu:1', 'N/A').replace(',gres/gpu=1', '')}",
            changed(nodes=NODES.replace("h100:4", "h100:2")),
        ),
        # The job could not run before either.
        (f"9|{WAITS.replace('mem=100M', 'mem=64G')}", changed(nodes=NODES.replace("=1000", "=900"))),
        (f"9|{WAITS.replace('batch', 'secret').replace('|1|1:00', '|2|1:00')}", changed(hidden=f"{HIDDEN} MaxTime=9")),
    ],
)
def test_unaffected_job_is_not_an_obstacle(job: str, new: str) -> None:
    assert configuration_losses(jobs(job), read_cluster(OLD), read_cluster(new)) == []


def test_jobs_of_a_node_are_summed_up() -> None:
    held = jobs(f"1|{RUNS}", f"2|{RUNS}")
    new = changed(nodes=NODES.replace("=1000", "=700"))
    assert len(configuration_losses(held, read_cluster(OLD), read_cluster(new))) == 2


def test_gpu_count_can_change_if_the_node_is_drained_first() -> None:
    new = read_cluster(changed(nodes=NODES.replace("h100:4", "h100:8")))
    assert configuration_losses(jobs(f"7|{RUNS}"), read_cluster(OLD), new, gres_in_use=False) == []


def test_damaged_active_configuration_hides_no_loss() -> None:
    held = jobs(f"1|{RUNS}", f"2|{WAITS.replace('batch', 'big').replace('1:00:00', '3-0')}")
    losses = configuration_losses(held, read_cluster("%$§ NodeName= =x"), read_cluster(NO_GPU2))
    assert [loss.job.label for loss in losses] == ["1", "2"]


RESEARCH = {"name": "research", "qos": ["normal", "short"]}
ALICE = {"name": "alice", "accounts": ["research"]}


@pytest.mark.parametrize(
    ("accounts", "users", "qos", "reason"),
    [
        ([{**RESEARCH, "state": "absent"}], [], [], "account research is removed (slurm_accounts)"),
        (
            [{**RESEARCH, "parent": "lab"}, {"name": "lab", "state": "absent"}],
            [ALICE],
            [],
            "account lab is removed (slurm_accounts)",
        ),
        ([RESEARCH], [{"name": "alice", "state": "absent"}], [], "user alice is removed from accounting"),
        ([RESEARCH], [{**ALICE, "accounts": ["vision"]}], [], "loses the account research"),
        ([RESEARCH], [ALICE], [{"name": "Normal", "state": "absent"}], "QOS normal is removed (slurm_qos)"),
        ([RESEARCH], [ALICE], [{"name": "long", "state": "absent"}], ""),
        ([RESEARCH], [ALICE], [], ""),
        ([{**RESEARCH, "qos": ["short"]}], [{**ALICE, "qos": ["normal"]}], [], ""),
        ([], [], [], ""),
    ],
)
def test_accounting(accounts: list[Any], users: list[Any], qos: list[Any], reason: str) -> None:
    losses = accounting_losses(jobs(f"7|{RUNS}"), Accounting(accounts, users, qos))
    assert [loss.reason for loss in losses] == [loss.reason for loss in losses if reason and reason in loss.reason]
    assert bool(losses) == bool(reason)


def test_pending_job_needs_its_qos() -> None:
    declared = Accounting([{**RESEARCH, "qos": ["short"]}], [{"name": "bob", "accounts": ["research"]}], [])
    assert "QOS normal is no longer allowed" in accounting_losses(jobs(f"8|{WAITS}"), declared)[0].reason
    running = WAITS.replace("PENDING", "RUNNING").replace("batch||", "batch|gpu1|")
    assert accounting_losses(jobs(f"8|{running}"), declared) == []


def test_report_names_job_owner_loss_and_remedy() -> None:
    held = jobs(f"7|{RUNS}", f"8_[1-9]|{WAITS.replace('batch', 'big')}")
    losses = configuration_losses(held, read_cluster(OLD), read_cluster(NO_GPU2.replace("PartitionName=big", "#")))
    report = loss_report(losses)
    assert "job 7 of alice (runs on gpu2): node gpu2 is missing from the new slurm.conf" in report
    assert "job 8_[1-9] of bob (waits): partition big is missing from the new slurm.conf" in report
    assert "scontrol update nodename=gpu2 state=drain" in report
    assert "scontrol update partitionname=big state=drain" in report
    assert "scancel 7 8_[1-9]" in report
    assert "-e slurm_allow_job_loss=true" in report


def test_report_length_is_limited() -> None:
    held = jobs(*(f"{number}|{RUNS}" for number in range(1, 1001)))
    report = loss_report(configuration_losses(held, read_cluster(OLD), read_cluster(NO_GPU2)))
    assert "and 980 more jobs" in report
    assert len(report.splitlines()) < 30


@pytest.mark.parametrize("line", ["7|RUNNING|alice", f"x7|{RUNS}", f"7|{RUNS}|extra"])
def test_invalid_answer_is_not_an_empty_queue(line: str) -> None:
    with pytest.raises(ValueError, match="cannot parse the output of squeue"):
        jobs(line)


def test_removed_names() -> None:
    new = changed(nodes=NODES.replace("gpu[1-3]", "gpu[1,3]"), hidden="")
    assert removed_names(read_cluster(OLD), read_cluster(new)) == ["node gpu2", "partition secret"]


@pytest.mark.parametrize(
    ("text", "minutes"),
    [
        *(("90", 90), ("1:30", 2), ("1:30:00", 90), ("2-0", 2880), ("2-00:30", 2910), ("1-00:00:01", 1441)),
        *(("INFINITE", None), ("UNLIMITED", None), ("", None)),
    ],
)
def test_times(text: str, minutes: int | None) -> None:
    assert read_minutes(text) == minutes


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ("", {}),
        ("gpu", {"gpu": 1}),
        ("gpu:2", {"gpu": 2}),
        ("gpu:h100:4(S:0-1),shard:1K", {"gpu": 4, "gpu:h100": 4, "shard": 1024}),
        ("gpu:1g.10gb:7,gpu:h100:1", {"gpu": 8, "gpu:1g.10gb": 7, "gpu:h100": 1}),
    ],
)
def test_gres(text: str, counts: dict[str, int]) -> None:
    assert count_gres(text) == counts


def test_nodesets_defaults_and_comments_are_read() -> None:
    text = """
    NodeName=DEFAULT CPUs=4 RealMemory=100
    NodeName=a[1-2] Feature=new,fast  # NodeName=a3
    NodeName=b1 RealMemory=200
    NodeSet=fresh Feature=new
    NodeSet=some Nodes=b1
    PartitionName=DEFAULT MaxTime=60
    PartitionName=p Nodes=fresh,some,stranger
    """
    cluster = read_cluster(text)
    assert {name: (node.cpus, node.memory) for name, node in cluster.nodes.items()} == {
        "a1": (4, 100),
        "a2": (4, 100),
        "b1": (4, 200),
    }
    assert cluster.partitions["p"].nodes == {"a1", "a2", "b1"}
    assert cluster.partitions["p"].minutes == 60
