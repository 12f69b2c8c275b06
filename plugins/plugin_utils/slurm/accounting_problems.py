"""Check declared accounts, users and QOS for values that sacctmgr rejects, changes or ignores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...module_utils.common.problems import Problem, make_problem
from ..common.near_names import near_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    Items = Sequence[Mapping[str, Any]]

# Names that sacctmgr of Slurm 24.11 lists after an unknown flag. It ignores unknown flags beside known ones.
_FLAGS = (
    *("DenyOnLimit", "EnforceUsageThreshold", "NoReserve", "PartitionMaxNodes", "PartitionMinNodes", "OverPartQOS"),
    *("PartitionTimeLimit", "RequiresReservation", "NoDecay", "Relative", "UsageFactorSafe"),
)
# A fair share that gives users of an account the share of the account.
_OF_PARENT = "parent"
_ACCOUNT, _QOS, _USER = "slurm_accounts[{}]", "slurm_qos[{}]", "users_accounts[{}].slurm"


def accounting_problems(accounts: Items, users: Items, qos: Items) -> list[Problem]:
    """Return the problems with names, references, shares, flags and priorities.

    Args:
        accounts: items of `slurm_accounts`.
        users: users with `slurm`, from `slurm_users`.
        qos: items of `slurm_qos`.
    """
    here = {kind: [item for item in items if _is_present(item)] for kind, items in (("a", accounts), ("q", qos))}
    offered = {str(item["name"]).lower() for item in here["q"]} | {"normal"}
    problems = [
        make_problem([], _ACCOUNT.format(item["name"]), "is not in lower case, as Slurm stores it", f"write {lower}")
        for item in here["a"]
        for lower in [str(item["name"]).lower()]
        if item["name"] != lower
    ]
    problems += _parent_problems(here["a"])
    for form, items in ((_ACCOUNT, here["a"]), (_USER, [user for user in users if _is_present(user)])):
        for item in items:
            key = form.format(item["name"])
            problems += _share_problems(key, item.get("fairshare"))
            problems += _qos_problems(key, item, offered)
    for item in here["q"]:
        problems += _own_qos_problems(_QOS.format(item["name"]), item, offered)
    return problems


def _is_present(item: Mapping[str, Any]) -> bool:
    return bool(item.get("state", "present") == "present")


def _parent_problems(accounts: Items) -> Iterable[Problem]:
    names = {str(item["name"]) for item in accounts} | {"root"}
    for item in accounts:
        parent = str(item.get("parent") or "root")
        if parent not in names:
            remedy = "add it to slurm_accounts, or correct parent"
            yield make_problem([], _ACCOUNT.format(item["name"]), f"parent {parent} is not declared", remedy)


def _share_problems(key: str, share: object) -> Iterable[Problem]:
    text = "" if share is None else str(share)
    if text and text.lower() != _OF_PARENT and not text.isdecimal():
        yield make_problem([], f"{key}.fairshare", f"{text!r} is not a weight", f"set a number, or {_OF_PARENT}")


def _qos_problems(key: str, item: Mapping[str, Any], offered: Iterable[str]) -> Iterable[Problem]:
    """Yield the problems with the QOS of an account or a user."""
    allowed, default = [str(name) for name in item.get("qos") or []], str(item.get("default_qos") or "")
    yield from _undeclared(f"{key}.qos", allowed, offered)
    yield from _undeclared(f"{key}.default_qos", [default] if default else [], offered)
    if default and allowed and default.lower() not in {name.lower() for name in allowed}:
        problem = f"{default} is not in qos ({', '.join(allowed)})"
        yield make_problem([], f"{key}.default_qos", problem, "add it to qos, or set one of these")


def _own_qos_problems(key: str, item: Mapping[str, Any], offered: Iterable[str]) -> Iterable[Problem]:
    """Yield the problems with a declared QOS."""
    yield from _undeclared(f"{key}.preempt", [str(name) for name in item.get("preempt") or []], offered)
    if not str(item.get("priority") or 0).isdecimal():
        yield make_problem([], f"{key}.priority", f"is {item['priority']} (expected an integer from 0)", "correct it")
    known = {name.lower() for name in _FLAGS}
    for flag in map(str, item.get("flags") or []):
        if flag.lower() not in known:
            near = near_name(flag, _FLAGS)
            remedy = f"did you mean {near}?" if near else f"use one of {', '.join(_FLAGS)}"
            yield make_problem([], f"{key}.flags", f"{flag} is not a flag of a QOS", remedy)


def _undeclared(key: str, names: Iterable[str], offered: Iterable[str]) -> Iterable[Problem]:
    for name in names:
        if name.lower() not in offered:
            yield make_problem([], key, f"QOS {name} is not declared", "add it to slurm_qos, or correct the name")
