"""Module that tells where a host keeps secrets, and who can read them."""

from __future__ import annotations

DOCUMENTATION = r"""
module: secret_places
author: busbar contributors
short_description: Where a host keeps secrets, since when, and who can read them
description:
  - Looks at mode, owner and age of files, and at the accounts of the host; what is in them is not read.
  - A file that is not there is left out.
extends_documentation_fragment: busbar.cluster.attributes.read_only
options:
  places:
    description: For each secret the paths of files that hold it or something made from it, with wildcards.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Look where the munge key is, and who can read it
  busbar.cluster.secret_places:
    places: {munge.key: [/etc/munge/munge.key]}
  register: found
"""

RETURN = r"""
files:
  description: For each file C(secret), C(path), C(mode), C(owner), C(since), C(readers) and C(problem).
  returned: always
  type: list
  elements: dict
"""

import grp
import pwd
import stat
import time
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.access.secret_readers import Place, readers, too_open


def place(path: Path) -> Place:
    """Return mode, owner and group of a path."""
    found = path.stat()
    return Place(stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid)


def look(secret: str, path: Path) -> dict[str, Any]:
    """Return what is told of one file."""
    accounts = {each.pw_name: (each.pw_uid, each.pw_gid) for each in pwd.getpwall()}
    members = {each.gr_gid: each.gr_mem for each in grp.getgrall()}
    # A link leads elsewhere: those folders count.
    real = path.resolve()
    file = place(real)
    who = readers(file, [place(folder) for folder in real.parents], accounts, members)
    since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(real.stat().st_mtime))
    told = {"mode": f"{file.mode:04o}", "owner": who[0], "since": since, "readers": who}
    return {"secret": secret, "path": str(path), **told, "problem": too_open(file, who, accounts)}


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec={"places": {"type": "dict", "required": True}}, supports_check_mode=True)
    found = []
    for secret, patterns in module.params["places"].items():
        for path in [path for pattern in patterns for path in sorted(Path("/").glob(pattern.lstrip("/")))]:
            try:
                if path.is_file():
                    found.append(look(secret, path))
            except OSError as exc:
                module.fail_json(msg=f"{path} cannot be looked at: {exc.strerror}")
    module.exit_json(changed=False, files=found)


if __name__ == "__main__":
    main()
