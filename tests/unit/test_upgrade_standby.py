"""The standby slurmdbd stops first; a standby that is stopped during a takeover would not end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

TASKS = Path(__file__).resolve().parents[2] / "playbooks/tasks"
HOSTS = "__upgrade_slurm_database"


def stops(file: str) -> list[str]:
    """Return the hosts on which the tasks of a file stop a daemon, in order; 'all' where each stops its own."""
    found: list[str] = []
    task: dict[str, Any]
    for task in yaml.safe_load((TASKS / file).read_text()):
        if imported := task.get("ansible.builtin.import_tasks"):
            found += stops(imported)
        elif task.get("ansible.builtin.systemd_service", {}).get("state") == "stopped":
            (condition, *_rest) = [task.get("when")] if not isinstance(task.get("when"), list) else task["when"]
            found.append(
                {f"inventory_hostname != {HOSTS}": "standby", f"inventory_hostname == {HOSTS}": "first"}.get(
                    str(condition), "all"
                )
            )
    return found


def test_standby_slurmdbd_stops_first() -> None:
    assert stops("upgrade_database.yml") == ["standby", "all"]
    assert stops("upgrade_rollback.yml") == ["standby", "all"]
