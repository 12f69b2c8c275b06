"""Which host of a MariaDB cluster starts it, if any: pure decisions over what each host says of itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypedDict

from ..common.problems import Problem, make_problem

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = [
    "NOT_COUNTED",
    "Member",
    "Plan",
    "Position",
    "cluster_plan",
    "options_problems",
    "parse_position",
    "parse_state",
]

_HOSTS = 3
_NO_CLUSTER = "00000000-0000-0000-0000-000000000000"
_UNKNOWN = -1
# Counting repairs the data of a host that was killed, so a look does without.
NOT_COUNTED = -2
_DAY_S = 86400
_OWN_HOST = {"", "localhost", "127.0.0.1", "::1"}


class Position(NamedTuple):
    """Up to which transaction of which cluster a host has everything; -1 where nobody can say."""

    cluster: str
    transaction: int


class Member(TypedDict):
    """What a host says of itself.

    `running` is whether mariadbd runs, `cluster` the one whose majority it belongs to right now, empty for none.
    `was_in` is the cluster of which it has data, empty for none and where it has gone on outside of any, `transaction`
    how far these go, -1 where unknown, and `left_last` whether it was the last one to stop in order. `databases` are
    those that nobody else has; `alone` says that it runs outside of any cluster. `saved_s` is the age of its newest
    snapshot, -1 for none.
    """

    running: bool
    alone: bool
    cluster: str
    was_in: str
    transaction: int
    left_last: bool
    databases: list[str]
    saved_s: int


class Plan(TypedDict):
    """The host that is to start the cluster, empty for none, and why nothing may be done."""

    first: str
    problems: list[Problem]


def options_problems(hosts: Sequence[str], storage_host: str) -> list[Problem]:
    """Return what keeps the hosts of a cluster from forming one, whatever they have.

    Args:
        hosts: the group slurm_database.
        storage_host: `slurm_database_storage_host` of the site, empty where it sets none.
    """
    problems = []
    if len(hosts) != _HOSTS:
        problem = f"needs {_HOSTS} hosts in slurm_database, and {len(hosts)} are in it ({', '.join(hosts)})"
        remedy = (
            f"put {_HOSTS} into the group: two have no majority when one is gone, and more make every write slower; "
            "or leave mariadb_cluster out, for one database"
        )
        problems.append(make_problem(hosts, "mariadb_cluster", problem, remedy))
    if storage_host not in _OWN_HOST:
        problem = f"names {storage_host} as the database, which would leave the cluster unused"
        remedy = "leave it out: each slurmdbd asks MariaDB on its own host; or leave mariadb_cluster out"
        problems.append(make_problem(hosts, "slurm_database_storage_host", problem, remedy))
    return problems


def parse_state(text: str) -> tuple[str, int, bool]:
    """Return cluster, transaction and safe_to_bootstrap of a grastate.dat; no cluster where it names none."""
    values = {}
    for line in text.splitlines():
        key, colon, value = line.partition(":")
        if colon and not line.startswith("#"):
            values[key.strip()] = value.strip()
    cluster = values.get("uuid", _NO_CLUSTER)
    try:
        transaction = int(values.get("seqno", str(_UNKNOWN)))
    except ValueError:
        transaction = _UNKNOWN
    return ("" if cluster == _NO_CLUSTER else cluster), transaction, values.get("safe_to_bootstrap") == "1"


def parse_position(text: str) -> Position:
    """Return what `mariadbd --wsrep-recover` (or galera_recovery) says at its end; unknown where it says nothing."""
    for line in reversed(text.splitlines()):
        for mark in ("--wsrep_start_position=", "WSREP: Recovered position"):
            _, found, rest = line.partition(mark)
            # A GTID of MariaDB may follow behind a comma.
            cluster, colon, number = rest.strip(" :").partition(",")[0].rpartition(":")
            if found and colon and number.strip().lstrip("-").isdigit():
                known = cluster != _NO_CLUSTER and int(number) >= 0
                return Position(cluster, int(number)) if known else Position("", _UNKNOWN)
    return Position("", _UNKNOWN)


def cluster_plan(hosts: Sequence[str], members: Mapping[str, Member], *, convert: bool = False) -> Plan:
    """Return which host starts the cluster, and what keeps the hosts from forming one.

    A cluster is started only where it is certain that no other part of it is alive and none has more data: a host that
    said nothing may be both.

    Args:
        hosts: all hosts of the cluster, in order.
        members: what those say that take part in this run.
        convert: whether a database becomes the first of a cluster although no snapshot of it is new.
    """
    alive = {name: member["cluster"] for name, member in members.items() if member["cluster"]}
    problems = _foreign(members, set(alive.values()))
    if len(set(alive.values())) > 1:
        problems.append(
            make_problem(
                sorted(alive),
                "mariadb_cluster",
                "belong to two clusters, each with a majority of its own",
                "docs/failover.md says how to find the one that Slurm has written to, and to stop the other",
            )
        )
    if problems or alive:
        return {"first": "", "problems": problems}
    known = {name: member for name, member in members.items() if member["was_in"]}
    if [name for name in hosts if name not in members] or any(member["running"] for member in known.values()):
        # Who was not asked may have the majority, and one that waits finds the others by itself: all of them just join.
        return {"first": "", "problems": []}
    return _revived(hosts, known) if known else _created(hosts, members, convert=convert)


def _foreign(members: Mapping[str, Member], alive: set[str]) -> list[Problem]:
    """Return the hosts whose data would be lost, since joining replaces them."""
    stopped = [name for name, member in members.items() if member["was_in"] and not alive]
    problems = []
    for name, member in members.items():
        remedy = "save them (mariadb-dump) and move /var/lib/mysql aside, or leave the host out of slurm_database"
        if member["was_in"] and alive and member["was_in"] not in alive:
            problem = f"has the data of another cluster ({member['was_in']}), which joining would replace"
        elif alive and member["databases"] and not member["was_in"]:
            problem = f"has databases of its own ({', '.join(member['databases'])}), which joining would replace"
        elif stopped and member["databases"] and not member["was_in"]:
            own = ", ".join(member["databases"])
            problem = f"has databases of its own ({own}), and a cluster that has stopped left others on "
            problem += f"{', '.join(sorted(stopped))}: only one of the two can be kept"
            remedy = "find which has the newer jobs, and move /var/lib/mysql aside on the hosts of the other"
        else:
            continue
        problems.append(make_problem([name], "mariadb_cluster", problem, remedy))
    return problems


def _created(hosts: Sequence[str], members: Mapping[str, Member], *, convert: bool) -> Plan:
    """Return who starts a cluster that never was: the one with data, else the first."""
    full = [name for name in hosts if members[name]["databases"]]
    problems = []
    if len(full) > 1:
        remedy = "keep one of them: save the others (mariadb-dump) and move their /var/lib/mysql aside"
        problem = "have databases of their own, of which a cluster could keep only one"
        problems.append(make_problem(full, "mariadb_cluster", problem, remedy))
    elif full and not convert and not 0 <= members[full[0]]["saved_s"] <= _DAY_S:
        problem = "has accounting that would become a cluster's, and no snapshot of it from the last 24 hours"
        remedy = (
            "switch backup_enabled on and run busbar provision backup first, or, with a dump of your own, set "
            "-e mariadb_cluster_convert=true"
        )
        problems.append(make_problem(full, "mariadb_cluster", problem, remedy))
    return {"first": "" if problems else (full or list(hosts))[0], "problems": problems}


def _revived(hosts: Sequence[str], known: Mapping[str, Member]) -> Plan:
    """Return who starts again a cluster all of whose hosts have stopped: the one that has everything."""
    if len({member["was_in"] for member in known.values()}) > 1:
        return _stopped(known, "have stopped, with the data of different clusters")
    last = [name for name in hosts if name in known and known[name]["left_last"]]
    most = max(member["transaction"] for member in known.values())
    if any(member["transaction"] == NOT_COUNTED for member in known.values()):
        return {"first": "", "problems": []}
    if len(last) == 1 and 0 <= known[last[0]]["transaction"] == most:
        return {"first": last[0], "problems": []}
    if any(member["transaction"] == _UNKNOWN for member in known.values()):
        return _stopped(known, "have stopped, and how far the data go is not known of all of them")
    if len(known) < len(hosts):
        return _stopped(known, "have stopped, and the others have lost their data, which may have been newer")
    return {"first": next(name for name in hosts if known[name]["transaction"] == most), "problems": []}


def _stopped(known: Mapping[str, Member], problem: str) -> Plan:
    """Return that a person has to choose."""
    remedy = "docs/failover.md says how to find the host that has most, and to start the cluster there"
    return {"first": "", "problems": [make_problem(sorted(known), "mariadb_cluster", problem, remedy)]}
