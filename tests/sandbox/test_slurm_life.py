"""Tests that jobs survive changes of the configuration and restarts of the daemons."""

from __future__ import annotations

import contextlib
import json
import shlex
from typing import TYPE_CHECKING

import pytest
from conftest import recap
from test_slurm_jobs import submit, wait_for_state

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import Cluster

pytestmark = pytest.mark.proves("slurm")


@pytest.fixture
def running_job(sandbox: Cluster) -> Iterator[str]:
    """Return the ID of a job that runs on gpu1; cancelled at the end."""
    job = submit(sandbox, "-w gpu1 --mem=100 -o /dev/null", "sleep 600")
    wait_for_state(sandbox, job, "RUNNING")
    yield job
    sandbox.exec("ctl", f"scancel {job}", check=False)
    sandbox.wait_idle()


def job_facts(sandbox: Cluster, job: str) -> tuple[str, str, str]:
    """Return state, restarts and start time of a job from slurmctld."""
    shown = sandbox.exec("ctl", f"scontrol show job -o {job}").stdout.split()
    facts = dict(word.split("=", 1) for word in shown if "=" in word)
    return facts["JobState"], facts["Restarts"], facts["StartTime"]


def main_pid(sandbox: Cluster, node: str, service: str) -> str:
    """Return the main process ID of a service."""
    return sandbox.exec(node, f"systemctl show --value -p MainPID {service}").stdout.strip()


def is_up(sandbox: Cluster) -> bool:
    """Return whether slurmctld answers."""
    return "is UP" in sandbox.exec("ctl", "scontrol ping", check=False).stdout


def configured(sandbox: Cluster, node: str, key: str) -> str:
    """Return the value of a key according to the commands on a node."""
    shown = sandbox.exec(node, "scontrol show config").stdout.splitlines()
    return next(line.split("=", 1)[1].strip() for line in shown if line.split("=")[0].strip() == key)


def test_change_is_reconfigured_and_jobs_continue(sandbox: Cluster, running_job: str) -> None:
    before = job_facts(sandbox, running_job)
    old = configured(sandbox, "ctl", "MinJobAge")
    try:
        done = sandbox.playbook("slurm.yml", "-e", '{"slurm_config": {"MinJobAge": 421}}', "--limit", "ctl")
        assert done.returncode == 0, done.stdout
        assert recap(done.stdout).keys() == {"ctl"}
        for node in ("ctl", "login", "gpu1"):
            assert configured(sandbox, node, "MinJobAge") == "421 sec"
        sandbox.wait_until(
            lambda: "MinJobAge=421" in sandbox.exec("gpu1", "cat /run/slurm/conf/slurm.conf").stdout, "gpu1 is not told"
        )
        assert "skipping: [ctl]" in done.stdout.split("apply | Restart slurmctld]")[1].split("TASK")[0]
        assert job_facts(sandbox, running_job) == before
    finally:
        assert sandbox.playbook("slurm.yml", "--limit", "ctl").returncode == 0
    assert configured(sandbox, "ctl", "MinJobAge") == old
    assert job_facts(sandbox, running_job) == before


def test_run_that_died_after_writing_is_completed_by_the_next(sandbox: Cluster) -> None:
    path, note = "/etc/slurm/slurm.conf", "/var/lib/busbar/slurm/slurmctld"
    change = ("slurm.yml", "-e", '{"slurm_config": {"MinJobAge": 422}}', "--limit", "ctl")
    old, old_text = configured(sandbox, "ctl", "MinJobAge"), sandbox.exec("ctl", f"cat {path}").stdout
    try:
        assert sandbox.playbook(*change).returncode == 0
        new_text = sandbox.exec("ctl", f"cat {path}").stdout
        sandbox.exec("ctl", f"echo {shlex.quote(old_text.rstrip())} > {path} && systemctl restart slurmctld")
        sandbox.wait_until(lambda: is_up(sandbox), "slurmctld does not answer")
        assert configured(sandbox, "ctl", "MinJobAge") == old
        noted = shlex.quote(json.dumps({path: old_text}))
        sandbox.exec("ctl", f"echo {shlex.quote(new_text.rstrip())} > {path} && echo {noted} > {note}")
        done = sandbox.playbook(*change)
        assert done.returncode == 0, done.stdout
        assert configured(sandbox, "ctl", "MinJobAge") == "422 sec"
        assert sandbox.exec("ctl", f"ls {note}", check=False).returncode != 0
    finally:
        assert sandbox.playbook("slurm.yml", "--limit", "ctl").returncode == 0
    assert configured(sandbox, "ctl", "MinJobAge") == old


def test_job_survives_a_restart_of_slurmctld(sandbox: Cluster, running_job: str) -> None:
    before = job_facts(sandbox, running_job)
    sandbox.exec("ctl", "systemctl restart slurmctld")
    sandbox.wait_until(lambda: is_up(sandbox), "slurmctld does not answer")
    assert job_facts(sandbox, running_job) == before


def test_job_survives_a_restart_of_slurmd(sandbox: Cluster, running_job: str) -> None:
    before = job_facts(sandbox, running_job)
    sandbox.exec("gpu1", "systemctl restart slurmd")
    sandbox.wait_until(lambda: sandbox.node_states()["gpu1"] == "mix", "gpu1 does not come back")
    assert job_facts(sandbox, running_job) == before


def test_killed_slurmctld_restarts_with_its_queue(sandbox: Cluster, running_job: str) -> None:
    old = main_pid(sandbox, "ctl", "slurmctld")
    name = f"outlives-{old}"
    held = submit(sandbox, f"--hold --mem=100 -J {name} -o /dev/null", "true")
    before = job_facts(sandbox, running_job)
    # slurmctld saves its queue to disk a few seconds after a change.
    saved = f"grep -qa {name} /var/lib/slurm/slurmctld/job_state"
    sandbox.wait_until(
        lambda: sandbox.exec("ctl", saved, check=False).returncode == 0, "slurmctld does not save its queue"
    )
    sandbox.exec("ctl", "systemctl kill -s KILL slurmctld")
    sandbox.wait_until(lambda: is_up(sandbox) and main_pid(sandbox, "ctl", "slurmctld") != old, "slurmctld stays dead")
    assert job_facts(sandbox, running_job) == before
    assert job_facts(sandbox, held)[0] == "PENDING"
    sandbox.exec("login", f"scontrol release {held}", user="alice")
    wait_for_state(sandbox, held, "COMPLETED")


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ('{"slurm_config": {"SchedulerTypo": "x"}}', "did you mean SchedulerType?"),
        # Valid in other releases only: Slurm itself rejects it before the old file is replaced.
        ('{"slurm_config": {"SlurmctldPlugstack": "x"}}', "unrecognized key: SlurmctldPlugstack"),
        ('{"slurm_config": {"SchedulerType": "sched/nope"}}', "the previous one is active again"),
        ('{"slurm_config": {"SelectType": "select/nosuch"}}', "select/nosuch"),
        ('{"slurm_partitions": [{"name": "p", "nodes": "gpu[7-9]"}]}', "gpu[7-9]"),
        ('{"slurm_config": {"SlurmctldParameters": ""}}', "enable_configless"),
        ('{"users_accounts": [{"name": "alice", "slurm": {"account": "nope"}}]}', "account nope, which is not"),
        ('{"slurm_users": [{"name": "alice", "accounts": ["research"]}]}', "was merged into users_accounts"),
    ],
)
@pytest.mark.fault(
    "a configuration that Slurm refuses",
    says="the previous one is active again",
    heals="the former configuration is restored at once; correct the option",
)
def test_bad_configuration_is_refused_and_the_previous_one_stays_active(
    sandbox: Cluster, running_job: str, config: str, says: str
) -> None:
    good = sandbox.exec("ctl", "cat /etc/slurm/slurm.conf").stdout
    done = sandbox.playbook("slurm.yml", "-e", config, "--limit", "ctl")
    assert done.returncode != 0
    assert says in " ".join(done.stdout.split())
    # Errors of an earlier attempt in the journal are not reported.
    assert "sched/nope" in config or "sched/nope" not in done.stdout
    assert sandbox.exec("ctl", "cat /etc/slurm/slurm.conf").stdout == good
    sandbox.wait_until(lambda: is_up(sandbox), "slurmctld does not answer")
    assert job_facts(sandbox, running_job)[0] == "RUNNING"


def test_dead_slurmd_restarts_automatically(sandbox: Cluster) -> None:
    old = main_pid(sandbox, "gpu1", "slurmd")
    sandbox.exec("gpu1", "systemctl kill --kill-whom=main -s KILL slurmd")
    sandbox.wait_until(
        lambda: main_pid(sandbox, "gpu1", "slurmd") not in {old, "0"} and sandbox.node_states()["gpu1"] == "idle",
        "slurmd stays dead",
    )


@pytest.mark.fault(
    "a slurmd that does not register",
    says="compute nodes are not ready: gpu2: down",
    heals="start slurmd, or the next run",
)
def test_unresponsive_node_is_reported(sandbox: Cluster) -> None:
    sandbox.exec("gpu2", "systemctl stop slurmd")
    try:
        sandbox.exec("ctl", "scontrol update nodename=gpu2 state=down reason='pulled for a test'")
        arguments = ("--tags", "slurm_verify", "-e", "__slurm_registration_timeout=2")
        done = sandbox.playbook("slurm.yml", *arguments)
        assert done.returncode != 0
        assert f"1 of {len(sandbox.compute)} compute nodes are not ready: gpu2: down" in " ".join(done.stdout.split())
        assert "pulled for a test" in done.stdout
    finally:
        sandbox.exec("gpu2", "systemctl start slurmd")
        sandbox.exec("ctl", "scontrol update nodename=gpu2 state=resume", check=False)
    sandbox.wait_idle()


def test_limit_to_one_node_leaves_the_others_alone(sandbox: Cluster, running_job: str) -> None:
    pids = {node: main_pid(sandbox, node, "slurmd") for node in sandbox.compute}
    done = sandbox.playbook("slurm.yml", "--limit", "gpu2")
    assert done.returncode == 0, done.stdout
    assert recap(done.stdout).keys() == {"gpu2"}
    assert recap(done.stdout)["gpu2"]["changed"] == 0
    assert {node: main_pid(sandbox, node, "slurmd") for node in sandbox.compute} == pids
    assert job_facts(sandbox, running_job)[0] == "RUNNING"


@contextlib.contextmanager
def stopped(sandbox: Cluster, node: str, service: str) -> Iterator[None]:
    """Stop a service within the context."""
    sandbox.exec(node, f"systemctl stop {service}")
    try:
        yield
    finally:
        sandbox.exec(node, f"systemctl start {service}")


def test_stopped_service_is_started_by_the_next_run(sandbox: Cluster) -> None:
    with stopped(sandbox, "gpu1", "slurmd"):
        done = sandbox.playbook("slurm.yml", "--limit", "gpu1")
        assert done.returncode == 0, done.stdout
        assert recap(done.stdout)["gpu1"]["changed"] == 1
    sandbox.wait_idle()


def test_end_of_a_job_does_not_kill_processes_of_another_job_of_the_user(sandbox: Cluster) -> None:
    """Remaining processes of a job are killed with it; processes of the user's other job on the node are not."""
    sandbox.wait_idle()
    # Processes outside of the job's session and process group, distinguished by their arguments.
    left = "setsid --fork sleep {mark}; sleep 600"
    marks = ("86401", "86402")
    jobs = [submit(sandbox, "-w gpu1 --mem=64 -n1 -o /dev/null", left.format(mark=mark)) for mark in marks]

    def runs(mark: str) -> bool:
        return sandbox.exec("gpu1", f"pgrep -u alice -x -f 'sleep {mark}'", check=False).returncode == 0

    try:
        sandbox.wait_until(lambda: all(map(runs, marks)), "the jobs do not start")
        first, second = jobs
        sandbox.exec("ctl", f"scancel {first}")
        sandbox.wait_until(lambda: not runs(marks[0]), "what the job left behind goes on")
        wait_for_state(sandbox, first, "CANCELLED")
        assert runs(marks[1])
        assert job_facts(sandbox, second)[:2] == ("RUNNING", "0")
    finally:
        sandbox.exec("ctl", f"scancel {' '.join(jobs)}", check=False)
    sandbox.wait_until(lambda: not runs(marks[1]), "what the second job left behind goes on")
    sandbox.wait_idle()
