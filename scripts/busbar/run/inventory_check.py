"""What must hold for an inventory before a command works on its hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.busbar.cluster.plugins.plugin_utils.inventory_yaml import yaml_problems
from ansible_collections.busbar.cluster.plugins.plugin_utils.run_lock import LockedError, refuse_if_locked

from busbar.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["refuse_busy", "refuse_unreadable"]


def refuse_unreadable(sources: list[str], playbook: Path | None = None) -> None:
    """Look whether every file of the inventory, and of the variables beside the playbook, is valid YAML.

    Raises:
        UsageError: names those that are not, with line and column.
    """
    problems = yaml_problems(sources, playbook)
    if problems:
        message = "\n".join(["the inventory cannot be read:", *(f"  {problem}" for problem in problems)])
        raise UsageError(message)


def refuse_busy(sources: list[str]) -> None:
    """Look whether another run works on the inventory; the playbook's own process does so again, and takes the lock.

    Raises:
        UsageError: one does; says which.
    """
    try:
        refuse_if_locked(sources)
    except LockedError as exc:
        raise UsageError(str(exc)) from exc
