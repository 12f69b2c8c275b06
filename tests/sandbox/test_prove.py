"""Tests of `busbar prove`: alice, an ordinary user with the wheel on the login node, validates nodes of the cluster."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest
from wheel_user import PROVE, User, install_wheel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from conftest import Cluster

# The measured CPU cores are shared with other programs: a failed test runs again and is shown as a rerun.
pytestmark = [
    pytest.mark.proves("validation"),
    pytest.mark.rate,
    pytest.mark.flaky(reruns=1, only_rerun=["AssertionError"]),
]

FAIL, REFUSED, INCONCLUSIVE, NOT_TESTED, INTERRUPTED = 1, 2, 3, 4, 130


@pytest.fixture(scope="module")
def installed(sandbox: Cluster, tmp_path_factory: pytest.TempPathFactory) -> User:
    return install_wheel(sandbox, tmp_path_factory)


@pytest.fixture
def alice(installed: User) -> Iterator[User]:
    installed.sandbox.wait_idle(120)
    yield installed
    installed.sandbox.exec("login", "scancel -u alice", check=False)


def test_two_nodes_pass_without_ansible_and_sudo(alice: User) -> None:
    assert alice.run("python -c 'import ansible'").returncode == 1
    assert alice.run("sudo -n true").returncode != 0
    done = alice.run(PROVE)
    assert done.returncode == 0, done.stdout + done.stderr
    report = alice.report()
    assert (report["verdict"], sorted(report["nodes"]), report["left_out"]) == ("PASS", ["gpu1", "gpu2"], {})
    assert [test["name"] for test in report["tests"]] == ["node-gpu1", "node-gpu2", "cluster"]
    # One job, regardless of its steps.
    assert len({test["job"]["job_id"] for test in report["tests"]}) == 1
    files = set(alice.run("ls $(ls -d busbar-report-* | tail -n 1)").stdout.split())
    assert files >= {"report.html", "report.json", "junit.xml", "cluster.out", "node-gpu1.out", "node-gpu2.out"}
    assert not [name for name in files if name.endswith(".err")]
    shown = alice.run("busbar report show ./$(ls -d busbar-report-* | tail -n 1)")
    assert shown.returncode == 0, shown.stdout + shown.stderr
    alice.wait_for_none()


def test_throttled_link_fails_and_its_node_is_named(alice: User, faults: Callable[..., None]) -> None:
    # 0.0125 GB/s, while the floor of two nodes is 0.02.
    faults("throttle", "gpu2", "100mbit")
    done = alice.run(f"{PROVE} --nodes {len(alice.sandbox.compute)}")
    assert done.returncode == FAIL, done.stdout + done.stderr
    report = alice.report()
    (culprit,) = report["culprits"]
    # With only two nodes, either NIC may be the cause.
    assert "gpu2" in culprit["nodes"]
    assert len(culprit["nodes"]) == 1 or len(alice.sandbox.compute) == 2
    assert "gpu2" in done.stdout.split("Verdict: FAIL")[0].splitlines()[-2]


def test_ctrl_c_leaves_no_job_and_writes_a_report(alice: User) -> None:
    interrupted = (
        f"setsid {PROVE} > out 2>&1 & pid=$!; until grep -q running: out || ! kill -0 $pid; do sleep 0.2; done; "
        "kill -INT $pid; wait $pid; echo code $?; cat out"
    )
    done = alice.run(interrupted)
    assert f"code {INTERRUPTED}\n" in done.stdout, done.stdout
    assert alice.report()["reason"] == "interrupted by SIGINT"
    alice.wait_for_none()


def test_existing_allocation_is_used_and_nothing_is_submitted(alice: User) -> None:
    inside = (
        f"{PROVE} > first & until grep -q running: first || ! kill -0 $!; do sleep 0.2; done; "
        f"{PROVE} > second 2>&1; echo second $?; squeue -h -o %i | wc -l; wait %1; echo first $?; squeue -h -o %T"
    )
    done = alice.run(f"salloc --nodes=2 --exclusive bash -c '{inside}'; cat second")
    assert f"second {REFUSED}\n1\nfirst 0\nRUNNING\n" in done.stdout, done.stdout + done.stderr
    assert "another busbar prove is already running in job" in done.stdout
    alice.wait_for_none()


def test_queue_without_free_nodes_is_inconclusive_after_the_wait(alice: User) -> None:
    alice.run("sbatch --nodes=2 --exclusive --output=/dev/null --wrap 'sleep 300'")
    alice.sandbox.wait_until(lambda: "alice RUNNING" in alice.jobs(), "the job of others does not run")
    before = alice.jobs()
    done = alice.run(f"{PROVE} --wait 3")
    assert done.returncode == INCONCLUSIVE, done.stdout + done.stderr
    assert "is pending (Resources" in done.stdout or "is pending (Priority" in done.stdout
    assert "did not start within 3 s" in alice.report()["reason"]
    alice.sandbox.wait_until(lambda: alice.jobs() == before, "its job is left in the queue")


def test_drained_node_is_reported_and_the_others_are_tested(alice: User) -> None:
    alice.sandbox.exec("ctl", "scontrol update nodename=gpu2 state=drain reason=fan")
    try:
        done = alice.run(f"{PROVE} --nodelist gpu[1-2]")
    finally:
        alice.sandbox.exec("ctl", "scontrol update nodename=gpu2 state=resume")
    assert done.returncode == NOT_TESTED, done.stdout + done.stderr
    assert alice.report()["left_out"] == {"gpu2": "drained (fan)"}


def test_detached_run_survives_its_shell_and_report_wait_returns_its_exit_code(alice: User) -> None:
    assert alice.run(f"{PROVE} --nodes 1 --detach").returncode == 0
    assert alice.run("ls logs").returncode != 0
    done = alice.run("busbar report wait")
    assert "Verdict: " in done.stdout, done.stdout + done.stderr
    assert done.returncode == {"PASS": 0, "INCONCLUSIVE": INCONCLUSIVE}[alice.report()["verdict"]]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--partition nowhere", ["--partition: unknown partition 'nowhere'; use one of"]),
        ("--nodelist gpu99", ["--nodelist: gpu99 is not in partition"]),
        ("--nodes 99", ["--nodes: 99 requested, but partition batch has"]),
        ("--account nowhere", ["Invalid account", "--account"]),
        ("--qos nowhere", ["Invalid qos", "use another --qos", "AllowQos"]),
        ("--jobid 99999999", ["job 99999999 cannot be used"]),
    ],
)
def test_request_that_slurm_rejects_is_refused(alice: User, options: str, words: list[str]) -> None:
    done = alice.run(f"busbar prove --backend mpi {options}")
    assert (done.returncode, alice.jobs()) == (REFUSED, ""), done.stdout + done.stderr
    assert all(part in done.stderr for part in words), done.stderr


QOS = "qos normal set"
BATCH = "partition=$(sinfo -ho %P | tr -d '*')"


@dataclasses.dataclass(frozen=True)
class Limit:
    """A limit that forbids a job of two nodes: commands that set and clear it, and words of the message."""

    command: str
    undo: str
    words: list[str]


def by_sacctmgr(where: str, limit: str, *words: str) -> Limit:
    name, value = limit.rsplit("=", 1)
    assert value
    return Limit(f"sacctmgr -i modify {where} {limit}", f"sacctmgr -i modify {where} {name}=-1", [*words])


LIMITS = {
    "user": by_sacctmgr(
        QOS, "MaxTRESPerUser=node=1", "QOSMaxNodePerUserLimit of your QOS", "MaxTRESPU node=1 (the job needs 2)"
    ),
    "job": by_sacctmgr(QOS, "MaxTRESPerJob=node=1", "QOSMaxNodePerJobLimit of your QOS", "MaxTRESPJ node=1"),
    "account": by_sacctmgr(QOS, "MaxTRESPerAccount=node=1", "MaxNodePerAccount of your QOS", "MaxTRESPA node=1"),
    "group": by_sacctmgr(
        "account research set", "GrpTRES=gres/gpu=1", "AssocGrpGRES of your account", "GrpTRES gres/gpu=1", "research"
    ),
    "minutes": by_sacctmgr(
        "account research set", "GrpTRESMins=gres/gpu=9", "AssocGrpGRESMinutes of your account", "gres/gpu=9"
    ),
    "wall": by_sacctmgr(
        "user alice set", "MaxWall=10", "AssocMaxWallDurationPerJobLimit of your account", "MaxWallPJ 10", "--time"
    ),
    "jobs": by_sacctmgr("user alice set", "MaxJobs=0", "AssocMaxJobsLimit of your account", "MaxJobs 0"),
    "submit": by_sacctmgr("user alice set", "MaxSubmitJobs=0", "AssocMaxSubmitJobLimit of your account"),
    "deny": Limit(
        f"sacctmgr -i modify {QOS} Flags=DenyOnLimit MaxTRESPerUser=node=1",
        f"sacctmgr -i modify {QOS} Flags=-1 MaxTRESPerUser=node=-1",
        ["Slurm rejects the job", "QOSMaxNodePerUserLimit of your QOS"],
    ),
    "time": Limit(
        f"scontrol update {BATCH} MaxTime=10",
        f"scontrol update {BATCH} MaxTime=INFINITE",
        ["time limit is invalid", "lower --time", "MaxTime of the partition"],
    ),
    "nodes": Limit(
        f"scontrol update {BATCH} MaxNodes=1",
        f"scontrol update {BATCH} MaxNodes=UNLIMITED",
        ["Slurm rejects the job (--partition", "lower --nodes", "MaxNodes of the partition"],
    ),
    "groups": Limit(
        f"scontrol update {BATCH} AllowGroups=root",
        f"scontrol update {BATCH} AllowGroups=ALL",
        ["--partition: ", "AllowGroups of the partition"],
    ),
    "accounts": Limit(
        f"sacctmgr -i add account other; scontrol update {BATCH} AllowAccounts=other",
        f"scontrol update {BATCH} AllowAccounts=ALL; sacctmgr -i delete account other",
        ["Invalid account or account/partition", "AllowAccounts of the partition"],
    ),
}


@pytest.fixture
def limit(alice: User, request: pytest.FixtureRequest) -> Iterator[Limit]:
    """Set a limit in slurmctld; cleared at the end."""
    found = LIMITS[request.param]
    known = "scontrol -o show assoc_mgr flags=assoc,qos; scontrol -o show partition; sacctmgr -nP show qos"
    before = alice.sandbox.exec("ctl", known).stdout
    try:
        alice.sandbox.exec("ctl", found.command)
        alice.sandbox.wait_until(lambda: alice.sandbox.exec("ctl", known).stdout != before, "the limit is not set")
        yield found
    finally:
        alice.sandbox.exec("ctl", found.undo)


@pytest.mark.parametrize("limit", LIMITS, indirect=True)
def test_limit_that_forbids_the_job_is_reported_immediately(alice: User, limit: Limit) -> None:
    """The default of --wait is an hour; the message must appear without waiting."""
    done = alice.run("busbar prove --nodes 2 --time 60", timeout=60)
    assert (done.returncode, alice.jobs()) == (REFUSED, ""), done.stdout + done.stderr
    assert "ask the admin" in done.stderr
    assert all(part in done.stderr for part in limit.words), done.stderr


@pytest.mark.parametrize("limit", ["user"], indirect=True)
def test_limit_reached_by_another_job_of_the_user_is_waited_for(alice: User, limit: Limit) -> None:
    alice.run("sbatch --nodes=1 --output=/dev/null --wrap 'sleep 300'")
    alice.sandbox.wait_until(lambda: "alice RUNNING" in alice.jobs(), "the first job does not run")
    before = alice.jobs()
    done = alice.run(f"{PROVE} --nodes 1 --wait 5")
    assert done.returncode == INCONCLUSIVE, done.stdout + done.stderr
    assert limit.words[0] in done.stdout
    alice.sandbox.wait_until(lambda: alice.jobs() == before, "its job is left in the queue")
