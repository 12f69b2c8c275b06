"""Tests of the partition for checks, whose jobs all other jobs preempt."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.slurm.conf_lines import partition_lines
from ansible_collections.busbar.cluster.plugins.plugin_utils.slurm.idle_checks_partition import (
    checks_keys,
    checks_problems,
    with_checks_partition,
)

BATCH: dict[str, Any] = {"name": "batch", "default": True}
TIER_2 = {"name": "urgent", "params": {"prioritytier": 2, "PreemptMode": "REQUEUE"}}


def test_only_jobs_of_the_checks_partition_are_preempted() -> None:
    lines = partition_lines(with_checks_partition([BATCH, TIER_2], "checks", {}), {}, ["gpu1"])
    batch, urgent, checks = (dict(word.split("=", 1) for word in line.split()) for line in lines)
    assert (batch["PartitionName"], batch["PreemptMode"], batch["Default"]) == ("batch", "OFF", "yes")
    assert urgent["PreemptMode"] == "REQUEUE"
    assert (checks["Nodes"], checks["PriorityTier"], checks["PreemptMode"]) == ("ALL", "0", "CANCEL")
    assert checks["Hidden"] == "yes"
    assert "Default" not in checks
    assert checks_keys("checks") == {"PreemptType": "preempt/partition_prio", "PreemptMode": "CANCEL"}


def test_nothing_changes_without_a_checks_partition() -> None:
    assert with_checks_partition([BATCH], "", {}) == [BATCH]
    assert checks_keys("") == {}
    assert checks_problems([{**BATCH, "params": {"PriorityTier": 0}}], "", {"PreemptType": "preempt/qos"}) == []


def test_preemption_settings_of_the_site_are_kept() -> None:
    own = {"preempttype": "preempt/partition_prio"}
    assert with_checks_partition([BATCH], "checks", own)[0] == {**BATCH, "params": {}}
    assert checks_problems([BATCH], "checks", {**own, "PreemptMode": "REQUEUE"}) == []


@pytest.mark.parametrize(
    ("partitions", "name", "config", "key", "says"),
    [
        ([BATCH], "batch", {}, "slurm_checks_partition", "is also in slurm_partitions"),
        ([BATCH], "a b", {}, "slurm_checks_partition", "not a valid partition name"),
        ([BATCH], "checks", {"preempttype": "preempt/qos"}, "slurm_config.PreemptType", "disables preemption"),
        ([BATCH], "checks", {"PreemptMode": "off"}, "slurm_config.PreemptMode", "is OFF"),
        (
            [{"name": "low", "params": {"priorityTier": "0"}}],
            "checks",
            {},
            "slurm_partitions[low].params.PriorityTier",
            "could not preempt",
        ),
    ],
)
def test_settings_that_prevent_preemption_are_refused(
    partitions: list[dict[str, Any]], name: str, config: dict[str, Any], key: str, says: str
) -> None:
    (problem,) = checks_problems(partitions, name, config)
    assert problem["key"] == key
    assert says in problem["problem"]
    assert problem["remedy"]
