"""Module that restricts SSH logins to users with a job on the node, and adopts sessions into the job."""

from __future__ import annotations

DOCUMENTATION = r"""
module: pam_sshd
author: busbar contributors (!UNKNOWN)
short_description: Restrict SSH sessions to users with a job on the node
description:
  - Adds pam_slurm_adopt to the PAM stack of sshd for all users who are not exempt, and removes pam_systemd, which would
    move the session out of its job. Prevents cron and at from running commands of other users outside any job.
  - Root is always exempt, and so is the connected user, unless a group in O(groups) covers that user.
extends_documentation_fragment: busbar.cluster.attributes.diff
options:
  enabled: {description: Whether to adopt sessions or to restore the distribution's file., type: bool, required: true}
  users: {description: Additional users who may log in., type: list, elements: str, default: []}
  groups: {description: Groups whose members may log in., type: list, elements: str, default: []}
  note: {description: File with the previous contents for M(busbar.cluster.login_trial)., type: path, required: true}
"""

EXAMPLES = r"""
- busbar.cluster.pam_sshd: {enabled: true, groups: [sudo], note: /var/lib/busbar/slurm/pam_sshd}
"""

RETURN = r"""
on_trial: {description: Whether a new login must still confirm the file., returned: always, type: bool}
"""

import json
import os
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.access.login_user import groups_of, login_user
from ..module_utils.common.baseline import before_write

if TYPE_CHECKING:
    from collections.abc import Sequence

# Services other than sshd that start programs as users, under the names used by all supported distributions.
OTHERS = ("cron", "crond", "atd")
_BEGIN = "# BEGIN busbar: pam_slurm_adopt"
_END = "# END busbar: pam_slurm_adopt"
_SESSION_BEGIN = "# BEGIN busbar: session without pam_systemd"
_SESSION_END = "# END busbar: session without pam_systemd"
_REPLACED = "# replaced by busbar: "
_ACCOUNT = re.compile(r"-?account\s|@include\s+common-account\b")
# Lines after an include may not run: a `sufficient` line in the file (sssd's pam_localuser) ends the account checks.
_INCLUDED = re.compile(r"@include\s+common-account\b|-?account\s+include\s")
_DEBIAN_SESSION = re.compile(r"@include\s+common-session(-noninteractive)?\s*$")
_REDHAT_SESSION = re.compile(r"session\s+include\s+password-auth\s*$")
_SYSTEMD = re.compile(r"-?session\s.*\bpam_systemd\.so\b")


def pam_sshd_text(text: str, users: Sequence[str], groups: Sequence[str], shared_session: str, *, enabled: bool) -> str:
    """Return /etc/pam.d/sshd with or without the lines that adopt sessions into jobs.

    Only exempt users can log in if Slurm does not answer; all others are rejected.

    Args:
        text: current text of /etc/pam.d/sshd.
        users: exempt users.
        groups: groups with exempt members.
        shared_session: text of /etc/pam.d/password-auth, whose session lines are copied if sshd includes it.
        enabled: whether sessions are adopted.

    Raises:
        ValueError: the position of the lines cannot be found.
    """
    lines = _without_ours(text.splitlines())
    if enabled:
        lines = _adopting(lines, users, groups, sessions_without_systemd(shared_session))
    return "\n".join(lines) + "\n"


def pam_others_text(text: str, users: Sequence[str], groups: Sequence[str], *, enabled: bool) -> str:
    """Return the PAM configuration of a service that starts user programs outside jobs, such as cron.

    With `enabled`, only system users and exempt users may use the service.
    """
    lines = _without_part(text.splitlines(), _BEGIN, _END)
    if enabled:
        place = _place(lines)
        place = len(lines) if place is None else place
        tests = ["uid < 1000", *_exempt_tests(users, groups)]
        part = [*_jumps(tests), "account requisite pam_deny.so", "account required pam_permit.so"]
        lines = [*lines[:place], _BEGIN, *part, _END, *lines[place:]]
    return "\n".join(lines) + "\n"


def sessions_without_systemd(shared: str) -> list[str]:
    """Return the session lines of a shared PAM file except pam_systemd, which moves sessions out of their job."""
    lines = [line.strip() for line in shared.splitlines()]
    return [line for line in lines if re.match(r"-?session\s", line) and not _SYSTEMD.match(line)]


def _without_ours(lines: list[str]) -> list[str]:
    """Return the lines that busbar did not add."""
    kept = _without_part(_without_part(lines, _BEGIN, _END), _SESSION_BEGIN, _SESSION_END)
    plain = [line.removeprefix(_REPLACED) for line in kept]
    return ["@include common-session" if _DEBIAN_SESSION.match(line) else line for line in plain]


def _without_part(lines: list[str], begin: str, end: str) -> list[str]:
    """Return the lines except those between two markers."""
    kept: list[str] = []
    inside = False
    for line in lines:
        inside = inside or line == begin
        if not inside:
            kept.append(line)
        inside = inside and line != end
    return kept


def _adopting(lines: list[str], users: Sequence[str], groups: Sequence[str], sessions: list[str]) -> list[str]:
    place = _place(lines)
    if place is None:
        message = "has no account lines to which pam_slurm_adopt can be added"
        raise ValueError(message)
    done = [*lines[:place], _BEGIN, *_account_part(users, groups), _END]
    found = False
    for line in lines[place:]:
        if _DEBIAN_SESSION.match(line):
            found = True
            done.append("@include common-session-noninteractive")
        elif _REDHAT_SESSION.match(line):
            found = True
            done += [_REPLACED + line, _SESSION_BEGIN, *sessions, _SESSION_END]
        else:
            done.append(line)
    if not found:
        message = "includes neither common-session nor password-auth"
        raise ValueError(message)
    return done


def _place(lines: Sequence[str]) -> int | None:
    """Return the index at which to insert account lines: before the first include, or after the last account line."""
    included = (number for number, line in enumerate(lines) if _INCLUDED.match(line))
    behind = max((number + 1 for number, line in enumerate(lines) if _ACCOUNT.match(line)), default=None)
    return next(included, behind)


def _account_part(users: Sequence[str], groups: Sequence[str]) -> list[str]:
    """Return the account lines; by default, pam_slurm_adopt admits sessions that it cannot adopt."""
    adopt = "account required pam_slurm_adopt.so action_adopt_failure=deny action_generic_failure=deny"
    return [*_jumps(_exempt_tests(users, groups)), adopt, "account required pam_permit.so"]


def _exempt_tests(users: Sequence[str], groups: Sequence[str]) -> list[str]:
    return [f"user in {':'.join(users)}"] + ([f"user ingroup {':'.join(groups)}"] if groups else [])


def _jumps(tests: Sequence[str]) -> list[str]:
    """Return PAM lines that skip the next line when one of the tests succeeds."""
    return [
        f"account [success={len(tests) - number} default=ignore] pam_succeed_if.so quiet {test}"
        for number, test in enumerate(tests)
    ]


def exempt_users(users: list[str], groups: list[str]) -> list[str]:
    """Return the exempt users, with the logged-in user unless one of the groups already exempts that user."""
    here = login_user()
    own = [] if set(groups_of(here)) & set(groups) else [here.pw_name]
    return sorted({"root", *users, *own})


def replace(module: AnsibleModule, path: Path, text: str) -> None:
    """Replace a file atomically, keeping its mode and owner."""
    descriptor, temporary = tempfile.mkstemp(prefix="busbar-")
    module.add_cleanup_file(temporary)
    with os.fdopen(descriptor, "w") as stream:
        stream.write(text)
    module.atomic_move(temporary, str(path))


def save_previous(path: Path, former: dict[str, str]) -> None:
    """Keep the previous file contents until a new login succeeds."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.write_text(json.dumps(former))


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "enabled": {"type": "bool", "required": True},
            "users": {"type": "list", "elements": "str", "default": []},
            "groups": {"type": "list", "elements": "str", "default": []},
            "note": {"type": "path", "required": True},
        },
        supports_check_mode=True,
    )
    path, note, shared = Path("/etc/pam.d/sshd"), Path(module.params["note"]), Path("/etc/pam.d/password-auth")
    groups, enabled = module.params["groups"], module.params["enabled"]
    users = exempt_users(module.params["users"], groups)
    others = [file for file in (path.with_name(name) for name in OTHERS) if file.exists()]
    try:
        before = {file: file.read_text() for file in (path, *others)}
        sessions = shared.read_text() if shared.exists() else ""
        after = {file: pam_others_text(before[file], users, groups, enabled=enabled) for file in others}
        after[path] = pam_sshd_text(before[path], users, groups, sessions, enabled=enabled)
        differing = [file for file in before if before[file] != after[file]]
        if differing and not module.check_mode:
            before_write(module, {str(file): after[file] for file in differing})
            if not note.exists():
                save_previous(note, {str(file): before[file] for file in differing})
            for file in differing:
                replace(module, file, after[file])
        changed = bool(differing) or note.exists()
    except (OSError, ValueError) as exc:
        module.fail_json(msg=f"{path}: {exc}")
    diff = [
        {"before": before[file], "after": after[file], "before_header": str(file), "after_header": str(file)}
        for file in differing
    ]
    module.exit_json(changed=changed, on_trial=changed, users=users, diff=diff)


if __name__ == "__main__":
    main()
