"""Plan the sacctmgr commands that add and remove associations for members of directory groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from .accounting import association_settings
from .directory_group_rights import RightsSeen, decide_rights

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

__all__ = ["CLOSED", "Decision", "Found", "Step", "decide", "group_errors"]

Association = tuple[str, str]
Right = tuple[str, str, str]
# Accepts no new jobs; existing jobs continue.
CLOSED = "MaxSubmitJobs=0"
_SHOWN = 5


class Found(NamedTuple):
    """State of accounting, directory, host and queue.

    `state` is the result of `accounting.parse_state`. `members` has the names in each group, or None if the directory
    does not have the group. `known` are the users that this host resolves. `made` are the associations (account, user)
    that earlier runs added, `busy` the associations with unfinished jobs. `coordinators` are pairs (account, user),
    `rights` the triples of `RightsSeen.made`.
    """

    state: Mapping[str, Any]
    members: Mapping[str, Collection[str] | None]
    known: Collection[str]
    made: Collection[Association] = ()
    busy: Collection[Association] = ()
    coordinators: Collection[Association] = ()
    rights: Collection[Right] = ()


class Step(NamedTuple):
    """The sacctmgr commands for one association or right, in order, and the reason."""

    about: Association | Right
    commands: Sequence[Sequence[str]]
    why: str


class Decision(NamedTuple):
    """Steps to run.

    `made` and `rights` are the associations and rights that busbar manages after the steps. `refusals` need an
    administrator's decision, `notes` are informational.
    """

    steps: Sequence[Step]
    made: frozenset[Association]
    notes: Sequence[str]
    refusals: Sequence[str]
    rights: frozenset[Right] = frozenset()


def group_errors(
    groups: Sequence[Mapping[str, Any]], accounts: Collection[str], qos: Collection[str]
) -> list[tuple[str, str]]:
    """Return the errors in `slurm_account_groups`, as pairs of option and error.

    Args:
        groups: ``group``, ``account``, ``qos``, ``default_qos``.
        accounts: names of the declared accounts.
        qos: names of the declared QOS.
    """
    names = [str(item["group"]) for item in groups]
    errors = [
        (f"account_groups[{name}]", "is mapped more than once") for name in sorted({*names}) if names.count(name) > 1
    ]
    offered = {name.lower() for name in qos} | {"normal"}
    for item in groups:
        key = f"account_groups[{item['group']}]"
        if str(item["account"]) not in accounts:
            errors.append((key, f"account {item['account']} is not declared in slurm_accounts"))
        qos_names = [*(item.get("qos") or []), *filter(None, [item.get("default_qos")])]
        errors += [
            (key, f"QOS {name} is not declared in slurm_qos") for name in qos_names if str(name).lower() not in offered
        ]
    return errors


def decide(  # noqa: PLR0913 - state, declaration and limits
    found: Found,
    cluster: str,
    groups: Sequence[Mapping[str, Any]],
    admins: Sequence[Mapping[str, Any]] = (),
    *,
    declared: Collection[str] = (),
    max_removals: int,
    allow_empty: bool = False,
) -> Decision:
    """Return the steps that make associations and rights match the groups.

    Only associations that earlier runs added, or that a group member has, are removed. A missing group, or an empty
    group that had members, removes no association, because the directory may be restored only partially.

    Args:
        found: state of accounting, directory, host and queue.
        cluster: name of the cluster in accounting.
        groups: ``group``, ``account``, ``qos``, ``default_qos``, ``limits``, ``fairshare``, ``coordinator``; if two
            groups map to one account, the first applies to users in several.
        admins: ``group`` and ``level`` of Slurm administrators.
        declared: users with `slurm` in users_accounts; groups do not change them.
        max_removals: if more users than this would lose an account or a right, nothing is removed.
        allow_empty: whether an empty group removes the associations of its former members.
    """
    wanted, frozen, refusals = _wanted(found, groups, allow_empty=allow_empty)
    accounts = {str(item["account"]) for item in groups}
    unknown = sorted(accounts - set(found.state["accounts"]))
    refusals += [
        f"the account {name} is not in accounting: busbar provision slurm --tags slurm_accounting" for name in unknown
    ]
    notes = [
        f"{user} has an entry in users_accounts and keeps the accounts declared there"
        for user in sorted({user for _, user in wanted} & {*declared})
    ]
    strangers = sorted({user for _, user in wanted} - {*found.known} - {*declared})
    notes += [f"{user} is in a group but does not exist on this controller: gets no account" for user in strangers]
    wanted = {
        (account, user): item
        for (account, user), item in wanted.items()
        if account not in unknown and user not in declared and user not in strangers
    }
    steps = _joins(found, cluster, wanted)
    mine = {(account, user) for account, user in found.made if account in accounts and user not in declared}
    held = {one for one in mine if one in found.state["associations"]}
    # Skip unknown users: perhaps only this host fails to resolve them.
    leavers = sorted(one for one in held - {*wanted} if one[0] not in frozen and one[1] not in strangers)
    open_leavers = [one for one in leavers if not _is_closed(found, one)]
    rights, kept, more_notes, more_refusals = decide_rights(
        RightsSeen(
            coordinators=found.coordinators,
            levels={
                user: str(entry.get("admin_level") or "none").lower() for user, entry in found.state["users"].items()
            },
            members=found.members,
            known={*found.known} - {*declared},
            associated={*found.state["users"], *(user for _, user in wanted)},
            made=found.rights,
        ),
        groups,
        admins,
        allow_empty=allow_empty,
    )
    notes += more_notes
    refusals += more_refusals
    losers = sorted({user for _, user in open_leavers} | {step.right[2] for step in rights if step.takes})
    if len(losers) > max_removals:
        names = ", ".join(losers[:_SHOWN]) + (", …" if len(losers) > _SHOWN else "")
        who = "1 user" if len(losers) == 1 else f"{len(losers)} users"
        refusals.append(
            f"{who} would lose an account or rights, more than slurm_account_groups_max_removals "
            f"({max_removals}): {names}. Nothing was removed. To allow these removals, run on "
            f"the controller: busbar-account-groups --max-removals {len(losers)}"
        )
        leavers = []
        kept |= {step.right for step in rights if step.takes}
        rights = [step for step in rights if not step.takes]
    away, waiting = _leaves(found, cluster, leavers)
    notes += waiting
    gone = {step.about for step in away if step.commands[-1][0] == "delete"}
    # Revoke a right before its account is removed, and grant it after the account is added.
    taking = [Step(step.right, [step.command], step.why) for step in rights if step.takes]
    giving = [Step(step.right, [step.command], step.why) for step in rights if not step.takes]
    made = frozenset((held | {*wanted}) - gone)
    return Decision([*steps, *giving, *taking, *away], made, notes, refusals, kept)


def _wanted(
    found: Found, groups: Sequence[Mapping[str, Any]], *, allow_empty: bool
) -> tuple[dict[Association, dict[str, Any]], set[str], list[str]]:
    """Return the associations of the group members, accounts that must not be removed, and the reasons."""
    wanted: dict[Association, dict[str, Any]] = {}
    frozen: set[str] = set()
    refusals = []
    for item in groups:
        group, account = str(item["group"]), str(item["account"])
        names = found.members.get(group)
        there = sorted(user for one, user in found.made if one == account)
        if names is None:
            frozen.add(account)
            refusals.append(
                f"the group {group} is not in the directory, so no user was removed from the account {account}: "
                f"correct slurm_account_groups, or restore the group (to check: getent -s sss group {group})"
            )
        elif not names and there and not allow_empty:
            frozen.add(account)
            refusals.append(
                f"the group {group} is empty, but {len(there)} users have the account {account} through a group; none "
                "of them was removed. If the group is meant to be empty, run on the controller: "
                "busbar-account-groups --allow-empty"
            )
        for user in sorted(names or []):
            wanted.setdefault((account, user), {**item, "name": user})
    return wanted, frozen, refusals


def _joins(found: Found, cluster: str, wanted: Mapping[Association, dict[str, Any]]) -> list[Step]:
    """Return the steps that add or update associations of group members."""
    steps = []
    for (account, user), item in sorted(wanted.items()):
        held = found.state["associations"].get((account, user))
        words = association_settings(item, held)
        if held is None:
            command = ["add", "user", user, f"Account={account}", f"Cluster={cluster}", *words]
            steps.append(Step((account, user), [command], f"{user} is in {item['group']}: gets the account {account}"))
        elif words:
            command = [*_where(cluster, account, user), "set", *words]
            steps.append(Step((account, user), [command], f"{user} in {account}: gets the limits of {item['group']}"))
    return steps


def _leaves(found: Found, cluster: str, leavers: Sequence[Association]) -> tuple[list[Step], list[str]]:
    """Return the steps for former group members, and notes about those who still have jobs."""
    steps, notes = [], []
    left = {one for one in found.state["associations"] if one[1]}
    for account, user in sorted(leavers):
        if (account, user) in found.busy:
            notes.append(f"{user} left {account} and has jobs: the account is removed after they end")
            if not _is_closed(found, (account, user)):
                command = [*_where(cluster, account, user), "set", CLOSED]
                steps.append(Step((account, user), [command], f"{user} left {account}: no new jobs"))
            continue
        left.discard((account, user))
        commands = []
        others = sorted(one for one, name in left if name == user)
        # Slurm does not delete a user's default account while the user has others.
        if others and found.state["users"].get(user, {}).get("default_account") == account:
            commands.append(
                ["modify", "user", "where", f"name={user}", f"cluster={cluster}", "set", f"DefaultAccount={others[0]}"]
            )
        commands.append(["delete", "user", "where", f"name={user}", f"cluster={cluster}", f"account={account}"])
        steps.append(Step((account, user), commands, f"{user} left the group: loses the account {account}"))
    return steps, notes


def _where(cluster: str, account: str, user: str) -> list[str]:
    return ["modify", "user", "where", f"name={user}", f"cluster={cluster}", f"account={account}"]


def _is_closed(found: Found, association: Association) -> bool:
    return bool(found.state["associations"].get(association, {}).get("MaxSubmitJobs") == "0")
