"""`busbar validate --schedule`: installs a timer that tests idle nodes in the background."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from busbar.errors import UsageError
from busbar.run.playbook import host_variables
from busbar.run.timer import Timer

if TYPE_CHECKING:
    from busbar.run.site import Site

NEVER = "never"
# Each of these options lets users' jobs preempt the jobs of a validation.
_PREEMPTION_OPTIONS = ("slurm_checks_partition", "validation_partition", "validation_qos")
_GROUPS = {"slurm_controller", "slurm_compute"}
# Exit code if busy or drained nodes were not tested and all tests passed.
_NOT_TESTED = "4"


def schedule(site: Site, calendar: str) -> list[str]:
    """Install the timer of an inventory, or remove it for the calendar `never`, and return messages for the user.

    Raises:
        UsageError: several inventories are given, the jobs would delay users' jobs, or systemd rejects the timer.
    """
    sources, options = site.inventory, site.args.options
    if len(sources) != 1 or "," in sources[0]:
        message = "--schedule needs exactly one inventory file or folder, because its path is written into the timer"
        raise UsageError(message)
    words = ("validate", "-i", "-e", "validation_background=true", *options)
    effect = "it runs `busbar validate -e validation_background=true` on the nodes that are idle at that time"
    does = "Validate idle nodes of the cluster"
    timer = Timer(Path(sources[0]), "busbar-validate", does, words, effect, calendar, _NOT_TESTED)
    if calendar == NEVER:
        return [timer.remove()]
    hosts = host_variables(site.playbook("validate")).values()
    declared = any(own.get(name) for own in hosts if _GROUPS & set(own["group_names"]) for name in _PREEMPTION_OPTIONS)
    if not declared and not any(name in option for name in _PREEMPTION_OPTIONS[1:] for option in options):
        message = (
            f"inventory {sources[0]}: users' jobs would not preempt the validation's jobs: set "
            "slurm_checks_partition (for example, to checks) and run `busbar provision slurm`, or set a preemptible "
            "partition or QOS in validation_partition or validation_qos"
        )
        raise UsageError(message)
    return [*timer.install(), f"logs: journalctl -u {timer.name}; remove the timer: busbar validate --schedule {NEVER}"]
