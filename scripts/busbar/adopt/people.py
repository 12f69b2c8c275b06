"""Reads the users and groups of a cluster's hosts, and finds conflicting UIDs and GIDs."""

from __future__ import annotations

import configparser
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from .draft import ASK, CARRIED, LEFT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from .cluster_source import HostReading
    from .draft import Draft

# UIDs of users; Debian reserves 60000 to 64999 for packages, and 65534 is nobody (Debian Policy 9.2.2).
_USERS = ((1000, 59999), (65536, 2**31 - 1))
# The password field of accounts and groups of a directory.
_ELSEWHERE = "*"
_RULE = re.compile(r"(%?[\w.\\@-]+)\s+(\S+\s*=.*)")
# Lines in the sudoers files of Debian, Ubuntu and EL.
_USUAL_RULES = {"root", "%sudo", "%wheel", "%admin"}


class Account(NamedTuple):
    """A line of passwd."""

    name: str
    password: str
    uid: int
    gid: int
    comment: str
    home: str
    shell: str


@dataclass
class People:
    """Users and groups of all hosts.

    Attributes:
        users: accounts by name and host, without those of packages.
        groups: GID and members of each group by name and host.
        directory: users that a directory provides.
        conflicts: contradictions between hosts or sources, by name of the user or group.
    """

    users: dict[str, dict[str, Account]] = field(default_factory=dict)
    groups: dict[str, dict[str, tuple[int, list[str]]]] = field(default_factory=dict)
    directory: set[str] = field(default_factory=set)
    conflicts: dict[str, list[str]] = field(default_factory=dict)


def _is_users(number: int) -> bool:
    return any(low <= number <= high for low, high in _USERS)


def passwd(text: str) -> Iterator[Account]:
    """Yield the accounts of a passwd file."""
    for line in text.splitlines():
        parts = line.split(":")
        if len(parts) == len(Account._fields) and parts[2].isdigit() and parts[3].isdigit():
            yield Account(parts[0], parts[1], int(parts[2]), int(parts[3]), *parts[4:])


def _group(text: str) -> Iterator[tuple[str, int, list[str]]]:
    """Yield local groups; getent prints the groups of a directory with '*' as password."""
    for line in text.splitlines():
        parts = line.split(":")
        if len(parts) == len(["name", "x", "gid", "members"]) and parts[2].isdigit() and parts[1] != _ELSEWHERE:
            yield parts[0], int(parts[2]), [name for name in parts[3].split(",") if name]


def read_people(hosts: Mapping[str, HostReading], slurm_user: str) -> People:
    """Return the users and groups of all hosts.

    Args:
        hosts: readings by host.
        slurm_user: SlurmUser; its UID and GID must agree, unlike those of other accounts that packages create.
    """
    found = People()
    numbers: dict[str, dict[int, dict[str, list[str]]]] = {"UID": {}, "GID": {}}
    for host, reading in hosts.items():
        local = list(passwd(reading.files.get("/etc/passwd", "")))
        _two_sources(found, host, reading, local)
        names = {account.name for account in local}
        named = [each for each in passwd(reading.commands.get("getent-passwd", "")) if each.name not in names]
        for account in (*local, *named):
            elsewhere = account.password == _ELSEWHERE or account.uid > _USERS[-1][1] or (account in named and local)
            of_package = account.uid < _USERS[0][0] or account.name == "nobody"
            if account.name != slurm_user and (of_package or not (elsewhere or _is_users(account.uid))):
                continue
            if elsewhere:
                found.directory.add(account.name)
            found.users.setdefault(account.name, {}).setdefault(host, account)
            numbers["UID"].setdefault(account.uid, {}).setdefault(account.name, []).append(host)
        groups: dict[str, tuple[int, list[str]]] = {}
        for text in (reading.files.get("/etc/group", ""), reading.commands.get("getent-group", "")):
            for name, gid, members in _group(text):
                groups.setdefault(name, (gid, members))
        for name, (gid, members) in groups.items():
            found.groups.setdefault(name, {})[host] = (gid, members)
            if _is_users(gid) or name == slurm_user:
                numbers["GID"].setdefault(gid, {}).setdefault(name, []).append(host)
    _compare(found, numbers, slurm_user)
    return found


def _two_sources(found: People, host: str, reading: HostReading, local: list[Account]) -> None:
    """Record users that occur twice in /etc/passwd, or both there and in a directory."""
    names = [account.name for account in local]
    for name in sorted({name for name in names if names.count(name) > 1}):
        found.conflicts.setdefault(name, []).append(f"user {name} appears twice in /etc/passwd of {host}")
    other = {account.name: account for account in passwd(reading.commands.get("getent-sss", ""))}
    for account in local:
        if account.name in other and _is_users(account.uid):
            text = (
                f"user {account.name} is in two sources on {host}: /etc/passwd (UID {account.uid}) and the "
                f"directory (UID {other[account.name].uid})"
            )
            found.conflicts.setdefault(account.name, []).append(text)


def _compare(found: People, numbers: dict[str, dict[int, dict[str, list[str]]]], slurm_user: str) -> None:
    """Record names with several UIDs or GIDs, and UIDs or GIDs with several names."""
    tables: tuple[tuple[str, str, dict[str, dict[str, int]]], ...] = (
        ("user", "UID", {name: {host: each.uid for host, each in here.items()} for name, here in found.users.items()}),
        ("group", "GID", {name: {host: gid for host, (gid, _) in here.items()} for name, here in found.groups.items()}),
    )
    for kind, key, table in tables:
        for name, here in table.items():
            if len(set(here.values())) > 1 and (any(map(_is_users, here.values())) or name == slurm_user):
                where = ", ".join(f"{number} on {_hosts(here, number)}" for number in dict.fromkeys(here.values()))
                found.conflicts.setdefault(name, []).append(f"{kind} {name}: {key} differs: {where}")
        for number, names in numbers[key].items():
            if len(names) > 1:
                where = ", ".join(f"{name} on {', '.join(dict.fromkeys(hosts))}" for name, hosts in names.items())
                for name in names:
                    found.conflicts.setdefault(name, []).append(f"{key} {number} belongs to several {kind}s: {where}")


def _hosts(here: Mapping[str, int], number: int) -> str:
    return ", ".join(host for host, each in here.items() if each == number)


def carry_people(
    draft: Draft, people: People, slurm: Mapping[str, dict[str, Any]], dumped: set[str], slurm_user: str
) -> list[str]:
    """Declare users and groups without contradictions, and return the contradictions."""
    users: list[dict[str, Any]] = []
    wanted: dict[str, int] = {}
    for name, here in people.users.items():
        first = next(iter(here.values()))
        if name in people.conflicts:
            continue
        if name == slurm_user:
            draft.note(f"SlurmUser {name}", CARRIED, f"UID {first.uid}, GID {first.gid}: the account is not changed")
        elif name in people.directory:
            users += [{"name": name, "slurm": slurm[name]}] if name in slurm else []
            text = f"UID {first.uid} comes from a directory, so only the accounting entry is declared"
            draft.note(f"user {name}", CARRIED if name in slurm else LEFT, text)
            draft.variables["identity_source"] = "external"
        else:
            _local(draft, people, name)
            own = {"slurm": slurm[name]} if name in slurm else {}
            users.append(_user(people, first, next(iter(here)), wanted) | own)
    for name in sorted(dumped - people.users.keys() - {"root"}):
        draft.note(f"user {name}", LEFT, "is in accounting and unknown to getent; the entry stays in the database")
    homes = [account.home.rpartition("/")[0] for here in people.users.values() for account in here.values()]
    base = max(homes, key=homes.count, default="") or "/home"
    draft.variables |= {"users_create_home": False, "users_home_base": base}
    if wanted:
        draft.variables["users_groups"] = [{"name": name, "gid": gid} for name, gid in wanted.items()]
    if users:
        plain = [
            {key: value for key, value in entry.items() if (key, value) != ("home", f"{base}/{entry['name']}")}
            for entry in users
        ]
        draft.variables["users_accounts"] = plain
    return refuse_conflicts(draft, people)


def refuse_conflicts(draft: Draft, people: People) -> list[str]:
    """Note the contradictions and return them, each a reason to refuse takeover."""
    found = list(dict.fromkeys(text for texts in people.conflicts.values() for text in texts))
    for text in found:
        remedy = "Decide on one number, change the owner of the files, and adopt again"
        draft.note("takeover refused", ASK, f"{text}. {remedy}")
    return found


def _local(draft: Draft, people: People, name: str) -> None:
    """Record a local user, and ask about hosts without the user."""
    here = people.users[name]
    draft.note(f"user {name}", CARRIED, f"users_accounts, UID {next(iter(here.values())).uid}")
    missing = sorted({host for each in people.users.values() for host in each} - here.keys())
    if missing:
        question = f"exists on {', '.join(here)} only; busbar would create the user on {', '.join(missing)}, too"
        draft.note(f"user {name}", ASK, question)


def _user(people: People, account: Account, host: str, wanted: dict[str, int]) -> dict[str, Any]:
    """Return an entry of users_accounts; its groups are added to `wanted`."""
    own = next((name for name, here in people.groups.items() if here.get(host, (0,))[0] == account.gid), "")
    groups = [
        name
        for name, here in people.groups.items()
        if account.name in here.get(host, (0, []))[1] and _is_users(here[host][0]) and name not in people.conflicts
    ]
    entry: dict[str, Any] = {"name": account.name, "uid": account.uid}
    if own and (own, account.gid) != (account.name, account.uid):
        wanted[own] = account.gid
        entry["group"] = own
    for name in groups:
        wanted[name] = people.groups[name][host][0]
    comment = account.comment.rstrip(",")
    details = {"groups": groups, "comment": comment, "home": account.home, "shell": account.shell}
    if account.shell == "/bin/bash":
        del details["shell"]
    return entry | {key: value for key, value in details.items() if value}


def carry_sudo(draft: Draft, hosts: Mapping[str, HostReading]) -> None:
    """List sudo rules; the files stay on the hosts."""
    for host, reading in hosts.items():
        for path, text in reading.files.items():
            if not path.startswith("/etc/sudoers"):
                continue
            for line in text.splitlines():
                matched = _RULE.fullmatch(line.strip())
                if not matched or matched[1] in _USUAL_RULES or matched[1] in {"Defaults", "User_Alias", "Cmnd_Alias"}:
                    continue
                broad = re.search(r"\bALL\s*$", matched[2])
                reason = f"{matched[2]}: {'may run everything; is that intended? ' if broad else ''}the file stays"
                draft.note(f"sudo rule of {matched[1]}", ASK if broad else LEFT, reason, f"{host}:{path}")


def carry_sssd(draft: Draft, hosts: Mapping[str, HostReading]) -> None:
    """Set the options of the directory from sssd.conf, without the password."""
    for host, reading in hosts.items():
        path = "/etc/sssd/sssd.conf"
        if path not in reading.files:
            continue
        parser = configparser.RawConfigParser(strict=False)
        try:
            parser.read_string(reading.files[path])
        except configparser.Error as exc:
            draft.note("sssd.conf", ASK, f"cannot be read: {exc}", f"{host}:{path}")
            continue
        domains = [name for name in parser.sections() if name.startswith("domain/")]
        domain = dict(parser[domains[0]]) if domains else {}
        if len(domains) != 1 or domain.get("id_provider") != "ldap":
            text = f"domains {', '.join(domains)}: the role sssd serves one LDAP domain; SSSD stays as it is"
            draft.note("sssd.conf", LEFT, text, f"{host}:{path}")
            return
        names = {"ldap_search_base": "sssd_base", "ldap_default_bind_dn": "sssd_bind_dn", "ldap_schema": "sssd_schema"}
        options: dict[str, Any] = {"identity_source": "external"}
        options["sssd_uris"] = [uri.strip() for uri in domain.get("ldap_uri", "").split(",") if uri.strip()]
        options |= {option: domain[key] for key, option in names.items() if key in domain}
        home = domain.get("override_homedir") or domain.get("fallback_homedir")
        if home:
            options["sssd_home"] = home
        if "ldap_tls_cacert" in domain:
            options["sssd_ca_file"] = domain["ldap_tls_cacert"]
        draft.carry("sssd.conf", options, f"{host}:{path}")
        used = {
            *names,
            "ldap_uri",
            "id_provider",
            "override_homedir",
            "fallback_homedir",
            "ldap_tls_cacert",
            "enumerate",
        }
        for key in sorted(domain.keys() - used):
            if "authtok" in key:
                draft.note(f"sssd.conf {key}", ASK, "a password: set sssd_bind_password from Ansible Vault", path)
            else:
                draft.note(f"sssd.conf {key}", LEFT, f"{domain[key]}: set it in sssd_config if it is needed", path)
        return
