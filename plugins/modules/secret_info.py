"""Module that finds the cluster's secrets on a host."""

from __future__ import annotations

DOCUMENTATION = r"""
module: secret_info
author: busbar contributors (!UNKNOWN)
short_description: Find the cluster's secrets on a host
description:
  - With O(files), returns the names of the secrets that the host holds.
  - With O(places), returns mode, owner and age of files, and the accounts that can read them. Does not read their
    content.
extends_documentation_fragment: busbar.cluster.attributes.read_only
options:
  files:
    description:
      - For each secret C(path), the file with the secret or a derived value, and C(pattern), a regular expression that
        only content written by this collection matches; for example, a key from a package does not count.
      - The pattern is also searched in the decoded content of PEM certificates.
    type: dict
    default: {}
  places:
    description: For each secret, the paths (with wildcards) of files that contain it or a derived value.
    type: dict
    default: {}
"""

EXAMPLES = r"""
- name: Check whether the host holds a munge key of the cluster
  busbar.cluster.secret_info:
    files:
      munge.key: {path: /etc/munge/munge.key, pattern: '\A[!-~]{32,}\s*\Z'}
  register: found
"""

RETURN = r"""
held:
  description: Names of the secrets of O(files) that the host holds.
  returned: always
  type: list
  elements: str
files:
  description: For each existing file of O(places) C(secret), C(path), C(mode), C(owner), C(since), C(readers) and
    C(problem).
  returned: always
  type: list
  elements: dict
"""

import grp
import pwd
import re
import ssl
import stat
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ansible.module_utils.basic import AnsibleModule

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

LARGEST = 1 << 20
_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
EVERYBODY = "everybody"
# UID ranges of regular users. The UIDs between them belong to packages (Debian's slurm: 64030), systemd and the user
# `nobody`.
_PEOPLE = (range(1000, 60000), range(65536, 2**32 - 1))


class Place(NamedTuple):
    """Mode, owner and group of a file or directory."""

    mode: int
    uid: int
    gid: int


def readers(
    file: Place,
    folders: Sequence[Place],
    accounts: Mapping[str, tuple[int, int]],
    members: Mapping[int, Collection[str]],
) -> list[str]:
    """Return the accounts that can read a file; root is included only if it owns the file.

    Args:
        file: the file.
        folders: its parent directories; accounts need access to all of them.
        accounts: UID and primary GID of each account.
        members: supplementary members of each group.
    """
    names = {number: name for name, (number, _) in accounts.items()}
    owner = names.get(file.uid, str(file.uid))
    if file.mode & stat.S_IROTH and all(folder.mode & stat.S_IXOTH for folder in folders):
        return [owner, EVERYBODY]
    found = []
    if file.mode & stat.S_IRGRP and all(_enters(folder, file.gid) for folder in folders):
        found = [name for name, (_, group) in accounts.items() if group == file.gid] + [*members.get(file.gid, ())]
    return [owner, *sorted({*found} - {owner, "root"})]


def _enters(folder: Place, group: int) -> bool:
    return bool(folder.mode & (stat.S_IXGRP if folder.gid == group else stat.S_IXOTH))


def too_open(file: Place, who: Sequence[str], accounts: Mapping[str, tuple[int, int]]) -> str:
    """Return why too many accounts can read a secret, or ''.

    Args:
        file: the secret's file.
        who: result of `readers`.
        accounts: UID and primary GID of each account.
    """
    if EVERYBODY in who:
        return "it is readable by all users of the host"
    people = [name for name in who if any(accounts.get(name, (0, 0))[0] in numbers for numbers in _PEOPLE)]
    if people:
        return f"it is readable by users: {', '.join(people)}"
    if file.mode & stat.S_IWOTH:
        return "it is writable by all users of the host"
    return ""


def file_text(path: Path) -> str:
    """Return the text of a file with the decoded content of its certificates; '' if it is missing or not text."""
    try:
        with path.open("rb") as stream:
            text = stream.read(LARGEST).decode()
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError, UnicodeDecodeError):
        return ""
    try:
        encoded = [ssl.PEM_cert_to_DER_cert(found).decode("latin-1") for found in _CERTIFICATE.findall(text)]
    except ValueError:
        encoded = []
    return "\n".join([text, *encoded])


def place(path: Path) -> Place:
    """Return mode, owner and group of a path."""
    found = path.stat()
    return Place(stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid)


def look(secret: str, path: Path) -> dict[str, Any]:
    """Return the mode, the owner, the age and the readers of one file, and the problem if it has too many readers."""
    accounts = {each.pw_name: (each.pw_uid, each.pw_gid) for each in pwd.getpwall()}
    members = {each.gr_gid: each.gr_mem for each in grp.getgrall()}
    # For a link, the parent directories of its target count.
    real = path.resolve()
    file = place(real)
    who = readers(file, [place(folder) for folder in real.parents], accounts, members)
    since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(real.stat().st_mtime))
    access = {"mode": f"{file.mode:04o}", "owner": who[0], "since": since, "readers": who}
    return {"secret": secret, "path": str(path), **access, "problem": too_open(file, who, accounts)}


def main() -> None:
    """Run the module."""
    names = {"type": "dict", "default": {}}
    module = AnsibleModule(argument_spec={"files": names, "places": names}, supports_check_mode=True)
    held = []
    for name, each in module.params["files"].items():
        try:
            if re.search(each["pattern"], file_text(Path(each["path"])), re.MULTILINE):
                held.append(name)
        except OSError as exc:
            module.fail_json(msg=f"{each['path']} cannot be read: {exc.strerror}")
    found = []
    for secret, patterns in module.params["places"].items():
        for path in [path for pattern in patterns for path in sorted(Path("/").glob(pattern.lstrip("/")))]:
            try:
                if path.is_file():
                    found.append(look(secret, path))
            except OSError as exc:
                module.fail_json(msg=f"{path} cannot be read: {exc.strerror}")
    module.exit_json(changed=False, held=held, files=found)


if __name__ == "__main__":
    main()
