"""Module that executes what a run executed before, dry and in one go, and compares the answers."""

from __future__ import annotations

DOCUMENTATION = r"""
module: replay
author: busbar contributors
short_description: Whether a host still answers as it did in the last full run
description:
  - Executes all modules of the last full run with the same arguments once more, in check mode, and compares each answer
    with the one that it gave then. It stops at the first that differs.
  - What is said with C(check_mode=false) is executed as in any run with C(--check).
  - Its action reads the record of the host on the provisioning host, so that a playbook names the folder only.
attributes:
  check_mode:
    description: Changes nothing in any mode.
    support: full
options:
  record:
    description: Folder of the provisioning host with the record of the last full run. For the action.
    type: path
  of:
    description: Whose record it is. For the action; by default the host's.
    type: str
  archive:
    description: The code of the modules, base64. From the action.
    type: str
  executions:
    description: What to execute, JSON, compressed, base64. From the action.
    type: str
  limit_s:
    description: Seconds that one execution may take.
    type: int
    default: 60
"""

EXAMPLES = r"""
- name: Execute the last full run once more
  busbar.cluster.replay:
    record: /srv/site/logs/last_run
"""

RETURN = r"""
drift:
  description: In what the first answer differs, empty when none does.
  returned: always
  type: str
"""

import base64
import json
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.common.replay import MAIN

_START = f"import sys; sys.path.insert(0, sys.argv[1]); import {MAIN} as replay; replay.main()"


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "record": {"type": "path"},
            "of": {"type": "str"},
            "archive": {"type": "str", "no_log": True},
            "executions": {"type": "str", "no_log": True},
            "limit_s": {"type": "int", "default": 60},
        },
        supports_check_mode=True,
    )
    executions = json.loads(zlib.decompress(base64.b64decode(module.params["executions"])))
    with tempfile.TemporaryDirectory(prefix="busbar-replay-") as folder:
        archive = Path(folder) / "modules.zip"
        archive.write_bytes(base64.b64decode(module.params["archive"]))
        # A new interpreter, in which none of Ansible's libraries is loaded from this module's own archive.
        done = subprocess.run(  # noqa: S603 - this very interpreter
            [sys.executable, "-c", _START, str(archive)],
            check=False,
            input=json.dumps({"executions": executions, "limit_s": module.params["limit_s"]}),
            capture_output=True,
            text=True,
            cwd="/",
        )
    if done.returncode:
        module.exit_json(changed=False, drift=f"the modules cannot be executed: {done.stderr[-500:]}")
    module.exit_json(changed=False, drift=json.loads(done.stdout))


if __name__ == "__main__":
    main()
