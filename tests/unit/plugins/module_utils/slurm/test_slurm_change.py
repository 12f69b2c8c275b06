"""Tests of whether a configuration change needs a restart or a reconfigure, and of unready nodes."""

from __future__ import annotations

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.slurm import config_change as slurm_change

BASE = "ClusterName=c\nSlurmctldPort=6817\nSchedulerType=sched/backfill\nNodeName=gpu[1-2] CPUs=2\n"
NEW, OLD = "slurm-wlm 24.11.5", "slurm-wlm 22.05.8"


@pytest.mark.parametrize(
    ("before", "after", "keys"),
    [
        (BASE, BASE, []),
        (BASE, "# a comment\n" + BASE.replace("CPUs=2", "CPUs=2   # why"), []),
        (BASE, BASE + "DefMemPerCPU=10\n", ["defmempercpu"]),
        (BASE, BASE.replace("gpu[1-2]", "gpu[1-3]"), ["nodename"]),
        (BASE, "", ["clustername", "nodename", "schedulertype", "slurmctldport"]),
    ],
)
def test_changed_keys(before: str, after: str, keys: list[str]) -> None:
    assert slurm_change.changed_keys(before, after) == keys


@pytest.mark.parametrize(
    ("name", "before", "after", "version", "action"),
    [
        ("slurm.conf", BASE, BASE, NEW, "none"),
        ("slurm.conf", "", BASE, NEW, "restart"),
        ("slurm.conf", BASE, BASE + "DefMemPerCPU=10\n", NEW, "reconfigure"),
        ("slurm.conf", BASE, BASE + "DefMemPerCPU=10\n", OLD, "reconfigure"),
        ("slurm.conf", BASE, BASE.replace("gpu[1-2]", "gpu[1-3]"), NEW, "reconfigure"),
        ("slurm.conf", BASE, BASE.replace("gpu[1-2]", "gpu[1-3]"), OLD, "restart"),
        ("slurm.conf", BASE, BASE.replace("sched/backfill", "sched/builtin"), NEW, "reconfigure"),
        ("slurm.conf", BASE, BASE.replace("sched/backfill", "sched/builtin"), OLD, "restart"),
        ("slurm.conf", BASE, BASE.replace("6817", "6917"), NEW, "restart"),
        ("slurm.conf", BASE, BASE + "SlurmctldHost=b\n", NEW, "restart"),
        ("slurm.conf", BASE, BASE + "PartitionName=p Nodes=ALL\n", OLD, "reconfigure"),
        ("cgroup.conf", "", "ConstrainCores=yes\n", NEW, "reconfigure"),
        ("gres.conf", "", "Name=gpu\n", OLD, "restart"),
        ("busbar.conf", "", "[Service]\n", NEW, "restart"),
        ("slurm.conf", BASE, BASE + "DefMemPerCPU=10\n", "", "restart"),
    ],
)
def test_action(name: str, before: str, after: str, version: str, action: str) -> None:
    change = {"before_header": f"/etc/slurm/{name}", "before": before, "after": after}
    assert slurm_change.slurm_action([change], version) == action


def test_one_restart_outweighs_a_reconfigure() -> None:
    changes = [
        {"before_header": "/etc/slurm/cgroup.conf", "before": "", "after": "x"},
        {"before_header": "/etc/slurm/slurm.conf", "before": BASE, "after": BASE.replace("6817", "1")},
    ]
    assert slurm_change.slurm_action(changes, NEW) == "restart"
    assert slurm_change.slurm_action([], NEW) == "none"


def test_old_files() -> None:
    changes = [
        {"before_header": "/etc/slurm/slurm.conf", "before": "old", "after": "new"},
        {"before_header": "/etc/slurm/gres.conf", "before": "", "after": "new"},
    ]
    assert slurm_change.old_files(changes) == [
        {"path": "/etc/slurm/slurm.conf", "content": "old", "state": "present"},
        {"path": "/etc/slurm/gres.conf", "content": "", "state": "absent"},
    ]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("gpu1|idle|none|none", []),
        ("gpu1|mixed-|none|none", []),
        ("gpu1|allocated|none|none", []),
        ("gpu1|drained|root|fans are loud", []),
        ("gpu1|draining|alice|my test", []),
        ("gpu1|drained|slurm|Low RealMemory | again", ["gpu1: drained (Low RealMemory | again)"]),
        ("gpu1|drained|slurm|fans are loud : Not responding", []),
        (
            "gpu1|drained|slurm|Kill task failed : Not responding",
            ["gpu1: drained (Kill task failed : Not responding)"],
        ),
        ("gpu1|drained*|slurm|fans : Not responding", ["gpu1: drained* (fans : Not responding)"]),
        ("gpu1|idle*|none|none", ["gpu1: idle*"]),
        ("gpu1|down*|slurm|Not responding", ["gpu1: down* (Not responding)"]),
        ("gpu1|drained*|root|fans", ["gpu1: drained* (fans)"]),
        ("gpu1|unknown|none|none", ["gpu1: unknown"]),
        ("gpu1|inval|slurm|Low socket*core count", ["gpu1: inval (Low socket*core count)"]),
        ("gpu2|idle|none|none", ["gpu1: not a node in Slurm"]),
        ("", ["gpu1: not a node in Slurm"]),
    ],
)
def test_unready_nodes(line: str, said: list[str]) -> None:
    assert slurm_change.unready_nodes(f"{line}\n", ["gpu1"]) == said
