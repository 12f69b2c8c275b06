"""Module that reads the declared users and groups on a host, and plans the changes."""

from __future__ import annotations

DOCUMENTATION = r"""
module: account_info
author: busbar contributors (!UNKNOWN)
short_description: Compare the accounts of a host with the declared users and groups
description:
  - Reads the declared users, the accounts that hold their UIDs, and all groups, and plans the changes. Looks for
    processes of users to remove.
  - Runs once for all users.
  - Also looks up each name and ID separately, because a directory service may not enumerate its users.
extends_documentation_fragment: busbar.cluster.attributes.read_only
options:
  accounts:
    description: Items of C(users_accounts), without the hashes of passwords.
    type: list
    elements: dict
    required: true
  groups:
    description: Items of C(users_groups).
    type: list
    elements: dict
    default: []
  password_digests:
    description: SHA-256 digest of each declared password hash, by user name.
    type: dict
    default: {}
  host:
    description: The host's name, for messages.
    type: str
    required: true
  key:
    description: Option to name in problems instead of the options of the role C(users).
    type: str
    default: ""
  shell:
    description: Login shell of users who declare none.
    type: str
    default: ""
  home_base:
    description: Parent directory of the home directories.
    type: path
    default: /home
  create_home:
    description: Whether to create missing home directories.
    type: bool
    default: false
  wait_s:
    description: Seconds to wait for the processes of removed users to end. Check mode does not wait.
    type: int
    default: 0
  key_directory:
    description: Directory with one file of authorized keys per user.
    type: path
    default: /etc/ssh/authorized_keys.d
"""

EXAMPLES = r"""
- name: Read the accounts
  busbar.cluster.account_info:
    accounts: [{name: alice, uid: 2001, group: research}]
    groups: [{name: research, gid: 2000}]
    host: "{{ inventory_hostname }}"
  register: __example_accounts
"""

RETURN = r"""
users:
  description:
    - By name, the C(uid), C(gid), C(comment), C(home), C(shell), C(home_exists), C(groups), C(password) and C(locked).
    - C(groups) are the supplementary groups. C(password) is a digest of the password hash, empty without one.
    - C(locked) is true if the account has expired.
  returned: always
  type: dict
groups:
  description: GID of each group by name.
  returned: always
  type: dict
plan:
  description:
    - C(problems), each with C(hosts), C(key), C(problem) and C(remedy). If there are any, nothing else is planned and
      the caller must not change anything.
    - C(users_absent), C(groups_absent), C(groups), C(users) and C(passwords) are the required changes, in that order.
    - C(former_homes) are sentences about homes that change although the present one exists.
    - C(changes) is true if any of these is not empty.
    - C(key_files) are all authorized_keys files, for the option O(busbar.cluster.templates#module:more).
  returned: always
  type: dict
visudo:
  description: Whether visudo is available to check sudoers files.
  returned: always
  type: bool
"""

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.access.account_problems import account_conflicts, home_conflicts, removal_conflicts
from ..module_utils.access.accounts import (
    account_plan,
    home_of,
    is_local,
    is_present,
    key_files,
    known_groups,
    known_users,
    password_digest,
)
from ..module_utils.access.user_processes import runs_slurmctld, user_processes
from ..module_utils.common.call_timeout import bounded
from ..module_utils.slurm.job_resources import JOBS_OF_USERS, read_held_jobs
from ..module_utils.storage.mounts import Mount, on_network, parse_mountinfo

if TYPE_CHECKING:
    import grp
    import pwd

MOUNTINFO = Path("/proc/self/mountinfo")
PASSWD = Path("/etc/passwd")
PATIENCE_S = 5
BETWEEN_LOOKS_S = 5.0
# The field of /etc/shadow with the day on which an account expires.
EXPIRES = 7
DAY_S = 86400


def shadow_rows(path: Path = Path("/etc/shadow")) -> list[list[str]]:
    """Return the fields of each line in /etc/shadow; empty if it cannot be read."""
    try:
        return [line.split(":") for line in path.read_text(errors="replace").splitlines()]
    except OSError:
        return []


def expired(rows: list[list[str]], today: float) -> set[str]:
    """Return the names of the accounts that have expired; `today` is in days since 1970."""
    return {row[0] for row in rows if len(row) > EXPIRES and row[EXPIRES].isdecimal() and int(row[EXPIRES]) <= today}


def shadow_digests(rows: list[list[str]]) -> dict[str, str]:
    """Return a digest of each account's password hash; accounts without a password are omitted."""
    return {row[0]: password_digest(row[1]) for row in rows if len(row) > 1 and row[1].startswith("$")}


class Homes:
    """Checks whether home directories exist, without hanging on a file server that does not respond."""

    def __init__(self, mounts: list[Mount]) -> None:
        """Store the host's mounts."""
        self.mounts = mounts
        self.gone = False

    def exists(self, path: str) -> bool:
        """Return whether a home directory exists; True if this cannot be determined."""
        try:
            if not on_network(path, self.mounts):
                return Path(path).is_dir()
            return self.gone or bool(bounded(Path(path).is_dir, PATIENCE_S))
        except TimeoutError:
            self.gone = True
            return True
        except OSError:
            return True


def describe(entry: pwd.struct_passwd, groups: list[grp.struct_group], password: str, homes: Homes) -> dict[str, Any]:
    """Return a user's attributes in the format of account_plan()."""
    return {
        "uid": entry.pw_uid,
        "gid": entry.pw_gid,
        "comment": entry.pw_gecos,
        "home": entry.pw_dir,
        "shell": entry.pw_shell,
        "home_exists": homes.exists(entry.pw_dir),
        "groups": sorted(
            group.gr_name for group in groups if entry.pw_name in group.gr_mem and group.gr_gid != entry.pw_gid
        ),
        "password": password,
    }


def user_jobs(module: AnsibleModule, names: list[str]) -> dict[str, list[str]]:
    """Return users' jobs, or an error if slurmctld does not answer; empty if it runs on another host."""
    squeue = module.get_bin_path("squeue")
    if squeue is None or not runs_slurmctld():
        return {}
    command = ["timeout", "60", squeue, *JOBS_OF_USERS[1:], ",".join(names)]
    status, out, err = module.run_command(command, environ_update={"LC_ALL": "C.UTF-8"})
    try:
        jobs = read_held_jobs(out)
    except ValueError as exc:
        status, err = 1, str(exc)
    if status != 0:
        reason = " ".join((err or out or "no answer within 60 s").split())[-200:]
        return {name: [f"unknown jobs: slurmctld did not list them ({reason})"] for name in names}
    found: dict[str, list[str]] = {}
    for job in jobs:
        place = f"on {','.join(job.nodes[:4])}" if job.nodes else "waiting"
        found.setdefault(job.user, []).append(f"job {job.label} ({place})")
    return {
        name: [*texts[:4], *([f"{len(texts) - 4} more jobs"] if texts[4:] else [])] for name, texts in found.items()
    }


def activity(module: AnsibleModule, leaving: list[str], users: dict[str, pwd.struct_passwd]) -> dict[str, list[str]]:
    """Return the processes and jobs that prevent removing each of the `leaving` users, after waiting for their end."""
    uids = {name: users[name].pw_uid for name in leaving if name in users}
    if not uids:
        return {}
    end = time.monotonic() + (0 if module.check_mode else module.params["wait_s"])
    while True:
        processes, jobs = user_processes(uids), user_jobs(module, list(uids))
        found = {name: jobs.get(name, []) + processes.get(name, []) for name in uids}
        left = end - time.monotonic()
        if not any(found.values()) or left <= 0:
            return {name: sentences for name, sentences in found.items() if sentences}
        time.sleep(min(BETWEEN_LOOKS_S, left))


def look(module: AnsibleModule) -> dict[str, Any]:
    """Return the declared users and groups on this host, and the processes and jobs of users to remove."""
    accounts, declared_groups = module.params["accounts"], module.params["groups"]
    uids = [int(item["uid"]) for item in accounts if item.get("uid") is not None]
    gids = [int(item["gid"]) for item in declared_groups if item.get("gid") is not None]
    groups = list(known_groups([], [*uids, *gids]).values())
    rows = shadow_rows()
    digests, ended = shadow_digests(rows), expired(rows, time.time() / DAY_S)
    homes = Homes(parse_mountinfo(MOUNTINFO.read_text(errors="replace")) if MOUNTINFO.exists() else [])
    leaving = [str(item["name"]) for item in accounts if not is_present(item)]
    # A directory user is not removed from hosts: userdel supports only the users in /etc/passwd.
    elsewhere = {*leaving} - {line.split(":")[0] for line in PASSWD.read_text(errors="replace").splitlines()}
    found = known_users([str(item["name"]) for item in accounts], uids)
    users = {name: entry for name, entry in found.items() if name not in elsewhere}
    return {
        "users": {
            name: describe(entry, groups, digests.get(name, ""), homes) | {"locked": name in ended}
            for name, entry in users.items()
        },
        "groups": {group.gr_name: group.gr_gid for group in groups},
        "active": activity(module, leaving, users),
    }


def planned(params: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    """Return the changes for the host, or the problems that prevent any change."""
    accounts, groups, host = params["accounts"], params["groups"], params["host"]
    passwd = {name: user["uid"] for name, user in found["users"].items()}
    problems = account_conflicts(host, accounts, groups, passwd, found["groups"])
    problems += removal_conflicts(host, accounts, found["active"])
    removed = [
        (item["name"], found["users"][item["name"]]["home"])
        for item in accounts
        if not is_present(item) and item.get("remove_home") and item["name"] in found["users"]
    ]
    homes = {home_of(item, params["home_base"]): str(item["name"]) for item in accounts if is_local(item)}
    problems += home_conflicts(host, removed, homes)
    if problems:
        return {"problems": [{**problem, "key": params["key"] or problem["key"]} for problem in problems]}
    changes = account_plan(accounts, groups, found, params, params["password_digests"])
    keys = Path(params["key_directory"])
    there = sorted(os.listdir(keys)) if keys.is_dir() else []  # noqa: PTH208 - returns strings
    files = key_files(accounts, there, str(keys))
    return {"problems": [], "key_files": files, "changes": any(changes.values()), **changes}


def main() -> None:
    """Run the module."""
    items: dict[str, Any] = {"type": "list", "elements": "dict"}
    module = AnsibleModule(
        argument_spec={
            "accounts": {**items, "required": True},
            "groups": {**items, "default": []},
            "password_digests": {"type": "dict", "default": {}, "no_log": False},
            "host": {"type": "str", "required": True},
            "key": {"type": "str", "default": "", "no_log": False},
            "shell": {"type": "str", "default": ""},
            "home_base": {"type": "path", "default": "/home"},
            "create_home": {"type": "bool", "default": False},
            "wait_s": {"type": "int", "default": 0},
            "key_directory": {"type": "path", "default": "/etc/ssh/authorized_keys.d", "no_log": False},
        },
        supports_check_mode=True,
    )
    try:
        found = look(module)
        plan = planned(module.params, found)
    except (AttributeError, LookupError, TypeError, ValueError) as exc:
        problem = f"{exc} is missing" if isinstance(exc, KeyError) else str(exc)
        module.fail_json(msg=f"{module.params['host']}: users_accounts, users_groups: {problem}")
    visudo = module.get_bin_path("visudo") is not None
    module.exit_json(changed=False, users=found["users"], groups=found["groups"], plan=plan, visudo=visudo)


if __name__ == "__main__":
    main()
