"""Read `sacctmgr dump`, and express QOS, accounts and users in busbar's options."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ansible_collections.busbar.cluster.plugins.module_utils.slurm.accounting_limits import (
    ASSOCIATION_LIMITS,
    QOS_LIMITS,
    canonical_limits,
)

from .draft import CARRIED, LEFT

if TYPE_CHECKING:
    from .draft import Draft

# Value in slurmdb for a user who uses the shares of the account (SLURMDB_FS_USE_PARENT).
_PARENT_SHARES = {"2147483647", "parent"}
_PART = re.compile(r"""((?:[^:'"]|'[^']*'|"[^"]*")+)(?::|$)""")
_HEAD = re.compile(r"""\s*(\w+)\s*-\s*(?:'([^']*)'|"([^"]*)"|([^:]+))\s*""")
_NO_PLUGIN = "not running a supported accounting_storage plugin"

_QOS_DEFAULTS = {"GraceTime": "00:00:00", "PreemptMode": "cluster", "UsageFactor": "1.000000", "Priority": "0"}

Entry = dict[str, str]


@dataclass
class Accounting:
    """The content of a dump.

    Attributes:
        has_database: whether the cluster has slurmdbd.
        cluster: name of the cluster in accounting, and the limits of all its accounts.
        qos: settings of each QOS.
        accounts: settings of each account, with `Parent`.
        users: the associations of each user, with `Account`.
    """

    has_database: bool = True
    cluster: Entry = field(default_factory=dict)
    qos: dict[str, Entry] = field(default_factory=dict)
    accounts: dict[str, Entry] = field(default_factory=dict)
    users: dict[str, list[Entry]] = field(default_factory=dict)


def read_dump(text: str) -> Accounting:
    """Return the content of the output of `sacctmgr dump`; lines that are not understood are ignored."""
    found = Accounting(has_database=_NO_PLUGIN not in text)
    parent = "root"
    for line in text.splitlines():
        if line.lstrip().startswith("#") or not line.strip():
            continue
        first, *rest = [part.strip() for part in _PART.findall(line.strip())]
        head = _HEAD.fullmatch(first)
        if head is None:
            continue
        kind, name = head[1].lower(), next(filter(None, head.groups()[1:]), "")
        said = {key.strip(): value.strip().strip("'\"") for key, _, value in (part.partition("=") for part in rest)}
        if kind == "parent":
            parent = name
        elif kind == "cluster":
            found.cluster = {"Cluster": name, **said}
        elif kind == "qos":
            found.qos[name] = said
        elif kind == "account":
            found.accounts[name] = {"Parent": parent, **said}
        elif kind == "user":
            found.users.setdefault(name, []).append({"Account": parent, **said})
    return found


def read_accounting(dump: str, qos: str) -> Accounting:
    """Return the content of a dump, with the QOS of `sacctmgr -P show qos` if the dump has none, as before 25.05."""
    found = read_dump(dump)
    head, *rows = [line.split("|") for line in qos.splitlines() if "|" in line] or [[]]
    for row in rows if not found.qos else ():
        # sacctmgr prints the defaults, too.
        said = {"Description" if key == "Descr" else key: value for key, value in zip(head, row) if value}
        said = {key: value for key, value in said.items() if _QOS_DEFAULTS.get(key) != value}
        found.qos[said.pop("Name", "")] = said
    return found


def carry_accounting(draft: Draft, found: Accounting) -> dict[str, dict[str, Any]]:
    """Declare QOS and accounts, and return the key `slurm` of each user whose associations options can express.

    busbar sets declared entries exactly and leaves other entries of the database alone. An entry that an option cannot
    express is therefore not declared, and stays as it is.
    """
    declared = []
    for name, said in found.qos.items():
        entry, other = _entry(said, QOS_LIMITS, {"Description", "Priority", "Flags", "Preempt"})
        declared.append(
            {
                "name": name.lower(),
                **({"description": said["Description"]} if "Description" in said else {}),
                **({"priority": int(said["Priority"])} if said.get("Priority", "").isdigit() else {}),
                **{key.lower(): _words(said[key]) for key in ("Flags", "Preempt") if said.get(key)},
                **entry,
            }
        )
        if other:
            draft.note(f"QOS {name}: {', '.join(other)}", LEFT, "stays as it is in the accounting database")
    if declared:
        draft.carry("QOS", {"slurm_qos": declared})
    accounts: list[dict[str, Any]] = []
    for name, said in found.accounts.items():
        entry, other = _entry(said, ASSOCIATION_LIMITS, {"Parent", "Description", "Organization", *_SHARED})
        if other:
            reason = "no option of busbar; the account is not declared and stays as it is in the accounting database"
            draft.note(f"account {name}: {', '.join(other)}", LEFT, reason)
            continue
        accounts.append(
            {
                "name": name,
                **({"parent": said["Parent"]} if said["Parent"] != "root" else {}),
                **{key.lower(): said[key] for key in ("Description", "Organization") if said.get(key)},
                **entry,
            }
        )
    known = {item["name"] for item in accounts} | {"root"}
    accounts = [item for item in accounts if _reaches_root(item["name"], accounts, known)]
    if accounts:
        draft.carry("accounts", {"slurm_accounts": accounts})
    limits = [key for key in found.cluster if key not in {"Cluster", "Fairshare"}]
    if limits:
        reason = "stays in the accounting database; busbar leaves the account root alone"
        draft.note(f"cluster {found.cluster['Cluster']}: {', '.join(limits)}", LEFT, reason)
    return _users(draft, found, {item["name"] for item in accounts})


_SHARED = ("Fairshare", "QOS", "DefaultQOS")
_OF_USERS = {"Account", "DefaultAccount", "AdminLevel", *_SHARED}


def _reaches_root(name: str, accounts: list[dict[str, Any]], known: set[str]) -> bool:
    """Return whether all accounts above an account are declared."""
    parents = {item["name"]: item.get("parent", "root") for item in accounts}
    seen = set()
    while name != "root" and name in known and name not in seen:
        seen.add(name)
        name = parents.get(name, "")
    return name == "root"


def _users(draft: Draft, found: Accounting, accounts: set[str]) -> dict[str, dict[str, Any]]:
    """Return the key `slurm` of each user."""
    declared = {}
    for name, associations in found.users.items():
        if name == "root":
            continue
        reason = _inexpressible(associations, accounts)
        if reason:
            text = f"{reason}; not declared, so it stays as it is in the accounting database"
            draft.note(f"associations of user {name}", LEFT, text)
            continue
        first = associations[0]
        entry, _ = _entry(first, ASSOCIATION_LIMITS, _OF_USERS)
        names = [each["Account"] for each in associations]
        default = first.get("DefaultAccount", names[0])
        level = first.get("AdminLevel", "")
        declared[name] = {
            "account": default,
            **({"accounts": [each for each in names if each != default]} if len(names) > 1 else {}),
            **({"admin": level} if level in {"Operator", "Administrator"} else {}),
            **entry,
        }
        draft.note(f"association of user {name}", CARRIED, "users_accounts")
    return declared


def _inexpressible(associations: list[Entry], accounts: set[str]) -> str:
    """Return why the options of a user cannot express the associations, or ''."""
    alike = {tuple(sorted((key, value) for key, value in each.items() if key != "Account")) for each in associations}
    names = [each["Account"] for each in associations]
    first = associations[0]
    for key in ("Partition", "Coordinator"):
        if any(key in each for each in associations):
            values = ", ".join(sorted({each[key] for each in associations if key in each}))
            return f"{key.lower()} {values} has no option of busbar (accounts {', '.join(names)})"
    if len(alike) > 1:
        return (
            f"the associations in {', '.join(names)} differ (default account {first.get('DefaultAccount', names[0])})"
        )
    if not set(names) <= accounts or first.get("DefaultAccount", names[0]) not in names:
        return f"the accounts {', '.join(names)} are not all declared"
    if first.get("QOS", "").startswith(("+", "-")):
        return f"QOS {first['QOS']} is relative to the account"
    _, other = _entry(first, ASSOCIATION_LIMITS, _OF_USERS)
    return f"{', '.join(other)} has no option of busbar" if other else ""


def _entry(said: Entry, known: dict[str, str], handled: set[str]) -> tuple[dict[str, Any], list[str]]:
    """Return limits, shares and QOS of an entry in the form of busbar's options, and the keys without an option."""
    limits: dict[str, str] = {}
    other = []
    for key, value in said.items():
        if key in handled:
            continue
        try:
            limits |= {key: value} if canonical_limits({key: value}, known) else {}
        except ValueError:
            other.append(key)
    entry: dict[str, Any] = {"limits": limits} if limits else {}
    if "Fairshare" in said and "Fairshare" in handled:
        shares = said["Fairshare"]
        entry["fairshare"] = "parent" if shares in _PARENT_SHARES else int(shares) if shares.isdigit() else shares
    if said.get("QOS"):
        entry["qos"] = _words(said["QOS"])
    if said.get("DefaultQOS"):
        entry["default_qos"] = said["DefaultQOS"]
    return entry, other


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]
