"""`busbar user`: manages users in the inventory or in the cluster's directory."""

from __future__ import annotations

import datetime as dt
import difflib
import json
import shlex
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.common.printable import printable
from ansible_collections.busbar.cluster.plugins.plugin_utils.run_lock import ELEVATION, Holder

from busbar.commands.provision import INTERRUPTED, exit_code
from busbar.errors import UsageError
from busbar.output import print_columns, print_json
from busbar.run.display import Display
from busbar.run.playbook import host_variables, inventory_hosts
from busbar.run.site import Site, add_run_options, explain, refuse_busy
from busbar.users.elevation import elevation, elevation_line
from busbar.users.inventory_users import Declared, write
from busbar.users.request import checked_name, new_user, read_keys, read_table

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence

    from busbar.run.events import Run

DONE, USAGE = 0, 2
DECLARED, DIRECTORY, EXTERNAL = "declared", "ldap_server", "external"
_DRY = frozenset({"-C", "--check"})
DESCRIPTION = """\
Manages users of the inventory (users_accounts), or of the LDAP directory (identity_source: ldap_server). A change
is checked completely first: names, UIDs, groups, keys. Then busbar changes the file or the directory, the hosts
and Slurm's accounting, and records the change in the journal (journalctl -t busbar-user). Settings that the command
does not mention stay unchanged. Exit codes: 0 done, 1 some hosts failed, 2 refused without changes.
"""
ADD = """\
Adds a user with a home directory, SSH keys and Slurm accounts. Without --number the next free UID is
used. No password is set.
"""
REMOVE = """\
Removes a user from all hosts or from the directory, and from Slurm's accounting; the home directory is kept. Refused
while jobs or processes of the user run, which are listed; --wait waits for their end.
"""
IMPORT = """\
Adds all users of a CSV file with the columns name,number,full_name,group,groups,accounts,keys. Only name is required;
number is the UID; groups and accounts are separated by spaces. If a line is invalid, nothing is changed.
"""
ELEVATE = """\
Grants a user sudo rights for at most 24 hours, on all hosts or those of --limit. sudo enforces the end, also on hosts
that are offline at that time; --end revokes the rights immediately. The journal records the admin, the reason
(journalctl -t busbar-user), and each command that the user runs with sudo. The right to log in does not change.
"""


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command and its actions."""
    parser = subparsers.add_parser("user", help="add, change, remove and list users", description=DESCRIPTION)
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    add = actions.add_parser("add", help="add a user", description=ADD)
    add.add_argument("--number", metavar="N", help="UID")
    add.add_argument("--full-name", metavar="TEXT", help="full name")
    add.add_argument("--group", metavar="GROUP", help="primary group")
    add.add_argument("--groups", metavar="GROUP,GROUP", default="", help="further groups")
    add.add_argument("--key", action="append", default=[], metavar="KEY|FILE", help="public SSH key, or its file")
    add.add_argument("--account", action="append", default=[], metavar="ACCOUNT", help="Slurm account")
    remove = actions.add_parser("remove", help="remove a user, but keep the home directory", description=REMOVE)
    remove.add_argument("--wait", type=int, default=0, metavar="SECONDS", help="wait for jobs and processes to end")
    lock = actions.add_parser("lock", help="block logins of a user; running processes continue")
    unlock = actions.add_parser("unlock", help="allow a user to log in again")
    key = actions.add_parser("key", help="add and remove SSH keys of a user")
    key.add_argument("--add", action="append", default=[], metavar="KEY|FILE", help="public key, or its file")
    key.add_argument("--remove", action="append", default=[], metavar="KEY", help="key, its data or its comment")
    group = actions.add_parser("group", help="add a user to groups, and remove it from groups")
    group.add_argument("--add", action="append", default=[], metavar="GROUP")
    group.add_argument("--remove", action="append", default=[], metavar="GROUP")
    table = actions.add_parser("import", help="add the users of a CSV file", description=IMPORT)
    table.add_argument("file", type=Path, metavar="FILE.csv")
    elevate = actions.add_parser("elevate", help="grant a user temporary root rights", description=ELEVATE)
    elevate.add_argument("--for", dest="duration", metavar="TIME", help="duration, such as 30m or 4h")
    elevate.add_argument("--reason", metavar="TEXT", help="reason, such as a ticket")
    elevate.add_argument("--end", action="store_true", help="revoke the rights now")
    listed = actions.add_parser("list", help="list users with UIDs, groups and locks")
    listed.add_argument("--format", choices=("text", "json"), default="text")
    for action in (add, remove, lock, unlock, key, group, elevate):
        action.add_argument("user", metavar="NAME", help="name of the user")
    named = {"add": add, "remove": remove, "lock": lock, "unlock": unlock, "key": key, "group": group, "import": table}
    for name, action in (named | {"list": listed}).items():
        action.add_argument(
            "--declared", action="store_true", help="users of the inventory, even if the cluster uses a directory"
        )
        if action is not listed:
            action.add_argument("--dry-run", action="store_true", help="only show planned changes")
        add_run_options(action)
        action.set_defaults(run=_list if action is listed else _change, action=name)
    elevate.add_argument("--dry-run", action="store_true", help="only show planned changes")
    add_run_options(elevate)
    elevate.set_defaults(run=_elevate, action="elevate")


def changes(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Return the requested changes.

    Raises:
        UsageError: the request is invalid.
    """
    if args.action == "import":
        return read_table(args.file)
    name = checked_name(args.user)
    if args.action == "add":
        given = {"name": name, "number": args.number, "full_name": args.full_name, "group": args.group}
        keys = [key for word in args.key for key in read_keys(word)]
        words = {"groups": args.groups.replace(",", " ").split(), "accounts": args.account, "keys": keys}
        return [new_user(given | words)]
    change: dict[str, Any] = {"do": args.action, "name": name}
    if args.action in {"key", "group"}:
        if not args.add and not args.remove:
            message = f"busbar user {args.action} {name}: use --add or --remove"
            raise UsageError(message)
        added = [key for word in args.add for key in read_keys(word)] if args.action == "key" else args.add
        change |= {"add": added, "remove": args.remove}
    return [change]


class _Site(Site):
    """An inventory with the playbook of `busbar user`."""

    def __init__(self, args: argparse.Namespace) -> None:
        """Choose the inventory.

        Raises:
            UsageError: the inventory does not exist, or has no hosts.
        """
        super().__init__(args)
        self.dry = getattr(args, "dry_run", False) or not _DRY.isdisjoint(args.options)
        self.site_playbook = self.playbook("user")
        self.site_playbook.command = f"busbar user {args.action}"
        if not inventory_hosts(self.site_playbook, "all"):
            message = f"the inventory {', '.join(self.inventory)} has no hosts"
            raise UsageError(message)

    def change(self, variables: Mapping[str, Any], *more: str) -> tuple[int, Run]:
        """Run the playbook and return the exit code and the run."""
        with tempfile.TemporaryDirectory(prefix="busbar-user-") as folder:
            # Command lines are visible to other users.
            given = Path(folder) / "request.json"
            given.touch(mode=0o600)
            given.write_text(json.dumps(dict(variables)), encoding="utf-8")
            options = ["-e", f"@{given}", *more, *(["--check"] if self.dry else [])]
            run = self.run(self.site_playbook, *options, log="user", display=Display(sys.stderr))
        if run.interrupted:
            return INTERRUPTED, run
        code = exit_code(run.returned, run.failures, None)
        if code:
            explain(run)
        return code, run


class _UsersSite(_Site):
    """An inventory with the source of its users: the inventory, busbar's directory or an external directory."""

    def __init__(self, args: argparse.Namespace) -> None:
        """Determine the source of users.

        Raises:
            UsageError: the inventory does not exist, or busbar does not administer its users.
        """
        super().__init__(args)
        self.variables = host_variables(self.site_playbook)
        common: Mapping[str, Any] = next(iter(self.variables.values()), {})
        self.source = str(extra_variables(args.options).get("identity_source", common.get("identity_source", DECLARED)))
        if self.source not in {DECLARED, DIRECTORY, EXTERNAL}:
            message = f"identity_source is {self.source!r}: use {DECLARED}, {DIRECTORY} or {EXTERNAL} literally"
            raise UsageError(message)
        if args.declared:
            self.source = DECLARED
        if self.source == EXTERNAL:
            where = ", ".join(map(str, common.get("sssd_uris") or [])) or "sssd_uris"
            message = (
                f"users come from the external directory ({where}), which busbar only reads: change users there. "
                "For users of the inventory: --declared"
            )
            raise UsageError(message)


def extra_variables(options: Sequence[str]) -> dict[str, Any]:
    """Return the variables given with -e that can be parsed here; Ansible reports errors."""
    found: dict[str, Any] = {}
    for option, word in zip(options, options[1:]):
        if option not in {"-e", "--extra-vars"}:
            continue
        try:
            if word.startswith("@"):
                data = yaml.safe_load(Path(word[1:]).read_text(encoding="utf-8"))
            elif word.lstrip().startswith(("{", "[")):
                data = yaml.safe_load(word)
            else:
                data = dict(part.split("=", 1) for part in shlex.split(word) if "=" in part)
        except (OSError, ValueError, yaml.YAMLError):
            continue
        found |= data if isinstance(data, dict) else {}
    return found


def _change(args: argparse.Namespace) -> int:
    """Make the changes and return the exit code."""
    requested = changes(args)
    site = _UsersSite(args)
    if not site.dry:
        refuse_busy(site.inventory)
    variables: dict[str, Any] = {
        "user_by": _who(),
        "user_present": [change["name"] for change in requested if change["do"] == "add"],
    }
    if getattr(args, "wait", 0):
        variables["users_removal_wait"] = args.wait
    if site.source == DECLARED:
        return _change_declared(site, requested, variables)
    associations: list[dict[str, Any]] = [
        {"name": change["name"], "accounts": change["accounts"]} for change in requested if change.get("accounts")
    ]
    associations += [{"name": change["name"], "state": "absent"} for change in requested if change["do"] == "remove"]
    variables |= {"user_source": "directory", "user_changes": requested, "user_associations": associations}
    code, run = site.change(variables)
    done = run.custom.get("busbar_users") or {}
    _say(done.get("messages") or [], dry=site.dry, nothing=code == DONE)
    return code


def _change_declared(site: _UsersSite, requested: list[dict[str, Any]], variables: dict[str, Any]) -> int:
    """Change the files, then the hosts, and return the exit code."""
    declared = Declared(site.inventory, site.variables)
    lines = declared.change(requested)
    texts = declared.texts()
    _say(lines, dry=site.dry, nothing=True)
    names = {change["name"] for change in requested}
    variables |= {
        "user_source": "declared",
        "user_messages": lines,
        "user_associations": [item for item in declared.associations() if item["name"] in names],
    }
    if site.dry:
        for path, (before, after) in texts.items():
            diff = difflib.unified_diff(before.splitlines(), after.splitlines(), str(path), str(path), lineterm="")
            # Do not show password hashes.
            print("\n".join(printable(line) for line in diff if "password_hash" not in line))
        with tempfile.TemporaryDirectory(prefix="busbar-user-") as folder:
            future = Path(folder) / "future.yml"
            future.touch(mode=0o600)
            future.write_text(declared.future(), encoding="utf-8")
            return site.change(variables, "-e", f"@{future}")[0]
    for path, (_before, after) in texts.items():
        write(path, after)
    code, run = site.change(variables)
    if code == USAGE and not any(run.stats.get("changed", {}).values()):
        # The run was refused before it changed anything, so the files must stay unchanged too.
        for path, (before, after) in texts.items():
            if path.read_text(encoding="utf-8") == after:
                write(path, before)
        print("busbar user: the change was refused, and the inventory was restored", file=sys.stderr)
    elif code:
        print("busbar user: the inventory is updated, but some hosts are not: run the command again", file=sys.stderr)
    return code


def _elevate(args: argparse.Namespace) -> int:
    """Grant or revoke temporary root privileges and return the exit code."""
    requested = elevation(args, dt.datetime.now(dt.timezone.utc))
    line = elevation_line(requested)
    site = _Site(args)
    code, _run = site.change({**requested, "elevate_message": line, "user_by": _who()}, "--tags", ELEVATION)
    if code == DONE:
        print(printable(f"would do: {line}" if site.dry else line))
    return code


def _list(args: argparse.Namespace) -> int:
    """Print the users and return the exit code."""
    site = _UsersSite(args)
    people: list[dict[str, Any]] = Declared(site.inventory, site.variables).people()
    if site.source == DIRECTORY:
        site.dry = True
        code, run = site.change({"user_source": "directory", "user_changes": [], "user_by": _who()})
        if code:
            return code
        people += (run.custom.get("busbar_users") or {}).get("people") or []
    if args.format == "json":
        print_json(people)
        return DONE
    rows = [("name", "UID", "group", "groups", "keys", "", "from", "full name")]
    rows += [
        (
            *(str(one["name"]), str(one["number"]), str(one["group"]), ",".join(one["groups"]) or "-"),
            *(str(one["keys"]), "locked" if one["locked"] else "", str(one["source"]), str(one["full_name"])),
        )
        for one in people
    ]
    print_columns(rows)
    return DONE


def _say(lines: Sequence[str], *, dry: bool, nothing: bool) -> None:
    for line in lines:
        print(printable(f"would do: {line}" if dry else line))
    if not lines and nothing:
        print("nothing to change in the list of users")


def _who() -> str:
    here = Holder.here("")
    return f"{here.user}@{here.host}"
