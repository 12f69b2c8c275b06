"""Tests of the portal with 200 concurrent users: one squeue serves all, and the hub's CPU load is low."""

from __future__ import annotations

import json
import re
import statistics
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from portal_session import Answer, Session

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator

    from conftest import Cluster

pytestmark = [pytest.mark.proves("jupyterhub"), pytest.mark.rate]

OK = 200
USERS, AT_ONCE, FIRST = 200, 20, 30_000
WINDOW_S = 60
PASSWORD = "one of many"  # noqa: S105 - of users that the test makes and removes
NAMES = [f"many{number}" for number in range(USERS)]
MAKE = f"""
hash='%s'
for number in $(seq 0 {USERS - 1}); do
    useradd -M -N -g users -u $(({FIRST} + number)) -s /bin/bash -d /shared/home/many$number -p "$hash" many$number
done
"""
HOMES = f"for name in {' '.join(NAMES)}; do install -d -m 700 -o $name /shared/home/$name; done"


class Member(Session):
    """One of many sessions; all share the connection settings of the first."""

    def __init__(self, first: Session, name: str) -> None:
        """Start without cookies."""
        self.name = name
        self.host, self.base, self.context = first.host, first.base, first.context
        self.start()

    def enter(self) -> Answer:
        """Log in."""
        return self.login(self.name, PASSWORD)

    def asks(self) -> Answer:
        """Request a notebook; the form returns when the job is in the queue, or after ten seconds."""
        return self.spawn(self.name)


@pytest.fixture
def crowd(portal: Cluster, again: Callable[..., subprocess.CompletedProcess[str]]) -> Iterator[list[Member]]:
    """Return the sessions of 200 users who have logged in."""
    done = again("-e", "jupyterhub_logins_per_minute=100000")
    assert done.returncode == 0, done.stdout
    hashed = portal.exec("login", f"openssl passwd -6 '{PASSWORD}'").stdout.strip()
    hosts = ("ctl", "login", *portal.compute)
    for host in hosts:
        portal.exec(host, MAKE.replace("%s", hashed))
    portal.exec("ctl", HOMES)
    portal.exec("ctl", f"sacctmgr -iQ add user {','.join(NAMES)} account=research")
    first = Session(portal)
    members = [Member(first, name) for name in NAMES]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        entered = list(pool.map(Member.enter, members))
    try:
        assert [one.status for one in entered] == [OK] * USERS
        yield members
    finally:
        portal.exec("ctl", "scancel --name=busbar-notebook")
        portal.wait_until(lambda: not portal.exec("ctl", "squeue -h -n busbar-notebook").stdout, "jobs stay", 180)
        portal.exec("ctl", f"sacctmgr -iQ delete user {','.join(NAMES)}")
        for host in hosts:
            portal.exec(host, f"for name in {' '.join(NAMES)}; do userdel $name; done", check=False)
        portal.exec("ctl", "rm -rf /shared/home/many*")


def asked(portal: Cluster) -> int:
    """Return the number of job queries that Slurm has received."""
    said = portal.exec("ctl", "sdiag").stdout
    return sum(int(count) for count in re.findall(r"REQUEST_JOB_INFO\s.*count:(\d+)", said))


def cpu_s(portal: Cluster) -> float:
    """Return the CPU time of the hub and its finished child processes."""
    read = "awk '{print $14 + $15 + $16 + $17}' /proc/$(systemctl show -P MainPID busbar-portal-hub)/stat"
    return int(portal.exec("login", read).stdout) / int(portal.exec("login", "getconf CLK_TCK").stdout)


def timed(action: Callable[[Member], Answer], member: Member) -> tuple[float, Answer]:
    began = time.monotonic()
    answer = action(member)
    return time.monotonic() - began, answer


def test_slurm_queries_for_200_waiting_users_are_as_few_as_for_one(portal: Cluster, crowd: list[Member]) -> None:
    began, before = time.monotonic(), cpu_s(portal)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        forms = list(pool.map(lambda one: timed(Member.asks, one), crowd))
    assert {answer.status for _, answer in forms} == {OK}
    portal.wait_until(
        lambda: portal.exec("ctl", "squeue -h -n busbar-notebook -o %u").stdout.count("many") >= USERS - 4,
        "not all notebooks are in the queue",
        300,
    )
    stormed, storm_cpu = time.monotonic() - began, cpu_s(portal) - before

    asked_before, before, began = asked(portal), cpu_s(portal), time.monotonic()
    pages = []
    with ThreadPoolExecutor(AT_ONCE) as pool:
        while time.monotonic() - began < WINDOW_S:
            pages += list(pool.map(lambda one: timed(lambda who: who.ask("/hub/jobs"), one), crowd[:AT_ONCE]))
    passed = time.monotonic() - began
    calls, cpu = (asked(portal) - asked_before) * 60 / passed, (cpu_s(portal) - before) / passed
    assert {answer.status for _, answer in pages} == {OK}
    figures = {
        "seconds until 200 notebooks are in the queue": round(stormed, 1),
        "CPU seconds of that": round(storm_cpu, 1),
        "median seconds of a form": round(statistics.median(took for took, _ in forms), 2),
        "squeue calls per minute": round(calls, 1),
        "CPUs of the hub": round(cpu, 2),
        "pages of jobs per second": round(len(pages) / passed, 1),
        "median seconds of a page": round(statistics.median(took for took, _ in pages), 2),
    }
    sys.stdout.write(f"{json.dumps(figures, indent=2)}\n")
    # One query every five seconds for notebooks, one every ten for the page, a few for the cluster's own metrics.
    assert calls < 30, figures
    assert cpu < 1, figures
