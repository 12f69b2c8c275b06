"""Configure the partition for checks of idle nodes, whose jobs start last and can be preempted by all other jobs.

With `preempt/partition_prio`, a job preempts jobs in partitions with a lower PriorityTier and a PreemptMode other than
OFF (slurm.conf(5), preempt.html). All other partitions have the same tier and do not preempt each other.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ...module_utils.common.problems import Problem, make_problem
from .conf_lines import merge_config

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Partition = Mapping[str, Any]

PREEMPTION = {"PreemptType": "preempt/partition_prio", "PreemptMode": "CANCEL"}
# The lowest tier; the default is 1.
TIER = 0
# The partition is open to all users, because the site chooses the validation user; their jobs can also be preempted.
PARAMS = {"PriorityTier": TIER, "PriorityJobFactor": 0, "PreemptMode": "CANCEL", "Hidden": True}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


def _lower(params: Mapping[str, Any] | None) -> dict[str, Any]:
    return {key.lower(): value for key, value in merge_config({}, params or {}).items()}


def checks_keys(name: str) -> dict[str, Any]:
    """Return the preemption keys of slurm.conf; empty without a checks partition."""
    return dict(PREEMPTION) if name else {}


def with_checks_partition(partitions: Sequence[Partition], name: str, config: Mapping[str, Any]) -> list[Partition]:
    """Return the partitions, with a checks partition of all compute nodes added.

    Args:
        partitions: items of `slurm_partitions`.
        name: name of the checks partition; empty for none.
        config: `slurm_config` of the site.
    """
    if not name:
        return list(partitions)
    keep = {} if "preempttype" in _lower(config) else {"PreemptMode": "OFF"}
    others = [{**partition, "params": merge_config(keep, partition.get("params") or {})} for partition in partitions]
    return [*others, {"name": name, "params": PARAMS}]


def checks_problems(partitions: Sequence[Partition], name: str, config: Mapping[str, Any]) -> list[Problem]:
    """Return a problem for each option that would prevent other jobs from preempting jobs in the checks partition.

    Args:
        partitions: items of `slurm_partitions`.
        name: name of the checks partition; empty for none.
        config: `slurm_config` of the site.
    """
    if not name:
        return []
    key, problems = "slurm_checks_partition", []
    if not _NAME.fullmatch(name):
        problem = f"{name!r} is not a valid partition name"
        problems.append(make_problem([], key, problem, "use letters, digits, _, . and -"))
    if name in {str(partition.get("name")) for partition in partitions}:
        problem = f"{name} is also in slurm_partitions"
        problems.append(make_problem([], key, problem, "choose another name; busbar defines this partition"))
    given = _lower(config)
    for word, wanted in PREEMPTION.items():
        value = str(given.get(word.lower(), wanted)).lower()
        if word == "PreemptType" and value != wanted:
            problem = f"is {given[word.lower()]}, which disables preemption by partition"
            remedy = f"set {wanted}, or remove slurm_checks_partition and set validation_qos to a preemptible QOS"
            problems.append(make_problem([], f"slurm_config.{word}", problem, remedy))
        if word == "PreemptMode" and value.split(",", maxsplit=1)[0] == "off":
            problem = "is OFF, which disables preemption"
            remedy = "remove it, or remove slurm_checks_partition"
            problems.append(make_problem([], f"slurm_config.{word}", problem, remedy))
    low = [part for part in partitions if str(_lower(part.get("params")).get("prioritytier", 1)).strip() == str(TIER)]
    for partition in low:
        where = f"slurm_partitions[{partition.get('name')}].params.PriorityTier"
        problem = f"is {TIER}, so its jobs could not preempt jobs of {name}"
        problems.append(make_problem([], where, problem, "set 1 or more"))
    return problems
