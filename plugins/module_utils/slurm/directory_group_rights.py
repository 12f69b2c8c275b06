"""Plan account coordinators and Slurm administrator levels from directory groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

__all__ = ["COORDINATORS", "RightsSeen", "RightsStep", "decide_rights", "parse_coordinators", "rights_errors"]

# Arguments of sacctmgr; it prints lines of account and user names.
COORDINATORS = ("show", "account", "withcoord", "format=Account,Coordinators")
_NONE = "none"


class RightsSeen(NamedTuple):
    """State of accounting and directory.

    `coordinators` are pairs (account, user), `levels` the AdminLevel by user, in lower case. `made` are the rights that
    earlier runs granted: triples ("coordinator", account, user) and ("level", name of the level, user). `associated`
    are users who have an account or get one in this run. `members` and `known` are as in `Found`.
    """

    coordinators: Collection[tuple[str, str]]
    levels: Mapping[str, str]
    members: Mapping[str, Collection[str] | None]
    known: Collection[str]
    associated: Collection[str]
    made: Collection[tuple[str, str, str]] = ()


class RightsStep(NamedTuple):
    """A right to grant or revoke, the sacctmgr command, and the reason."""

    right: tuple[str, str, str]
    command: Sequence[str]
    why: str
    takes: bool = False


def parse_coordinators(text: str) -> set[tuple[str, str]]:
    """Return pairs (account, user) from the output of COORDINATORS."""
    pairs = (line.partition("|") for line in text.splitlines())
    return {(account, user) for account, _, names in pairs for user in names.strip("|").split(",") if user}


def rights_errors(admins: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Return the errors in `slurm_admin_groups`, as pairs of option and error."""
    names = [str(item["group"]) for item in admins]
    return [
        (f"admin_groups[{name}]", "is declared more than once") for name in sorted({*names}) if names.count(name) > 1
    ]


def decide_rights(
    seen: RightsSeen,
    groups: Sequence[Mapping[str, Any]],
    admins: Sequence[Mapping[str, Any]],
    *,
    allow_empty: bool = False,
) -> tuple[list[RightsStep], frozenset[tuple[str, str, str]], list[str], list[str]]:
    """Return the steps, the rights that busbar manages after them, notes and refusals.

    Rights that an administrator granted manually are neither revoked nor lowered. If a group is missing, or is empty
    and has granted rights, no rights are revoked.

    Args:
        seen: state of accounting and directory.
        groups: ``group``, ``account``, ``coordinator`` (bool).
        admins: ``group`` and ``level``, Operator or Administrator; the first group of a user applies.
        allow_empty: whether an empty group revokes the rights that it granted.
    """
    asking = [(str(item["group"]), ("coordinator", str(item["account"]))) for item in groups if item.get("coordinator")]
    asking += [(str(item["group"]), ("level", str(item["level"]))) for item in admins]
    wanted: dict[tuple[str, str, str], str] = {}
    frozen: set[tuple[str, str]] = set()
    notes, refusals = [], []
    levelled: set[str] = set()
    # Skip unknown users: perhaps only this host fails to resolve them.
    strangers: set[tuple[str, str, str]] = set()
    for group, (kind, what) in asking:
        names = seen.members.get(group)
        given = [user for one, name, user in seen.made if (one, name) == (kind, what)]
        if names is None:
            frozen.add((kind, what))
            refusals.append(
                f"the group {group} is not in the directory, so the rights that it granted ({what}) were not revoked: "
                "correct slurm_admin_groups or slurm_account_groups, or restore the group"
            )
        elif given and not names and not allow_empty:
            frozen.add((kind, what))
            refusals.append(
                f"the group {group} is empty, but had granted rights ({what}) to {len(given)} users, which were not "
                "revoked. If the group is meant to be empty, run on the controller: busbar-account-groups --allow-empty"
            )
        for user in sorted(names or ()):
            if user not in seen.known:
                strangers.add((kind, what, user))
                continue
            if kind == "level" and user in levelled:
                continue
            if user not in seen.associated:
                notes.append(f"{user} is in {group} and has no account: gets no rights ({what})")
                continue
            levelled |= {user} if kind == "level" else set()
            wanted[kind, what, user] = group
    steps = [step for right, group in wanted.items() for step in _given(seen, right, group, notes)]
    lost = [one for one in seen.made if one not in {*wanted, *strangers} and one[:2] not in frozen and _has(seen, one)]
    for kind, what, user in sorted(lost):
        if kind == "level" and user in levelled:
            continue
        steps.append(RightsStep((kind, what, user), _taking(kind, what, user), f"{user}: no longer {what}", takes=True))
    there = {one for one in {*seen.made, *wanted} if _has(seen, one)} | {step.right for step in steps}
    return steps, frozenset(there - {step.right for step in steps if step.takes}), notes, refusals


def _has(seen: RightsSeen, right: tuple[str, str, str]) -> bool:
    kind, what, user = right
    if kind == "coordinator":
        return (what, user) in seen.coordinators
    return seen.levels.get(user, _NONE) == what.lower()


def _given(seen: RightsSeen, right: tuple[str, str, str], group: str, notes: list[str]) -> list[RightsStep]:
    """Return the step that grants a missing right; add only a note if an administrator set the level manually."""
    kind, what, user = right
    if _has(seen, right):
        return []
    if kind == "coordinator":
        command = ["add", "coordinator", f"account={what}", f"names={user}"]
        return [RightsStep(right, command, f"{user} is in {group}: coordinates the account {what}")]
    level = seen.levels.get(user, _NONE)
    mine = {one[1].lower() for one in seen.made if one[0] == "level" and one[2] == user}
    if level not in {_NONE, *mine}:
        notes.append(f"{user} has the manually set AdminLevel {level}: unchanged")
        return []
    command = ["modify", "user", "where", f"name={user}", "set", f"AdminLevel={what}"]
    return [RightsStep(right, command, f"{user} is in {group}: gets AdminLevel {what}")]


def _taking(kind: str, what: str, user: str) -> list[str]:
    if kind == "coordinator":
        return ["delete", "coordinator", "where", f"account={what}", f"names={user}"]
    return ["modify", "user", "where", f"name={user}", "set", "AdminLevel=None"]
