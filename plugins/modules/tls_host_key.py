"""Module that creates a host's private TLS key, and reads its public key and certificate."""

from __future__ import annotations

DOCUMENTATION = r"""
module: tls_host_key
author: busbar contributors (!UNKNOWN)
short_description: Create the TLS private key of a host, and read its certificate
description:
  - Creates C(/etc/busbar/tls), the group and the private key (P-256) if they are missing, and corrects the permissions
    of the key. C(ssh-keygen) creates the key, which never leaves the host.
extends_documentation_fragment: busbar.cluster.attributes
options:
  group: {description: System group that may read the key., type: str, required: true}
  make: {description: Whether to create a missing key., type: bool, default: true}
"""

EXAMPLES = r"""
- busbar.cluster.tls_host_key: {group: busbar-tls}
"""

RETURN = r"""
public_key: {description: The public key in OpenSSH format or empty., returned: always, type: str}
certificate: {description: The current certificate or empty., returned: always, type: str}
"""

import grp
import tempfile
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.common.baseline import before_write, take_baseline
from ..module_utils.common.host_files import make_directory

KEY_MODE = "0640"
DIRECTORY = Path("/etc/busbar/tls")


def run(module: AnsibleModule, words: list[str]) -> str:
    """Return the output of a program; fail the module if it fails."""
    status, out, err = module.run_command(words)
    if status != 0:
        module.fail_json(msg=f"`{' '.join(words)}` failed: {(err or out).strip()}")
    return str(out)


def keep_group(module: AnsibleModule) -> bool:
    """Create the group if it is missing; return whether it was missing."""
    try:
        grp.getgrnam(module.params["group"])
    except KeyError:
        if not module.check_mode:
            take_baseline(module)
            run(module, ["groupadd", "--system", module.params["group"]])
        return True
    return False


def keep_directory(module: AnsibleModule, path: Path) -> bool:
    """Create the directory if it is missing; return whether it was missing."""
    if path.is_dir():
        return False
    if not module.check_mode:
        make_directory(module, path)
    return True


def make_key(module: AnsibleModule, path: Path) -> None:
    """Create a key atomically, with its final mode."""
    with tempfile.TemporaryDirectory(prefix=".busbar-", dir=path.parent) as place:
        fresh = Path(place) / path.name
        run(module, ["ssh-keygen", "-q", "-t", "ecdsa", "-b", "256", "-m", "PEM", "-N", "", "-C", "", "-f", str(fresh)])
        set_access(module, fresh)
        before_write(module, {str(path): fresh.read_bytes()})
        fresh.rename(path)


def set_access(module: AnsibleModule, path: Path) -> bool:
    """Make the key readable only for root and the group; return whether its access changed."""
    changed = module.set_owner_if_different(str(path), "root", changed=False)
    changed = module.set_group_if_different(str(path), module.params["group"], changed)
    return bool(module.set_mode_if_different(str(path), KEY_MODE, changed))


def read_public(module: AnsibleModule, path: Path) -> str:
    """Return the public key of a private key."""
    # Pass the key through a pipe, because ssh-keygen rejects a file that a group can read.
    words = ["ssh-keygen", "-y", "-P", "", "-f", "/dev/stdin"]
    status, out, err = module.run_command(words, data=path.read_text())
    if status != 0:
        module.fail_json(
            msg=f"{path} is not a usable key ({(err or out).strip()}): remove it and run again to create a new one"
        )
    return str(out).strip()


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "group": {"type": "str", "required": True},
            "make": {"type": "bool", "default": True},
        },
        supports_check_mode=True,
    )
    key, certificate = DIRECTORY / "host.key", DIRECTORY / "host.crt"
    try:
        changed = keep_group(module)
        changed = keep_directory(module, DIRECTORY) or changed
        if module.params["make"] and not key.exists():
            changed = True
            if not module.check_mode:
                make_key(module, key)
        elif key.exists() and not (module.check_mode and changed):
            changed = set_access(module, key) or changed
        public = read_public(module, key) if module.params["make"] and key.exists() else ""
        present = certificate.read_text() if certificate.exists() else ""
    except OSError as exc:
        module.fail_json(msg=f"tls_host_key: {exc}")
    module.exit_json(changed=changed, public_key=public, certificate=present)


if __name__ == "__main__":
    main()
