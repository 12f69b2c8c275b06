"""Plan the sacctmgr commands that make Slurm's accounting match the declaration."""

from __future__ import annotations

from typing import Any

from .accounting_limits import ASSOCIATION_LIMITS, QOS_LIMITS, canonical_limits, normal_value

__all__ = ["QUERIES", "association_settings", "declaration_errors", "parse_state", "plan"]

_QOS_KEYS = {"priority": "Priority", "description": "Description", "flags": "Flags", "preempt": "Preempt"}
# Lists of names are cleared with an empty value; all other keys with -1.
_LISTS = frozenset({"Preempt", "QosLevel"})
_QOS_FORMAT = ["Name", *_QOS_KEYS.values(), *QOS_LIMITS]
_ASSOC_FORMAT = ["Account", "User", "Partition", "ParentName", "Fairshare", "DefaultQOS", "QOS", *ASSOCIATION_LIMITS]
# Arguments of sacctmgr; it prints lines of fields separated by '|'.
QUERIES: dict[str, list[str]] = {
    "clusters": ["show", "cluster", "format=Cluster"],
    "accounts": ["show", "account", "format=Account,Description,Organization"],
    "users": ["show", "user", "format=User,DefaultAccount,AdminLevel"],
    "qos": ["show", "qos", f"format={','.join(_QOS_FORMAT)}"],
    # `wopl` omits limits inherited from parents.
    "associations": ["show", "associations", "cluster={cluster}", "wopl", f"format={','.join(_ASSOC_FORMAT)}"],
}

Entry = dict[str, Any]
State = dict[str, Any]
_USER = "users_accounts[{}].slurm"


def _rows(text: str, names: list[str]) -> list[dict[str, str]]:
    """Return the lines of one output as dicts; extra fields are ignored."""
    rows = []
    for line in text.splitlines():
        fields = line.split("|")
        if len(fields) >= len(names):
            rows.append({name: field.strip() for name, field in zip(names, fields)})
    return rows


def parse_state(answers: dict[str, str]) -> State:
    """Return the state of accounting from the output of QUERIES.

    Returns:
        ``clusters`` (list), ``accounts``, ``users`` and ``qos`` (by name), and ``associations`` (by account and user;
        user '' is the account itself), each with the keys that `plan` compares.
    """
    accounts = {
        row["Account"]: {"description": row["Descr"], "organization": row["Org"]}
        for row in _rows(answers.get("accounts", ""), ["Account", "Descr", "Org"])
    }
    users = {
        row["User"]: {"default_account": row["Account"], "admin_level": row["Admin"]}
        for row in _rows(answers.get("users", ""), ["User", "Account", "Admin"])
    }
    qos = {row["Name"].lower(): _qos_from(row) for row in _rows(answers.get("qos", ""), _QOS_FORMAT)}
    associations = {
        (row["Account"], row["User"]): _association_from(row)
        for row in _rows(answers.get("associations", ""), _ASSOC_FORMAT)
        if not row["Partition"]
    }
    clusters = [row["Cluster"] for row in _rows(answers.get("clusters", ""), ["Cluster"])]
    return {"clusters": clusters, "accounts": accounts, "users": users, "qos": qos, "associations": associations}


def _names(value: object) -> str:
    """Return the names of a list or comma-separated text, sorted and in lower case."""
    parts = value if isinstance(value, (list, tuple)) else str(value or "").split(",")
    return ",".join(sorted({str(part).strip().lower() for part in parts if str(part).strip()}))


def _shown_limits(row: dict[str, str], known: dict[str, str]) -> dict[str, str]:
    """Return the limits that a row sets."""
    return {name: text for name, kind in known.items() for text in [normal_value(row[name], kind)] if text}


def _qos_from(row: dict[str, str]) -> Entry:
    """Return a row of `show qos` in the form that `plan` compares."""
    return {
        "Description": row["Description"].lower(),
        "Priority": row["Priority"] or "0",
        "Flags": _names(row["Flags"]),
        "Preempt": _names(row["Preempt"]),
        **_shown_limits(row, QOS_LIMITS),
    }


def _association_from(row: dict[str, str]) -> Entry:
    """Return a row of `show associations` in the form that `plan` compares."""
    return {
        "Parent": row["ParentName"],
        "Fairshare": row["Fairshare"] or "1",
        "DefaultQOS": row["DefaultQOS"],
        "QosLevel": _names(row["QOS"]),
        **_shown_limits(row, ASSOCIATION_LIMITS),
    }


def _wanted_qos(item: Entry) -> Entry:
    """Return a declared QOS in the form that `plan` compares."""
    return {
        "Description": str(item.get("description") or item["name"]).lower(),
        "Priority": str(item.get("priority") or 0),
        "Flags": _names(item.get("flags")),
        "Preempt": _names(item.get("preempt")),
        **canonical_limits(item.get("limits") or {}, QOS_LIMITS),
    }


def _wanted_association(item: Entry, parent: str) -> Entry:
    """Return a declared account, or a user in an account, in the form that `plan` compares."""
    shares = item.get("fairshare")
    wanted: Entry = {"Fairshare": "1" if shares in {None, ""} else str(shares)}
    if parent:
        wanted["Parent"] = parent
    if item["name"] != "root" or item.get("qos"):
        wanted["DefaultQOS"] = str(item.get("default_qos") or "").lower()
        wanted["QosLevel"] = _names(item.get("qos"))
    return {**wanted, **canonical_limits(item.get("limits") or {}, ASSOCIATION_LIMITS)}


def association_settings(item: Entry, held: Entry | None) -> list[str]:
    """Return the `Key=value` words that make a user's association in one account match the declaration.

    Args:
        item: ``name``, ``limits``, ``fairshare``, ``qos``, ``default_qos``.
        held: the association from `parse_state`; None if it does not exist.
    """
    return _settings(_wanted_association(item, ""), held, ASSOCIATION_LIMITS)


def _settings(wanted: Entry, held: Entry | None, limits: dict[str, str]) -> list[str]:
    """Return `Key=value` words for the differences; -1 clears a limit that is no longer declared."""
    present = held or {}
    words = []
    for key, value in wanted.items():
        if present.get(key, "") == value or (held is None and value == ""):
            continue
        text = value if key in _LISTS else _assignable(value, present.get(key, ""), tres=limits.get(key) == "tres")
        words.append(f"{key}={text}")
    gone = {key: kind for key, kind in limits.items() if key in present and key not in wanted}
    return words + [f"{key}={_assignable('', present[key], tres=kind == 'tres')}" for key, kind in gone.items()]


def _assignable(value: str, present: str, *, tres: bool) -> str:
    """Return a value for `set`; -1 clears resources that are no longer limited."""
    if not tres:
        return value or ("-1" if present else "")
    named = {part.split("=")[0] for part in value.split(",") if part}
    gone = [part.split("=")[0] for part in present.split(",") if part and part.split("=")[0] not in named]
    return ",".join([*filter(None, [value]), *(f"{name}=-1" for name in gone)])


def _by_parent(accounts: list[Entry]) -> list[Entry]:
    """Return the accounts with every parent before its children.

    Raises:
        ValueError: the parents form a cycle.
    """
    waiting = {str(item["name"]): item for item in accounts}
    ordered: list[Entry] = []
    while waiting:
        ready = [
            name for name, item in waiting.items() if name == "root" or str(item.get("parent") or "root") not in waiting
        ]
        if not ready:
            message = f"accounts are parents of each other: {', '.join(sorted(waiting))}"
            raise ValueError(message)
        ordered += [waiting.pop(name) for name in ready]
    return ordered


def declaration_errors(accounts: list[Entry], users: list[Entry], qos: list[Entry]) -> list[tuple[str, str]]:
    """Return the errors in a declaration, as pairs of option and error."""
    errors = []
    known = {str(item["name"]) for item in accounts if item.get("state", "present") == "present"} | {"root"}
    for option, items in (("slurm_accounts", accounts), ("slurm_qos", qos)):
        names = [str(item["name"]) for item in items]
        twice = sorted({name for name in names if names.count(name) > 1})
        errors += [(f"{option}[{name}]", "is declared more than once") for name in twice]
    for item in users:
        key, mine = _USER.format(item["name"]), [str(name) for name in item.get("accounts") or []]
        if item.get("state", "present") == "present":
            errors += [(key, f"account {name} is not declared") for name in mine if name not in known]
            errors += [] if mine else [(key, "has no account")]
    for form, items, limits in (
        ("slurm_accounts[{}]", accounts, ASSOCIATION_LIMITS),
        ("slurm_qos[{}]", qos, QOS_LIMITS),
        (_USER, users, ASSOCIATION_LIMITS),
    ):
        errors += _limit_errors(form, items, limits)
    try:
        _by_parent(accounts)
    except ValueError as exc:
        errors.append(("slurm_accounts", str(exc)))
    return errors


def _unknown_names(state: State, accounts: list[Entry], users: list[Entry], qos: list[Entry]) -> list[tuple[str, str]]:
    """Return an error for each parent or QOS that neither the declaration nor the database contains after the run."""
    here = [[item for item in items if item.get("state", "present") == "present"] for items in (accounts, users, qos)]
    parents = {"root", *state["accounts"], *(str(item["name"]) for item in here[0])} - {*_absent(accounts)}
    offered = {"normal", *state["qos"], *(str(item["name"]).lower() for item in here[2])}
    offered -= {name.lower() for name in _absent(qos)}
    errors = [
        (
            f"slurm_accounts[{item['name']}]",
            f"parent {item['parent']} does not exist: declare it in slurm_accounts, or correct the name",
        )
        for item in here[0]
        if item.get("parent") and str(item["parent"]) not in parents
    ]
    for form, items, keys in (
        ("slurm_accounts[{}]", here[0], ("qos", "default_qos")),
        (_USER, here[1], ("qos", "default_qos")),
        ("slurm_qos[{}]", here[2], ("preempt",)),
    ):
        for item in items:
            names = {name for key in keys for name in _names(item.get(key)).split(",") if name}
            errors += [
                (form.format(item["name"]), f"QOS {name} does not exist: declare it in slurm_qos, or correct the name")
                for name in sorted(names - offered)
            ]
    return errors


def _limit_errors(form: str, items: list[Entry], limits: dict[str, str]) -> list[tuple[str, str]]:
    """Return the errors in the limits of items; `form` formats a name as an option."""
    errors = []
    for item in items:
        try:
            canonical_limits(item.get("limits") or {}, limits)
        except ValueError as exc:
            errors.append((form.format(item["name"]), str(exc)))
    return errors


def plan(state: State, cluster: str, accounts: list[Entry], users: list[Entry], qos: list[Entry]) -> list[list[str]]:
    """Return the sacctmgr argument lists that are still to be run, in order; empty if everything is as declared.

    Args:
        state: result of `parse_state`.
        cluster: name of the cluster in accounting.
        accounts: ``name``, ``description``, ``organization``, ``parent``, ``limits``, ``fairshare``, ``qos``,
            ``default_qos``, ``state``.
        users: ``name``, ``accounts`` (default account first), ``admin``, and ``limits`` to ``state`` as in accounts.
        qos: ``name``, ``description``, ``priority``, ``flags``, ``preempt``, ``limits``, ``state``.

    Raises:
        ValueError: the declaration has errors, or names an account or QOS that does not exist.
    """
    errors = declaration_errors(accounts, users, qos) + _unknown_names(state, accounts, users, qos)
    if errors:
        raise ValueError("; ".join(f"{key}: {problem}" for key, problem in errors))
    here = [item for item in accounts if item.get("state", "present") == "present"]
    commands: list[list[str]] = []
    if cluster.lower() not in {name.lower() for name in state["clusters"]}:
        commands.append(["add", "cluster", cluster])
    # slurmdbd does not add a user whose UID belongs to another user of accounting, such as a renamed one.
    commands += [["delete", "user", "where", f"name={name}"] for name in _absent(users) if name in state["users"]]
    commands += _plan_qos(state, [item for item in qos if item.get("state", "present") == "present"])
    for item in _by_parent(here):
        commands += _plan_account(state, cluster, item)
    for item in users:
        if item.get("state", "present") == "present":
            commands += _plan_user(state, cluster, item)
    return commands + _plan_removal(state, cluster, accounts, qos)


def _plan_qos(state: State, items: list[Entry]) -> list[list[str]]:
    """Return the commands for the QOS; all are created first, because they may preempt each other."""
    names = [str(item["name"]).lower() for item in items]
    commands = [["add", "qos", name] for name in names if name not in state["qos"]]
    for name, item in zip(names, items):
        held = state["qos"].get(name, {"Description": name, "Priority": "0"})
        words = _settings(_wanted_qos(item), held, QOS_LIMITS)
        if words:
            commands.append(["modify", "qos", "where", f"name={name}", "set", *words])
    return commands


def _plan_account(state: State, cluster: str, item: Entry) -> list[list[str]]:
    """Return the commands for one account and its association."""
    name, parent = str(item["name"]), str(item.get("parent") or ("" if item["name"] == "root" else "root"))
    texts = {
        "Description": str(item.get("description") or name),
        "Organization": str(item.get("organization") or name),
    }
    wanted = _wanted_association(item, parent)
    held = state["associations"].get((name, ""))
    if name not in state["accounts"] or held is None:
        made = [f"{key}={value}" for key, value in texts.items()]
        return [["add", "account", name, f"Cluster={cluster}", *made, *_settings(wanted, None, ASSOCIATION_LIMITS)]]
    commands = []
    present = state["accounts"][name]
    differing = [f"{key}={value}" for key, value in texts.items() if present[key.lower()].lower() != value.lower()]
    if differing and name != "root":
        commands.append(["modify", "account", "where", f"name={name}", "set", *differing])
    words = _settings(wanted, held, ASSOCIATION_LIMITS)
    if words:
        commands.append(["modify", "account", "where", f"name={name}", f"cluster={cluster}", "set", *words])
    return commands


def _plan_user(state: State, cluster: str, item: Entry) -> list[list[str]]:
    """Return the commands for one user: an association per account, then default account and AdminLevel."""
    name = str(item["name"])
    mine = [str(account) for account in item["accounts"]]
    default = mine[0]
    wanted = _wanted_association(item, "")
    commands = []
    for account in mine:
        held = state["associations"].get((account, name))
        if held is None:
            words = _settings(wanted, None, ASSOCIATION_LIMITS)
            commands.append(["add", "user", name, f"Account={account}", f"Cluster={cluster}", *words])
            continue
        words = _settings(wanted, held, ASSOCIATION_LIMITS)
        if words:
            where = ["where", f"name={name}", f"cluster={cluster}", f"account={account}"]
            commands.append(["modify", "user", *where, "set", *words])
    present = state["users"].get(name, {"default_account": default, "admin_level": "None"})
    if present["default_account"] != default:
        where = ["where", f"name={name}", f"cluster={cluster}"]
        commands.append(["modify", "user", *where, "set", f"DefaultAccount={default}"])
    level = str(item.get("admin") or "None")
    if present["admin_level"].lower() != level.lower():
        commands.append(["modify", "user", "where", f"name={name}", "set", f"AdminLevel={level}"])
    gone = [account for account, user in state["associations"] if user == name and account not in mine]
    commands += [
        ["delete", "user", "where", f"name={name}", f"cluster={cluster}", f"account={account}"] for account in gone
    ]
    return commands


def _absent(items: list[Entry]) -> list[str]:
    """Return the names of the entries declared absent."""
    return [str(item["name"]) for item in items if item.get("state", "present") == "absent"]


def _plan_removal(state: State, cluster: str, accounts: list[Entry], qos: list[Entry]) -> list[list[str]]:
    """Return the commands that remove accounts and QOS declared absent: accounts from the leaves, then QOS."""
    gone = [item for item in accounts if item.get("state", "present") == "absent" and item["name"] in state["accounts"]]
    commands = [
        ["delete", "account", "where", f"name={item['name']}", f"cluster={cluster}"]
        for item in reversed(_by_parent(gone))
    ]
    return commands + [
        ["delete", "qos", "where", f"name={name.lower()}"] for name in _absent(qos) if name.lower() in state["qos"]
    ]
