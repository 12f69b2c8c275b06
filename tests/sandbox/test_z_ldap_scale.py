"""Tests of a directory of 10,000 users and 500 groups: login and job times, and a large group mapped to an account."""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING

import pytest
from ldap_directory import SUFFIX, by_key, given, person
from replayed_dcgm import write

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from conftest import Cluster

pytestmark = pytest.mark.proves("ldap_server", "sssd")

USERS, GROUPS, MEMBERS = 10_000, 500, 200
FIRST = 100_000
ROUNDS = 5
ONLY = ("--limit", "ctl", "--tags", "slurm_accounting")
# On shared cores any single time may be three times as long.
TIMES, SECONDS = 3, 2


def median(action: Callable[[], object]) -> float:
    """Return the median time of an action, in seconds."""
    times = []
    for _ in range(ROUNDS):
        began = time.monotonic()
        action()
        times.append(time.monotonic() - began)
    return statistics.median(times)


def group(number: int) -> str:
    members = "".join(f"memberUid: many{(number + GROUPS * i) % USERS}\n" for i in range(USERS // GROUPS))
    return f"dn: cn=group{number},ou=groups,{SUFFIX}\nobjectClass: posixGroup\ngidNumber: {FIRST + number}\n{members}\n"


@pytest.fixture(scope="module")
def measured(directory: Cluster, directory_key: Path) -> Iterator[tuple[Cluster, dict[str, tuple[float, float]]]]:
    """Return the directory with all users, and the times of each action without and with them."""

    def login() -> None:
        done = by_key(directory, "erin", directory_key)
        assert done.returncode == 0, done.stderr

    def job() -> None:
        directory.exec("login", "cd /tmp && sbatch --parsable --output=/dev/null --wrap true", user="alice")

    def look_up() -> None:
        directory.exec("ctl", "sss_cache -u erin; id erin")

    actions = {"login": login, "sbatch": job, "id": look_up}
    before = {name: median(action) for name, action in actions.items()}
    people = "".join(person(f"many{i}", FIRST + i, FIRST) for i in range(USERS))
    many = f"dn: cn=many,ou=groups,{SUFFIX}\nobjectClass: posixGroup\ngidNumber: {FIRST + USERS}\n"
    many += "".join(f"memberUid: many{i}\n" for i in range(MEMBERS)) + "\n"
    write(directory, "ctl", "/root/many.ldif", people + "".join(group(i) for i in range(GROUPS)) + many)
    load = "cp -a /var/lib/ldap /root/ldap && slapadd -q -f /etc/ldap/slapd.conf -l /root/many.ldif"
    try:
        directory.exec("ctl", f"systemctl stop slapd && {load} && chown -R openldap: /var/lib/ldap", timeout=300)
        directory.exec("ctl", "systemctl start slapd")
        directory.wait_until(lambda: serves(directory), "the directory does not serve the new users", 120)
        after = {name: median(action) for name, action in actions.items()}
        yield directory, {name: (before[name], after[name]) for name in actions}
    finally:
        back = "rm -rf /var/lib/ldap && mv /root/ldap /var/lib/ldap"
        directory.exec("ctl", f"systemctl stop slapd; [ ! -e /root/ldap ] || {{ {back}; }}; systemctl start slapd")
        directory.exec("ctl", "rm -f /root/many.ldif")


def serves(directory: Cluster) -> bool:
    """Return whether sssd has reconnected to the directory on the queried nodes."""
    ask = f"id many{USERS - 1}"
    return all(directory.exec(node, ask, check=False).returncode == 0 for node in ("ctl", "login"))


def test_logins_and_jobs_are_not_slower(
    measured: tuple[Cluster, dict[str, tuple[float, float]]], record_property: Callable[[str, object], None]
) -> None:
    _, times = measured
    for name, (without, many) in times.items():
        record_property(name, f"{without:.2f} s, with all {many:.2f} s")
    slower = {name: pair for name, pair in times.items() if pair[1] > TIMES * pair[0] + SECONDS}
    assert slower == {}


def test_large_group_gets_its_account_in_one_run(
    measured: tuple[Cluster, dict[str, tuple[float, float]]], record_property: Callable[[str, object], None]
) -> None:
    directory, _ = measured
    declared = {
        "slurm_accounts": [{"name": "research", "description": "Research"}, {"name": "many"}],
        "slurm_account_groups": [{"group": "many", "account": "many"}],
    }
    try:
        began = time.monotonic()
        done = directory.playbook("slurm.yml", *ONLY, *given(**declared))
        assert done.returncode == 0, done.stdout + done.stderr
        first = time.monotonic() - began
        began = time.monotonic()
        assert directory.exec("ctl", "busbar-account-groups").stdout == "0 of 0 changes\n"
        record_property("seconds", f"{first:.1f} of the run, {time.monotonic() - began:.1f} of a comparison")
        users = directory.exec("ctl", "sacctmgr -nP show associations account=many format=User").stdout.split()
        assert len(users) == MEMBERS
    finally:
        directory.playbook("slurm.yml", *ONLY, *given(slurm_accounts=declared["slurm_accounts"]))
        gone = "sacctmgr -i delete user where account=many; sacctmgr -i delete account many"
        directory.exec("ctl", f"{gone}; rm -rf /var/lib/busbar-account-groups", check=False, timeout=300)
