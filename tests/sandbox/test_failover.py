"""Tests of failover: with two controllers and two slurmdbd, failures of daemons and links lose or pause no job."""

from __future__ import annotations

import contextlib
import itertools
import json
import re
import time
from typing import TYPE_CHECKING

import pytest
from conftest import Cluster, recap

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = [pytest.mark.proves("slurm", "mariadb")]

# slurmctld saves its queue this long after a change and checks each second (SAVE_MAX_WAIT and SAVE_COUNT_DELAY of its
# state_save.c): jobs accepted in the seconds before its death may be lost.
SAVES_S = 5 + 1
# As configured by `busbar sandbox up --controllers 2`.
TAKEOVER_S = 15
PAUSE_S = 10
# No job without output lasts this long. After BatchStartTimeout and MessageTimeout, 20 s together, slurmctld considers
# a job lost if its node does not have it.
LONG_S = 60
LINES, GO, LOOP, SENT = "/shared/runs.txt", "/shared/go-on", "/shared/submit", "/shared/submitted.txt"
RUNS = f"while [ -e {GO} ]; do date +%s; sleep 1; done"
# The last one occurs if the controller dies during the request.
REFUSED = "Socket timed out|Unable to contact slurm controller|Connection reset by peer"
SUBMITS = f"""#!/bin/bash
while [ -e {LOOP} ]; do
    name=n$(date +%s%N)
    sbatch --parsable --job-name="$name" --mem=16 -n1 -o /dev/null --wrap true >/dev/null && echo "$name" >>{SENT}
    sleep 1
done
"""


@pytest.fixture(scope="module")
def cluster(sandbox_name: str) -> Iterator[Cluster]:
    """Return a sandbox with two controllers, and a job that runs during all failures."""
    one = Cluster(f"{sandbox_name}-failover")
    made = one.busbar("sandbox", "up", "--name", one.name, "--controllers", "2")
    assert made.returncode == 0, made.stderr
    done = one.busbar("provision", "--sandbox", "--name", one.name, "-e", "validation_stages=node")
    assert done.returncode == 0, done.stdout + done.stderr
    one.exec("login", f"touch {GO}; cat >/shared/submit.sh <<'END'\n{SUBMITS}END", user="alice")
    one.exec("login", f"sbatch --job-name=runs --mem=64 -o {LINES} --wrap '{RUNS}'", user="alice")
    one.wait_until(lambda: "RUNNING" in one.exec("login", "squeue -h -n runs -o %T").stdout, "the job does not start")
    yield one
    gone = one.busbar("sandbox", "down", "--name", one.name)
    assert gone.returncode == 0, gone.stderr


def controllers(one: Cluster, node: str = "login") -> list[str]:
    """Return the state of each controller in one word, the primary first."""
    return re.findall(r" is (UP|DOWN)", one.exec(node, "scontrol ping", check=False, timeout=90).stdout)


def accounted(one: Cluster) -> dict[str, set[str]]:
    """Return all states of each job by name: a slurmctld that died before saving its state may reuse a job ID."""
    states: dict[str, set[str]] = {}
    for line in one.exec("login", "sacct -a -D -nX -P -o JobName,State", timeout=90).stdout.splitlines():
        name, state = line.rsplit("|", 1)
        states.setdefault(name, set()).add(state)
    return states


def sent(one: Cluster) -> list[str]:
    """Return the names of the jobs that sbatch accepted; each contains its submission time in nanoseconds."""
    return one.exec("login", f"cat {SENT}", check=False).stdout.split()


def asked_at(name: str) -> float:
    return int(name[1:]) / 1e9


@contextlib.contextmanager
def submitting(one: Cluster, refused: str = REFUSED) -> Iterator[dict[str, float]]:
    """Submit a job each second as alice within the context; check at the end that each was run and accounted.

    After killing slurmctld, set `killed` to the time: jobs accepted just before may be lost. `refused` matches the
    errors of sbatch for jobs that it may reject.
    """
    one.exec(
        "login", f"rm -f {SENT}; touch {LOOP}; setsid bash /shared/submit.sh >/shared/submit.log 2>&1 &", user="alice"
    )
    one.wait_until(lambda: len(sent(one)) >= 2 * SAVES_S, "nothing is submitted", 120)
    what = {"killed": 0.0}
    yield what
    before = len(sent(one))
    one.wait_until(lambda: len(sent(one)) > before, "nothing is submitted any more", 120)
    one.exec("login", f"rm {LOOP}", user="alice")
    one.wait_until(lambda: "submit.sh" not in one.exec("login", "ps -eo args").stdout, "the loop goes on", 120)
    # sbatch reports rejected jobs, and the user submits again.
    for line in one.exec("login", "cat /shared/submit.log").stdout.splitlines():
        assert re.search(refused, line), line
    jobs = [name for name in sent(one) if not -SAVES_S - 1 < asked_at(name) - what["killed"] <= 0]

    def ended() -> bool:
        states = accounted(one)
        return all(states.get(name) == {"COMPLETED"} for name in jobs)

    one.wait_until(
        lambda: seen_to(one, what["killed"]) and ended(), "not all that was submitted is accounted as completed", 480
    )


def seen_to(one: Cluster, killed: float) -> bool:
    """Follow docs/backup.md#two-controllers after a slurmctld died; return whether there was nothing to do."""
    listed = one.exec("login", "sinfo -hN -t drain -o '%N %E'", check=False, timeout=90).stdout.splitlines()
    drained = dict(line.split(maxsplit=1) for line in listed) if killed else {}
    for node, reason in drained.items():
        assert reason == "Duplicate jobid", node
        one.exec("login", f"scontrol update nodename={node} state=resume", check=False, timeout=90)
    missed = forgotten(one, killed) if killed and time.time() - killed > LONG_S else set()
    for node in missed:
        one.exec(node, "systemctl restart slurmd")
    return not drained and not missed


def forgotten(one: Cluster, killed: float) -> set[str]:
    """Return nodes of short jobs that still run although the slurmctld that started them died long ago."""
    listed = one.exec("login", "squeue -h -t R -o '%j %N'", check=False, timeout=90).stdout.splitlines()
    jobs = [line.split() for line in listed if re.match(r"n\d+ ", line)]
    return {node for name, node in jobs if asked_at(name) < killed}


def is_unbroken(one: Cluster, lines: str = LINES) -> None:
    """Check that the job writes and never paused. A restarted job misses more seconds than a busy machine does."""
    times = [int(line) for line in one.exec("login", f"cat {lines}").stdout.split()]
    assert max(after - before for before, after in itertools.pairwise(times)) <= PAUSE_S
    assert time.time() - times[-1] <= PAUSE_S


def test_both_controllers_run_with_one_database(cluster: Cluster) -> None:
    assert controllers(cluster) == ["UP", "UP"]
    assert "nohold_on_prolog_fail" in cluster.exec("ctl", "scontrol show config | grep SchedulerParameters").stdout
    assert cluster.exec("ctl2", "systemctl is-active slurmctld slurmdbd").stdout.split() == ["active", "active"]
    assert cluster.exec("login", "systemctl is-active slurmdbd mariadb").stdout.split() == ["active", "active"]
    for node, package in (("ctl", "slurmdbd"), ("ctl", "mariadb-server"), ("ctl2", "mariadb-server")):
        assert cluster.exec(node, f"dpkg -l {package}", check=False).returncode != 0, (node, package)
    assert "ctl,ctl2" in cluster.exec("login", "ps -eo args | grep [s]ackd").stdout.replace(":6817", "")
    for playbook in ("slurm.yml", "monitoring.yml"):
        done = cluster.playbook(playbook)
        assert done.returncode == 0, done.stdout[-3000:]
        assert {counts["changed"] for counts in recap(done.stdout).values()} == {0}, done.stdout[-3000:]


def test_unmounted_state_directory_is_refused_before_any_change(cluster: Cluster) -> None:
    for given, told in (
        ({"slurm_state_directory": "/srv/nowhere/state"}, "is on the root file system (expected"),
        ({"slurm_state_shared": False}, "its directory is not declared as shared"),
    ):
        done = cluster.playbook("slurm.yml", "--limit", "slurm_controller", "-e", json.dumps(given))
        said = " ".join((done.stdout + done.stderr).split())
        assert (done.returncode, told in said) == (2, True), said[-3000:]
        assert {counts["changed"] for counts in recap(done.stdout).values()} == {0}
    assert cluster.exec("ctl", "ls /srv").stdout == ""


def test_killed_slurmctld_restarts_with_all_jobs(cluster: Cluster) -> None:
    with submitting(cluster) as what:
        cluster.exec("ctl", "systemctl kill -s KILL slurmctld")
        what["killed"] = time.time()
        cluster.wait_until(lambda: controllers(cluster) == ["UP", "UP"], "the primary does not come back", 60)
    is_unbroken(cluster)


def test_second_slurmdbd_answers_while_the_first_is_stopped(cluster: Cluster) -> None:
    def answers() -> bool:
        return cluster.exec("login", "sacctmgr -nP show cluster", check=False, timeout=90).returncode == 0

    cluster.exec("login", "systemctl stop slurmdbd")
    try:
        cluster.wait_until(answers, "no slurmdbd answers", 120)
        cluster.exec("login", "srun --job-name=second --mem=16 true", user="alice")
        ended = lambda: accounted(cluster).get("second") == {"COMPLETED"}  # noqa: E731
        cluster.wait_until(ended, "the job is not accounted", 60)
    finally:
        cluster.exec("login", "systemctl start slurmdbd")
    back = "ss -Hltn sport = :6819"
    cluster.wait_until(lambda: cluster.exec("ctl2", back).stdout == "", "the second one does not step back", 120)
    cluster.wait_until(answers, "no slurmdbd answers", 60)


def test_broken_link_between_controllers_causes_no_second_primary(cluster: Cluster) -> None:
    address = cluster.exec("ctl", "hostname -I").stdout.split()[0]
    chain = "add chain ip cut in { type filter hook input priority 0; }"
    cut = f"nft add table ip cut; nft '{chain}'; nft add rule ip cut in ip saddr {address} drop"
    cluster.exec("ctl2", "command -v nft >/dev/null || apt-get install -qq -y nftables >/dev/null", timeout=120)
    mark = cluster.exec("ctl2", "date '+%F %T'").stdout.strip()
    with submitting(cluster):
        cluster.exec("ctl2", cut)
        try:
            said = f"journalctl -u slurmctld --since '{mark}' -o cat; cat /var/log/slurm/slurmctld.log"
            began = time.monotonic()
            # Longer than a takeover takes; there is no condition to wait for, because nothing must happen.
            while time.monotonic() - began < 3 * TAKEOVER_S:
                assert controllers(cluster)[0] == "UP"
                assert cluster.exec("login", "squeue -h -n runs -o %T").stdout == "RUNNING\n"
                time.sleep(2)
            assert "taking over" not in cluster.exec("ctl2", said, check=False).stdout.lower()
        finally:
            cluster.exec("ctl2", "nft delete table ip cut")
    is_unbroken(cluster)


def test_backup_takes_over_after_power_failure_of_the_primary(
    cluster: Cluster, record_property: Callable[[str, object], None]
) -> None:
    def later() -> list[str]:
        return [name for name in sent(cluster) if asked_at(name) > what["killed"]]

    def since() -> int:
        return round(time.time() - what["killed"])

    def ran() -> bool:
        states = accounted(cluster)
        return any(states.get(name) == {"COMPLETED"} for name in later())

    with submitting(cluster) as what:
        cluster.fault("pull", "ctl")
        what["killed"] = time.time()
        cluster.wait_until(lambda: later() != [], "the backup takes no job", 8 * TAKEOVER_S)
        record_property("first job taken after, s", since())
        assert controllers(cluster) == ["DOWN", "UP"]
        # Each request to slurmctld first waits TCPTimeout seconds for the dead primary, so a job takes longer.
        cluster.wait_until(
            lambda: seen_to(cluster, what["killed"]) and ran(), "no job that the backup took has run", 20 * TAKEOVER_S
        )
        record_property("first of them had run after, s", since())
        is_unbroken(cluster)
        cluster.fault("heal")
        cluster.wait_until(lambda: controllers(cluster) == ["UP", "UP"], "the primary does not come back", 180)
    record_property("jobs submitted", len(sent(cluster)))
    is_unbroken(cluster)


def test_job_that_just_started_before_a_power_failure_restarts_automatically(
    cluster: Cluster, record_property: Callable[[str, object], None]
) -> None:
    """The queue was saved before the job started: the backup starts it again, and slurmd, which has it, may refuse."""
    for name, options in (("blocks", "--exclusive"), ("begins", "--mem=16")):
        submit = f"sbatch --job-name={name} -w gpu2 {options} -o /dev/null --wrap 'sleep 20'"
        cluster.exec("login", submit, user="alice")
    began = lambda: cluster.exec("ctl", "squeue -h -n begins -o %T").stdout == "RUNNING\n"  # noqa: E731
    cluster.wait_until(began, "the job does not begin", 120)
    cluster.fault("pull", "ctl")
    killed = time.time()

    def ended() -> bool:
        waits = cluster.exec("login", "squeue -h -n begins -o '%T %r'", timeout=90).stdout
        assert "held" not in waits
        return waits == "" and "COMPLETED" in accounted(cluster)["begins"]

    try:
        # The backup does not answer before the takeover.
        cluster.wait_until(lambda: controllers(cluster) == ["DOWN", "UP"], "the backup does not take over", 120)
        cluster.wait_until(lambda: seen_to(cluster, killed) and ended(), "the job does not end well", 480)
        record_property("ended after, s", round(time.time() - killed))
    finally:
        cluster.fault("heal")
    cluster.wait_until(lambda: controllers(cluster) == ["UP", "UP"], "the primary does not come back", 180)
    cluster.wait_until(lambda: seen_to(cluster, killed), "a node stays drained")
    is_unbroken(cluster)


def test_job_that_ran_during_all_failures_completes(cluster: Cluster) -> None:
    is_unbroken(cluster)
    cluster.exec("login", f"rm {GO}", user="alice")
    cluster.wait_until(lambda: accounted(cluster)["runs"] == {"COMPLETED"}, "the job does not end well", 60)


def test_plain_run_after_all_failures_changes_nothing(cluster: Cluster) -> None:
    done = cluster.playbook("slurm.yml")
    assert done.returncode == 0, done.stdout[-3000:]
    assert {counts["changed"] for counts in recap(done.stdout).values()} == {0}, done.stdout[-3000:]
