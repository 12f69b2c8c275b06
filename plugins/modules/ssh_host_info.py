"""Module that reads what signing a host's key needs."""

from __future__ import annotations

DOCUMENTATION = r"""
module: ssh_host_info
author: busbar contributors
short_description: A host's public key, its certificate, and how its administrator logs in
description:
  - Reads the public half of a host key and its certificate. The private half stays where it is.
  - Looks whether the user who is connected could log in with a key, so that nobody is locked out.
attributes:
  check_mode:
    description: Changes nothing in any mode.
    support: full
options:
  key_file:
    description: Path of the private host key.
    type: path
    default: /etc/ssh/ssh_host_ed25519_key
  key_directory:
    description: Directory with one file of authorized keys per user.
    type: path
    default: /etc/ssh/authorized_keys.d
"""

EXAMPLES = r"""
- name: Read the host's key
  busbar.cluster.ssh_host_info:
  register: __example_key
"""

RETURN = r"""
public_key:
  description: The public key as one line.
  returned: always
  type: str
certificate:
  description: The certificate as one line, empty when there is none.
  returned: always
  type: str
user:
  description: Who is connected.
  returned: always
  type: str
key_login:
  description: Whether there is an authorized key for that user.
  returned: always
  type: bool
version:
  description: Version of OpenSSH, such as V(9.2); V(0.0) when it cannot be told.
  returned: always
  type: str
"""

import os
import pwd
import re
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule


def has_keys(path: Path) -> bool:
    """Return whether a file of authorized keys holds a key."""
    try:
        lines = path.read_text(errors="replace").splitlines()
    except OSError:
        return False
    return any(line.strip() and not line.lstrip().startswith("#") for line in lines)


def connected_user() -> pwd.struct_passwd:
    """Return who logged in, also after a change of user by sudo."""
    name = os.environ.get("SUDO_USER")
    return pwd.getpwnam(name) if name else pwd.getpwuid(os.getuid())


def openssh_version(text: str) -> str:
    """Return the version in what `ssh -V` says."""
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
        remedy = "install the SSH server and run `ssh-keygen -A` there"
        # ssh-keygen -A leaves a key alone of which only the public half is lost.
        if Path(module.params["key_file"]).exists():
            remedy = f"run `ssh-keygen -y -f {module.params['key_file']} > {public}` there, as root"
        module.fail_json(msg=f"there is no host key {public}: {remedy}")
    user = connected_user()
    files = [Path(user.pw_dir, ".ssh", "authorized_keys"), Path(module.params["key_directory"], user.pw_name)]
    _, out, err = module.run_command(["ssh", "-V"])
    module.exit_json(
        changed=False,
        version=openssh_version(out + err),
        public_key=public.read_text().strip(),
        certificate=certificate.read_text().strip() if certificate.exists() else "",
        user=user.pw_name,
        key_login=any(has_keys(path) for path in files),
    )


if __name__ == "__main__":
    main()
