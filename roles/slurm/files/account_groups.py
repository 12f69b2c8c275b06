"""The program `busbar-account-groups`: grants Slurm accounts to the members of directory groups."""

from __future__ import annotations

import argparse
import configparser
import fcntl
import json
import os
import pwd
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from ansible_collections.busbar.cluster.plugins.module_utils.access.ldap_tools import Connection, LdapError
from ansible_collections.busbar.cluster.plugins.module_utils.slurm.account_groups import Found, decide
from ansible_collections.busbar.cluster.plugins.module_utils.slurm.accounting import QUERIES, parse_state
from ansible_collections.busbar.cluster.plugins.module_utils.slurm.directory_group_rights import (
    COORDINATORS,
    parse_coordinators,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from ansible_collections.busbar.cluster.plugins.module_utils.slurm.account_groups import Step

# Bypass sssd's shared memory cache, because it is updated later than sssd's main cache.
_ENVIRONMENT = {
    "SSS_NSS_USE_MEMCACHE": "NO",
    "PATH": "/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/bin",
    "LC_ALL": "C.UTF-8",
}
_TIMEOUT_S = 120
_FAILED, _REFUSED = 1, 3
_T = TypeVar("_T")


class SyncError(Exception):
    """The run failed before any change; the message contains the reason and the remedy."""


class Settings(NamedTuple):
    """The settings that the role writes. `folder` contains the state of earlier runs and the metrics."""

    cluster: str
    groups: Sequence[Mapping[str, Any]]
    declared: Sequence[str]
    max_removals: int
    folder: str
    admins: Sequence[Mapping[str, Any]] = ()
    sssd_config: str = "/etc/sssd/sssd.conf"


class Directory(NamedTuple):
    """The directory connection from this host's sssd.conf, so that no second file needs the password."""

    connections: Sequence[Connection]
    base: str
    schema: str
    min_id: int

    def answering(self) -> Connection:
        """Return a connection to the first server that can read the base.

        Raises:
            SyncError: no server answers. sssd would answer from its cache, which may be outdated.
        """
        problems = []
        for connection in self.connections:
            try:
                if connection.search(self.base, "base", "(objectClass=*)", "dn"):
                    return connection
                problems.append(f"{connection.uri}: {self.base} does not exist")
            except LdapError as error:
                problems.append(str(error))
        message = f"the directory does not answer ({'; '.join(problems)}). Nothing was changed."
        raise SyncError(message)


def read_directory(path: Path) -> Directory:
    """Return the directory connection of sssd.conf.

    Raises:
        SyncError: the file is missing, or does not name a server.
    """
    parser = configparser.RawConfigParser(strict=False)
    try:
        parser.read_string(path.read_text(encoding="utf-8"), str(path))
        section = parser["domain/busbar"]
        uris = [uri.strip() for uri in section["ldap_uri"].split(",") if uri.strip()]
        base = section["ldap_search_base"].split("?")[0].strip()
    except (OSError, KeyError, configparser.Error) as error:
        # Parser errors quote the line, which may contain the password.
        why = "invalid INI syntax" if isinstance(error, configparser.Error) else f"{error}"
        message = f"cannot read the LDAP settings in {path} ({why}). Run `busbar provision base --tags sssd`."
        raise SyncError(message) from None
    connections = [
        Connection(
            uri,
            ca_file=section.get("ldap_tls_cacert", ""),
            start_tls=section.get("ldap_id_use_start_tls", "false").strip().lower() == "true",
            dn=section.get("ldap_default_bind_dn", ""),
            password=section.get("ldap_default_authtok", ""),
        )
        for uri in uris
    ]
    return Directory(
        connections, base, section.get("ldap_schema", "rfc2307").lower(), int(section.get("min_id", "1000"))
    )


def main(arguments: Sequence[str], configuration: Path) -> int:
    """Synchronise the accounts and return 0 for success, 1 after a failure, 3 if an admin must decide."""
    settings = Settings(**json.loads(configuration.read_text(encoding="utf-8")))
    given = _parser(settings.max_removals).parse_args(arguments)
    folder = Path(settings.folder)
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    with (folder / "lock").open("w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        began = time.time()
        try:
            status, numbers = _run(settings, given)
        except SyncError as error:
            sys.stderr.write(f"busbar-account-groups: {error}\n")
            status, numbers = _FAILED, {}
        if not given.dry_run:
            _write_metrics(folder, began, status, numbers)
    return status


def _parser(max_removals: int) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="busbar-account-groups", description="Assigns Slurm accounts to members of directory groups."
    )
    parser.add_argument("--dry-run", action="store_true", help="show planned changes")
    parser.add_argument(
        "--max-removals",
        type=int,
        default=max_removals,
        help="maximum number of users who may lose an account (%(default)s)",
    )
    parser.add_argument(
        "--allow-empty", action="store_true", help="an empty group revokes the account from its former members"
    )
    return parser


def _run(settings: Settings, given: argparse.Namespace) -> tuple[int, dict[str, float]]:
    directory = read_directory(Path(settings.sssd_config))
    connection = directory.answering()
    # The directory is reachable now, but sssd would retry a server that was offline only after a minute.
    _run_command(["systemctl", "kill", "--signal=USR2", "--kill-who=main", "sssd.service"])
    groups = {str(item["group"]) for item in (*settings.groups, *settings.admins)}
    members = {group: _members(group, directory, connection) for group in sorted(groups)}
    # If the directory fails during the run, the answers may be cached or incomplete.
    directory.answering()
    folder = Path(settings.folder)
    made, rights = read_made(folder / "made.json")
    found = Found(
        state=_accounting(settings.cluster),
        members=members,
        known={user for names in members.values() for user in names or () if _is_person(user, directory.min_id)},
        made=made,
        busy=_associations_with_jobs(),
        coordinators=parse_coordinators(_output(["sacctmgr", "-nP", *COORDINATORS])),
        rights=rights,
    )
    decision = decide(
        found,
        settings.cluster,
        settings.groups,
        settings.admins,
        declared=settings.declared,
        max_removals=given.max_removals,
        allow_empty=given.allow_empty,
    )
    for note in decision.notes:
        sys.stdout.write(f"note: {note}\n")
    undone = [] if given.dry_run else apply_steps(decision.steps)
    if given.dry_run:
        for step in decision.steps:
            sys.stdout.write(f"would: {step.why}\n" + "".join(f"  sacctmgr {shlex.join(c)}\n" for c in step.commands))
    else:
        failed = {step.about for step in undone}
        _save(
            folder / "made.json",
            managed_entries(decision.made, made, failed),
            managed_entries(decision.rights, rights, failed),
        )
    for refusal in decision.refusals:
        sys.stderr.write(f"busbar-account-groups: {refusal}\n")
    done = f"{len(decision.steps) - len(undone)} of {len(decision.steps)} changes"
    sys.stdout.write(f"{len(decision.steps)} changes would be made\n" if given.dry_run else f"{done}\n")
    status = _FAILED if undone else _REFUSED if decision.refusals else 0
    return status, {"members": len(decision.made), "changes": len(decision.steps) - len(undone)}


def _run_command(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run a program and return its result.

    Raises:
        SyncError: the program is missing or timed out.
    """
    try:
        return subprocess.run(  # noqa: S603 - programs of Slurm and sssd, without a shell
            command,
            check=False,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_S,
            stdin=subprocess.DEVNULL,
            env={**_ENVIRONMENT, **{key: os.environ[key] for key in ("SLURM_CONF", "PATH") if key in os.environ}},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        message = f"`{' '.join(command[:2])}` does not answer: {error}"
        raise SyncError(message) from error


def _output(command: Sequence[str]) -> str:
    done = _run_command(command)
    if done.returncode:
        output = " ".join((done.stderr or done.stdout).split())[:300]
        message = f"`{' '.join(command[:4])}` failed ({output}). Nothing was changed."
        raise SyncError(message)
    return done.stdout


def _members(group: str, directory: Directory, connection: Connection) -> set[str] | None:
    """Return the members of a group, including members of nested groups and users whose primary group it is."""
    _run_command(["sss_cache", "-g", group])
    done = _run_command(["getent", "-s", "sss", "group", group])
    fields = done.stdout.strip().split(":")
    if done.returncode or len(fields) != 4 or fields[0] != group:  # noqa: PLR2004 - name, password, number, members
        return None
    names = {name for name in fields[3].split(",") if name}
    kind, name = ("user", "sAMAccountName") if directory.schema == "ad" else ("posixAccount", "uid")
    try:
        entries = connection.search(directory.base, "sub", f"(&(objectClass={kind})(gidNumber={int(fields[2])}))", name)
    except LdapError as error:
        message = f"cannot query the users whose primary group is {group} ({error}). Nothing was changed."
        raise SyncError(message) from error
    return names | {value for entry in entries for value in entry.get(name.lower(), [])}


def _is_person(user: str, min_id: int) -> bool:
    try:
        return pwd.getpwnam(user).pw_uid >= min_id
    except KeyError:
        return False


def _accounting(cluster: str) -> dict[str, Any]:
    return parse_state(
        {
            name: _output(["sacctmgr", "-nP", *(word.format(cluster=cluster) for word in query)])
            for name, query in QUERIES.items()
        }
    )


def _associations_with_jobs() -> set[tuple[str, str]]:
    lines = _output(["squeue", "--all", "--noheader", "--format=%a|%u"]).splitlines()
    return {
        (account.strip(), user.strip()) for account, found, user in (line.partition("|") for line in lines) if found
    }


def apply_steps(steps: Sequence[Step]) -> list[Step]:
    """Run all steps, even after a failure, and return the failed ones."""
    undone = []
    for step in steps:
        error = next(filter(None, (_run_sacctmgr(command) for command in step.commands)), "")
        if error:
            sys.stderr.write(f"busbar-account-groups: {step.why}: {error}\n")
            undone.append(step)
        else:
            sys.stdout.write(f"{step.why}\n")
    return undone


def _run_sacctmgr(command: Sequence[str]) -> str:
    """Run a sacctmgr command and return its error, or an empty string."""
    try:
        done = _run_command(["sacctmgr", "-i", *command])
    except SyncError as error:
        return str(error)
    if not done.returncode:
        return ""
    return f"`sacctmgr {shlex.join(command)}` fails: {' '.join((done.stderr or done.stdout).split())[:300]}"


def managed_entries(decided: Collection[_T], before: Collection[_T], failed: Collection[object]) -> set[_T]:
    """Return the entries that this program manages from now on: the new ones, or the old ones of failed steps."""
    return {one for one in {*decided, *before} if one in (before if one in failed else decided)}


def read_made(path: Path) -> tuple[set[tuple[str, str]], set[tuple[str, str, str]]]:
    """Return the associations and rights that earlier runs created; empty before the first run.

    Raises:
        SyncError: the file is damaged. Without it users who left a group would keep their account.
    """
    try:
        held = json.loads(path.read_text(encoding="utf-8"))
        made = {(str(account), str(user)) for account, user in held["associations"]}
        return made, {(str(kind), str(what), str(user)) for kind, what, user in held["rights"]}
    except FileNotFoundError:
        return set(), set()
    except (KeyError, TypeError, ValueError) as error:
        message = f"{path} cannot be read ({error}). Remove it; the next run reads the members again."
        raise SyncError(message) from error


def _save(path: Path, made: set[tuple[str, str]], rights: set[tuple[str, str, str]]) -> None:
    _write(path, json.dumps({"associations": sorted(made), "rights": sorted(rights)}, indent=1) + "\n")


def _write(path: Path, text: str) -> None:
    fresh = path.with_suffix(".tmp")
    fresh.write_text(text, encoding="utf-8")
    fresh.chmod(0o644)
    fresh.replace(path)


def _write_metrics(folder: Path, began: float, status: int, numbers: Mapping[str, float]) -> None:
    path = folder / "last.json"
    try:
        last = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        last = {}
    last |= {"run": began, "failed": int(status == _FAILED), "refused": int(status == _REFUSED), **numbers}
    if status == 0:
        last["success"] = began
    _write(path, json.dumps(last) + "\n")
    _write(folder / "busbar_account_groups.prom", metrics_text(last))


def metrics_text(last: Mapping[str, float]) -> str:
    """Return the metrics of the last run for the node exporter.

    Args:
        last: ``run`` and ``success`` in seconds since 1970, ``failed`` and ``refused`` (0 or 1), ``members``,
            ``changes``.
    """
    series = (
        ("last_run_timestamp_seconds", "Start of the last comparison of groups with accounting.", "run"),
        (
            "last_success_timestamp_seconds",
            "Last time that accounting matched the groups; 0 for never.",
            "success",
        ),
        ("last_run_failed", "Whether the last run failed.", "failed"),
        ("last_run_refused", "Whether the last run needs manual action.", "refused"),
        ("members", "Users who have an account through a group.", "members"),
        ("changes", "Changes of the last run.", "changes"),
    )
    return "".join(
        f"# HELP busbar_account_groups_{name} {text}\n# TYPE busbar_account_groups_{name} gauge\n"
        f"busbar_account_groups_{name} {float(last.get(key, 0)):.15g}\n"
        for name, text, key in series
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], Path("/etc/busbar/account_groups.json")))
