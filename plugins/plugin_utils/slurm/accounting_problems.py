"""Check declared accounts, users and QOS for values that sacctmgr rejects, changes or ignores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...module_utils.common.problems import Problem, make_problem
from ..common.near_names import near_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    Items = Sequence[Mapping[str, Any]]

# Names that sacctmgr of Slurm 24.11 lists after an unknown flag. It ignores unknown flags beside known ones. Newer
# releases may know more, so only names that resemble one of these are refused.
_FLAGS = (
    *("DenyOnLimit", "EnforceUsageThreshold", "NoReserve", "PartitionMaxNodes", "PartitionMinNodes", "OverPartQOS"),
    *("PartitionTimeLimit", "RequiresReservation", "NoDecay", "Relative", "UsageFactorSafe"),
)
# A fair share that gives users of an account the share of the account.
_OF_PARENT = "parent"
_ACCOUNT, _QOS, _USER = "slurm_accounts[{}]", "slurm_qos[{}]", "users_accounts[{}].slurm"


def accounting_problems(accounts: Items, users: Items, qos: Items) -> list[Problem]:
    """Return the problems with names, shares, flags and priorities.

    References to accounts and QOS of the database are checked by the module that reads it.

    Args:
        accounts: items of `slurm_accounts`.
        users: users with `slurm`, from `slurm_users`.
        qos: items of `slurm_qos`.
    """
    problems = [
        make_problem([], _ACCOUNT.format(item["name"]), "is not in lower case, as Slurm stores it", f"write {lower}")
        for item in filter(_is_present, accounts)
        for lower in [str(item["name"]).lower()]
        if item["name"] != lower
    ]
    for form, items in ((_ACCOUNT, accounts), (_USER, users)):
        for item in filter(_is_present, items):
            key = form.format(item["name"])
            problems += _share_problems(key, item.get("fairshare"))
            problems += _default_problems(key, item)
    for item in filter(_is_present, qos):
        problems += _own_qos_problems(_QOS.format(item["name"]), item)
    return problems


def _is_present(item: Mapping[str, Any]) -> bool:
    return bool(item.get("state", "present") == "present")


def _share_problems(key: str, share: object) -> Iterable[Problem]:
    text = "" if share is None else str(share)
    if text and text.lower() != _OF_PARENT and not text.isdecimal():
        yield make_problem([], f"{key}.fairshare", f"{text!r} is not a weight", f"set a number, or {_OF_PARENT}")


def _default_problems(key: str, item: Mapping[str, Any]) -> Iterable[Problem]:
    """Yield a problem if the default QOS of an account or a user is not one of its QOS."""
    allowed, default = [str(name) for name in item.get("qos") or []], str(item.get("default_qos") or "")
    if default and allowed and default.lower() not in {name.lower() for name in allowed}:
        problem = f"{default} is not in qos ({', '.join(allowed)})"
        yield make_problem([], f"{key}.default_qos", problem, "add it to qos, or set one of these")


def _own_qos_problems(key: str, item: Mapping[str, Any]) -> Iterable[Problem]:
    """Yield the problems with a declared QOS."""
    if not str(item.get("priority") or 0).isdecimal():
        yield make_problem([], f"{key}.priority", f"is {item['priority']} (expected an integer from 0)", "correct it")
    known = {name.lower() for name in _FLAGS}
    for flag in map(str, item.get("flags") or []):
        near = near_name(flag, _FLAGS)
        if near and flag.lower() not in known:
            yield make_problem([], f"{key}.flags", f"{flag} is not a flag of a QOS", f"did you mean {near}?")
