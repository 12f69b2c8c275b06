"""Problems of a site: one form for all checks, equal ones grouped, their hosts folded."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

from ClusterShell.NodeSet import NodeSet, NodeSetException

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Problem", "fold_hosts", "group_problems", "make_problem", "problem_report", "unfold_hosts"]


class Problem(TypedDict):
    """One thing that is wrong, with the way out."""

    hosts: list[str]
    key: str
    problem: str
    remedy: str


def make_problem(hosts: Iterable[str], key: str, problem: str, remedy: str) -> Problem:
    """Return a problem of `hosts` (none: of the whole site), found at the variable, file or thing `key`."""
    return {"hosts": list(hosts), "key": key, "problem": problem, "remedy": remedy}


def fold_hosts(hosts: Iterable[str]) -> str:
    """Return host names folded: ['gpu1', 'gpu2', 'ctl'] gives 'ctl,gpu[1-2]'."""
    names = list(hosts)
    try:
        return str(NodeSet.fromlist(names))
    except NodeSetException:  # names that are wrong are told of, too
        return ",".join(sorted(set(names)))


def unfold_hosts(text: str) -> list[str]:
    """Return the names in a folded list: 'gpu[1-2],ctl' gives ['ctl', 'gpu1', 'gpu2'].

    Raises:
        ValueError: when the text is not a list of hosts.
    """
    try:
        return list(NodeSet(text))
    except NodeSetException as exc:
        message = f"{text!r} is not a list of hosts such as gpu[1-4],login ({exc})"
        raise ValueError(message) from exc


def group_problems(problems: Iterable[Problem]) -> list[Problem]:
    """Return the problems in their order with equal ones made one that lists all hosts, sorted, each once."""
    grouped: dict[tuple[str, str, str], dict[str, None]] = {}
    for item in problems:
        hosts = grouped.setdefault((item["key"], item["problem"], item["remedy"]), {})
        hosts.update(dict.fromkeys(item["hosts"]))
    return [make_problem(sorted(hosts), *rest) for rest, hosts in grouped.items()]


def problem_report(problems: Iterable[Problem]) -> str:
    """Return the problems as text: hosts, key and problem on one line, the remedy below; '' when there is none."""
    lines = []
    for item in group_problems(problems):
        place = ": ".join(filter(None, (fold_hosts(item["hosts"]), item["key"])))
        lines += [f"{place}: {item['problem']}", f"    remedy: {item['remedy']}"]
    return "\n".join(lines)
