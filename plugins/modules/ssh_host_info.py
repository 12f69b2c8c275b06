"""Module that reads the facts of a host that are needed to sign its SSH host key."""

from __future__ import annotations

DOCUMENTATION = r"""
module: ssh_host_info
author: busbar contributors (!UNKNOWN)
short_description: Read a host's public key and certificate, and the login rights of the connected user
description:
  - Reads the public host key and its certificate; the private key stays on the host. Reads whether the connected user
    could log in with a key, to prevent a lockout, and the users and groups with sudo rules from any source.
extends_documentation_fragment: busbar.cluster.attributes.read_only
options:
  key_file: {description: Path of the private host key., type: path, default: /etc/ssh/ssh_host_ed25519_key}
  key_directory: {description: Directory of authorized keys by user., type: path, default: /etc/ssh/authorized_keys.d}
"""

EXAMPLES = r"""
- busbar.cluster.ssh_host_info:
"""

RETURN = r"""
public_key: {description: The public key as one line., returned: always, type: str}
certificate: {description: The certificate as one line or empty., returned: always, type: str}
user: {description: The connected user., returned: always, type: str}
groups: {description: Groups of that user., returned: always, type: list, elements: str}
sudo_users: {description: Users with a sudo rule., returned: always, type: list, elements: str}
sudo_groups: {description: Groups with a sudo rule., returned: always, type: list, elements: str}
sudo_problem: {description: Reason why the sudo rules cannot be read., returned: always, type: str}
key_login: {description: Whether that user has an authorized key., returned: always, type: bool}
version: {description: Version of OpenSSH; V(0.0) if unknown., returned: always, type: str}
"""

import grp
import json
import pwd
import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.access.login_user import groups_of, login_user

if TYPE_CHECKING:
    from collections.abc import Callable

SUDOERS = Path("/etc/sudoers")


def sudo_holders(text: str) -> dict[str, list[str]]:
    """Return users and groups with at least one sudo rule, by name or as `#number`.

    Rules for ALL are ignored, because they give all users the same privileges.

    Raises:
        ValueError: the text is not output of cvtsudoers.
    """
    found = json.loads(text)
    if not isinstance(found, dict):
        message = "is not output of cvtsudoers"
        raise ValueError(message)  # noqa: TRY004 - the text is invalid, not the argument type
    members = [member for spec in found.get("User_Specs") or [] for member in spec.get("User_List") or []]
    granted = [member for member in members if not member.get("negated")]
    return {
        "users": _names(granted, "username", "userid"),
        "groups": _names(granted, "usergroup", "usergid"),
    }


def _names(members: list[dict[str, Any]], by_name: str, by_number: str) -> list[str]:
    names = {str(member[by_name]) for member in members if by_name in member} - {"ALL"}
    return sorted(names | {f"#{member[by_number]}" for member in members if by_number in member})


def has_keys(path: Path) -> bool:
    """Return whether a file of authorized keys holds a key."""
    try:
        lines = path.read_text(errors="replace").splitlines()
    except OSError:
        return False
    return any(line.strip() and not line.lstrip().startswith("#") for line in lines)


def named(entries: list[str], by_number: Callable[[int], str]) -> list[str]:
    """Return account names. IDs without an account are omitted, since they cannot log in."""
    names = set()
    for entry in entries:
        with suppress(KeyError, ValueError):
            names.add(by_number(int(entry[1:])) if entry.startswith("#") else entry)
    return sorted(names)


def sudo_rights(module: AnsibleModule) -> tuple[dict[str, list[str]], str]:
    """Return users and groups with sudo rules, and the reason if they cannot be listed."""
    empty: dict[str, list[str]] = {"users": [], "groups": []}
    if not SUDOERS.exists():
        return empty, ""
    program = module.get_bin_path("cvtsudoers")
    if program is None:
        return empty, "cvtsudoers, which lists the users with sudo rules, is not installed"
    status, out, err = module.run_command([program, "-e", "-f", "json", str(SUDOERS)])
    try:
        found = sudo_holders(out if status == 0 else "")
    except ValueError:
        return empty, f"cvtsudoers cannot read {SUDOERS}: {err.strip() or 'no reason given'}"
    users = named(found["users"], lambda number: pwd.getpwuid(number).pw_name)
    return {"users": users, "groups": named(found["groups"], lambda number: grp.getgrgid(number).gr_name)}, ""


def openssh_version(text: str) -> str:
    """Return the version in the output of `ssh -V`."""
    found = re.search(r"OpenSSH_(\d+\.\d+)", text)
    return found.group(1) if found else "0.0"


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "key_file": {"type": "path", "default": "/etc/ssh/ssh_host_ed25519_key", "no_log": False},
            "key_directory": {"type": "path", "default": "/etc/ssh/authorized_keys.d", "no_log": False},
        },
        supports_check_mode=True,
    )
    public, certificate = Path(f"{module.params['key_file']}.pub"), Path(f"{module.params['key_file']}-cert.pub")
    if not public.exists():
        remedy = "install the SSH server and run `ssh-keygen -A` on this host"
        # ssh-keygen -A does not restore a missing public key if the private key exists.
        if Path(module.params["key_file"]).exists():
            remedy = f"run `ssh-keygen -y -f {module.params['key_file']} > {public}` on this host as root"
        module.fail_json(msg=f"host key {public} not found: {remedy}")
    user = login_user()
    sudo, problem = sudo_rights(module)
    files = [Path(user.pw_dir, ".ssh", "authorized_keys"), Path(module.params["key_directory"], user.pw_name)]
    _, out, err = module.run_command(["ssh", "-V"])
    module.exit_json(
        changed=False,
        version=openssh_version(out + err),
        public_key=public.read_text().strip(),
        certificate=certificate.read_text().strip() if certificate.exists() else "",
        user=user.pw_name,
        groups=groups_of(user),
        sudo_users=sudo["users"],
        sudo_groups=sudo["groups"],
        sudo_problem=problem,
        key_login=any(has_keys(path) for path in files),
    )


if __name__ == "__main__":
    main()
