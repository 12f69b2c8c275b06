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
import tempfile
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.access.login_user import groups_of, login_user
from ..module_utils.access.pam_sshd import pam_others_text, pam_sshd_text
from ..module_utils.common.baseline import before_write

# Services other than sshd that start programs as users, under the names used by all supported distributions.
OTHERS = ("cron", "crond", "atd")


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
