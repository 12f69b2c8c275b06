"""Check and order the hosts to uninstall."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, TypedDict

from ...module_utils.common.problems import Problem, make_problem
from ..engine.common.hostlist import fold_hosts, unfold_hosts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

KEY, DATA_KEY = "uninstall_nodes", "uninstall_leaves_data"
# Servers are uninstalled last, and only together with all their remaining clients.
SERVERS = ("slurm_controller", "slurm_database", "nfs_server", "ldap_server", "monitoring", "portal")


class Answer(TypedDict):
    """The answer of a host: whether it has busbar's record, and the jobs and data that it serves."""

    recorded: bool
    serves: list[str]


def uninstall_choice(requested: str | Sequence[str], groups: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Return the hosts by step: `compute` nodes are drained first, `servers` are uninstalled last.

    Args:
        requested: host names, as a list or folded.
        groups: the groups of the inventory.
    """
    names = unfold_hosts(requested) if requested else []
    servers = [name for name in names if any(name in (groups.get(group) or []) for group in SERVERS)]
    compute = [name for name in names if name in (groups.get("slurm_compute") or []) and name not in servers]
    clients = [name for name in names if name not in {*servers, *compute}]
    return {"names": names, "compute": compute, "clients": clients, "servers": servers}


def uninstall_problems(
    requested: str | Sequence[str],
    groups: Mapping[str, Sequence[str]],
    answers: Mapping[str, Answer | None] | None = None,
    *,
    leaves_data: bool = False,
) -> list[Problem]:
    """Return the problems with a request to uninstall hosts.

    Args:
        requested: host names, as a list or folded.
        groups: the groups of the inventory.
        answers: answer of each host; None if it was not reached or not requested. Without answers, only names are
            checked.
        leaves_data: whether the user accepts that jobs and data remain on the host.
    """
    try:
        choice = uninstall_choice(requested, groups)
    except ValueError as exc:
        return [make_problem([], KEY, str(exc), "list hosts of the inventory, such as -e 'uninstall_nodes=gpu[3-4]'")]
    names, known = choice["names"], list(groups.get("all") or [])
    if not names:
        return [make_problem([], KEY, "is empty", "list the hosts, such as -e 'uninstall_nodes=gpu[3-4]'")]
    problems = []
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            problem = "is not a host of the inventory" + (f"; did you mean {near[0]}?" if near else "")
            problems.append(make_problem([name], KEY, problem, "use the host names of the inventory"))
    if problems or answers is None:
        return problems
    silent = [name for name in names if answers.get(name) is None]
    if silent:
        problem = "unreachable or excluded by --limit, so its services are unknown"
        remedy = "make it reachable (busbar doctor), or remove it from uninstall_nodes"
        problems.append(make_problem(silent, KEY, problem, remedy))
    return problems + _server_problems(choice, known, answers, leaves_data=leaves_data)


def _server_problems(
    choice: Mapping[str, Sequence[str]],
    known: Sequence[str],
    answers: Mapping[str, Answer | None],
    *,
    leaves_data: bool,
) -> list[Problem]:
    """Return the problems that prevent uninstalling servers: other hosts require them, or they have jobs or data."""
    found = {name: answers.get(name) for name in choice["servers"]}
    servers = {name: answer for name, answer in found.items() if answer and answer["recorded"]}
    others = [name for name in known if name not in choice["names"]]
    belong = [name for name in others if (answer := answers.get(name)) is None or answer["recorded"]]
    problems = []
    if servers and belong:
        problem = f"serves {fold_hosts(belong)}, which still belong to the cluster or were not checked"
        remedy = "add them to uninstall_nodes, uninstall them first, or delete retired hosts from the inventory"
        problems.append(make_problem(servers, KEY, problem, remedy))
    for name, answer in servers.items():
        if answer["serves"] and not leaves_data:
            problem = f"would remain on the disk without a server: {', '.join(answer['serves'])}"
            remedy = (
                "make a backup (busbar provision backup) and verify it (busbar backup verify), then add "
                f"-e {DATA_KEY}=true"
            )
            problems.append(make_problem([name], DATA_KEY, problem, remedy))
    return problems
