"""Module that keeps the history of the repairs of nodes."""

from __future__ import annotations

DOCUMENTATION = r"""
module: repair_history
author: busbar contributors
short_description: Keep the history of the repairs of nodes
description:
  - Adds records to a file of JSON lines, and returns what is in it. Without O(records) it only reads.
  - The file keeps the records of a year, and at most 100000 of them.
extends_documentation_fragment: busbar.cluster.attributes
options:
  path:
    description: The file.
    type: path
    default: /var/lib/busbar/repairs.jsonl
  records:
    description: >-
      Records with C(node), C(event) (C(began), C(repaired), C(failed) or C(isolated)), C(how) (C(reset) or C(reboot))
      and C(reason); the time is added.
    type: list
    elements: dict
    default: []
"""

EXAMPLES = r"""
- name: Write down that a repair begins
  busbar.cluster.repair_history:
    records:
      - {node: gpu3, event: began, how: reboot, reason: "busbar health: GPU 2 is lost"}
"""

RETURN = r"""
text:
  description: The content of the file.
  returned: always
  type: str
now:
  description: The time of the host, in seconds since 1970.
  returned: always
  type: float
"""

import fcntl
import time
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.health.repairs import Record, bounded, lines_of, read_records


def added(path: Path, new: list[Record], now: float) -> str:
    """Add records to the file, one run at a time and in one step; return its content.

    Raises:
        OSError: the disk does not take it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_name(f".{path.name}.lock").open("w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        before = read_records(path.read_text(encoding="utf-8")) if path.exists() else []
        text = lines_of(bounded([*before, *new], now))
        fresh = path.with_name(f".{path.name}.new")
        fresh.write_text(text, encoding="utf-8")
        fresh.chmod(0o644)
        fresh.replace(path)
    return text


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "default": "/var/lib/busbar/repairs.jsonl"},
            "records": {"type": "list", "elements": "dict", "default": []},
        },
        supports_check_mode=True,
    )
    path, now = Path(module.params["path"]), time.time()
    try:
        new = [Record(now, **{key: str(value) for key, value in each.items()}) for each in module.params["records"]]
        if new and not module.check_mode:
            text = added(path, new, now)
        else:
            text = path.read_text(encoding="utf-8") if path.exists() else ""
    except (OSError, TypeError) as error:
        module.fail_json(msg=f"{path}: {error}")
    module.exit_json(changed=bool(new), text=text, now=now)


if __name__ == "__main__":
    main()
