"""`busbar validate --schedule`: a timer that tests idle nodes in the background."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from busbar.errors import UsageError
from busbar.run.timer import Timer, Work, install, remove

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["NEVER", "schedule"]

NEVER = "never"
# What makes the jobs of a validation give way to those of users.
_GIVES_WAY = ("slurm_checks_partition", "validation_partition", "validation_qos")
# Nothing but busy or drained nodes kept it from a verdict.
_NOT_TESTED = "4"


def schedule(sources: Sequence[str], options: Sequence[str], calendar: str) -> list[str]:
    """Install the timer of an inventory, or remove it when the calendar is `never`; returns what the user should know.

    Raises:
        UsageError: it is no inventory of its own, its jobs would not give way, or systemd does not take the timer.
    """
    if len(sources) != 1 or "," in sources[0]:
        message = "--schedule needs one inventory that is a file or folder: its name is written into the timer"
        raise UsageError(message)
    words = ("validate", "-i", "-e", "validation_background=true", *options)
    told = "`busbar validate -e validation_background=true` tests the nodes that are idle then"
    good = _NOT_TESTED
    timer = Timer(
        Path(sources[0]), Work("busbar-validate", "Validate idle nodes of the cluster", words, told, good), calendar
    )
    if calendar == NEVER:
        return [f"{timer.name}.timer: {'removed' if remove(timer) else 'was not there'}"]
    if not any(name in option for name in _GIVES_WAY[1:] for option in options) and not _declared(sources[0]):
        message = (
            f"inventory {sources[0]}: the jobs would not give way to those of users: set slurm_checks_partition (such "
            "as checks) and run `busbar provision slurm`, or name a partition or QOS of your own that gives way in "
            "validation_partition or validation_qos"
        )
        raise UsageError(message)
    return [*install(timer), f"its runs: journalctl -u {timer.name}; remove it: busbar validate --schedule {NEVER}"]


def _declared(source: str) -> bool:
    """Return whether any host of an inventory has a partition or QOS that gives way.

    Raises:
        UsageError: the inventory cannot be read.
    """
    from ansible.errors import AnsibleError  # noqa: PLC0415 - Ansible takes long to load
    from ansible.inventory.manager import InventoryManager  # noqa: PLC0415
    from ansible.parsing.dataloader import DataLoader  # noqa: PLC0415
    from ansible.vars.manager import VariableManager  # noqa: PLC0415

    loader = DataLoader()
    try:
        manager = InventoryManager(loader=loader, sources=[source])
        variables = VariableManager(loader=loader, inventory=manager)
        known = [variables.get_vars(host=host) for host in manager.get_hosts("slurm_controller:slurm_compute")]
    except AnsibleError as exc:
        message = f"inventory {source}: {exc}"
        raise UsageError(message) from exc
    return any(own.get(name) for own in known for name in _GIVES_WAY)
