"""Module that saves Slurm's accounting database before an upgrade, and restores it."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_dump
author: busbar contributors (!UNKNOWN)
short_description: Dump or restore Slurm's accounting database
description:
  - Writes a consistent dump that only root can read, and compares the number of rows of all tables with it.
  - Keeps the previous dump until the new one is verified.
  - With O(state=loaded), replaces the database with the dump, after dumping the current database to the same directory.
  - slurmdbd must be stopped in both cases.
extends_documentation_fragment: busbar.cluster.attributes
options:
  path:
    description: Path to which the dump is written.
    type: path
    required: true
  database:
    description: Name of the database.
    type: str
    required: true
  socket:
    description: Socket of MariaDB.
    type: path
    required: true
  state:
    description: Whether to write the dump or to load it.
    type: str
    choices: [dumped, loaded]
    default: dumped
"""

EXAMPLES = r"""
- name: Save the accounting database
  busbar.cluster.slurm_dump:
    path: /var/lib/busbar/upgrade_slurm/accounting.sql
    database: slurm_acct_db
    socket: /run/mysqld/mysqld.sock
"""

RETURN = r"""
rows:
  description: Number of rows in all tables.
  returned: always
  type: int
bytes:
  description: Size of the dump.
  returned: always
  type: int
aside:
  description: Path of the dump of the replaced database, with O(state=loaded).
  returned: always
  type: str
"""

import os
import shutil
import time
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.backup.collect import count_rows, dump_database
from ..module_utils.backup.programs import database_bytes, output_or_empty, table_rows
from ..module_utils.backup.restore_parts import compare_rows, place_accounting
from ..module_utils.backup.settings import BackupError, Settings


def dumped(settings: Settings, path: Path) -> dict[str, int]:
    """Write the dump; return the number of rows of each table.

    Raises:
        BackupError: the disk has too little free space, or the dump differs from the database.
    """
    # A row in a dump takes about twice its size in the table.
    needed, free = 2 * database_bytes(settings), shutil.disk_usage(path.parent).free
    if needed > free:
        message = f"{path.parent} needs {needed >> 20} MiB for the dump and has {free >> 20} MiB free: free space there"
        raise BackupError(message)
    fresh = path.with_name(f"{path.name}.part")
    fresh.unlink(missing_ok=True)
    rows = dump_database(settings, fresh)
    compare_rows(table_rows(settings), rows)
    with fresh.open("rb") as file:
        os.fsync(file.fileno())
    fresh.replace(path)
    return rows


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "database": {"type": "str", "required": True},
            "socket": {"type": "path", "required": True},
            "state": {"type": "str", "choices": ["dumped", "loaded"], "default": "dumped"},
        },
        supports_check_mode=True,
    )
    if module.check_mode:
        module.exit_json(changed=True, rows=0, bytes=0, aside="")
    path = Path(module.params["path"])
    settings = Settings(
        cluster="",
        host="",
        repository="",
        folder=str(path.parent),
        database=module.params["database"],
        database_socket=module.params["socket"],
    )
    aside = ""
    try:
        if output_or_empty(["systemctl", "is-active", "slurmdbd"]) in {"active", "activating", "reloading"}:
            module.fail_json(msg="slurmdbd is running and may write during the dump: systemctl stop slurmdbd")
        if module.params["state"] == "dumped":
            rows = dumped(settings, path)
        else:
            rows = count_rows(path)
            aside = place_accounting(settings, path, rows, time.strftime("%Y%m%dT%H%M%S"), there=True)
    except (BackupError, OSError) as error:
        module.fail_json(msg=f"the accounting database: {error}")
    module.exit_json(changed=True, rows=sum(rows.values()), bytes=path.stat().st_size, aside=aside)


if __name__ == "__main__":
    main()
