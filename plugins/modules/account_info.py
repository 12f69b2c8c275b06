"""Module that reads what a host knows of the declared users and groups."""

from __future__ import annotations

DOCUMENTATION = r"""
module: account_info
author: busbar contributors
short_description: What a host knows of the declared users and groups
description:
  - Returns the declared users, whoever holds their numbers, and all groups.
  - Takes one execution however many users there are.
  - Names and numbers are also asked for one by one, so that a directory service that lists nobody is seen too.
attributes:
  check_mode:
    description: Changes nothing in any mode.
    support: full
options:
  users:
    description: Names of the declared users.
    type: list
    elements: str
    default: []
  uids:
    description: Their numbers.
    type: list
    elements: int
    default: []
  gids:
    description: Numbers of the declared groups.
    type: list
    elements: int
    default: []
  leaving:
    description: Names of the users who are about to be removed; what they run is looked for.
    type: list
    elements: str
    default: []
  wait_s:
    description: How many seconds to wait for what the leaving users run to end; in check mode nobody waits.
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
    users: [alice]
    uids: [2001]
    gids: [2000]
  register: __example_accounts
"""

RETURN = r"""
users:
  description:
    - By name, the C(uid), C(gid), C(comment), C(home), C(shell), C(home_exists), C(groups), C(password) and C(locked).
    - C(groups) are the further groups. C(password) is a digest of the password's hash, empty when there is none.
    - C(locked) is whether the account has expired.
  returned: always
  type: dict
groups:
  description: The number of each group by name.
  returned: always
  type: dict
key_files:
  description: Names of the users who have a file of authorized keys.
  returned: always
  type: list
  elements: str
active:
  description: Processes of each leaving user, and on a host that runs slurmctld the user's jobs, one sentence each.
  returned: always
  type: dict
visudo:
  description: Whether a file of sudo rules can be checked here.
  returned: always
  type: bool
"""

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.access.accounts import password_digest
from ..module_utils.access.host_accounts import known_groups, known_users
from ..module_utils.access.user_processes import runs_slurmctld, user_processes
from ..module_utils.common.bounded import bounded
from ..module_utils.slurm.held_jobs import JOBS_OF_USERS, read_held_jobs
from ..module_utils.storage.mounts import Mount, on_network, parse_mountinfo

if TYPE_CHECKING:
    import grp
    import pwd

MOUNTINFO = Path("/proc/self/mountinfo")
PATIENCE_S = 5
BETWEEN_LOOKS_S = 5.0
# The field of /etc/shadow with the day on which an account ends.
EXPIRES = 7
DAY_S = 86400


def shadow_rows(path: Path = Path("/etc/shadow")) -> list[list[str]]:
    """Return the fields of all accounts."""
    try:
        return [line.split(":") for line in path.read_text(errors="replace").splitlines()]
    except OSError:
        return []


def expired(rows: list[list[str]], today: float) -> set[str]:
    """Return the names of accounts that have ended by a day, counted from 1970."""
    return {row[0] for row in rows if len(row) > EXPIRES and row[EXPIRES].isdecimal() and int(row[EXPIRES]) <= today}


def shadow_digests(rows: list[list[str]]) -> dict[str, str]:
    """Return a digest of each password's hash; nothing for who has none."""
    return {row[0]: password_digest(row[1]) for row in rows if len(row) > 1 and row[1].startswith("$")}


class Homes:
    """Tells of homes whether they are there, without waiting for a file server that is gone."""

    def __init__(self, mounts: list[Mount]) -> None:
        """Keep what is mounted."""
        self.mounts = mounts
        self.gone = False

    def exists(self, path: str) -> bool:
        """Return whether there is a home, or something that only its owner may look at, or that cannot be known now."""
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
    """Return one user as data."""
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
    """Return the jobs of users where this host runs slurmctld; where that does not answer, a sentence that says so."""
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
        return {name: [f"jobs that slurmctld does not tell ({reason})"] for name in names}
    found: dict[str, list[str]] = {}
    for job in jobs:
        place = f"on {','.join(job.nodes[:4])}" if job.nodes else "waiting"
        found.setdefault(job.user, []).append(f"job {job.label} ({place})")
    return {
        name: [*texts[:4], *([f"{len(texts) - 4} more jobs"] if texts[4:] else [])] for name, texts in found.items()
    }


def activity(module: AnsibleModule, users: dict[str, pwd.struct_passwd]) -> dict[str, list[str]]:
    """Return what keeps each leaving user of this host from being removed; nothing is asked where none leaves."""
    uids = {name: users[name].pw_uid for name in module.params["leaving"] if name in users}
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


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "users": {"type": "list", "elements": "str", "default": []},
            "uids": {"type": "list", "elements": "int", "default": []},
            "gids": {"type": "list", "elements": "int", "default": []},
            "leaving": {"type": "list", "elements": "str", "default": []},
            "wait_s": {"type": "int", "default": 0},
            "key_directory": {"type": "path", "default": "/etc/ssh/authorized_keys.d", "no_log": False},
        },
        supports_check_mode=True,
    )
    keys = Path(module.params["key_directory"])
    groups = list(known_groups([], module.params["gids"]).values())
    rows = shadow_rows()
    digests, ended = shadow_digests(rows), expired(rows, time.time() / DAY_S)
    homes = Homes(parse_mountinfo(MOUNTINFO.read_text(errors="replace")) if MOUNTINFO.exists() else [])
    users = known_users(module.params["users"], module.params["uids"])
    module.exit_json(
        changed=False,
        users={
            name: describe(entry, groups, digests.get(name, ""), homes) | {"locked": name in ended}
            for name, entry in users.items()
        },
        groups={group.gr_name: group.gr_gid for group in groups},
        key_files=sorted(os.listdir(keys)) if keys.is_dir() else [],  # noqa: PTH208 - plain names are wanted
        active=activity(module, users),
        visudo=module.get_bin_path("visudo") is not None,
    )


if __name__ == "__main__":
    main()
